package claim

import (
	"fmt"
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
	need := needOf(ask.Pod)
	passed, refused := l.ordinary(ask, own, need)
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
	node, standby, why := l.choose(ask, need, now)
	if node == nil {
		return Decision{Verdict: Unavailable, Refused: refused.orAny(ask, why), Reason: why}
	}
	own = l.promise(need, node, now)
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
func (l *Ledger) ordinary(ask Ask, own *Claim, need *need) ([]v1alpha1.NodeName, refusals) {
	daemon := ownedByDaemonSet(ask.Pod)
	var passed []v1alpha1.NodeName
	refused := refusals{}
	for _, n := range ask.Nodes {
		if !n.Ordinary() && !daemon {
			continue
		}
		taints, cordoned := n.Taints, n.Unschedulable
		if daemon {
			taints, cordoned = n.Present, n.Cordoned // its pod comes now, not when the node runs
		}
		if r := fit.Schedulable(ask.Pod, taints, cordoned); r != nil {
			refused.add(n.Name, reason{text: r.Message})
			continue
		}
		if n.Ours() && len(l.byNode[n.Name]) > 0 && !daemon && !holds(ask.Pod, own, n) && !l.hasRoom(n, need, priority(ask.Pod)) {
			refused.add(n.Name, reason{text: "room is promised to other waiting pods"})
			continue
		}
		passed = append(passed, n.Name)
	}
	slices.Sort(passed)
	return passed, refused
}

// holds reports whether the pod has room of its own on the node: its claim, or a nomination, which Used counts already.
func holds(pod *corev1.Pod, own *Claim, n *Node) bool {
	return own != nil && own.Node == n.Name || pod.Status.NominatedNodeName == string(n.Name)
}

func (l *Ledger) hasRoom(n *Node, need *need, prio int32) bool {
	left, ports := l.room(n, need.pod.UID, prio)
	return left.Short(need.on(n)) == "" && !fit.PortsConflict(need.ports, ports)
}

// need is what the pod asks of a node, summed up once for each pool and not for each of thousands of candidates.
type need struct {
	pod   *corev1.Pod
	ports []fit.HostPort
	// byPool is filled on demand: pools differ in what they count for a pod without requests.
	byPool map[v1alpha1.PoolName]fit.Resources
}

func needOf(pod *corev1.Pod) *need {
	return &need{pod: pod, ports: fit.HostPorts(pod), byPool: map[v1alpha1.PoolName]fit.Resources{}}
}

func (d *need) on(n *Node) fit.Resources {
	r, ok := d.byPool[n.Pool]
	if !ok {
		r = fit.Requests(d.pod, n.Defaults)
		d.byPool[n.Pool] = r
	}
	return r
}

// lowest makes room() count every claim: on a node that does not run yet no claim gives way to another pod.
const lowest = -1 << 31

// choose picks the node to promise room on: a starting one before a standby one, since that start is under way. It
// returns nil and the reason when there is none.
func (l *Ledger) choose(ask Ask, need *need, now time.Time) (node *Node, standby bool, why string) {
	var starting, resting []*Node
	reasons := refusals{}
	for _, n := range ask.Nodes {
		if n.Ordinary() {
			continue
		}
		isStarting := n.State == v1alpha1.StateStarting || (n.State == v1alpha1.StateStandby && l.asked[n.Name])
		switch why := l.refuses(n, need, isStarting, now); {
		case why != reason{}:
			reasons.add(n.Name, why)
		case isStarting:
			starting = append(starting, n)
		default:
			resting = append(resting, n)
		}
	}
	if best := l.best(starting, need); best != nil {
		return best, false, ""
	}
	if best := l.best(resting, need); best != nil {
		return best, true, ""
	}
	if len(reasons) == 0 {
		return nil, false, "no node of a pool fits this pod"
	}
	return nil, false, reasons.String()
}

// refuses gives the reason why room on a node that does not run cannot be promised to the pod, none if it can.
func (l *Ledger) refuses(n *Node, need *need, starting bool, now time.Time) reason {
	if !starting && n.State != v1alpha1.StateStandby {
		return reason{text: "node is " + string(n.State)}
	}
	if r := fit.Schedulable(need.pod, n.Taints, n.Unschedulable); r != nil {
		return reason{pool: n.Pool, text: r.Message}
	}
	if n.KeptBack != "" {
		return reason{text: "standby node kept back: " + n.KeptBack}
	}
	if !starting && now.Before(n.UnavailableUntil) {
		return reason{text: "standby node backs off after a failed start"}
	}
	if !l.hasRoom(n, need, lowest) {
		return reason{text: "room is promised to other waiting pods"}
	}
	return reason{}
}

// best orders by pool weight (higher first), waste (less first) and name.
func (l *Ledger) best(nodes []*Node, need *need) *Node {
	var best *Node
	var bestWaste float64
	for _, n := range nodes {
		waste := l.waste(n, need)
		if best == nil || n.Weight > best.Weight ||
			n.Weight == best.Weight && (waste < bestWaste || waste == bestWaste && n.Name < best.Name) {
			best, bestWaste = n, waste
		}
	}
	return best
}

// waste is how much of the node would be left with the pod on it, in cpu cores plus units of 4 GiB of memory: the
// proportion in which clouds sell them, so that neither resource hides the other.
func (l *Ledger) waste(n *Node, need *need) float64 {
	left, _ := l.room(n, need.pod.UID, lowest)
	left.Sub(need.on(n))
	return float64(left.MilliCPU)/1000 + float64(left.Memory)/(4<<30)
}

func (l *Ledger) promise(need *need, n *Node, now time.Time) *Claim {
	pod := need.pod
	message := fmt.Sprintf("starting standby node %s of pool %s", n.Name, n.Pool)
	if d := l.ready[n.Pool]; d > 0 {
		message += fmt.Sprintf(" (usually ready in %s)", d.Round(time.Second))
	}
	c := &Claim{
		Pod: pod.UID, Ref: PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Node: n.Name, Pool: n.Pool, Priority: priority(pod),
		Since: now, LastAsked: now, Message: message,
		requests: need.on(n), ports: need.ports,
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
	if at != "" { // the view knows none of the candidates: no node to hang a message on
		d.Refused[at] = own.Message
	}
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

// reason is why a node refuses; pool is set where the reason speaks for the node's pool.
type reason struct {
	pool v1alpha1.PoolName
	text string
}

func (r reason) String() string {
	if r.pool == "" {
		return r.text
	}
	return fmt.Sprintf("pool %s: %s", r.pool, r.text)
}

// refusals are reasons, each with the first node by name that it holds for. They are put into words at the end: of
// thousands of candidates most have the same reason.
type refusals map[reason]v1alpha1.NodeName

func (r refusals) add(node v1alpha1.NodeName, why reason) {
	if first, ok := r[why]; !ok || node < first {
		r[why] = node
	}
}

// one gives one node for each reason.
func (r refusals) one() map[v1alpha1.NodeName]string {
	out := make(map[v1alpha1.NodeName]string, len(r)+1)
	for why, node := range r {
		out[node] = why.String()
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
	words := make([]string, 0, len(r))
	for why := range r {
		words = append(words, why.String())
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
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
