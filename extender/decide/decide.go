package decide

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Kind is what a decision amounts to; also the metric label of stratos_extender_decisions_total.
type Kind string

// The verdicts of Decide.
const (
	// Pass: an ordinary node takes the pod.
	Pass Kind = "pass"
	// PassClaimed: the pod's claimed node runs, or the pod was promised room on a running node now; it
	// is returned alone.
	PassClaimed Kind = "pass-claimed"
	// Waiting: the pod's claim stands, its node is on its way.
	Waiting Kind = "waiting"
	// Joined: the pod was promised room on a node that is starting already.
	Joined Kind = "joined"
	// Started: the pod was promised room on a standby node, which is to be started now.
	Started Kind = "started"
	// Reclaimed: the pod was promised room on a node that is drained because it is empty, which is to
	// be taken back now.
	Reclaimed Kind = "reclaimed"
	// Unavailable: Stratos would start a node, but has none that fits.
	Unavailable Kind = "unavailable"
	// NotOurs: Stratos may not start a node for this pod.
	NotOurs Kind = "not-ours"
)

// Ask is one question of the scheduler, or of Stratos itself about a pod that it has to place anew.
type Ask struct {
	Pod *corev1.Pod
	// Nodes are the candidates: nodes that passed all in-tree filters but taints and cordon.
	Nodes []*Node
	// World gives all nodes with the pods bound to them, for anti-affinity and spread among pods that
	// wait together; kube-scheduler has judged the bound ones only. It is called where a decision
	// depends on it.
	World func() *fit.World
}

// Decision answers an Ask. Equal asks in equal circumstances give equal decisions, whatever the
// order of the candidates.
type Decision struct {
	Kind Kind
	// Nodes are those that take the pod now, in the order of the candidates.
	Nodes []v1alpha1.NodeName
	// Claim is the pod's claim after the decision, nil if it has none. Its node is the standby node to
	// start now (Started) or the draining node to take back (Reclaimed).
	Claim *Claim
	// Displaced are the claims of lower priority that gave way, for their pods to be placed anew.
	Displaced []Claim
	// Refused has one node for each distinct reason. The other candidates are left out of the answer
	// on purpose: the scheduler takes a candidate it hears nothing of as unresolvable, and the answer
	// stays small.
	Refused map[v1alpha1.NodeName]string
	// Limited are the pools whose start budget refused the pod, and until when. They are only told of
	// if nothing else took it.
	Limited map[v1alpha1.PoolName]time.Time
}

// Decide decides and assumes what was decided.
func (l *Claims) Decide(ask Ask, now time.Time) Decision {
	d := Decide(l, ask, now)
	l.assume(ask.Pod.UID, &d, now)
	return d
}

// assume takes in a decision: the room that it promises is promised from now on.
func (l *Claims) assume(pod types.UID, d *Decision, now time.Time) {
	for i := range d.Displaced {
		l.drop(l.byPod[d.Displaced[i].Pod])
	}
	switch own := l.byPod[pod]; {
	case own != nil:
		own.ask(now)
		own.passed = d.Kind == PassClaimed
	case d.Claim != nil:
		c := *d.Claim
		c.burst = l.currentBurst(now)
		l.add(&c)
	}
	if d.Kind == Started {
		l.startRequested[d.Claim.Node] = true
		l.recordStart(d.Claim.Pool, now)
	}
	maps.Copy(l.limited, d.Limited)
	if d.Kind == Unavailable || d.Kind == NotOurs {
		l.rejected[pod] = now
	} else {
		delete(l.rejected, pod)
	}
}

// Decide judges the pod against the candidates and, where no node can take it now, promises it room
// on one that will. It implements the steps of docs/filter.md in their order, and changes nothing:
// the claims assume the decision.
func Decide(l *Claims, ask Ask, now time.Time) Decision {
	j := l.newAttempt(ask, now)
	own := l.byPod[ask.Pod.UID]
	open, refused := j.nodesInService(own)
	if own != nil && slices.Contains(open.nodes, own.Node) {
		claim := *own
		claim.passed = true
		return Decision{Kind: PassClaimed, Nodes: []v1alpha1.NodeName{own.Node}, Claim: &claim}
	}
	if len(open.nodes) > 0 {
		return Decision{Kind: Pass, Nodes: open.nodes, Refused: refused.byNode()}
	}
	if open.shared.node != nil {
		return j.claimShared(open.shared.node)
	}
	if own != nil {
		return waiting(Waiting, own, ask, &refused)
	}
	if why := mayNotStart(ask); why != "" {
		return Decision{Kind: NotOurs, Refused: refused.withPodReason(ask, why)}
	}
	if why, _ := l.OwnerBackoff(ask.Pod, now); why != "" && open.contested.node == nil {
		return Decision{Kind: Unavailable, Refused: refused.withPodReason(ask, why)}
	}
	return j.claimRoom(open.contested.node, &refused)
}

