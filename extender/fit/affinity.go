package fit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

const (
	messageNodeName     = "node(s) didn't match the requested node name"
	messageNodeAffinity = "node(s) didn't match Pod's node affinity/selector"
)

// Selects checks the pod's spec.nodeName, nodeSelector and required node affinity, match fields
// included, against a node's name and labels: the in-tree filters NodeName and NodeAffinity.
// Callers that ask about many nodes use the digest's method, which parses once.
func Selects(pod *corev1.Pod, nodeName string, labels map[string]string) *Refusal {
	s := choiceOf(pod)
	if refusal := s.named(nodeName); refusal != nil {
		return refusal
	}
	return s.refuses(nodeName, labels)
}

// nodeSelection is where a pod wants to be, parsed.
type nodeSelection struct {
	nodeName string
	// required is empty for most pods; selective says so, because matching costs a Node.
	required  nodeaffinity.RequiredNodeAffinity
	selective bool
}

func choiceOf(pod *corev1.Pod) nodeSelection {
	return nodeSelection{
		nodeName:  pod.Spec.NodeName,
		required:  nodeaffinity.GetRequiredNodeAffinity(pod),
		selective: len(pod.Spec.NodeSelector) > 0 || requiresNodes(pod.Spec.Affinity),
	}
}

func requiresNodes(a *corev1.Affinity) bool {
	return a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

func (s *nodeSelection) named(nodeName string) *Refusal {
	if s.nodeName == "" || s.nodeName == nodeName {
		return nil
	}
	return &Refusal{Reason: ReasonAffinity, Message: messageNodeName, Unresolvable: true}
}

func (s *nodeSelection) refuses(nodeName string, labels map[string]string) *Refusal {
	if s.matches(nodeName, labels) {
		return nil
	}
	return &Refusal{Reason: ReasonAffinity, Message: messageNodeAffinity, Unresolvable: true}
}

// matches ignores terms that do not parse, as the scheduler does: such a term selects nothing.
func (s *nodeSelection) matches(nodeName string, labels map[string]string) bool {
	if !s.selective {
		return true
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: labels}}
	matched, _ := s.required.Match(node)
	return matched
}
