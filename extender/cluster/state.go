// Package cluster is the cluster as decisions see it, kept current by informer events: one
// immutable decide.Node for each Node, the pods on it, the pending pods, and their claims. Extender
// and scaler share one, so that both foresee the same.
package cluster

import (
	"errors"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// State is safe for concurrent use. A request only looks up in it; what a change of the cluster
// makes necessary is computed when the change arrives.
//
// A pod takes up room exactly once: where it is bound or on its way, else where it has a claim. One
// lock holds that: a change of a pod moves what it takes up and ends its claim in one step, and a
// decision looks at the nodes and makes its claim in one step.
type State struct {
	now func() time.Time
	// listeners are fixed before the first change.
	listeners []Listener
	// notifications is what listeners are still to be told, in the order of the changes.
	notifications notifyQueue
	// boundPods are the bound pods, as they count on their nodes. It is written with mu held and read
	// without: most events are of such pods, and change nothing that a decision reads.
	boundPods sync.Map

	// mu guards the maps, the entries and the claims; the decide.Nodes that they point to are never
	// changed. It is never held across I/O or while a listener is told.
	mu      sync.RWMutex
	claims  *decide.Claims
	nodes   map[v1alpha1.NodeName]*nodeInfo
	podNode map[types.UID]v1alpha1.NodeName
	pending map[types.UID]*corev1.Pod
	// siblings are the same pods by their shape.
	siblings siblings
	// replicas are the controllers of pods, which may be about to create more of them.
	replicas replicas
	// gone are the pods that were seen terminating, finished or deleted recently, and when. The
	// scheduler's watch may be behind ours, so it may still ask about them.
	gone      map[types.UID]time.Time
	published map[types.UID]v1alpha1.NodeName
	pools     map[v1alpha1.PoolName]*v1alpha1.NodePool
	types     startTypes
	// poolNodes is what Pools returned last, nil where a Node or a pool has changed since.
	poolNodes  []PoolNodes
	namespaces map[string]map[string]string
	storage    storage
	// sets are the DaemonSets by name, and daemons the same, parsed and sorted by name. daemons is
	// replaced, never changed.
	sets    map[types.NamespacedName]*appsv1.DaemonSet
	daemons []*fit.Daemon
	// world is the one that was handed out last, nil where the next is to be made from nothing; moved
	// are the nodes that have changed since.
	world        *fit.World
	changedNodes map[v1alpha1.NodeName]bool
	// opened is when a node last became more open to pods than it was.
	opened time.Time
	synced func() bool
}

// Listener is told what follows from a change. Its functions may be nil and are called without a
// lock held.
type Listener struct {
	// PodServed is called for every pod that was pending, when it was seen bound or gone: see
	// State.Served.
	PodServed func(decide.Claim, *corev1.Pod)
	// ClaimsLost is called with this replica's claims that ended although their pods are still
	// pending, to place them anew.
	ClaimsLost func([]decide.Claim)
	// ClaimsOverdue is called with the claims that ended because their start was futile.
	ClaimsOverdue func([]decide.Claim)
	// RemoteClaimLost is called for each pending pod whose claim ended that another replica had made:
	// that replica places it anew, if it still runs.
	RemoteClaimLost func(pod types.NamespacedName)
	// MayFit is called for each pending pod that may fit elsewhere now, because a volume claim, a
	// volume or a class has changed, or a pool is not paused any more.
	MayFit func(pod types.NamespacedName)
	// NodeStandby is called when a node is standby that was not.
	NodeStandby func()
	// PoolPaused is called with the nodes of a pool that was paused which have claims and do not start
	// yet, as far as the cluster state shows it.
	PoolPaused func(nodes []v1alpha1.NodeName)
	// NamesOutdated is called with a starting node that still names claims which do not fit it and
	// have ended: another replica, or a new process, would count them there.
	NamesOutdated func(node v1alpha1.NodeName)
	// ReplicasClaimed is called when claims were made for replicas that an owner is still to create.
	ReplicasClaimed func(ReplicasClaimed)
	// ReplicaCame is called when a pod has taken the claim of a replica that was to come.
	ReplicaCame func(decide.Claim, *corev1.Pod)
	// ReplicasEnded is called when claims for replicas to come have ended without them.
	ReplicasEnded func(ReplicasEnded)
	// SiblingsWait is called when a pod has got a claim while pods of its shape wait, to place them
	// too. It must not block.
	SiblingsWait func(*Siblings)
}

// New returns an empty view. From now on it guards the claims.
func New(ledger *decide.Claims, now func() time.Time) *State {
	return &State{
		now: now, claims: ledger,
		nodes:        map[v1alpha1.NodeName]*nodeInfo{},
		podNode:      map[types.UID]v1alpha1.NodeName{},
		pending:      map[types.UID]*corev1.Pod{},
		siblings:     newSiblings(),
		replicas:     newReplicas(),
		gone:         map[types.UID]time.Time{},
		published:    map[types.UID]v1alpha1.NodeName{},
		pools:        map[v1alpha1.PoolName]*v1alpha1.NodePool{},
		types:        newStartTypes(),
		namespaces:   map[string]map[string]string{},
		storage:      newStorage(),
		sets:         map[types.NamespacedName]*appsv1.DaemonSet{},
		changedNodes: map[v1alpha1.NodeName]bool{},
		synced:       func() bool { return false },
	}
}

// Listen adds a listener. It is called before the first change arrives.
func (s *State) Listen(l Listener) { s.listeners = append(s.listeners, l) }

// Ready says why the cluster state cannot answer yet: a decision from half a cluster would start
// nodes that exist.
func (s *State) Ready() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.synced() {
		return errors.New("the extender's caches of nodes, pods, DaemonSets and node pools are not synced yet")
	}
	return nil
}

