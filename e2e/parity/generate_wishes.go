package parity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waiting is a pod with wishes about where it shall run.
func (d dice) waiting(name string) *corev1.Pod {
	pod := d.pod(name)
	if d.oneIn(20) {
		d.garble(pod)
	}
	for range d.IntN(3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, d.toleration())
	}
	if d.oneIn(2) { // else taints would refuse most pods before anything else is looked at
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
	if d.oneIn(8) {
		pod.Spec.NodeSelector = map[string]string{pick(d, "zone", "rack"): pick(d, "z1", "r1")}
	}
	if d.oneIn(6) {
		d.preferNodes(pod)
	}
	if d.oneIn(30) {
		pod.Spec.NodeName = pick(d, "n0", "n1")
	}
	if d.oneIn(3) {
		for range 1 + d.IntN(2) {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, d.spread())
		}
	}
	if d.oneIn(3) {
		for i := range 1 + d.IntN(2) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, d.volume(fmt.Sprintf("v%d", i)))
		}
	}
	return pod
}

// garble gives the pod a selector that does not parse. The API server refuses such a pod today; one
// that got in before the rule was made is placed nowhere.
func (d dice) garble(pod *corev1.Pod) {
	broken := selecting("a", "Odd")
	if d.oneIn(3) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: broken,
		}}
		return
	}
	terms := []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: broken}}
	if d.oneIn(2) {
		affinityOf(pod).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
		return
	}
	affinityOf(pod).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}

func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

// company says near which pods the pod must and must not run.
func (d dice) company(pod *corev1.Pod) {
	affinity := affinityOf(pod)
	if d.oneIn(2) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{d.term()},
		}
	}
	if d.oneIn(2) {
		terms := []corev1.PodAffinityTerm{d.term()}
		if d.oneIn(3) {
			terms = append(terms, d.term())
		}
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func (d dice) term() corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{
		TopologyKey:   pick(d, "zone", corev1.LabelHostname, "rack"),
		LabelSelector: d.selector(), NamespaceSelector: d.namespaceSelector(),
	}
	if d.oneIn(4) {
		term.Namespaces = []string{pick(d, "default", "other", "gone")}
	}
	return term
}

func (d dice) toleration() corev1.Toleration {
	return corev1.Toleration{
		Key: pick(d, "", "k", "l", corev1.TaintNodeUnschedulable),
		Operator: pick(d, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpExists,
			corev1.TolerationOpGt, corev1.TolerationOpLt),
		Value: pick(d, "", "1", "2"),
		Effect: pick(d, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute,
			corev1.TaintEffectPreferNoSchedule),
	}
}

func (d dice) preferNodes(pod *corev1.Pod) {
	required := &corev1.NodeSelector{}
	for range d.IntN(3) {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, d.nodeTerm())
	}
	affinityOf(pod).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
}

func (d dice) nodeTerm() corev1.NodeSelectorTerm {
	term := corev1.NodeSelectorTerm{}
	for range d.IntN(3) {
		term.MatchExpressions = append(term.MatchExpressions, d.nodeRequirement())
	}
	if d.oneIn(4) {
		term.MatchFields = []corev1.NodeSelectorRequirement{{
			Key:      metav1.ObjectNameField,
			Operator: pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{pick(d, "n0", "n1", "n2")},
		}}
	}
	return term
}

func (d dice) nodeRequirement() corev1.NodeSelectorRequirement {
	requirement := corev1.NodeSelectorRequirement{
		Key: pick(d, "zone", "rack", "cores", corev1.LabelHostname),
		Operator: pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn,
			corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, "Odd"),
	}
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		requirement.Values = []string{pick(d, "z1", "z2", "n1", "r1"), pick(d, "z1", "z3", "n2", "r1")}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		requirement.Values = []string{pick(d, "4", "8", "x")}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
	}
	return requirement
}

func (d dice) spread() corev1.TopologySpreadConstraint {
	constraint := corev1.TopologySpreadConstraint{
		TopologyKey:       pick(d, "zone", "zone", corev1.LabelHostname, "rack"),
		MaxSkew:           int32(1 + d.IntN(2)),
		WhenUnsatisfiable: pick(d, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		LabelSelector:     d.selector(),
	}
	if d.oneIn(4) {
		domains := int32(1 + d.IntN(4))
		constraint.MinDomains = &domains
	}
	if d.oneIn(3) {
		policy := pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		constraint.NodeAffinityPolicy = &policy
	}
	if d.oneIn(3) {
		policy := pick(d, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		constraint.NodeTaintsPolicy = &policy
	}
	if d.oneIn(4) {
		constraint.MatchLabelKeys = []string{"rev"}
	}
	return constraint
}
