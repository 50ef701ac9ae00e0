package decide

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Path is how a pending pod comes to its node; the metric label of stratos_pod_startup_seconds.
type Path string

// The paths.
const (
	// PathStandby: the node is started from standby.
	PathStandby Path = "standby"
	// PathReclaimed: the drain of the node is cancelled for the pod.
	PathReclaimed Path = "reclaimed"
	// PathPromoted: the node opens at the end of a warm-up that had begun before the pod was created.
	PathPromoted Path = "promoted"
	// PathCold: the instance is launched after the pod was created.
	PathCold Path = "cold"
)

// Claim is room on a node that is reserved for a pending pod.
type Claim struct {
	Pod      types.UID
	Ref      PodRef
	Node     v1alpha1.NodeName
	Pool     v1alpha1.PoolName
	Priority int32
	Since    time.Time
	// Message is what the scheduler is told while the claim stands. It never changes: a changed
	// message would make every attempt a write to the pod.
	Message string
	// LastAsked is when the scheduler last asked about the pod.
	LastAsked time.Time
	// Path is how the pod comes to the node.
	Path Path
	// Adopted: another replica made the claim and published it, or this one before it was started
	// anew.
	Adopted bool
	// Ahead: the claim was made before the pod's scheduler asked about it, and it has not asked yet.
	Ahead bool
	// RunningSince is when the node was first seen running under this claim; zero before.
	RunningSince time.Time
	// NominatedAt is when Stratos last nominated the pod to the node under this claim.
	NominatedAt time.Time

	// Slot is the name of the replica to come that the claim was made for; "" where it was made for a
	// pod.
	Slot types.UID

	// published: the Node was seen to name the claim.
	published bool
	// digest is the pod with the pool's defaults; owner is what backs off after a futile start.
	digest *fit.Pod
	owner  types.UID
	// passed: the scheduler was told last that the claimed node takes the pod now, so it is being
	// bound there.
	passed bool
	// nominated: the pod is on its way to the node through a slow PreBind, and the cluster state
	// counts it as Used.
	nominated bool
	burst     *burst
}

// PodRef names a pod, for events.
type PodRef struct {
	Namespace, Name string
	UID             types.UID
}

// Claims holds the claims of one process, and what else a decision has to remember. Its owner
// guards it: see cluster.State.
type Claims struct {
	// byPod are the claims by their pods, those for replicas to come by their slots.
	byPod  map[types.UID]*Claim
	byNode map[v1alpha1.NodeName]*nodeClaims
	// slots are the claims that have one, by owner and number.
	slots map[types.UID]map[int]*Claim
	// antiAffinityClaims counts the claims whose pods keep others away: without any, most pods need no
	// look at the others.
	antiAffinityClaims int
	// startRequested are the standby nodes whose start was asked and whose state does not show it yet.
	// Without it a second pod would see standby and ask again.
	startRequested map[v1alpha1.NodeName]bool
	// backingOff are the nodes whose start failed, and until when they are left alone. The Node says
	// the same, but the cluster state may not show it yet when their pods are placed anew, a moment
	// later.
	backingOff map[v1alpha1.NodeName]time.Time
	// unavailable are the offerings of which the cloud had none, and until when they are left alone.
	unavailable backoffs[Offering]
	// reservationsHeld is when instances may leave their reservations again: the cloud did not allow
	// Stratos to have them.
	reservationsHeld time.Time
	// starts are the times of the starts within BudgetWindow, per pool, oldest first.
	starts map[v1alpha1.PoolName][]time.Time
	// counted are the starts among them, by node, that the cloud has not been seen to accept.
	counted map[v1alpha1.NodeName]countedStart
	// limited are the pools whose budget kept a pod waiting, and until when.
	limited map[v1alpha1.PoolName]time.Time
	// futileOwners remembers the owners of pods whose node ran and that were not bound to it.
	futileOwners backoffs[types.UID]
	// futileReplicas remembers the owners of which replicas did not come that nodes were started for.
	futileReplicas backoffs[types.UID]
	// overflowed are the pods that lost a claim to pods that had none, see recordOverflow.
	// futileOverflows are the claims that were the second of their pod or a later one to end so, until
	// Overdue returns them.
	overflowed      map[types.UID]bool
	futileOverflows []Claim
	// rejected are the pods that were refused and got no claim, and when they were last asked about.
	rejected map[types.UID]time.Time
	// passing are the pods whose scheduler was told last that nodes without claims take them now, and
	// when: it binds them to one of those.
	passing map[types.UID]time.Time
	// readyIn is how long a start usually takes, per pool; it only words messages.
	readyIn map[v1alpha1.PoolName]time.Duration
	// burst is that of the claim that was made last.
	burst *burst
}

