package pending

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// TestDemandForgetsAPodThatIsBound: what is remembered of a pod ends with its wait.
func TestDemandForgetsAPodThatIsBound(t *testing.T) {
	d := NewDemand()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	d.Add(pod("a"), "p")
	d.Add(pod("other"), "p")
	d.settle(pod("a"), scalertest.Epoch())
	if _, kept := d.waited[podKey{Namespace: "default", Name: "other"}]; len(d.waited) != 1 || !kept {
		t.Errorf("%v are remembered, want the pod that still waits", d.waited)
	}
}

// laterQueue keeps what is added for later.
type laterQueue struct {
	podQueue
	later []reconcile.Request
}

func (q *laterQueue) AddAfter(r reconcile.Request, _ time.Duration) { q.later = append(q.later, r) }

// TestDemandIsLookedAtWhenANodeIsStandby: the pods that wait for a node of that pool.
func TestDemandIsLookedAtWhenANodeIsStandby(t *testing.T) {
	var queue laterQueue
	c := New(&Reconciler{Demand: NewDemand()})
	c.LookAgainInDemand("p") // on a replica that is not the leader there is no queue
	c.queue.Store(new(podQueue(&queue)))
	for name, pool := range map[string]string{"a": "p", "b": "p", "c": "q"} {
		c.Demand.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}, v1alpha1.PoolName(pool))
	}
	c.LookAgainInDemand("p")
	of := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: podKey{Namespace: "n", Name: name}}
	}
	if want := []reconcile.Request{of("a"), of("b")}; !slices.Equal(queue.later, want) {
		t.Errorf("%v are looked at, want %v", queue.later, want)
	}
}
