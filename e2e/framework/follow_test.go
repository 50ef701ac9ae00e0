package framework

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// breaking is an API server with the pod of version 3. Its watches break after each event; those
// after version 7 are too old.
type breaking struct {
	client.WithWatch
	// from are the namespaces and versions of the watches.
	from []string
}

func podOf(version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "v" + version, ResourceVersion: version}}
}

func (*breaking) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	pods, _ := list.(*corev1.PodList)
	pods.ResourceVersion, pods.Items = "5", []corev1.Pod{*podOf("3")}
	return nil
}

func (b *breaking) Watch(
	_ context.Context, _ client.ObjectList, options ...client.ListOption,
) (watch.Interface, error) {
	o := (&client.ListOptions{}).ApplyOptions(options)
	b.from = append(b.from, o.Namespace+"/"+o.Raw.ResourceVersion)
	w := watch.NewFakeWithChanSize(1, false)
	switch o.Raw.ResourceVersion {
	case "5":
		w.Add(podOf("6"))
		w.Stop()
	case "6":
		w.Modify(podOf("7"))
		w.Stop()
	case "7":
		w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
	}
	return w, nil
}

func TestFollowResumesAWatchAndSaysWhyItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, seen := &breaking{}, []string(nil)
		wait, err := Follow(t.Context(), server, &corev1.PodList{}, func(e watch.Event) {
			o, _ := e.Object.(*corev1.Pod)
			seen = append(seen, string(e.Type)+" "+o.Name)
		}, client.InNamespace("n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := wait(); !apierrors.IsResourceExpired(err) || !strings.Contains(err.Error(), "PodList") {
			t.Errorf("error %v, want that of the last watch", err)
		}
		if want := []string{"ADDED v3", "ADDED v6", "MODIFIED v7"}; !slices.Equal(seen, want) {
			t.Errorf("events %q, want %q", seen, want)
		}
		if want := []string{"n/5", "n/6", "n/7"}; !slices.Equal(server.from, want) {
			t.Errorf("watches began after %q, want %q", server.from, want)
		}
	})
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := Follow(ctx, &breaking{}, &corev1.PodList{}, func(watch.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := wait(); err != nil {
		t.Errorf("error %v, want none", err)
	}
}
