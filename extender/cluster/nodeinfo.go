package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// nodeInfo may exist before its Node does: informers of pods and Nodes keep no order between them.
type nodeInfo struct {
	object *corev1.Node
	// isForeseen: the node is seen as it will be once it runs as its type, by what is known of that.
	isForeseen bool
	// report is what the kubelet has reported in a start that has not led to a running or standby node
	// yet, but for devices, which may be missing; nil until it reports another size than before.
	report corev1.ResourceList
	pods   map[types.UID]occupant
	// used and placed are what the pods sum up to, placed sorted by uid: kept up with each pod, so
	// that an event of one does not have all read. placed is not changed once it is in a node.
	used   fit.Resources
	placed []*fit.Placed
	// daemons is how many pods of each DaemonSet there are.
	daemons map[types.UID]int
	// hostPortPods is how many of the pods take host ports: few do.
	hostPortPods int
	// base is the node without its pods.
	base *decide.Node
	node *decide.Node
	// asStopped is the node with the taints that stand now, as other pods' topology sees it; nil where
	// node is that.
	asStopped *fit.Node
	// published are the pods whose claims the Node's annotation names.
	published []types.UID
}

// reports takes in the Node as it was, nil for a new one, and as it is. It returns whether a
// starting node shows another size now than before.
func (e *nodeInfo) reports(was, is *corev1.Node) bool {
	if was == nil || was.UID != is.UID || showsType(stateOf(is)) {
		e.report = nil
		return false
	}
	if stateOf(was) != v1alpha1.StateStarting || stateOf(is) != v1alpha1.StateStarting {
		return false
	}
	report := maps.Clone(is.Status.Allocatable)
	maps.DeleteFunc(report, func(name corev1.ResourceName, _ resource.Quantity) bool { return decide.IsDevice(name) })
	for name, quantity := range report {
		if had := was.Status.Allocatable[name]; !quantity.Equal(had) {
			e.report = report
			return true
		}
	}
	return false
}

func stateOf(n *corev1.Node) v1alpha1.NodeState {
	return v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
}

type occupant struct {
	requests fit.Resources
	ports    []fit.HostPort
	placed   *fit.Placed
	// daemon is the DaemonSet that the pod is of, "" for none.
	daemon types.UID
}

// newOccupant reads off a pod what it takes up.
func newOccupant(p *corev1.Pod) occupant {
	return occupant{requests: fit.Occupied(p), ports: fit.HostPorts(p), placed: fit.NewPlaced(p), daemon: fit.DaemonOf(p)}
}

// unchanged reports whether nothing has changed that others see. Ports and affinity of a pod
// cannot.
func (o *occupant) unchanged(p *corev1.Pod) bool {
	return o.placed.Terminating == (p.DeletionTimestamp != nil) && maps.Equal(o.placed.Labels, p.Labels) &&
		o.requests.Equal(fit.Occupied(p))
}

// add makes the pod count; one that counts already does so by what it takes up now.
func (e *nodeInfo) add(p *corev1.Pod) {
	o := newOccupant(p)
	was, counts := e.pods[p.UID]
	if counts {
		e.discount(was)
	}
	e.pods[p.UID] = o
	e.used.Add(o.requests)
	e.hostPortPods += min(len(o.ports), 1)
	if o.daemon != "" {
		e.daemons[o.daemon]++
	}
	at, _ := e.at(p.UID)
	next := make([]*fit.Placed, 0, len(e.placed)+1)
	next = append(append(next, e.placed[:at]...), o.placed)
	if counts {
		at++
	}
	e.placed = append(next, e.placed[at:]...)
}

// remove ends that the pod counts.
func (e *nodeInfo) remove(uid types.UID) {
	o, counts := e.pods[uid]
	if !counts {
		return
	}
	delete(e.pods, uid)
	e.discount(o)
	at, _ := e.at(uid)
	e.placed = append(slices.Clone(e.placed[:at]), e.placed[at+1:]...)
}

func (e *nodeInfo) at(uid types.UID) (int, bool) {
	return slices.BinarySearchFunc(e.placed, uid,
		func(p *fit.Placed, uid types.UID) int { return strings.Compare(string(p.UID), string(uid)) })
}

func (e *nodeInfo) discount(o occupant) {
	e.used.Sub(o.requests)
	e.hostPortPods -= min(len(o.ports), 1)
	if o.daemon == "" {
		return
	}
	if e.daemons[o.daemon]--; e.daemons[o.daemon] == 0 {
		delete(e.daemons, o.daemon)
	}
}

// ports are the host ports that are taken.
func (e *nodeInfo) ports() []fit.HostPort {
	if e.hostPortPods == 0 {
		return nil
	}
	var out []fit.HostPort
	for _, p := range e.placed {
		out = append(out, e.pods[p.UID].ports...)
	}
	return out
}

// hasWorkload reports whether other pods than those of DaemonSets are on the node: the few stopped
// nodes that have are to start at once.
func (e *nodeInfo) hasWorkload() bool {
	count := len(e.pods)
	for _, of := range e.daemons {
		count -= of
	}
	return count > 0
}

// hasDaemonPod reports whether a pod of the DaemonSet is on the node.
func (e *nodeInfo) hasDaemonPod(set types.UID) bool { return e.daemons[set] > 0 }

// coming is what the pods of DaemonSets will take that are not on the running node yet.
func (e *nodeInfo) coming(n *decide.Node) *decide.Coming {
	if !slices.ContainsFunc(n.Daemons, func(d *fit.Daemon) bool { return !e.hasDaemonPod(d.UID) }) {
		return nil
	}
	full := n.Node
	full.Used, full.Ports = n.Used.Clone(), slices.Clone(n.Ports)
	full.Expect(n.Daemons, e.hasDaemonPod)
	if full.Used.Equal(n.Used) {
		return nil
	}
	full.Used.Sub(n.Used)
	return &decide.Coming{Requests: full.Used, Ports: full.Ports[len(n.Ports):]}
}

// topologyNode is the node as other pods' topology sees it.
func (e *nodeInfo) topologyNode() *fit.Node {
	if e.asStopped != nil {
		return e.asStopped
	}
	return &e.node.Node
}

// rebuildFromNode makes the entry's nodes anew because the Node or its pool has changed. The caller
// holds mu.
func (s *State) rebuildFromNode(e *nodeInfo) {
	s.poolNodes = nil
	pool := s.pools[v1alpha1.PoolName(e.object.Labels[v1alpha1.LabelPool])]
	object, changes := s.asStarted(e.object, pool)
	e.base = decide.NodeOf(object, pool, s.daemons...)
	e.base.ChangesType, e.isForeseen = changes, object != e.object
	s.endBackoffAsItIs(e)
	s.reserve(e.base, pool)
	s.rebuildFromPods(e)
}

// rebuildFromPods makes the entry's nodes anew because the pods on it have changed. The caller
// holds mu.
func (s *State) rebuildFromPods(e *nodeInfo) {
	if e.base == nil {
		return
	}
	was, n := e.node, *e.base
	n.Used, n.Ports, n.Pods = e.used.Clone(), e.ports(), e.placed
	if n.InService() {
		n.Coming = e.coming(&n)
	} else {
		n.Expect(n.Daemons, e.hasDaemonPod)
	}
	e.node, e.asStopped = &n, nil
	if !n.InService() && n.State != v1alpha1.StateStarting {
		resting := n.Node
		resting.Taints, resting.Unschedulable, resting.WhenRunning = n.CurrentTaints, n.Cordoned, &n.Node
		e.asStopped = &resting
	}
	s.changed(e, was)
}
