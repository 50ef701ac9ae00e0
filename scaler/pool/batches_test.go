package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestAPoolIsLookedAtOnceForManyNodes: a burst changes each node of a pool several times, and each
// look at the pool costs as much as it has nodes.
func TestAPoolIsLookedAtOnceForManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Second),
		)
		defer queue.ShutDown()
		h := inBatches(func(n client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: n.GetLabels()[v1alpha1.LabelPool]}}}
		})
		of := func(pool string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelPool: pool}}}
		}
		began := time.Now()
		for range 50 {
			h.Update(context.Background(), event.UpdateEvent{ObjectOld: of("a"), ObjectNew: of("a")}, queue)
			<-time.After(gathering / 100)
		}
		h.Create(context.Background(), event.CreateEvent{Object: of("b")}, queue)
		h.Delete(context.Background(), event.DeleteEvent{Object: of("b")}, queue)
		if queue.Len() > 0 {
			t.Fatalf("%d pools are to be looked at already after %s", queue.Len(), time.Since(began))
		}
		for _, want := range []string{"a", "b"} {
			got, _ := queue.Get()
			if got.Name != want {
				t.Errorf("pool %s is looked at, want %s", got.Name, want)
			}
			queue.Done(got)
		}
		<-time.After(time.Minute)
		if queue.Len() > 0 {
			t.Errorf("%d pools are looked at once more", queue.Len())
		}
	})
}
