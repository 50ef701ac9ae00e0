// Package view is the cluster as decisions see it, kept current by informer events: one immutable
// claim.Node for each Node, the pods on it, the pods that wait, and the room that those are
// promised. Extender and scaler share one, so that both foresee the same.
package view

import (
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// View is safe for concurrent use. A request only looks up in it; what a change of the cluster
// makes necessary is computed when the change arrives.
//
// A pod takes up room exactly once: where it is bound or on its way, else where it has a claim. One
// lock holds that: a change of a pod moves what it takes up and ends its claim in one step, and a
// decision looks at the nodes and makes its claim in one step.
type View struct {
	now func() time.Time
	// listeners are fixed before the first change.
	listeners []Listener
	// told is what listeners are still to be told, in the order of the changes.
	told queue
	// settled are the bound pods, as they count on their nodes. It is written with mu held and read
	// without: most events are of such pods, and change nothing that a decision reads.
	settled sync.Map

	// mu guards the maps, the entries and the ledger; the claim.Nodes that they point to are never
	// changed. It is never held across I/O or while a listener is told.
	mu      sync.RWMutex
	ledger  *claim.Ledger
	nodes   map[v1alpha1.NodeName]*entry
	on      map[types.UID]v1alpha1.NodeName
	waiting map[types.UID]*corev1.Pod
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
	world *fit.World
	moved map[v1alpha1.NodeName]bool
	// opened is when a node last became more open to pods than it was.
	opened time.Time
	synced func() bool
}

// Listener is told what follows from a change. Its functions may be nil and are called without a
// lock held.
type Listener struct {
	// Bound is told of every pod that waited, when it was seen bound or gone: see View.Served.
	Bound func(claim.Claim, *corev1.Pod)
	// Homeless is told of this replica's claims that ended although their pods still wait, for it to
	// place them anew.
	Homeless func([]claim.Claim)
	// Orphaned is told of each waiting pod whose claim ended that another replica had made: that one
	// places it anew, if it is still there.
	Orphaned func(pod types.NamespacedName)
	// Storage is told of each waiting pod that may fit elsewhere now, because a volume claim, a volume
	// or a class has changed.
	Storage func(pod types.NamespacedName)
}

// New returns an empty view. From now on it guards the ledger.
func New(ledger *claim.Ledger, now func() time.Time) *View {
	return &View{
		now: now, ledger: ledger,
		nodes:      map[v1alpha1.NodeName]*entry{},
		on:         map[types.UID]v1alpha1.NodeName{},
		waiting:    map[types.UID]*corev1.Pod{},
		gone:       map[types.UID]time.Time{},
		published:  map[types.UID]v1alpha1.NodeName{},
		pools:      map[v1alpha1.PoolName]*v1alpha1.NodePool{},
		namespaces: map[string]map[string]string{},
		storage:    newStorage(),
		sets:       map[types.NamespacedName]*appsv1.DaemonSet{},
		moved:      map[v1alpha1.NodeName]bool{},
		synced:     func() bool { return false },
	}
}

// Listen adds a listener. It is called before the first change arrives.
func (v *View) Listen(l Listener) { v.listeners = append(v.listeners, l) }

// Ready says why the view cannot answer yet: a decision from half a cluster would start nodes that
// exist.
func (v *View) Ready() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.synced() {
		return errors.New("the extender's caches of nodes, pods, DaemonSets and node pools are not synced yet")
	}
	return nil
}

// AnyOfOurs returns the first node of a pool by name.
func (v *View) AnyOfOurs() (v1alpha1.NodeName, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first v1alpha1.NodeName
	for name, e := range v.nodes {
		if e.node != nil && e.node.Ours() && (first == "" || name < first) {
			first = name
		}
	}
	return first, first != ""
}

// Waiting returns a pod that is bound nowhere, nil if it is not known as such.
func (v *View) Waiting(uid types.UID) *corev1.Pod {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.waiting[uid]
}

// SetNode takes in an added or changed Node.
func (v *View) SetNode(n *corev1.Node) {
	name, now := v1alpha1.NodeName(n.Name), v.now()
	v.mu.Lock()
	defer v.unlock()
	e := v.entry(name)
	before, wasOurs := v1alpha1.NodeState(""), false
	if e.node != nil {
		before, wasOurs = e.node.State, e.node.Ours()
	}
	old := e.node
	n = stillOurs(e.object, n)
	e.object = n
	v.remake(e)
	node := e.node
	if opens(old, node) {
		v.opened = now
	}
	published, adopt := v.publish(n)
	if !node.Ours() {
		if wasOurs { // somebody took all labels of ours away: nothing will ever be said of the claims again
			v.ended(v.ledger.Failed(name), now)
		}
		return
	}
	v.observe(node, before, published, now)
	v.squeeze(node, now)
	for _, pod := range adopt {
		v.ledger.Adopt(pod, node, now)
	}
}

// observe tells the ledger of the node's state, and which pods it names. The caller holds mu.
func (v *View) observe(n *claim.Node, before v1alpha1.NodeState, published []types.UID, now time.Time) {
	starts := n.State == v1alpha1.StateStarting
	if starts && before == v1alpha1.StateStandby && len(published) > 0 {
		v.ledger.SawStart(n.Name, n.Pool, now)
	}
	v.ended(v.ledger.Observe(n.Name, before, n.State, now), now)
	if starts { // a node that runs names no pods any more, and they are bound there
		v.ended(v.ledger.Published(n.Name, published), now)
	}
}

// opens reports whether the node takes pods now that it did not take before.
func opens(old, n *claim.Node) bool {
	return old == nil || n.State != old.State || old.KeptBack != "" && n.KeptBack == "" ||
		old.Unschedulable && !n.Unschedulable || len(n.Taints) < len(old.Taints)
}

// SetNamespace takes in an added or changed Namespace.
func (v *View) SetNamespace(n *corev1.Namespace) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.namespaces[n.Name], v.world = n.Labels, nil
}

// DeleteNamespace takes in that a Namespace is gone.
func (v *View) DeleteNamespace(n *corev1.Namespace) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.namespaces, n.Name)
	v.world = nil
}

// DeleteNode takes in that a Node is gone.
func (v *View) DeleteNode(name v1alpha1.NodeName) {
	now := v.now()
	v.mu.Lock()
	defer v.unlock()
	if e := v.nodes[name]; e != nil {
		e.object, e.bare, e.node, e.resting, v.world = nil, nil, nil, nil, nil
		v.unpublish(name, e)
		v.forgetIfBare(name, e)
	}
	v.ended(v.ledger.Failed(name), now)
}

// SetPool takes in an added or changed NodePool: its nodes are judged by its new template.
func (v *View) SetPool(p *v1alpha1.NodePool) {
	name, now := v1alpha1.PoolName(p.Name), v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changePool(name, p) {
		v.ledger.Rebudget(name, now)
	}
}

// DeletePool takes in that a NodePool is gone.
func (v *View) DeletePool(name v1alpha1.PoolName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changePool(name, nil)
	v.ledger.ForgetPool(name)
}

// changePool reports whether a decision may read what has changed. The caller holds mu.
func (v *View) changePool(name v1alpha1.PoolName, p *v1alpha1.NodePool) bool {
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
			v.remake(e)
		}
	}
	return true
}

// setSynced hands over the test of whether every informer has delivered what it found at first.
func (v *View) setSynced(synced func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.synced = synced
}
