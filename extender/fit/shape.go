package fit

import (
	"crypto/sha256"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Shape is what kube-scheduler's filters read of a pending pod, but for its labels: they take and
// refuse the same nodes for all pods of one shape whose labels no selector tells apart. The zero
// Shape is that of pods that are like no other.
type Shape [sha256.Size]byte

// shape are the fields of a pod that make its Shape. What the in-tree filters read stands in their
// SignPod functions (Kubernetes 1.35 and newer). Namespace and priority decide about selectors, and
// which claims and pods are in the way.
type shape struct {
	Namespace, SchedulerName string
	Priority                 int32
	PreemptionPolicy         corev1.PreemptionPolicy
	NodeSelector             map[string]string
	Affinity                 *corev1.Affinity
	Tolerations              []corev1.Toleration
	Spread                   []corev1.TopologySpreadConstraint
	Containers, Init         []containerShape
	Overhead                 corev1.ResourceList
	Resources                *corev1.ResourceRequirements
	Ports                    []HostPort
}

// containerShape is what a container takes. A sidecar adds to the others, an init container does
// not.
type containerShape struct {
	Requests corev1.ResourceList
	Sidecar  bool
}

// ShapeOf returns the shape of a pod; the zero Shape for one that is like no other: it is bound or
// gated, belongs to a scheduling group, or wants devices by claim or a volume that is not
// everywhere.
func ShapeOf(pod *corev1.Pod) Shape {
	s := &pod.Spec
	if s.NodeName != "" || len(s.SchedulingGates) > 0 || s.SchedulingGroup != nil || len(s.ResourceClaims) > 0 ||
		hasPlacedVolume(s.Volumes) {
		return Shape{}
	}
	is := shape{
		Namespace: pod.Namespace, SchedulerName: s.SchedulerName, NodeSelector: s.NodeSelector, Affinity: s.Affinity,
		Tolerations: s.Tolerations, Spread: s.TopologySpreadConstraints,
		Containers: containerShapes(s.Containers), Init: containerShapes(s.InitContainers),
		Overhead: s.Overhead, Resources: s.Resources, Ports: HostPorts(pod),
	}
	if s.Priority != nil {
		is.Priority = *s.Priority
	}
	if s.PreemptionPolicy != nil {
		is.PreemptionPolicy = *s.PreemptionPolicy
	}
	text, err := json.Marshal(is)
	if err != nil { // nothing in it can fail; such a pod would be like no other
		return Shape{}
	}
	return sha256.Sum256(text)
}

func containerShapes(containers []corev1.Container) []containerShape {
	out := make([]containerShape, len(containers))
	for i := range containers {
		out[i] = containerShape{containers[i].Resources.Requests, isSidecar(&containers[i])}
	}
	return out
}

// hasPlacedVolume reports whether some volume may be on certain nodes only.
func hasPlacedVolume(volumes []corev1.Volume) bool {
	for i := range volumes {
		if !IsEverywhere(&volumes[i]) {
			return true
		}
	}
	return false
}

// IsEverywhere reports whether each node can have the volume: kube-scheduler does not look at it.
func IsEverywhere(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.EmptyDir != nil || v.DownwardAPI != nil || v.Projected != nil ||
		v.HostPath != nil || v.Image != nil
}

// IsPlain reports whether the pod fits a node by its resources alone once it fits an empty one like
// it: it has no host ports, and neither affinity nor hard spread.
func (p *Pod) IsPlain() bool {
	return len(p.Ports) == 0 && len(p.Affinity) == 0 && len(p.AntiAffinity) == 0 && len(p.Spread) == 0
}

// LabelKeys are the keys of the labels that some selector reads.
type LabelKeys struct {
	keys sets.Set[string]
}

// ReadBy returns the keys that the pod's own terms and constraints read.
func ReadBy(pod *corev1.Pod) LabelKeys {
	keys := sets.New[string]()
	add := func(s *metav1.LabelSelector, more ...string) {
		keys.Insert(more...)
		if s == nil {
			return
		}
		for key := range s.MatchLabels {
			keys.Insert(key)
		}
		for i := range s.MatchExpressions {
			keys.Insert(s.MatchExpressions[i].Key)
		}
	}
	for _, terms := range [][]corev1.PodAffinityTerm{requiredAffinity(pod.Spec.Affinity),
		requiredAntiAffinity(pod.Spec.Affinity)} {
		for i := range terms {
			add(terms[i].LabelSelector, append(terms[i].MatchLabelKeys, terms[i].MismatchLabelKeys...)...)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		add(c.LabelSelector, c.MatchLabelKeys...)
	}
	return LabelKeys{keys}
}

// AddTerms adds the keys that the terms of another pod read.
func (k LabelKeys) AddTerms(terms []Term) {
	for i := range terms {
		requirements, _ := terms[i].Selector.Requirements()
		for _, r := range requirements {
			k.keys.Insert(r.Key())
		}
	}
}

// SameLabels reports whether the pods have the same labels of those keys.
func (k LabelKeys) SameLabels(a, b *corev1.Pod) bool {
	for key := range k.keys {
		x, inA := a.Labels[key]
		if y, inB := b.Labels[key]; x != y || inA != inB {
			return false
		}
	}
	return true
}
