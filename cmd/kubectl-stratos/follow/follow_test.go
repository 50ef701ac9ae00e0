package follow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func podList() client.ObjectList { return &corev1.PodList{} }

func names(l *List) []string {
	var out []string
	for _, p := range Items[corev1.Pod](l) {
		out = append(out, p.Name)
	}
	return out
}

// await waits for changes until done.
func await(t *testing.T, l *Lists, done func() bool) {
	t.Helper()
	for limit := time.After(time.Minute); !done(); {
		select {
		case <-l.Changed():
		case <-limit:
			t.Fatal("no such change")
		}
	}
}

// TestFollow: the list is complete at first, and then as it changes.
func TestFollow(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(podNamed("b"), podNamed("a")).Build()
	lists := New(c)
	list, err := lists.Follow(t.Context(), &corev1.Pod{}, podList)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names(list)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if err := errors.Join(c.Create(t.Context(), podNamed("c")), c.Delete(t.Context(), podNamed("a"))); err != nil {
		t.Fatal(err)
	}
	await(t, lists, func() bool { return cmp.Equal(names(list), []string{"b", "c"}) })
	if got := Items[corev1.Pod](nil); got != nil {
		t.Errorf("a list that may not be read has %v", got)
	}
}

// TestAListThatMayNotBeRead is an error at once, not a view without it.
func TestAListThatMayNotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden
		},
	}).Build()
	if _, err := New(c).Follow(t.Context(), &corev1.Pod{}, podList); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// TestAViewThatIsNotUpToDate says so, until its watch works again.
func TestAViewThatIsNotUpToDate(t *testing.T) {
	works := make(chan bool, 2)
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface,
			error) {
			if <-works {
				return c.Watch(ctx, list, o...)
			}
			return nil, errors.New("connection refused")
		},
	}).Build()
	lists := New(c)
	if _, err := lists.Follow(t.Context(), &corev1.Pod{}, podList); err != nil {
		t.Fatal(err)
	}
	works <- false
	await(t, lists, func() bool {
		err := lists.Err()
		return err != nil && strings.Contains(err.Error(), "connection refused")
	})
	works <- true
	await(t, lists, func() bool { return lists.Err() == nil })
}
