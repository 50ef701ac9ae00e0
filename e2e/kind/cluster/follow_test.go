package cluster

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// breaking is an API server with one pod, whose watches break after each event.
type breaking struct {
	client.WithWatch
	// from are the versions that watches began after.
	from []string
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func (*breaking) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	pods, _ := list.(*corev1.PodList)
	pods.ResourceVersion, pods.Items = "5", []corev1.Pod{*pod("there", "3")}
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
		w.Add(pod("first", "6"))
		w.Stop()
	case "6":
		w.Add(pod("second", "7"))
		w.Stop()
	}
	return w, nil
}

func TestFollowResumesAWatchThatBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, seen := &breaking{}, make(chan string, 10)
		see := func(e watch.Event) {
			o, _ := e.Object.(*corev1.Pod)
			seen <- string(e.Type) + " " + o.Name
		}
		l := &Cluster{Client: server}
		l.follow(t, &corev1.PodList{}, see, client.InNamespace("eight"))
		for _, want := range []string{"ADDED there", "ADDED first", "ADDED second"} {
			if got := <-seen; got != want {
				t.Errorf("event %q, want %q", got, want)
			}
		}
		if want := []string{"eight/5", "eight/6"}; !slices.Equal(server.from[:2], want) {
			t.Errorf("watches began after %q, want %q first", server.from, want)
		}
	})
}
