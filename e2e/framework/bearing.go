package framework

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Bearing is what Stratos and people write on a Node, with a word in place of each time, so that
// one life of a node can be compared with another. Left out: the taints of a stopped node that the
// node and cloud controllers set in loops of their own, and what is recorded at each start and
// stop.
type Bearing struct {
	Labels, Annotations map[string]string
	Taints              []string
	Unschedulable       bool
	// Standby is the condition of that name.
	Standby corev1.ConditionStatus
}

// BearingOf reads the Node.
func BearingOf(n *corev1.Node) Bearing {
	running := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateRunning
	b := Bearing{Labels: n.Labels, Annotations: maps.Clone(n.Annotations), Unschedulable: n.Spec.Unschedulable,
		Standby: StandbyCondition(n)}
	delete(b.Annotations, v1alpha1.AnnotationHeartbeatAtStop)
	delete(b.Annotations, v1alpha1.AnnotationAllocatableAtStop)
	delete(b.Annotations, v1alpha1.AnnotationLastStart)
	delete(b.Annotations, v1alpha1.AnnotationSurplusSince) // says how many the pool wants, not how the node lived
	if running {
		// Written where our watch is behind the scheduler's, which is chance. The standby node must not
		// have it.
		delete(b.Annotations, v1alpha1.AnnotationNudgedAt)
	}
	for k, v := range b.Annotations {
		if _, err := time.Parse(time.RFC3339, v); err == nil && k != v1alpha1.AnnotationWarmedAt {
			b.Annotations[k] = "a time"
		}
	}
	for _, taint := range n.Spec.Taints {
		ofControllers := strings.HasPrefix(taint.Key, "node.kubernetes.io/") ||
			strings.HasPrefix(taint.Key, "node.cloudprovider.kubernetes.io/")
		if !ofControllers || running {
			b.Taints = append(b.Taints, taint.ToString())
		}
	}
	slices.Sort(b.Taints)
	return b
}

// StandbyCondition is the status of the condition by which Stratos says that the instance is
// stopped; empty where it never said so.
func StandbyCondition(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == v1alpha1.ConditionStandby {
			return c.Status
		}
	}
	return ""
}

// InstanceOf is the instance that the Node's provider id names.
func InstanceOf(n *corev1.Node) v1alpha1.InstanceID {
	return v1alpha1.InstanceID(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])
}