// AnyPoolNode returns the first node of a pool by name.
func (s *State) AnyPoolNode() (v1alpha1.NodeName, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var first v1alpha1.NodeName
	for name, e := range s.nodes {
		if e.node != nil && e.node.InPool() && (first == "" || name < first) {
			first = name
		}
	}
	return first, first != ""
}

// PendingPod returns a pod that is bound nowhere, nil if it is not known as such.
func (s *State) PendingPod(uid types.UID) *corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pending[uid]
}

// SetNode takes in an added or changed Node.
func (s *State) SetNode(n *corev1.Node) {
	name, now := v1alpha1.NodeName(n.Name), s.now()
	s.mu.Lock()
	defer s.unlock()
	e := s.entry(name)
	before, wasOurs := v1alpha1.NodeState(""), false
	if e.node != nil {
		before, wasOurs = e.node.State, e.node.InPool()
	}
	old := e.node
	n = restorePoolLabel(e.object, n)
	reports := e.reports(e.object, n)
	s.types.nodeChanged(e.object, n)
	s.typeServes(e.object, n)
	e.object = n
	s.rebuildFromNode(e)
	node := e.node
	if opens(old, node) {
		s.opened = now
	}
	if node.State == v1alpha1.StateStandby && before != v1alpha1.StateStandby {
		s.tellStandby()
	}
	published, adopt, slotsOf := s.publish(n)
	if !node.InPool() {
		if wasOurs { // all our labels were removed: nothing will ever be said of the claims again
			s.claimsEnded(s.claims.ReleaseNode(name), now)
		}
		return
	}
	s.observe(node, before, published, now)
	s.releaseOverflow(node, now)
	for _, pod := range adopt {
		s.adopt(pod, name, now)
	}
	s.releaseMisfits(old, node, now) // also claims that the Node names
	for _, o := range slotsOf {
		s.adoptSlots(o, now)
	}
	if reports || showsType(node.State) && !showsType(before) {
		s.typeShown(e, now)
	}
}

// observe tells the claims the node's state, and which pods it names. The caller holds mu.
func (s *State) observe(n *decide.Node, before v1alpha1.NodeState, published []types.UID, now time.Time) {
	starts := n.State == v1alpha1.StateStarting
	if starts && before == v1alpha1.StateStandby && len(published) > 0 {
		s.claims.RecordObservedStart(n.Name, n.Pool, now)
	}
	s.claimsEnded(s.claims.ObserveNode(n.Name, before, n.State, now), now)
	if starts { // a node that runs names no pods any more, and they are bound there
		s.claimsEnded(s.claims.SetPublished(n.Name, published), now)
	}
}