// attempt is one decision in the making. It only reads the claims.
type attempt struct {
	*Claims
	Ask
	now time.Time
	// digests is the pod with each pool's defaults, made once; last is the one of pool lastPool, for
	// the many nodes of one.
	digests    map[v1alpha1.PoolName]*fit.Pod
	lastDigest *fit.Pod
	lastPool   v1alpha1.PoolName
	// budgetMessages say of a pool that its start budget is used up.
	budgetMessages map[v1alpha1.PoolName]string
	// limited are the pools whose start budget refused the pod, and until when.
	limited map[v1alpha1.PoolName]time.Time
	// hasBudget says of each pool whether its start budget has something left; asked once, not for
	// each of thousands of candidates.
	hasBudget map[v1alpha1.PoolName]bool
	// displaced are the claims that give way to the pod.
	displaced map[types.UID]bool
	// together judges anti-affinity and spread against the pods that wait; made once, where it is
	// needed.
	together *fit.View
}

func (l *Claims) newAttempt(ask Ask, now time.Time) *attempt {
	return &attempt{
		Claims: l, Ask: ask, now: now, digests: map[v1alpha1.PoolName]*fit.Pod{}, limited: map[v1alpha1.PoolName]time.Time{},
		hasBudget: map[v1alpha1.PoolName]bool{}, budgetMessages: map[v1alpha1.PoolName]string{},
	}
}

// claimRoom goes through step 4: a draining node, a starting one, those where lower priorities
// give way, a standby one. running is the running one of those, nil for none.
func (j *attempt) claimRoom(running *Node, refused *refusals) Decision {
	options := j.options()
	switch {
	case options.draining.node != nil:
		own := j.newClaim(options.draining.node)
		// It is not returned yet: a bind that overtakes the cancellation could land under a stop intent,
		// and the instance would be stopped with the pod on it. Whether cancellation or intent came first
		// is for the API server to say.
		return waiting(Reclaimed, own, j.Ask, refused)
	case options.starting.node != nil:
		return waiting(Joined, j.newClaim(options.starting.node), j.Ask, refused)
	case running != nil:
		return j.claimShared(running)
	case options.contested.node != nil:
		displaced := j.displace(options.contested.node)
		d := waiting(Joined, j.newClaim(options.contested.node), j.Ask, refused)
		d.Displaced = displaced
		return d
	case options.standby.node != nil:
		return waiting(Started, j.newClaim(options.standby.node), j.Ask, refused)
	}
	return Decision{Kind: Unavailable, Refused: refused.withPodReason(j.Ask, options.why()), Limited: j.limited}
}

// digest is the pod as it would claim room in the node's pool.
func (j *attempt) digest(n *Node) *fit.Pod {
	if j.lastDigest != nil && n.Pool == j.lastPool {
		return j.lastDigest
	}
	d := j.digests[n.Pool]
	if d == nil {
		d = fit.NewPod(j.Pod, n.Defaults)
		j.digests[n.Pool] = d
	}
	j.lastDigest, j.lastPool = d, n.Pool
	return d
}

func (j *attempt) hasRoom(n *Node, prio int32) bool {
	d := j.digest(n)
	taken, ports := j.taken(n, prio)
	return fit.Shortage(&d.Requests, &n.Allocatable, &taken) == "" && !fit.PortsConflict(d.Ports, ports)
}

// waiting refuses every node for a pod whose claim stands. Its message hangs on the claimed node
// where that is a candidate, else on the first one.
func waiting(v Kind, own *Claim, ask Ask, refused *refusals) Decision {
	claim := *own
	d := Decision{Kind: v, Claim: &claim, Refused: refused.byNode()}
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
		// The scheduler looks at the nominated node alone before it looks at all: another node may still
		// take the pod.
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

// Preemptable decides about /preempt: whether the node, which is as the victims leave it, may lose
// them for this pod. A pod that has a claim evicts nobody. Otherwise a node is kept only if it runs
// and the pod tolerates its taints and cordon: the in-tree dry run knows neither, because the
// profile moved those filters here. Nor does it know the claims: the room of those that do not give
// way stays theirs. Where there are none, what it found stands, because it sees the pods sooner
// than we do.
func (l *Claims) Preemptable(pod *corev1.Pod, n *Node) bool {
	if !n.InService() || fit.Schedulable(pod, n.Taints, n.Unschedulable) != nil {
		return false
	}
	return len(l.on(n.Name)) == 0 || l.newAttempt(Ask{Pod: pod}, time.Time{}).hasRoom(n, corev1helpers.PodPriority(pod))
}

// HasClaim reports whether the pod has a claim.
func (l *Claims) HasClaim(pod types.UID) bool {
	_, ok := l.Of(pod)
	return ok
}