// nodeClaims are the claims on one node and what they sum up to.
type nodeClaims struct {
	claims map[types.UID]*Claim
	sum    fit.Resources
	// joined: a pod without a claim here was bound to the node since a claim last lost its room. Pods
	// of DaemonSets do not count.
	joined bool
}

const (
	// claimGrace is how long a claimed pod may stay unbound on its running node before the start
	// counts as futile, unless others of its burst are still being served.
	claimGrace = 30 * time.Second
	// futileFirst and futileMost bound the backoff of a pod whose start was futile.
	futileFirst = time.Minute
	futileMost  = 30 * time.Minute
	// IntentTime is how long a claim may wait for a write to its Node: the start intent, or the end of
	// the drain.
	IntentTime = 30 * time.Second
	// lag is how far our watch of a Node is behind the scheduler's where nothing is wrong. Not longer:
	// in a burst some pod is asked about all the time.
	lag = 25 * time.Millisecond
	// missedWindow is how far our view of the cluster may be behind the scheduler's.
	missedWindow = 10 * time.Second
	// BudgetWindow is the time over which scaleUp.startBudget bounds the starts of a pool.
	BudgetWindow = 5 * time.Minute
)

// NewClaims returns no claims.
func NewClaims() *Claims {
	return &Claims{
		byPod:          map[types.UID]*Claim{},
		byNode:         map[v1alpha1.NodeName]*nodeClaims{},
		slots:          map[types.UID]map[int]*Claim{},
		startRequested: map[v1alpha1.NodeName]bool{},
		counted:        map[v1alpha1.NodeName]countedStart{},
		backingOff:     map[v1alpha1.NodeName]time.Time{},
		unavailable:    newBackoffs[Offering](offeringBackoffFirst, offeringBackoffMax),
		starts:         map[v1alpha1.PoolName][]time.Time{},
		limited:        map[v1alpha1.PoolName]time.Time{},
		futileOwners:   newBackoffs[types.UID](futileFirst, futileMost),
		futileReplicas: newBackoffs[types.UID](futileFirst, futileMost),
		overflowed:     map[types.UID]bool{},
		rejected:       map[types.UID]time.Time{},
		passing:        map[types.UID]time.Time{},
		readyIn:        map[v1alpha1.PoolName]time.Duration{},
	}
}

// Release ends the pod's claim because the pod is bound to the given node, or gone ("" then). It
// reports whether there was one. A pod that was bound to its claimed node ends the backoff of its
// owner after futile starts.
func (l *Claims) Release(pod types.UID, bound v1alpha1.NodeName, now time.Time) (Claim, bool) {
	delete(l.rejected, pod)
	delete(l.passing, pod)
	delete(l.overflowed, pod)
	c, ok := l.byPod[pod]
	if !ok {
		return Claim{}, false
	}
	if bound == c.Node {
		delete(l.futileOwners.byKey, c.owner)
	}
	if bound != "" {
		c.burst.progress = now
	}
	l.drop(c)
	return *c, true
}

// RecordBound takes in that a pod was bound to a node. It is called before the pod's claim ends.
func (l *Claims) RecordBound(pod *corev1.Pod, node v1alpha1.NodeName) {
	p := l.byNode[node]
	if p != nil && p.claims[pod.UID] == nil && !ownedByDaemonSet(pod) {
		p.joined = true
	}
}

// ReleaseNode ends all claims on a node because it will not run, and returns them sorted, for their
// pods to be placed anew.
func (l *Claims) ReleaseNode(node v1alpha1.NodeName) []Claim {
	l.neverRequested(node)
	return l.dropAll(node)
}

// neverRequested takes in that the start of a node that was asked for is not going to be made.
func (l *Claims) neverRequested(node v1alpha1.NodeName) {
	if l.startRequested[node] {
		delete(l.startRequested, node)
		l.uncountStart(node)
	}
}

