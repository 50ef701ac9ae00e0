package claim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Verdict is what a decision amounts to; also the metric label of stratos_extender_decisions_total.
type Verdict string

// The verdicts of Decide.
const (
	// Pass: an ordinary node takes the pod.
	Pass Verdict = "pass"
	// PassClaimed: the pod's claimed node runs; it is returned alone.
	PassClaimed Verdict = "pass-claimed"
	// Waiting: the pod's claim stands, its node is on its way.
	Waiting Verdict = "waiting"
	// Joined: the pod was promised room on a node that is starting already.
	Joined Verdict = "joined"
	// Started: the pod was promised room on a standby node, which is to be started now.
	Started Verdict = "started"
	// Unavailable: Stratos would start a node, but has none that fits.
	Unavailable Verdict = "unavailable"
	// NotOurs: Stratos may not start a node for this pod.
	NotOurs Verdict = "not-ours"
)

// Ask is one question of the scheduler.
type Ask struct {
	Pod *corev1.Pod
	// Nodes are the candidates: nodes that passed all in-tree filters but taints and cordon.
	Nodes []*Node
}

// Decision answers an Ask. Nodes and refusals are sorted; equal asks in equal circumstances give equal decisions.
type Decision struct {
	Verdict Verdict
	// Nodes are those that take the pod now.
	Nodes []v1alpha1.NodeName
	// Start is the standby node to start now; empty otherwise.
	Start v1alpha1.NodeName
	// Claim is the pod's claim after the decision, nil if it has none.
	Claim *Claim
	// Refused has one node for each distinct reason. The other candidates are left out of the answer on purpose: the
	// scheduler takes a candidate it hears nothing of as unresolvable, and the answer stays small.
	Refused map[v1alpha1.NodeName]string
	// Reason is why no node was started, in words that stay the same while the circumstances do. Empty when the pod
	// passed or has a claim.
	Reason string
}

// Decide judges the pod against the candidates and, where no node can take it now, promises it room on one that will.
// It implements steps 1 to 4 of docs/filter.md in their order.
func (l *Ledger) Decide(ask Ask, now time.Time) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()

	own := l.byPod[ask.Pod.UID]
	if own != nil {
		own.LastAsked = now
	}
	passed, refused := l.ordinary(ask, own)
	if own != nil && slices.Contains(passed, own.Node) {
		claim := *own
		return Decision{Verdict: PassClaimed, Nodes: []v1alpha1.NodeName{own.Node}, Claim: &claim}
	}
	if len(passed) > 0 {
		return Decision{Verdict: Pass, Nodes: passed, Refused: refused.one()}
	}
	if own != nil {
		return waiting(Waiting, own, ask, refused)
	}
	if why := mayNotStart(ask); why != "" {
		return Decision{Verdict: NotOurs, Refused: refused.orAny(ask, why), Reason: why}
	}
	if b, ok := l.futile[ask.Pod.UID]; ok && now.Before(b.until) {
		why := "the last node started for this pod did not take it; not starting another for " + b.step.String()
		return Decision{Verdict: Unavailable, Refused: refused.orAny(ask, why), Reason: why}
	}
	node, standby, why := l.choose(ask, now)
	if node == nil {
		return Decision{Verdict: Unavailable, Refused: refused.orAny(ask, why), Reason: why}
	}
	own = l.promise(ask.Pod, node, now)
	if !standby {
		return waiting(Joined, own, ask, refused)
	}
	l.asked[node.Name] = true
	d := waiting(Started, own, ask, refused)
	d.Start = node.Name
	return d
}

// ordinary applies kube-scheduler's own rules to the nodes that those rules decide about. For a DaemonSet's pod they
// decide about every node: its pods belong on stopped nodes too.
func (l *Ledger) ordinary(ask Ask, own *Claim) ([]v1alpha1.NodeName, refusals) {
	daemon := ownedByDaemonSet(ask.Pod)
	var passed []v1alpha1.NodeName
	refused := refusals{}
	for _, n := range ask.Nodes {
		if !n.Ordinary() && !daemon {
			continue
		}
		if r := fit.Schedulable(ask.Pod, n.Taints, n.Unschedulable); r != nil {
			refused.add(n.Name, r.Message)
			continue
		}
		if n.Ours() && len(l.byNode[n.Name]) > 0 && !daemon && (own == nil || own.Node != n.Name) && !l.hasRoom(n, ask.Pod, priority(ask.Pod)) {
			refused.add(n.Name, "room is promised to other waiting pods")
			continue
		}
		passed = append(passed, n.Name)
	}
	slices.Sort(passed)
	return passed, refused
}

