package pending

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// nominated is a pod that its scheduler cannot place and that the field manager has nominated.
func nominated(manager string) *corev1.Pod {
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
		if got := scheduled(nominated(manager)) != nil; got != pending {
			t.Errorf("nominated by %s: pending %t, want %t", manager, got, pending)
		}
	}
}

// When a claim ends, the pods are looked at of which no scheduler says anything new for it: those
// that Stratos has nominated, and, where the start was refused, those of a scheduler that does not
// ask the extender. What the claim waited for may be to be launched now.
func TestPodsOfEndedClaimsAreLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		manager, scheduler string
		lost, overdue      int
	}{
		"nominated by its scheduler":         {manager: "kube-scheduler", scheduler: "asks"},
		"nominated by Stratos":               {manager: v1alpha1.FieldManagerNomination, scheduler: "asks", lost: 1, overdue: 1},
		"of a scheduler without extender":    {scheduler: "stock", lost: 1},
		"of a scheduler with the extender":   {scheduler: "asks"},
		"nominated, of one without extender": {manager: "kube-scheduler", scheduler: "stock", lost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := nominated(c.manager)
			pod.Spec.SchedulerName = c.scheduler
			if c.manager == "" {
				pod.Status.NominatedNodeName, pod.ManagedFields = "", nil
			}
			state := cluster.New(decide.NewClaims(), scalertest.Epoch)
			state.SetPod(pod)
			for what, look := range map[string]struct {
				at   func(*Reconciler, []decide.Claim)
				want int
			}{
				"lost": {(*Reconciler).LookAgainAtLost, c.lost}, "overdue": {(*Reconciler).LookAgainIfNominated, c.overdue},
			} {
				r := New(&Reconciler{State: state, Schedulers: []string{"asks"}})
				queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				r.queue.Store(&queue)
				look.at(r, []decide.Claim{{Pod: "x"}, {Pod: types.UID("gone")}})
				if queue.Len() != look.want {
					t.Errorf("a claim that is %s: %d pods are looked at, want %d", what, queue.Len(), look.want)
				}
				queue.ShutDown()
			}
		})
	}
}
