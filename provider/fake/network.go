package fake

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

const (
	// monitoringPeriod is how often eks-node-monitoring-agent writes NetworkingReady.
	monitoringPeriod = 15 * time.Second
	// shutdownMessage is what a kubelet with graceful node shutdown says of itself
	// (pkg/kubelet/nodestatus/setters.go).
	shutdownMessage = "node is shutting down"
)

// cni is what the network of a machine writes on its Node. The zero value writes nothing, as the
// AWS VPC CNI does: the signal of such a network is its agent's pod.
type cni struct {
	condition corev1.NodeCondition
	// down is written when the machine shuts down in order; its Type is empty for nothing.
	down corev1.NodeCondition
	// whereAbsent: the condition is written only where the Node has none of its type.
	whereAbsent bool
	// atReady: the condition is written with the kubelet's first Ready report, before the network is
	// up.
	atReady bool
	// period is how often the condition is written again in one boot; zero for never.
	period time.Duration
}

// readCNI finds the network that user data names. The sources stand in docs/model.md.
func readCNI(userData string) cni {
	text := strings.ToLower(userData)
	up := func(reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reason,
			Message: message}
	}
	switch {
	case strings.Contains(text, "eks-node-monitoring-agent"):
		return cni{atReady: true, period: monitoringPeriod, condition: corev1.NodeCondition{
			Type: "NetworkingReady", Status: corev1.ConditionTrue,
			Reason: "NetworkingIsReady", Message: "Monitoring for the Networking system is active",
		}}
	case strings.Contains(text, "cilium"):
		return cni{condition: up("CiliumIsUp", "Cilium is running on this node"), whereAbsent: true}
	case strings.Contains(text, "calico"):
		down := up("CalicoIsDown", "Calico is shutting down on this node")
		down.Status = corev1.ConditionTrue
		return cni{condition: up("CalicoIsUp", "Calico is running on this node"), down: down}
	case strings.Contains(text, "flannel"):
		return cni{condition: up("FlannelIsUp", "Flannel is running on this node")}
	}
	return cni{}
}

// firstDue is when the condition is first written in a boot whose kubelet was Ready at the given
// time; zero for never.
func (c *cni) firstDue(readyAt time.Time, delay time.Duration, broken bool) time.Time {
	switch {
	case c.condition.Type == "":
		return time.Time{}
	case c.atReady:
		return readyAt
	case broken:
		return time.Time{}
	}
	return readyAt.Add(max(delay, 0))
}

// nextDue is when a condition that was written at the given time is written again in the same boot;
// zero for never.
func (c *cni) nextDue(written time.Time) time.Time {
	if c.period <= 0 {
		return time.Time{}
	}
	return written.Add(c.period)
}

// writes reports whether a condition that is due is written on this Node; nil is a Node that was
// not seen yet.
func (c *cni) writes(node *corev1.Node) bool {
	if !c.whereAbsent || node == nil {
		return true
	}
	_, stands := nodeutil.GetNodeCondition(&node.Status, c.condition.Type)
	return stands == nil
}