func (l *Ledger) hasRoom(n *Node, pod *corev1.Pod, prio int32) bool {
	left, ports := l.room(n, pod.UID, prio)
	return left.Short(fit.Requests(pod, n.Defaults)) == "" && !fit.PortsConflict(fit.HostPorts(pod), ports)
}

// lowest makes room() count every claim: on a node that does not run yet no claim gives way to another pod.
const lowest = -1 << 31

// choose picks the node to promise room on: a starting one before a standby one, since that start is under way. It
// returns nil and the reason when there is none.
func (l *Ledger) choose(ask Ask, now time.Time) (node *Node, standby bool, why string) {
	var starting, resting []*Node
	reasons := refusals{}
	for _, n := range ask.Nodes {
		if n.Ordinary() {
			continue
		}
		isStarting := n.State == v1alpha1.StateStarting || (n.State == v1alpha1.StateStandby && l.asked[n.Name])
		switch why := l.refuses(n, ask.Pod, isStarting, now); {
		case why != "":
			reasons.add(n.Name, why)
		case isStarting:
			starting = append(starting, n)
		default:
			resting = append(resting, n)
		}
	}
	if best := l.best(starting, ask.Pod); best != nil {
		return best, false, ""
	}
	if best := l.best(resting, ask.Pod); best != nil {
		return best, true, ""
	}
	if len(reasons) == 0 {
		return nil, false, "no node of a pool fits this pod"
	}
	return nil, false, reasons.String()
}

// refuses gives the reason why room on a node that does not run cannot be promised to the pod, "" if it can.
func (l *Ledger) refuses(n *Node, pod *corev1.Pod, starting bool, now time.Time) string {
	if !starting && n.State != v1alpha1.StateStandby {
		return "node is " + string(n.State)
	}
	if r := fit.Schedulable(pod, n.Taints, n.Unschedulable); r != nil {
		return fmt.Sprintf("pool %s: %s", n.Pool, r.Message)
	}
	if n.KeptBack != "" {
		return "standby node kept back: " + n.KeptBack
	}
	if !starting && now.Before(n.UnavailableUntil) {
		return "standby node backs off after a failed start"
	}
	if !l.hasRoom(n, pod, lowest) {
		return "room is promised to other waiting pods"
	}
	return ""
}

// best orders by pool weight (higher first), waste (less first) and name.
func (l *Ledger) best(nodes []*Node, pod *corev1.Pod) *Node {
	var best *Node
	var bestWaste float64
	for _, n := range nodes {
		waste := l.waste(n, pod)
		if best == nil || n.Weight > best.Weight ||
			n.Weight == best.Weight && (waste < bestWaste || waste == bestWaste && n.Name < best.Name) {
			best, bestWaste = n, waste
		}
	}
	return best
}

// waste is how much of the node would be left with the pod on it, in cpu cores plus units of 4 GiB of memory: the
// proportion in which clouds sell them, so that neither resource hides the other.
func (l *Ledger) waste(n *Node, pod *corev1.Pod) float64 {
	left, _ := l.room(n, pod.UID, lowest)
	left.Sub(fit.Requests(pod, n.Defaults))
	return float64(left.MilliCPU)/1000 + float64(left.Memory)/(4<<30)
}

func (l *Ledger) promise(pod *corev1.Pod, n *Node, now time.Time) *Claim {
	message := fmt.Sprintf("starting standby node %s of pool %s", n.Name, n.Pool)
	if d := l.ready[n.Pool]; d > 0 {
		message += fmt.Sprintf(" (usually ready in %s)", d.Round(time.Second))
	}
	c := &Claim{
		Pod: pod.UID, Ref: PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Node: n.Name, Pool: n.Pool, Priority: priority(pod),
		Since: now, LastAsked: now, Message: message,
		requests: fit.Requests(pod, n.Defaults), ports: fit.HostPorts(pod),
	}
	l.add(c)
	return c
}

