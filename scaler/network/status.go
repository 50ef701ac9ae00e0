package network

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// networkingReady is the condition of the EKS add-on eks-node-monitoring-agent.
const networkingReady corev1.NodeConditionType = "NetworkingReady"

// Status is what is known of the network of a node.
type Status struct {
	// Up: pods can use the network.
	Up bool
	// Held: startup taints stand that another controller removes. No time limit ends that.
	Held bool
	// Reported: it is up by a report that was made since the start, and not for want of anything that
	// would report.
	Reported bool
	// Missing says what has not been reported since the node started, for people. It is empty where Up
	// is true.
	Missing string
}

// Of returns the network status of a node that starts or warms up, by the table in
// docs/lifecycle.md.
func Of(n *corev1.Node, t transition.Template, agents []Agent) Status {
	switch missing := missing(n, t, agents); {
	case held(n, t):
		return Status{Held: true, Missing: "startup taints that another controller removes are still there"}
	case missing != "":
		return Status{Missing: missing}
	}
	return Status{Up: true, Reported: len(agents) > 0 || reportedUp(n)}
}

// held: with External a start is over when the startup taints are gone, because a node that runs
// with them takes none of the pods it was started for. A warm-up does not wait for that.
func held(n *corev1.Node, t transition.Template) bool {
	return !t.RemoveStartupTaints && !warmsUp(n) && startupTaintStands(n, t)
}

// missing is what the network still lacks, "" for nothing.
func missing(n *corev1.Node, t transition.Template, agents []Agent) string {
	if c := reportedDown(n); c != "" {
		return "the condition " + c + " says that the network is down"
	}
	if len(agents) == 0 {
		if reportedUp(n) || len(t.StartupTaints) == 0 || !t.RemoveStartupTaints || removedByOthers(n, t) {
			return ""
		}
		return "no network agent is recognised, and no network condition was reported since this start"
	}
	if len(agents) == 1 && availableSinceStart(n) {
		return ""
	}
	var names []string
	for _, a := range agents {
		if !a.upSinceStart(n) {
			names = append(names, a.Set.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "network agents that are not Ready since this start: " + strings.Join(names, ", ")
}

// upSinceStart reports whether the agent's pod is Ready with a container that started since this
// start. The pod of an agent without a readiness probe says less than the condition that it writes,
// where the Node has that.
func (a *Agent) upSinceStart(n *corev1.Node) bool {
	if !a.Probed && transition.Condition(n, corev1.NodeNetworkUnavailable) != nil {
		return availableSinceStart(n)
	}
	return a.Ready && a.startedSince(n)
}

// startedSince: the status of a pod survives the stop until its kubelet looks at it. So its newest
// start must not be the one recorded at the stop. Where none was recorded, it must be later than
// the recorded heartbeat of the kubelet.
func (a *Agent) startedSince(n *corev1.Node) bool {
	if a.Started.IsZero() {
		return false
	}
	if at, recorded := startAtStop(n, a.Set); recorded {
		return !a.Started.Equal(at)
	}
	at, recorded := transition.HeartbeatAtStop(n, corev1.NodeReady)
	return !recorded || a.Started.After(at)
}

// availableSinceStart: NetworkUnavailable=False, of any reason.
func availableSinceStart(n *corev1.Node) bool {
	return reported(n, corev1.NodeNetworkUnavailable, corev1.ConditionFalse)
}

func reportedUp(n *corev1.Node) bool {
	return availableSinceStart(n) || reported(n, networkingReady, corev1.ConditionTrue)
}

// reportedDown is the condition that says so since this start, "" for none.
func reportedDown(n *corev1.Node) string {
	switch {
	case reported(n, corev1.NodeNetworkUnavailable, corev1.ConditionTrue):
		return string(corev1.NodeNetworkUnavailable)
	case reported(n, networkingReady, corev1.ConditionFalse):
		return string(networkingReady)
	}
	return ""
}

func reported(n *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus) bool {
	c := transition.Condition(n, kind)
	return c != nil && c.Status == status && transition.FreshNetwork(n, c)
}

// removedByOthers reports whether another controller has removed the startup taints that stood on
// the Node. A start of ours puts back those that are missing. In a first warm-up only a taint that
// was seen counts.
func removedByOthers(n *corev1.Node, t transition.Template) bool {
	stood := n.Annotations[v1alpha1.AnnotationScaleUpStarted] != "" ||
		n.Annotations[v1alpha1.AnnotationWarmupStarted] != "" ||
		n.Annotations[v1alpha1.AnnotationStartupTaintsSeen] != ""
	return stood && !startupTaintStands(n, t)
}

func startupTaintStands(n *corev1.Node, t transition.Template) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
		return slices.ContainsFunc(t.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&taint) })
	})
}

func warmsUp(n *corev1.Node) bool {
	return v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) == v1alpha1.StateWarmup
}
