package extender

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// View is the cluster as the extender sees it: one immutable claim.Node per Node, kept current by informer events so
// that a request only looks up and never computes. It tells the ledger what ends or moves claims.
type View struct {
	ledger *claim.Ledger
	now    func() time.Time
	// bound is told of every pod that had a claim when it was seen bound or gone.
	bound func(claim.Claim, *corev1.Pod)

	// mu guards the maps and the entries; the claim.Nodes they point to are never changed.
	mu    sync.RWMutex
	nodes map[v1alpha1.NodeName]*nodeEntry
	pods  map[types.UID]v1alpha1.NodeName
	pools map[v1alpha1.PoolName]*v1alpha1.NodePool

	synced func() bool
}

// nodeEntry may exist before its Node does: informers of pods and Nodes keep no order between them.
type nodeEntry struct {
	object *corev1.Node
	pods   map[types.UID]occupant
	node   *claim.Node
}

type occupant struct {
	requests fit.Resources
	ports    []fit.HostPort
}

// NewView returns an empty view. bound may be nil.
func NewView(ledger *claim.Ledger, now func() time.Time, bound func(claim.Claim, *corev1.Pod)) *View {
	if bound == nil {
		bound = func(claim.Claim, *corev1.Pod) {}
	}
	return &View{
		ledger: ledger, now: now, bound: bound,
		nodes:  map[v1alpha1.NodeName]*nodeEntry{},
		pods:   map[types.UID]v1alpha1.NodeName{},
		pools:  map[v1alpha1.PoolName]*v1alpha1.NodePool{},
		synced: func() bool { return false },
	}
}

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

// SetNode takes in an added or changed Node.
func (v *View) SetNode(n *corev1.Node) {
	v.mu.Lock()
	e := v.entry(v1alpha1.NodeName(n.Name))
	before, wasOurs := v1alpha1.NodeState(""), false
	if e.node != nil {
		before, wasOurs = e.node.State, e.node.Ours()
	}
	e.object = n
	v.rebuild(e)
	state, ours := e.node.State, e.node.Ours()
	v.mu.Unlock()
	switch {
	case ours:
		v.ledger.Observe(v1alpha1.NodeName(n.Name), before, state, v.now())
	case wasOurs: // somebody took the pool's label away: nothing will ever be said of the claims again
		v.ledger.Failed(v1alpha1.NodeName(n.Name))
	}
}

// DeleteNode takes in that a Node is gone.
func (v *View) DeleteNode(name v1alpha1.NodeName) {
	v.mu.Lock()
	if e := v.nodes[name]; e != nil {
		e.object, e.node = nil, nil
		v.forgetIfBare(name, e)
	}
	v.mu.Unlock()
	v.ledger.Failed(name)
}

// SetPool takes in an added or changed NodePool: its nodes are judged by its new template.
func (v *View) SetPool(p *v1alpha1.NodePool) { v.changePool(v1alpha1.PoolName(p.Name), p) }

// DeletePool takes in that a NodePool is gone.
func (v *View) DeletePool(name v1alpha1.PoolName) { v.changePool(name, nil) }

func (v *View) changePool(name v1alpha1.PoolName, p *v1alpha1.NodePool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.pools[name]
	if p == nil {
		delete(v.pools, name)
	} else {
		v.pools[name] = p
		if old != nil && old.UID == p.UID && old.Generation == p.Generation {
			return // only the status changed, and no decision reads it
		}
	}
	for _, e := range v.nodes {
		if e.node != nil && e.node.Pool == name {
			v.rebuild(e)
		}
	}
}

// SetPod takes in an added or changed pod: one that is bound, or nominated and so on its way, occupies its node until
// it is finished.
func (v *View) SetPod(p *corev1.Pod) {
	on := v1alpha1.NodeName(p.Spec.NodeName)
	if on == "" {
		on = v1alpha1.NodeName(p.Status.NominatedNodeName)
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		on = ""
	}
	v.mu.Lock()
	v.place(p, on)
	v.mu.Unlock()
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		v.release(p)
		return
	}
	v.ledger.Nominated(p.UID, on)
}

// DeletePod takes in that a pod is gone.
func (v *View) DeletePod(p *corev1.Pod) {
	v.mu.Lock()
	v.place(p, "")
	v.mu.Unlock()
	v.release(p)
}

func (v *View) release(p *corev1.Pod) {
	if c, had := v.ledger.Release(p.UID); had {
		v.bound(c, p)
	}
}

// place moves the pod's occupancy to the given node, "" for none. The caller holds mu.
func (v *View) place(p *corev1.Pod, on v1alpha1.NodeName) {
	if was, ok := v.pods[p.UID]; ok && was != on {
		delete(v.pods, p.UID)
		if e := v.nodes[was]; e != nil {
			delete(e.pods, p.UID)
			v.rebuild(e)
			v.forgetIfBare(was, e)
		}
	}
	if on == "" {
		return
	}
	v.pods[p.UID] = on
	e := v.entry(on)
	e.pods[p.UID] = occupant{requests: fit.Occupied(p), ports: fit.HostPorts(p)}
	v.rebuild(e)
}

func (v *View) entry(name v1alpha1.NodeName) *nodeEntry {
	e := v.nodes[name]
	if e == nil {
		e = &nodeEntry{pods: map[types.UID]occupant{}}
		v.nodes[name] = e
	}
	return e
}

func (v *View) forgetIfBare(name v1alpha1.NodeName, e *nodeEntry) {
	if e.object == nil && len(e.pods) == 0 {
		delete(v.nodes, name)
	}
}

// rebuild makes the entry's claim.Node anew. The caller holds mu.
func (v *View) rebuild(e *nodeEntry) {
	if e.object == nil {
		return
	}
	n := claim.NodeOf(e.object, v.pools[v1alpha1.PoolName(e.object.Labels[v1alpha1.LabelPool])])
	if n.Ours() { // of other nodes nobody reads what is used: kube-scheduler has judged their room
		for _, o := range e.pods {
			n.Used.Add(o.requests)
			n.Ports = append(n.Ports, o.ports...)
		}
	}
	e.node = n
}
