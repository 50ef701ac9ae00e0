package fit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is what the checks read of a pending pod, parsed once. It is immutable but for Volumes, which
// the caller sets before the first check.
type Pod struct {
	Key         types.NamespacedName
	UID         types.UID
	Labels      map[string]string
	Requests    Resources
	Ports       []HostPort
	Tolerations []corev1.Toleration
	// Affinity and AntiAffinity are the required terms.
	Affinity, AntiAffinity []Term
	// Spread are the constraints that say DoNotSchedule.
	Spread []SpreadConstraint
	// Volumes is what VolumesOf says; nil for a pod without volume claims.
	Volumes []VolumeConstraint

	choice nodeSelection
	// malformed is set where terms or constraints do not parse: the scheduler then places the pod
	// nowhere.
	malformed *Refusal
}

// Term is a required (anti-)affinity term with its selectors parsed.
type Term struct {
	TopologyKey string
	Selector    labels.Selector
	// Namespaces are named outright; NamespaceSelector adds those whose labels match. A term that
	// gives neither has its pod's own namespace here.
	Namespaces        []string
	NamespaceSelector labels.Selector
}

// NewPod digests a pending pod. defaults are what a pod without any requests claims; see Requests.
func NewPod(pod *corev1.Pod, defaults corev1.ResourceList) *Pod {
	p := &Pod{
		Key:         types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		UID:         pod.UID,
		Labels:      pod.Labels,
		Requests:    Requests(pod, defaults),
		Ports:       HostPorts(pod),
		Tolerations: pod.Spec.Tolerations,
		choice:      choiceOf(pod),
	}
	var spreadErr, affinityErr, antiErr error
	p.Spread, spreadErr = spreadConstraints(pod)
	p.Affinity, affinityErr = terms(pod.Namespace, requiredAffinity(pod.Spec.Affinity))
	p.AntiAffinity, antiErr = terms(pod.Namespace, requiredAntiAffinity(pod.Spec.Affinity))
	switch {
	case spreadErr != nil:
		p.malformed = malformed(ReasonSpread, "obtaining pod's hard topology spread constraints", spreadErr)
	case affinityErr != nil:
		p.malformed = malformed(ReasonPodAffinity, "parsing pod: requiredAffinityTerms", affinityErr)
	case antiErr != nil:
		p.malformed = malformed(ReasonAntiAffinity, "parsing pod: requiredAntiAffinityTerms", antiErr)
	}
	return p
}

// malformed: API validation keeps such pods out; one that got in before a rule was tightened must
// not be placed.
func malformed(reason Reason, where string, err error) *Refusal {
	return &Refusal{Reason: reason, Message: where + ": " + err.Error(), Unresolvable: true}
}

// Malformed refuses a pod whose terms or constraints do not parse, nil for any other. No node helps
// such a pod.
func (p *Pod) Malformed() *Refusal { return p.malformed }

// Selects is the function Selects for a digested pod.
func (p *Pod) Selects(nodeName string, labels map[string]string) *Refusal {
	if refusal := p.choice.named(nodeName); refusal != nil {
		return refusal
	}
	return p.choice.refuses(nodeName, labels)
}

// Schedulable is the function Schedulable for a digested pod.
func (p *Pod) Schedulable(taints []corev1.Taint, unschedulable bool) *Refusal {
	return schedulable(p.Tolerations, taints, unschedulable)
}

// Placed is the pod as others see it once it has a claim on a node.
func (p *Pod) Placed() *Placed {
	return &Placed{UID: p.UID, Namespace: p.Key.Namespace, Labels: p.Labels, AntiAffinity: p.AntiAffinity}
}

// Placed is what the checks read of a pod that is bound to a node, nominated to it or has a claim
// there.
type Placed struct {
	UID       types.UID
	Namespace string
	Labels    map[string]string
	// AntiAffinity are the required terms, which keep others away.
	AntiAffinity []Term
	// Terminating pods still repel and attract, but no longer count for topology spread.
	Terminating bool
}

// NewPlaced digests a bound pod. Terms that do not parse are dropped, as the scheduler does for
// pods already placed.
func NewPlaced(pod *corev1.Pod) *Placed {
	anti, err := terms(pod.Namespace, requiredAntiAffinity(pod.Spec.Affinity))
	if err != nil {
		anti = nil
	}
	return &Placed{
		UID: pod.UID, Namespace: pod.Namespace, Labels: pod.Labels,
		AntiAffinity: anti, Terminating: pod.DeletionTimestamp != nil,
	}
}

// Finished reports whether the pod has ended: it takes no room and never runs again.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func requiredAffinity(a *corev1.Affinity) []corev1.PodAffinityTerm {
	if a == nil || a.PodAffinity == nil {
		return nil
	}
	return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func requiredAntiAffinity(a *corev1.Affinity) []corev1.PodAffinityTerm {
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// terms parses required terms of a pod in the given namespace. matchLabelKeys and mismatchLabelKeys
// need no care here: the API server writes them into the selector when the pod is made.
func terms(namespace string, in []corev1.PodAffinityTerm) ([]Term, error) {
	var out []Term
	for i := range in {
		selector, err := metav1.LabelSelectorAsSelector(in[i].LabelSelector)
		if err != nil {
			return nil, err
		}
		namespaceSelector, err := metav1.LabelSelectorAsSelector(in[i].NamespaceSelector)
		if err != nil {
			return nil, err
		}
		namespaces := in[i].Namespaces
		if len(namespaces) == 0 && in[i].NamespaceSelector == nil {
			namespaces = []string{namespace}
		}
		out = append(out, Term{
			TopologyKey: in[i].TopologyKey, Selector: selector,
			Namespaces: namespaces, NamespaceSelector: namespaceSelector,
		})
	}
	return out, nil
}
