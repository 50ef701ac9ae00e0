package slim

import (
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sharedMost bounds what is remembered to be shared. When it is reached, all is forgotten and
// begins anew: what is cached already is not touched.
const sharedMost = 1 << 14

// shared lets cached objects have equal parts in common. Each is decoded on its own, so a thousand
// pods of a ReplicaSet would hold the same labels and containers a thousand times. No code changes
// a cached object, so what is shared stays equal.
type shared struct {
	// mu guards the maps: each informer transforms on a goroutine of its own.
	mu     sync.Mutex
	texts  map[string]string
	owners map[types.UID]*common
}

// common is what pods of one owner mostly have in common.
type common struct {
	labels, annotations, nodeSelector map[string]string
	owners                            []metav1.OwnerReference
	containers, initContainers        []corev1.Container
	overhead                          corev1.ResourceList
	resources                         *corev1.ResourceRequirements
	priority                          *int32
	preemptionPolicy                  *corev1.PreemptionPolicy
	tolerations                       []corev1.Toleration
	affinity                          *corev1.Affinity
	spread                            []corev1.TopologySpreadConstraint
}

func newShared() *shared {
	return &shared{texts: map[string]string{}, owners: map[types.UID]*common{}}
}

// share gives the pod what it has in common with the last one of its owner.
func (s *shared) share(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod.Namespace, pod.Spec.NodeName, pod.Spec.SchedulerName = s.text(pod.Namespace), s.text(pod.Spec.NodeName),
		s.text(pod.Spec.SchedulerName)
	pod.Status.Phase = corev1.PodPhase(s.text(string(pod.Status.Phase)))
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	last := s.owners[owner.UID]
	if last == nil {
		if len(s.owners) >= sharedMost {
			clear(s.owners)
		}
		last = &common{}
		s.owners[owner.UID] = last
	}
	same(&pod.Labels, &last.labels)
	same(&pod.Annotations, &last.annotations)
	same(&pod.OwnerReferences, &last.owners)
	same(&pod.Spec.Containers, &last.containers)
	same(&pod.Spec.InitContainers, &last.initContainers)
	same(&pod.Spec.Overhead, &last.overhead)
	same(&pod.Spec.Resources, &last.resources)
	same(&pod.Spec.Priority, &last.priority)
	same(&pod.Spec.PreemptionPolicy, &last.preemptionPolicy)
	same(&pod.Spec.Tolerations, &last.tolerations)
	same(&pod.Spec.Affinity, &last.affinity)
	same(&pod.Spec.NodeSelector, &last.nodeSelector)
	same(&pod.Spec.TopologySpreadConstraints, &last.spread)
}

// shareNode gives the Node the words that it has in common with all others.
func (s *shared) shareNode(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		c.Type, c.Status = corev1.NodeConditionType(s.text(string(c.Type))), corev1.ConditionStatus(s.text(string(c.Status)))
		c.Reason, c.Message = s.text(c.Reason), s.text(c.Message)
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		t.Key, t.Value, t.Effect = s.text(t.Key), s.text(t.Value), corev1.TaintEffect(s.text(string(t.Effect)))
	}
	if n.Labels == nil { // a patch that is made from it tells an empty map from none
		return
	}
	labels := make(map[string]string, len(n.Labels))
	for key, value := range n.Labels {
		labels[s.text(key)] = s.text(value)
	}
	n.Labels = labels
}

// text is the first equal text. The caller holds mu.
func (s *shared) text(t string) string {
	if first, ok := s.texts[t]; ok {
		return first
	}
	if len(s.texts) >= sharedMost {
		clear(s.texts)
	}
	s.texts[t] = t
	return t
}

// same makes the two one where they are equal; else the newer is what the next is compared with. A
// quantity that was asked for its text remembers it, and then counts as another: that costs memory
// for one pod, no more.
func same[T any](part, last *T) {
	if reflect.DeepEqual(*part, *last) {
		*part = *last
	} else {
		*last = *part
	}
}
