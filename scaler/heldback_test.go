package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/pending"
)

// TestWhatIsHeldBackLaunchesNothing: a pod that may have no node started now gets no instance
// launched instead, whichever scheduler it is of. When that time is over it does.
func TestWhatIsHeldBackLaunchesNothing(t *testing.T) {
	full := boundPod("full", needing("4"))
	of := func(scheduler string) *corev1.Pod {
		return unschedulable(needing("1"), func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler })
	}
	once := func(p *v1alpha1.NodePool) { p.Spec.ScaleUp.StartBudget, p.Spec.PoolSize = new(int32(1)), 5 }
	for name, c := range map[string]struct {
		objects []client.Object
		before  func(*rig)
		held    time.Duration
		says    string
		after   string // what is done once it is held back no more
	}{
		"the last start for it was futile": {
			objects: []client.Object{nodePool(5, 0, counting(1)), nodeIn(v1alpha1.StateRunning), full},
			before: func(r *rig) {
				r.promise("a", "c")
				r.ledger.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
				r.ledger.Overdue(epoch().Add(time.Minute))
			},
			held: 2 * time.Minute, says: "the last node started for this pod did not take it", after: "pool p",
		},
		"the pool's start budget is used up": {
			objects: []client.Object{nodePool(5, 0, counting(2), once), nodeIn(v1alpha1.StateStandby)},
			before:  func(r *rig) { r.promise("another", "d") },
			held:    decide.BudgetWindow, says: "pool p: start budget of 1 in 5m0s is used up",
		},
	} {
		for _, scheduler := range []string{v1alpha1.SchedulerName, "default-scheduler"} {
			t.Run(name+", "+scheduler, func(t *testing.T) {
				r := newRig(t, append(slices.Clone(c.objects), of(scheduler))...)
				c.before(r)
				look := r.looksAfter()
				r.now = epoch().Add(c.held - time.Second)
				again := r.lookAgain(look)
				if said := r.said(); len(said) != 1 || !strings.Contains(said[0], "StandbyUnavailable "+c.says) {
					t.Errorf("events %q, want %q", said, c.says)
				}
				if n := len(r.demand.Of("p")); n > 0 {
					t.Errorf("%d pods have an instance launched", n)
				}
				r.want()
				if again > time.Second {
					t.Errorf("looked at again in %s, later than it may start", again)
				}

				r.now = epoch().Add(c.held)
				r.look(look)
				if n := len(r.demand.Of("p")); c.after != "" && n != 1 {
					t.Errorf("%d pods have an instance launched when nothing holds them back any more, want 1", n)
				}
			})
		}
	}
}

// lookAgain reconciles the pod and returns when it is reconciled again.
func (r *rig) lookAgain(c *pending.Reconciler) time.Duration {
	r.t.Helper()
	pod := client.ObjectKey{Namespace: "default", Name: "a"}
	again, err := c.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: pod})
	if err != nil {
		r.t.Fatal(err)
	}
	return again.RequeueAfter
}

// TestAPodThatIsHeldBackLeavesTheDemand: the start became futile after the pod had been counted for
// a launch.
func TestAPodThatIsHeldBackLeavesTheDemand(t *testing.T) {
	full := boundPod("full", needing("4"))
	r := newRig(t, unschedulable(needing("1")), nodePool(5, 0, counting(1)), nodeIn(v1alpha1.StateRunning), full)
	look := r.looksAfter()
	r.now = epoch().Add(time.Minute)
	r.look(look)
	r.want("pool p")
	r.promise("a", "c")
	r.ledger.ObserveNode("c", v1alpha1.StateStarting, v1alpha1.StateRunning, epoch())
	r.ledger.Overdue(r.now)
	r.look(look)
	if n := len(r.demand.Of("p")); n > 0 {
		t.Errorf("%d pods have an instance launched, want none", n)
	}
	r.want("pool p")
}

// TestNothingIsLaunchedForAPodThatNoNodeHelps, where the pool is empty or its nodes are in use, and
// why.
func TestNothingIsLaunchedForAPodThatNoNodeHelps(t *testing.T) {
	mounts := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
	notSelected := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk",
		Operator: "Like"}}}}
	affine := func(to corev1.Affinity) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Affinity = &to } }
	terms := []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: wrong}}
	full := []client.Object{nodePool(5, 1, counting(1)), nodeIn(v1alpha1.StateRunning), boundPod("full", needing("4"))}
	pools := map[string][]client.Object{
		"an empty pool":               {nodePool(5, 1)},
		"a pool whose nodes are full": full,
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		why    string
	}{
		"its volume claim is missing": {mounts,
			`volume claim data cannot be used there: persistentvolumeclaim "data" not found`},
		"its spread does not parse": {func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: wrong,
			}}
		}, `"Like" is not a valid label selector operator`},
		"its affinity does not parse": {affine(corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms,
		}}), `"Like" is not a valid label selector operator`},
		"its anti-affinity does not parse": {affine(corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms,
		}}), `"Like" is not a valid label selector operator`},
		"its node selector does not parse": {affine(corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: notSelected},
		}}), "node(s) didn't match Pod's node affinity/selector"},
	} {
		for pool, objects := range pools {
			for _, scheduler := range []string{v1alpha1.SchedulerName, "default-scheduler"} {
				t.Run(name+", "+pool+", "+scheduler, func(t *testing.T) {
					pod := unschedulable(needing("1"), c.change, func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler })
					r := newRig(t, append(slices.Clone(objects), pod)...)
					r.now = epoch().Add(time.Minute)
					r.look(r.looksAfter())
					if n := len(r.demand.Of("p")); n > 0 {
						t.Error("an instance is to be launched, and would not help")
					}
					said := strings.Join(r.said(), "\n")
					if !strings.HasPrefix(said, "Warning StandbyUnavailable pool p: ") || !strings.Contains(said, c.why) {
						t.Errorf("events %q, want %q", said, c.why)
					}
				})
			}
		}
	}
}