// opens reports whether the node takes pods now that it did not take before.
func opens(old, n *decide.Node) bool {
	return old == nil || n.State != old.State || old.NotStartable != "" && n.NotStartable == "" ||
		old.Unschedulable && !n.Unschedulable || len(n.Taints) < len(old.Taints)
}

// SetNamespace takes in an added or changed Namespace.
func (s *State) SetNamespace(n *corev1.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces[n.Name], s.world = n.Labels, nil
}

// DeleteNamespace takes in that a Namespace is gone.
func (s *State) DeleteNamespace(n *corev1.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces, n.Name)
	s.world = nil
}

// DeleteNode takes in that a Node is gone.
func (s *State) DeleteNode(name v1alpha1.NodeName) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	if e := s.nodes[name]; e != nil {
		e.object, e.base, e.node, e.asStopped, s.world, s.poolNodes = nil, nil, nil, nil, nil, nil
		s.unpublish(name, e)
		s.forgetIfBare(name, e)
		s.types.nodeGone(name)
	}
	s.claimsEnded(s.claims.ReleaseNode(name), now)
}

// SetPool takes in an added or changed NodePool: its nodes are checked with its new template.
func (s *State) SetPool(p *v1alpha1.NodePool) {
	name, now := v1alpha1.PoolName(p.Name), s.now()
	s.mu.Lock()
	defer s.unlock()
	if usual := p.Status.StartSeconds; usual != nil {
		s.claims.SetReadyIn(name, time.Duration(usual.P50)*time.Second)
	}
	was := s.pools[name] != nil && s.pools[name].IsPaused()
	if s.changePool(name, p) {
		s.claims.Rebudget(name, now)
	}
	switch is := p.IsPaused(); {
	case is && !was:
		s.tellPaused(name)
	case was && !is:
		s.claims.Retry(name, now)
		s.tellMayFit(func(*corev1.Pod) bool { return true })
	}
}

// tellPaused tells the listeners of the pool's nodes with claims that do not start yet. The caller
// holds mu.
func (s *State) tellPaused(pool v1alpha1.PoolName) {
	var nodes []v1alpha1.NodeName
	for name, e := range s.nodes {
		if e.node != nil && e.node.Pool == pool && e.node.State == v1alpha1.StateStandby && len(s.claims.On(name)) > 0 {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	for _, l := range s.listeners {
		if l.PoolPaused != nil && len(nodes) > 0 {
			s.notifications.add(func() { l.PoolPaused(nodes) })
		}
	}
}

// tellStandby tells the listeners that a node has become standby. The caller holds mu.
func (s *State) tellStandby() {
	for _, l := range s.listeners {
		if l.NodeStandby != nil {
			s.notifications.add(l.NodeStandby)
		}
	}
}

// tellMayFit tells the listeners of pending pods that may fit elsewhere now. The caller holds mu.
func (s *State) tellMayFit(concerns func(*corev1.Pod) bool) {
	for _, p := range s.pending {
		if !concerns(p) {
			continue
		}
		for _, l := range s.listeners {
			if l.MayFit != nil {
				s.notifications.add(func() { l.MayFit(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}) })
			}
		}
	}
}

// DeletePool takes in that a NodePool is gone.
func (s *State) DeletePool(name v1alpha1.PoolName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changePool(name, nil)
	s.claims.ForgetPool(name)
}

// changePool reports whether a decision may read what has changed. The caller holds mu.
func (s *State) changePool(name v1alpha1.PoolName, p *v1alpha1.NodePool) bool {
	s.poolNodes = nil
	old := s.pools[name]
	if p == nil {
		delete(s.pools, name)
	} else {
		s.pools[name] = p
		if old != nil && old.UID == p.UID && old.Generation == p.Generation && old.IsPaused() == p.IsPaused() {
			return false // only the status or other annotations changed, and no decision reads them
		}
	}
	for _, e := range s.nodes {
		if e.node != nil && e.node.Pool == name {
			s.rebuildFromNode(e)
		}
	}
	return true
}

// setSynced hands over the test of whether every informer has delivered what it found at first.
func (s *State) setSynced(synced func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = synced
}
