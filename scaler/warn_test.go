package scaler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// among counts the events that contain the words.
func among(said []string, words string) int {
	return len(slices.DeleteFunc(slices.Clone(said), func(s string) bool { return !strings.Contains(s, words) }))
}

func TestSpreadOverHostsThatCountsStandbyIsWarnedOf(t *testing.T) {
	spread := func(change func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			s := corev1.TopologySpreadConstraint{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
				MaxSkew: 1, LabelSelector: &metav1.LabelSelector{}}
			change(&s)
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{s}
		}
	}
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	for name, c := range map[string]struct {
		pod   func(*corev1.Pod)
		state v1alpha1.NodeState
		want  int
	}{
		"the default policy": {spread(func(*corev1.TopologySpreadConstraint) {}), v1alpha1.StateStandby, 1},
		"the same, written out": {spread(func(s *corev1.TopologySpreadConstraint) { s.NodeTaintsPolicy = &ignore }),
			v1alpha1.StateStandby, 1},
		"the remedy": {spread(func(s *corev1.TopologySpreadConstraint) { s.NodeTaintsPolicy = &honor }),
			v1alpha1.StateStandby, 0},
		"a soft one":              {spread(func(s *corev1.TopologySpreadConstraint) { s.WhenUnsatisfiable = corev1.ScheduleAnyway }), v1alpha1.StateStandby, 0},
		"over zones":              {spread(func(s *corev1.TopologySpreadConstraint) { s.TopologyKey = corev1.LabelTopologyZone }), v1alpha1.StateStandby, 0},
		"while no node stands by": {spread(func(*corev1.TopologySpreadConstraint) {}), v1alpha1.StateRunning, 0},
		"a pod that starts no nodes": {func(p *corev1.Pod) {
			spread(func(*corev1.TopologySpreadConstraint) {})(p)
			p.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"}
		}, v1alpha1.StateStandby, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := unschedulable(c.pod)
			r := newRig(t, pod, nodeIn(c.state), nodePool(5, 0))
			p := r.looksAfter()
			for range 2 { // said once
				if _, err := p.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
					t.Fatal(err)
				}
			}
			if said := r.said(); among(said, "SpreadCountsStandby") != c.want {
				t.Errorf("events %q, want SpreadCountsStandby %d times", said, c.want)
			}
		})
	}
}

func TestDaemonSetsWithPodsOnStandbyNodesAreWarned(t *testing.T) {
	ownedBy := func(kind string) *corev1.Pod {
		return boundPod("agent", func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "cni", UID: "uid-cni",
				Controller: &yes}}
			p.Status.Phase = corev1.PodRunning
		})
	}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		state v1alpha1.NodeState
		want  int
	}{
		"a DaemonSet's pod on a standby node": {ownedBy("DaemonSet"), v1alpha1.StateStandby, 1},
		"on a running node":                   {ownedBy("DaemonSet"), v1alpha1.StateRunning, 0},
	} {
		t.Run(name, func(t *testing.T) {
			machine := provider.InstanceStopped
			if c.state == v1alpha1.StateRunning {
				machine = provider.InstanceRunning
			}
			r := newRig(t, nodeIn(c.state), nodePool(5, 0), c.pod, boundPod("busy", func(p *corev1.Pod) {
				if c.state == v1alpha1.StateStandby {
					p.Spec.NodeName = "elsewhere"
				}
			}))
			r.sweep(instance(machine, withTag(v1alpha1.LabelState, string(c.state))))
			r.reconcile()
			r.reconcile()
			said := r.said()
			if among(said, "DaemonSetCountsStandby") != c.want {
				t.Errorf("events %q, want DaemonSetCountsStandby %d times", said, c.want)
			}
			r.now = r.now.Add(warnAgain)
			r.reconcile()
			if said := r.said(); among(said, "DaemonSetCountsStandby") != c.want {
				t.Errorf("an hour later, when the first is forgotten: events %q", said)
			}
		})
	}
}
