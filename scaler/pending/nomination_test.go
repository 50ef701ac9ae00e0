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

// When a claim ends, only the pods that Stratos has nominated are looked at for that.
func TestNominationsOfEndedClaimsAreLookedAt(t *testing.T) {
	for manager, looked := range map[string]int{"kube-scheduler": 0, v1alpha1.FieldManagerNomination: 1} {
		state := cluster.New(decide.NewClaims(), scalertest.Epoch)
		state.SetPod(nominated(manager))
		c := New(&Reconciler{State: state})
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		c.queue.Store(&queue)
		c.LookAgainIfNominated([]decide.Claim{{Pod: "x"}, {Pod: types.UID("gone")}})
		if queue.Len() != looked {
			t.Errorf("nominated by %s: %d pods are looked at, want %d", manager, queue.Len(), looked)
		}
		queue.ShutDown()
	}
}
