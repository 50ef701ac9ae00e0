package extender

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// standbyIn is a standby Node as it stands: tainted, cordoned, in a zone.
func standbyIn(zone, name string) *corev1.Node {
	return poolNode(name, v1alpha1.StateStandby, inZone(zone), func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations[v1alpha1.AnnotationCordoned] = true, "true"
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
	})
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels[corev1.LabelHostname], n.Labels[corev1.LabelTopologyZone] = n.Name, zone
	}
}

// TestPodsThatArePendingTogether: three pods are asked about before any watch shows a start, and
// then once more as each of their nodes runs.
func TestPodsThatArePendingTogether(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: web,
			NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor),
		}}
	}
	together := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone,
				LabelSelector: web}},
		}}
	}
	for name, c := range map[string]struct {
		cpu    int64
		wish   func(*corev1.Pod)
		starts []v1alpha1.NodeName
	}{
		"spread that honours taints, beside a full node": {1000, spread, []v1alpha1.NodeName{"1a", "2b", "3c"}},
		"pod affinity by zone":                           {3000, together, []v1alpha1.NodeName{"1a", "4a", "7a"}},
		"no wish":                                        {3000, func(*corev1.Pod) {}, []v1alpha1.NodeName{"1a", "2b", "3c"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDecideRig(poolNode("full", v1alpha1.StateRunning, inZone("a")))
			r.state.SetPod(cpuPod("hog", "full", milli(4000)))
			names := []string{"full"}
			for i := range 9 {
				zone := string("abc"[i%3])
				names = append(names, fmt.Sprint(i+1, zone))
				r.state.SetNode(standbyIn(zone, names[i+1]))
			}
			var pods []*corev1.Pod
			for i := range c.starts {
				pods = append(pods, cpuPod(fmt.Sprint("web-", i), "", milli(c.cpu), c.wish,
					func(p *corev1.Pod) { p.Labels = web.MatchLabels }))
				r.Extender.Filter(pods[i], inTree(r, pods[i], names))
			}
			if !slices.Equal(r.starts, c.starts) {
				t.Fatalf("started %v, want %v", r.starts, c.starts)
			}
			for _, node := range c.starts {
				r.state.SetNode(poolNode(string(node), v1alpha1.StateRunning, inZone(string(node[1]))))
			}
			for i, p := range pods {
				answer := r.Extender.Filter(p, inTree(r, p, names))
				if !slices.Equal(answer.Nodes, c.starts[i:i+1]) {
					t.Errorf("pod %s may go to %v, want %s: %v", p.Name, answer.Nodes, c.starts[i], answer.FailedUnresolvable)
				}
				bound := p.DeepCopy()
				bound.Spec.NodeName = string(c.starts[i])
				r.state.SetPod(bound)
			}
		})
	}
}

// inTree are what kube-scheduler's own filters leave. They check spread and affinity against the
// bound pods and the present taints.
func inTree(r *decideRig, pod *corev1.Pod, names []string) Names {
	judge := r.state.PodFit(pod)
	var out []string
	for _, n := range lookUp(r.state, names...) {
		if judge.Refusal(n) == nil {
			out = append(out, string(n.Name))
		}
	}
	return NamesOf(out)
}
