// Package view is the cluster as decisions see it, kept current by informer events: one immutable claim.Node for each
// Node, the pods on it, the pods that wait. Extender and scaler share one, so that both foresee the same.
package view

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// View is safe for concurrent use. A request only looks up in it; what a change of the cluster makes necessary is
// computed when the change arrives. It tells the ledger what ends claims, and Listener what follows.
type View struct {
	ledger *claim.Ledger
	now    func() time.Time
	// listeners are fixed before the first change.
	listeners []Listener

	// mu guards the maps and the entries; the claim.Nodes that they point to are never changed.
	mu         sync.RWMutex
	nodes      map[v1alpha1.NodeName]*entry
	on         map[types.UID]v1alpha1.NodeName
	waiting    map[types.UID]*corev1.Pod
	published  map[types.UID]v1alpha1.NodeName
	pools      map[v1alpha1.PoolName]*v1alpha1.NodePool
	namespaces map[string]map[string]string
	storage    storage
	// world is made when it is asked for, and nil once something in it has changed.
	world *fit.World
	// opened is when a node last became more open to pods than it was.
	opened time.Time
	synced func() bool
}

// Listener is told what follows from a change. Its functions may be nil and are called without a lock held.
type Listener struct {
	// Bound is told of every pod that had a claim when it was seen bound or gone.
	Bound func(claim.Claim, *corev1.Pod)
	// Homeless is told of claims that ended although their pods still wait, for this replica to place them anew.
	Homeless func([]claim.Claim)
	// Orphaned is told of each waiting pod whose claim ended that another replica had made: that one places it anew, if it is still there.
	Orphaned func(pod types.NamespacedName)
	// Storage is told of each waiting pod that may fit elsewhere now, because a volume claim, a volume or a class has changed.
	Storage func(pod types.NamespacedName)
}

// entry may exist before its Node does: informers of pods and Nodes keep no order between them.
type entry struct {
	object *corev1.Node
	pods   map[types.UID]occupant
	node   *claim.Node
	// resting is the node with the taints that stand now, as other pods' topology sees it.
	resting *fit.Node
	// published are the pods that the Node says are promised room on it.
	published []types.UID
}

type occupant struct {
	requests fit.Resources
	ports    []fit.HostPort
	placed   *fit.Placed
}

// New returns an empty view.
func New(ledger *claim.Ledger, now func() time.Time) *View {
	return &View{
		ledger: ledger, now: now,
		nodes:      map[v1alpha1.NodeName]*entry{},
		on:         map[types.UID]v1alpha1.NodeName{},
		waiting:    map[types.UID]*corev1.Pod{},
		published:  map[types.UID]v1alpha1.NodeName{},
		pools:      map[v1alpha1.PoolName]*v1alpha1.NodePool{},
		namespaces: map[string]map[string]string{},
		storage:    newStorage(),
		synced:     func() bool { return false },
	}
}

// Listen adds a listener. It is called before the first change arrives.
func (v *View) Listen(l Listener) { v.listeners = append(v.listeners, l) }

// Ready says why the view cannot answer yet: a decision from half a cluster would start nodes that exist.
func (v *View) Ready() error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.synced() {
		return errors.New("the extender's caches of nodes, pods and node pools are not synced yet")
	}
	return nil
}

// Candidates looks up the named nodes, in the given order. Names that the view does not know are left out: such a node
// is newer than our watch, and the scheduler asks again.
func (v *View) Candidates(names []string) []*claim.Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]*claim.Node, 0, len(names))
	for _, name := range names {
		if e := v.nodes[v1alpha1.NodeName(name)]; e != nil && e.node != nil {
			out = append(out, e.node)
		}
	}
	return out
}