// ObserveNode tells the claims which state a node shows now, and where it showed another one
// before. It returns the claims that ended because the node left the way to running.
func (l *Claims) ObserveNode(node v1alpha1.NodeName, before, state v1alpha1.NodeState, now time.Time) []Claim {
	if state != v1alpha1.StateStandby {
		delete(l.startRequested, node)
	}
	l.settleStart(node, before, state)
	switch state {
	case v1alpha1.StateRunning:
		delete(l.backingOff, node)
		for _, c := range l.on(node) {
			if c.RunningSince.IsZero() {
				c.RunningSince = now
			}
		}
	case v1alpha1.StateStandby:
		// starting -> standby is a start that failed, and running -> standby a stop by others. standby ->
		// standby says nothing: the intent may not show yet.
		if before == v1alpha1.StateStarting || before == v1alpha1.StateRunning {
			return l.dropAll(node)
		}
	case v1alpha1.StateStopping:
		// stopping -> stopping says nothing: the claim may be what cancels the stop.
		if before != v1alpha1.StateStopping {
			return l.dropAll(node)
		}
	case v1alpha1.StateStarting:
		if before == v1alpha1.StateRunning { // it was stopped by others, and is started again since
			return l.dropAll(node)
		}
	default: // terminating, warming up again, or no state that we know
		return l.dropAll(node)
	}
	return nil
}

// settleStart takes in whether the cloud has accepted the node's last start: a node that it started
// has to be stopped before it is standby again.
func (l *Claims) settleStart(node v1alpha1.NodeName, before, state v1alpha1.NodeState) {
	switch {
	case state == v1alpha1.StateStandby && before == v1alpha1.StateStarting:
		l.uncountStart(node)
	case state != v1alpha1.StateStandby && state != v1alpha1.StateStarting:
		delete(l.counted, node)
	}
}

// SetPublished takes in the claims that the annotation of a starting Node names. It returns the
// claims that it named before and does not name any more: another replica has released them, or
// given their room to another pod.
func (l *Claims) SetPublished(node v1alpha1.NodeName, names []types.UID) []Claim {
	var ended []Claim
	for _, c := range l.claimsOn(node) {
		named, standing := slices.Contains(names, c.PublishedAs()), l.byPod[c.Pod]
		if c.published && !named {
			l.drop(standing)
			ended = append(ended, c)
		}
		standing.published = named
	}
	return ended
}

// RecordObservedStart takes in that the node of the pool was standby and starts now for pods that
// have claims. A start that another replica asked for uses up the budget too: each replica has to
// know what the pool may start.
func (l *Claims) RecordObservedStart(node v1alpha1.NodeName, pool v1alpha1.PoolName, now time.Time) {
	// Otherwise the start is ours, and has failed before the cluster state showed it.
	if !l.startRequested[node] && !now.Before(l.backingOff[node]) {
		l.recordStart(node, pool, now)
	}
}

// Overdue ends the claims whose node has been running for claimGrace without their pod being bound:
// the start was futile. While pods of the same burst are still being asked about for the first time
// or bound, the scheduler may not have reached the others yet: their time is extended, to graceMost
// at most. The owners of the pods back off for a minute, doubling to half an hour. It returns the
// claims that ReleaseOverflow found futile since the last call, then the ended claims, sorted.
func (l *Claims) Overdue(now time.Time) []Claim {
	var over []Claim
	for _, c := range l.byPod {
		if c.overdue(now) {
			over = append(over, *c)
		}
	}
	sortClaims(over)
	for i := range over {
		l.drop(l.byPod[over[i].Pod])
		l.futileOwners.fail(over[i].owner, now) // pods of one owner that are overdue together are one failure
	}
	over, l.futileOverflows = append(l.futileOverflows, over...), nil
	return over
}

// SetNominated tells the claims which node a pod that is not bound yet is nominated to, "" for
// none. A pod that is on its way to its claimed node is neither overdue there nor counted twice.
func (l *Claims) SetNominated(pod types.UID, node v1alpha1.NodeName) {
	if c, ok := l.byPod[pod]; ok {
		c.nominated = c.Node == node
	}
}

// RecordNomination takes in that Stratos has nominated the pod to the node, where it has its claim
// there still.
func (l *Claims) RecordNomination(pod types.UID, node v1alpha1.NodeName, now time.Time) {
	if c, ok := l.byPod[pod]; ok && c.Node == node {
		c.NominatedAt = now
	}
}