// waiting refuses every node for a pod whose claim stands. Its message hangs on the claimed node where that is a
// candidate, else on the first one.
func waiting(v Verdict, own *Claim, ask Ask, refused refusals) Decision {
	claim := *own
	d := Decision{Verdict: v, Claim: &claim, Refused: refused.one()}
	at := v1alpha1.NodeName("")
	for _, n := range ask.Nodes {
		if n.Name == own.Node {
			at = n.Name
			break
		}
		if at == "" || n.Name < at {
			at = n.Name
		}
	}
	d.Refused[at] = own.Message
	return d
}

// mayNotStart gives the reason why no node may be started in answer to this ask, "" if one may.
func mayNotStart(ask Ask) string {
	if why := MayNotStart(ask.Pod); why != "" {
		return why
	}
	if len(ask.Nodes) == 1 && ask.Pod.Status.NominatedNodeName == string(ask.Nodes[0].Name) {
		// The scheduler looks at the nominated node alone before it looks at all: another node may still take the pod.
		return "only the nominated node was asked about"
	}
	return ""
}

// MayNotStart gives the reason why no node may ever be started for this pod, "" if one may.
func MayNotStart(pod *corev1.Pod) string {
	switch {
	case ownedByDaemonSet(pod):
		return "pods of a DaemonSet start no node"
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return "a static pod starts no node"
	case pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case pod.Annotations[v1alpha1.AnnotationIgnore] == "true":
		return "the pod is annotated " + v1alpha1.AnnotationIgnore
	case pod.Spec.SchedulingGroup != nil:
		// Pod groups are tried out in simulations; a start in answer to one could be for nothing.
		return "pods of a scheduling group start no node"
	}
	return ""
}

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// Counts reports whether a pod keeps its node running: every pod but a DaemonSet's, a static one and a finished one.
func Counts(pod *corev1.Pod) bool {
	return !ownedByDaemonSet(pod) && pod.Annotations[corev1.MirrorPodAnnotationKey] == "" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// refusals are reasons and the nodes they hold for.
type refusals map[string][]v1alpha1.NodeName

func (r refusals) add(node v1alpha1.NodeName, why string) { r[why] = append(r[why], node) }

// one gives one node for each reason: the first by name.
func (r refusals) one() map[v1alpha1.NodeName]string {
	out := make(map[v1alpha1.NodeName]string, len(r)+1)
	for why, nodes := range r {
		out[slices.Min(nodes)] = why
	}
	return out
}

// orAny adds a reason that holds for the pod as a whole, at the first candidate that has none yet.
func (r refusals) orAny(ask Ask, why string) map[v1alpha1.NodeName]string {
	out := r.one()
	first := v1alpha1.NodeName("")
	for _, n := range ask.Nodes {
		if _, taken := out[n.Name]; !taken && (first == "" || n.Name < first) {
			first = n.Name
		}
	}
	if first != "" {
		out[first] = why
	}
	return out
}

// String lists the reasons, sorted. It does not count nodes: a count that moves would make each attempt a write to the pod.
func (r refusals) String() string {
	return strings.Join(slices.Sorted(maps.Keys(r)), "; ")
}

// Preemptable decides about /preempt: which of the candidate nodes may lose pods for this pod. A pod that has a claim
// evicts nobody. Otherwise a node is kept only if it runs and the pod tolerates its taints and cordon: the in-tree dry
// run knows neither, because the profile moved those filters here.
func (l *Ledger) Preemptable(pod *corev1.Pod, n *Node) bool {
	return n.Ordinary() && fit.Schedulable(pod, n.Taints, n.Unschedulable) == nil
}

// HasClaim reports whether the pod has a claim.
func (l *Ledger) HasClaim(pod types.UID) bool {
	_, ok := l.Of(pod)
	return ok
}