// World returns all nodes with the pods on them. It is not changed afterwards.
func (v *View) World() *fit.World {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.world != nil {
		return v.world
	}
	w := &fit.World{Nodes: make([]*fit.Node, 0, len(v.nodes)), Namespaces: maps.Clone(v.namespaces)}
	for _, e := range v.nodes {
		switch {
		case e.node == nil:
		case e.node.Ordinary() || e.node.State == v1alpha1.StateStarting:
			w.Nodes = append(w.Nodes, &e.node.Node)
		default:
			w.Nodes = append(w.Nodes, e.resting)
		}
	}
	slices.SortFunc(w.Nodes, func(a, b *fit.Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	v.world = w
	return w
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
	name := v1alpha1.NodeName(n.Name)
	v.mu.Lock()
	e := v.entry(name)
	before, wasOurs := v1alpha1.NodeState(""), false
	if e.node != nil {
		before, wasOurs = e.node.State, e.node.Ours()
	}
	old := e.node
	n = stillOurs(e.object, n)
	e.object = n
	v.rebuild(e)
	node := e.node
	if opens(old, node) {
		v.opened = v.now()
	}
	adopt := v.publish(n)
	v.mu.Unlock()
	if !node.Ours() {
		if wasOurs { // somebody took all labels of ours away: nothing will ever be said of the claims again
			v.ended(v.ledger.Failed(name))
		}
		return
	}
	v.ended(v.ledger.Observe(name, before, node.State, v.now()))
	v.ended(v.ledger.Squeeze(node))
	for _, pod := range adopt {
		v.ledger.Adopt(pod, node, v.now())
	}
}

// opens reports whether the node takes pods now that it did not take before.
func opens(old, n *claim.Node) bool {
	return old == nil || n.State != old.State || old.KeptBack != "" && n.KeptBack == "" ||
		old.Unschedulable && !n.Unschedulable || len(n.Taints) < len(old.Taints)
}

// Opened returns when some node last became more open to pods than it was.
func (v *View) Opened() time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.opened
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
	v.mu.Lock()
	if e := v.nodes[name]; e != nil {
		e.object, e.node, e.resting, v.world = nil, nil, nil, nil
		v.forgetIfBare(name, e)
	}
	v.mu.Unlock()
	v.ended(v.ledger.Failed(name))
}

// SetPool takes in an added or changed NodePool: its nodes are judged by its new template.
func (v *View) SetPool(p *v1alpha1.NodePool) {
	name := v1alpha1.PoolName(p.Name)
	changed, another := v.changePool(name, p)
	if another { // a watch that was interrupted shows a pool that was made anew as a change of the one before
		v.ledger.ForgetPool(name)
	}
	if changed {
		v.ledger.Rebudget(name, v.now()) // without our lock: a decision asks for the World with the ledger's held
	}
}

// DeletePool takes in that a NodePool is gone.
func (v *View) DeletePool(name v1alpha1.PoolName) {
	v.changePool(name, nil)
	v.ledger.ForgetPool(name)
}

// changePool reports whether a decision may read what has changed, and whether it is another pool of the same name.
func (v *View) changePool(name v1alpha1.PoolName, p *v1alpha1.NodePool) (changed, another bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.pools[name]
	if p == nil {
		delete(v.pools, name)
	} else {
		v.pools[name] = p
		if old != nil && old.UID == p.UID && old.Generation == p.Generation {
			return false, false // only the status changed, and no decision reads it
		}
	}
	for _, e := range v.nodes {
		if e.node != nil && e.node.Pool == name {
			v.rebuild(e)
		}
	}
	return true, old != nil && p != nil && old.UID != p.UID
}

// SetPod takes in an added or changed pod: one that is bound, or nominated and so on its way, occupies its node until
// it is finished.
func (v *View) SetPod(p *corev1.Pod) {
	on := v1alpha1.NodeName(p.Spec.NodeName)
	if on == "" {
		on = v1alpha1.NodeName(p.Status.NominatedNodeName)
	}
	if finished(p) {
		on = ""
	}
	over := p.Spec.NodeName != "" || p.DeletionTimestamp != nil || finished(p)
	if over && v.promisedElsewhere(p) {
		v.release(p) // before it counts on its node: in between it would count on both, and a decision would start one node too many
	}
	v.mu.Lock()
	v.place(p, on)
	adoptOn := v.wait(p)
	squeezed := v.nodeOf(v1alpha1.NodeName(p.Spec.NodeName))
	v.mu.Unlock()
	switch {
	case !v.ledger.Knows(p.UID): // most events of most pods: they must not wait for decisions, nor decisions for them
	case over:
		v.release(p) // after it counts on its node: in between its room would be anybody's
	default:
		v.ledger.Nominated(p.UID, on)
	}
	if squeezed != nil && squeezed.Ours() && v.ledger.Promised(squeezed.Name) {
		v.ended(v.ledger.Squeeze(squeezed))
	}
	if adoptOn != nil {
		v.ledger.Adopt(p, adoptOn, v.now())
	}
}

// promisedElsewhere reports whether the pod has a claim on another node than the one that it is bound to.
func (v *View) promisedElsewhere(p *corev1.Pod) bool {
	if !v.ledger.Knows(p.UID) {
		return false
	}
	c, ok := v.ledger.Of(p.UID)
	return ok && c.Node != v1alpha1.NodeName(p.Spec.NodeName)
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// wait remembers a pod that waits, and returns the node that says it is promised to the pod, if one does.
func (v *View) wait(p *corev1.Pod) *claim.Node {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || finished(p) {
		delete(v.waiting, p.UID)
		return nil
	}
	_, known := v.waiting[p.UID]
	v.waiting[p.UID] = p
	if at, ok := v.published[p.UID]; ok && !known {
		return v.nodeOf(at)
	}
	return nil
}

func (v *View) nodeOf(name v1alpha1.NodeName) *claim.Node {
	if e := v.nodes[name]; e != nil {
		return e.node
	}
	return nil
}

// DeletePod takes in that a pod is gone.
func (v *View) DeletePod(p *corev1.Pod) {
	v.mu.Lock()
	v.place(p, "")
	delete(v.waiting, p.UID)
	v.mu.Unlock()
	if v.ledger.Knows(p.UID) {
		v.release(p)
	}
}

// place moves the pod's occupancy to the given node, "" for none. The caller holds mu.
func (v *View) place(p *corev1.Pod, on v1alpha1.NodeName) {
	if was, ok := v.on[p.UID]; ok && was != on {
		delete(v.on, p.UID)
		if e := v.nodes[was]; e != nil {
			delete(e.pods, p.UID)
			v.rebuild(e)
			v.forgetIfBare(was, e)
		}
	}
	if on == "" {
		return
	}
	v.on[p.UID] = on
	e := v.entry(on)
	e.pods[p.UID] = occupant{requests: fit.Occupied(p), ports: fit.HostPorts(p), placed: fit.NewPlaced(p)}
	v.rebuild(e)
}

func (v *View) entry(name v1alpha1.NodeName) *entry {
	e := v.nodes[name]
	if e == nil {
		e = &entry{pods: map[types.UID]occupant{}}
		v.nodes[name] = e
	}
	return e
}

func (v *View) forgetIfBare(name v1alpha1.NodeName, e *entry) {
	if e.object == nil && len(e.pods) == 0 {
		delete(v.nodes, name)
	}
}

// rebuild makes the entry's nodes anew. The caller holds mu.
func (v *View) rebuild(e *entry) {
	if e.object == nil {
		return
	}
	v.world = nil
	n := claim.NodeOf(e.object, v.pools[v1alpha1.PoolName(e.object.Labels[v1alpha1.LabelPool])])
	for _, uid := range slices.Sorted(maps.Keys(e.pods)) {
		o := e.pods[uid]
		n.Used.Add(o.requests)
		n.Ports = append(n.Ports, o.ports...)
		n.Pods = append(n.Pods, o.placed)
	}
	e.node = n
	resting := n.Node
	resting.Taints, resting.Unschedulable = n.Present, n.Cordoned
	e.resting = &resting
}

// setSynced hands over the test of whether every informer has delivered what it found at first.
func (v *View) setSynced(synced func() bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.synced = synced
}
