// Package view is the cluster as decisions see it, kept current by informer events: one immutable
// decide.Node for each Node, the pods on it, the pods that wait, and the room that those are
// promised. Extender and scaler share one, so that both foresee the same.
package cluster

import (
	"errors"
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
	// gone are the pods that were seen terminating, finished or deleted of late, and when. The
	// scheduler's watch may be behind ours, so it may still ask about them.
	gone       map[types.UID]time.Time
	published  map[types.UID]v1alpha1.NodeName
	pools      map[v1alpha1.PoolName]*v1alpha1.NodePool
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
	// PodServed is told of every pod that waited, when it was seen bound or gone: see State.Served.
	PodServed func(decide.Claim, *corev1.Pod)
	// ClaimsLost is told of this replica's claims that ended although their pods still wait, for it to
	// place them anew.
	ClaimsLost func([]decide.Claim)
	// RemoteClaimLost is told of each waiting pod whose claim ended that another replica had made:
	// that one places it anew, if it is still there.
	RemoteClaimLost func(pod types.NamespacedName)
	// StorageChanged is told of each waiting pod that may fit elsewhere now, because a volume claim, a
	// volume or a class has changed.
	StorageChanged func(pod types.NamespacedName)
}

// New returns an empty view. From now on it guards the claims.
func New(ledger *decide.Claims, now func() time.Time) *State {
	return &State{
		now: now, claims: ledger,
		nodes:        map[v1alpha1.NodeName]*nodeInfo{},
		podNode:      map[types.UID]v1alpha1.NodeName{},
		pending:      map[types.UID]*corev1.Pod{},
		gone:         map[types.UID]time.Time{},
		published:    map[types.UID]v1alpha1.NodeName{},
		pools:        map[v1alpha1.PoolName]*v1alpha1.NodePool{},
		namespaces:   map[string]map[string]string{},
		storage:      newStorage(),
		sets:         map[types.NamespacedName]*appsv1.DaemonSet{},
		changedNodes: map[v1alpha1.NodeName]bool{},
		synced:       func() bool { return false },
	}
}

// Listen adds a listener. It is called before the first change arrives.
func (v *State) Listen(l Listener) { v.listeners = append(v.listeners, l) }

// Ready says why the cluster state cannot answer yet: a decision from half a cluster would start
// nodes that exist.
func (v *State) Ready() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.synced() {
		return errors.New("the extender's caches of nodes, pods, DaemonSets and node pools are not synced yet")
	}
	return nil
}

// AnyPoolNode returns the first node of a pool by name.
func (v *State) AnyPoolNode() (v1alpha1.NodeName, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first v1alpha1.NodeName
	for name, e := range v.nodes {
		if e.node != nil && e.node.InPool() && (first == "" || name < first) {
			first = name
		}
	}
	return first, first != ""
}

// PendingPod returns a pod that is bound nowhere, nil if it is not known as such.
func (v *State) PendingPod(uid types.UID) *corev1.Pod {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.pending[uid]
}

// SetNode takes in an added or changed Node.
func (v *State) SetNode(n *corev1.Node) {
	name, now := v1alpha1.NodeName(n.Name), v.now()
	v.mu.Lock()
	defer v.unlock()
	e := v.entry(name)
	before, wasOurs := v1alpha1.NodeState(""), false
	if e.node != nil {
		before, wasOurs = e.node.State, e.node.InPool()
	}
	old := e.node
	n = restorePoolLabel(e.object, n)
	e.object = n
	v.rebuildFromNode(e)
	node := e.node
	if opens(old, node) {
		v.opened = now
	}
	published, adopt := v.publish(n)
	if !node.InPool() {
		if wasOurs { // somebody took all labels of ours away: nothing will ever be said of the claims again
			v.claimsEnded(v.claims.ReleaseNode(name), now)
		}
		return
	}
	v.observe(node, before, published, now)
	v.releaseOverflow(node, now)
	for _, pod := range adopt {
		v.claims.Adopt(pod, node, now)
	}
}

// observe tells the claims the node's state, and which pods it names. The caller holds mu.
func (v *State) observe(n *decide.Node, before v1alpha1.NodeState, published []types.UID, now time.Time) {
	starts := n.State == v1alpha1.StateStarting
	if starts && before == v1alpha1.StateStandby && len(published) > 0 {
		v.claims.RecordObservedStart(n.Name, n.Pool, now)
	}
	v.claimsEnded(v.claims.ObserveNode(n.Name, before, n.State, now), now)
	if starts { // a node that runs names no pods any more, and they are bound there
		v.claimsEnded(v.claims.SetPublished(n.Name, published), now)
	}
}

// opens reports whether the node takes pods now that it did not take before.
func opens(old, n *decide.Node) bool {
	return old == nil || n.State != old.State || old.NotStartable != "" && n.NotStartable == "" ||
		old.Unschedulable && !n.Unschedulable || len(n.Taints) < len(old.Taints)
}

// SetNamespace takes in an added or changed Namespace.
func (v *State) SetNamespace(n *corev1.Namespace) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.namespaces[n.Name], v.world = n.Labels, nil
}

// DeleteNamespace takes in that a Namespace is gone.
func (v *State) DeleteNamespace(n *corev1.Namespace) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.namespaces, n.Name)
	v.world = nil
}

// DeleteNode takes in that a Node is gone.
func (v *State) DeleteNode(name v1alpha1.NodeName) {
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	if e := v.nodes[name]; e != nil {
		e.object, e.base, e.node, e.asStopped, v.world = nil, nil, nil, nil, nil
		v.unpublish(name, e)
		v.forgetIfBare(name, e)
	}
	v.claimsEnded(v.claims.ReleaseNode(name), now)
}

// SetPool takes in an added or changed NodePool: its nodes are judged by its new template.
func (v *State) SetPool(p *v1alpha1.NodePool) {
	name, now := v1alpha1.PoolName(p.Name), v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changePool(name, p) {
		v.claims.Rebudget(name, now)
	}
}

// DeletePool takes in that a NodePool is gone.
func (v *State) DeletePool(name v1alpha1.PoolName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changePool(name, nil)
	v.claims.ForgetPool(name)
}

// changePool reports whether a decision may read what has changed. The caller holds mu.
func (v *State) changePool(name v1alpha1.PoolName, p *v1alpha1.NodePool) bool {
	old := v.pools[name]
	if p == nil {
		delete(v.pools, name)
	} else {
		v.pools[name] = p
		if old != nil && old.UID == p.UID && old.Generation == p.Generation {
			return false // only the status changed, and no decision reads it
		}
	}
	for _, e := range v.nodes {
		if e.node != nil && e.node.Pool == name {
			v.rebuildFromNode(e)
		}
	}
	return true
}

// setSynced hands over the test of whether every informer has delivered what it found at first.
func (v *State) setSynced(synced func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.synced = synced
}
