package pending

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// nominatedBy is a pod that its scheduler cannot place and that the field manager has nominated.
func nominatedBy(manager string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x", UID: "x",
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager}}}}
	p.Status.NominatedNodeName = "c"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable}}
	return p
}

// A pod that the scheduler has nominated is bound in a moment. One that Stratos has nominated waits
// for its node: it keeps its claim, its explanations and its demand.
func TestAPodNominatedByStratosIsPending(t *testing.T) {
	for manager, pending := range map[string]bool{"kube-scheduler": false, v1alpha1.FieldManagerNomination: true} {
		if got := scheduled(nominatedBy(manager)) != nil; got != pending {
			t.Errorf("nominated by %s: pending %t, want %t", manager, got, pending)
		}
	}
}

// When a claim ends, the pods that Stratos has nominated are looked at at once. Others are in a
// moment, where the start was refused: what they waited for may have to be launched.
func TestPodsOfEndedClaimsAreLookedAt(t *testing.T) {
	ended := []decide.Claim{
		{Pod: "x", Ref: decide.PodRef{Namespace: "n", Name: "x", UID: "x"}}, {Pod: "slot", Slot: "slot"},
	}
	for manager, nominated := range map[string]int{"kube-scheduler": 0, v1alpha1.FieldManagerNomination: 1} {
		state := cluster.New(decide.NewClaims(), scalertest.Epoch)
		state.SetPod(nominatedBy(manager))
		for name, look := range map[string]struct {
			at    func(*Reconciler, []decide.Claim)
			later int
		}{"lost": {(*Reconciler).LookAgainAtLost, 1}, "overdue": {(*Reconciler).LookAgainIfNominated, 0}} {
			c := New(&Reconciler{State: state})
			queue := newLaterQueue(c)
			look.at(c, ended)
			if queue.Len() != nominated || len(queue.later) != look.later {
				t.Errorf("%s, nominated by %s: %d pods are looked at at once and %d later, want %d and %d", name, manager,
					queue.Len(), len(queue.later), nominated, look.later)
			}
			queue.ShutDown()
		}
	}
}

// laterQueue keeps what is added for later.
type laterQueue struct {
	podQueue
	later []string
}

func newLaterQueue(c *Reconciler) *laterQueue {
	q := &laterQueue{podQueue: workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	c.queue.Store(new(podQueue(q)))
	return q
}

func (q *laterQueue) AddAfter(r reconcile.Request, _ time.Duration) {
	q.later = append(q.later, r.Name)
}

// TestPodsThatWaitAreLookedAtWhenANodeIsStandby: those that were told why, once for all nodes that
// become standby until they are looked at.
func TestPodsThatWaitAreLookedAtWhenANodeIsStandby(t *testing.T) {
	now := scalertest.Epoch()
	c := New(&Reconciler{Now: func() time.Time { return now }})
	c.LookAgainAtStandby() // on a replica that is not the leader there is no queue
	queue := newLaterQueue(c)
	defer queue.ShutDown()
	now = now.Add(explainAfter)
	for _, name := range []string{"a", "b"} {
		c.news(podKey{Namespace: "n", Name: name}, "no node is free")
	}
	for _, passed := range []time.Duration{0, explainAfter / 2, explainAfter / 2} {
		now = now.Add(passed)
		c.LookAgainAtStandby()
	}
	slices.Sort(queue.later)
	if want := []string{"a", "a", "b", "b"}; !slices.Equal(queue.later, want) {
		t.Errorf("%q are looked at, want %q", queue.later, want)
	}
}