// Unasked returns the nodes, sorted, that have been running for at least wait and hold a claim
// whose pod the scheduler has not asked about since. Where it asked within lag before, it saw the
// node run sooner than we did: that ask was its answer to the very event, we refused it, and it
// will not ask again by itself. Such nodes are returned at once.
func (l *Claims) Unasked(now time.Time, wait time.Duration) []v1alpha1.NodeName {
	var nodes []v1alpha1.NodeName
	for name, p := range l.byNode {
		for _, c := range p.claims {
			if c.ToCome() || c.RunningSince.IsZero() || !c.LastAsked.Before(c.RunningSince) {
				continue
			}
			if c.RunningSince.Sub(c.LastAsked) < lag || now.Sub(c.RunningSince) >= wait {
				nodes = append(nodes, name)
				break
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Late returns the nodes, sorted, with a claim that was made IntentTime ago, and that have not been
// seen running since.
func (l *Claims) Late(now time.Time) []v1alpha1.NodeName {
	var nodes []v1alpha1.NodeName
	for _, c := range l.byPod {
		if c.RunningSince.IsZero() && now.Sub(c.Since) >= IntentTime {
			nodes = append(nodes, c.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// On returns the claims on a node, sorted by pod.
func (l *Claims) On(node v1alpha1.NodeName) []Claim {
	return l.claimsOn(node)
}

// Of returns the pod's claim.
func (l *Claims) Of(pod types.UID) (Claim, bool) {
	if c, ok := l.byPod[pod]; ok {
		return *c, true
	}
	return Claim{}, false
}

// HasClaim reports whether the pod has a claim.
func (l *Claims) HasClaim(pod types.UID) bool {
	_, ok := l.Of(pod)
	return ok
}

// PendingPerPool returns how many claims stand on nodes that do not run yet, per pool.
func (l *Claims) PendingPerPool() map[v1alpha1.PoolName]int {
	out := map[v1alpha1.PoolName]int{}
	for _, c := range l.byPod {
		if c.RunningSince.IsZero() {
			out[c.Pool]++
		}
	}
	return out
}

// Count returns the number of claims.
func (l *Claims) Count() int {
	return len(l.byPod)
}

// SetReadyIn records how long a start of the pool usually takes.
func (l *Claims) SetReadyIn(pool v1alpha1.PoolName, d time.Duration) {
	l.readyIn[pool] = d
}

func (l *Claims) add(c *Claim) {
	l.byPod[c.Pod] = c
	if owner, number, ok := OwnerOfSlot(c.Slot); ok {
		if l.slots[owner] == nil {
			l.slots[owner] = map[int]*Claim{}
		}
		l.slots[owner][number] = c
	}
	p := l.byNode[c.Node]
	if p == nil {
		p = &nodeClaims{claims: map[types.UID]*Claim{}}
		l.byNode[c.Node] = p
	}
	p.claims[c.Pod] = c
	p.sum.Add(c.digest.Requests)
	if len(c.digest.AntiAffinity) > 0 {
		l.antiAffinityClaims++
	}
}

func (l *Claims) drop(c *Claim) {
	delete(l.byPod, c.Pod)
	if owner, number, ok := OwnerOfSlot(c.Slot); ok {
		if delete(l.slots[owner], number); len(l.slots[owner]) == 0 {
			delete(l.slots, owner)
		}
	}
	p := l.byNode[c.Node]
	delete(p.claims, c.Pod)
	p.sum.Sub(c.digest.Requests)
	if len(p.claims) == 0 {
		delete(l.byNode, c.Node)
	}
	if len(c.digest.AntiAffinity) > 0 {
		l.antiAffinityClaims--
	}
}

// on gives the claims on a node, in no order.
func (l *Claims) on(node v1alpha1.NodeName) map[types.UID]*Claim {
	if p := l.byNode[node]; p != nil {
		return p.claims
	}
	return nil
}

func (l *Claims) dropAll(node v1alpha1.NodeName) []Claim {
	claims := l.claimsOn(node)
	for i := range claims {
		l.drop(l.byPod[claims[i].Pod])
	}
	return claims
}

func (l *Claims) claimsOn(node v1alpha1.NodeName) []Claim {
	claims := make([]Claim, 0, len(l.on(node)))
	for _, c := range l.on(node) {
		claims = append(claims, *c)
	}
	sortClaims(claims)
	return claims
}

func sortClaims(claims []Claim) {
	slices.SortFunc(claims, func(a, b Claim) int { return strings.Compare(string(a.Pod), string(b.Pod)) })
}

// Object is a pod of that name, to report events on.
func (r PodRef) Object() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: r.UID},
	}
}
