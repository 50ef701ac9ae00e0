package view

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/fit"
)

// entry may exist before its Node does: informers of pods and Nodes keep no order between them.
type entry struct {
	object *corev1.Node
	pods   map[types.UID]occupant
	// used and placed are what the pods sum up to, placed sorted by uid: kept up with each pod, so
	// that an event of one does not cost a look at all. placed is not changed once it is in a node.
	used   fit.Resources
	placed []*fit.Placed
	// ported is how many of the pods take host ports: few do.
	ported int
	// bare is the node without its pods.
	bare *claim.Node
	node *claim.Node
	// resting is the node with the taints that stand now, as other pods' topology sees it; nil where
	// node is that.
	resting *fit.Node
	// published are the pods that the Node says are promised room on it.
	published []types.UID
}

type occupant struct {
	requests fit.Resources
	ports    []fit.HostPort
	placed   *fit.Placed
	// daemon is the DaemonSet that the pod is of, "" for none.
	daemon types.UID
}

// occupies reads off a pod what it takes up.
func occupies(p *corev1.Pod) occupant {
	return occupant{requests: fit.Occupied(p), ports: fit.HostPorts(p), placed: fit.NewPlaced(p), daemon: fit.DaemonOf(p)}
}

// takesAsBefore reports whether nothing has changed that others see. Ports and affinity of a pod
// cannot.
func (o *occupant) takesAsBefore(p *corev1.Pod) bool {
	return o.placed.Terminating == (p.DeletionTimestamp != nil) && maps.Equal(o.placed.Labels, p.Labels) &&
		o.requests.Equal(fit.Occupied(p))
}

// add makes the pod count; one that counts already does so by what it takes up now.
func (e *entry) add(p *corev1.Pod) {
	o := occupies(p)
	was, counts := e.pods[p.UID]
	if counts {
		e.discount(was)
	}
	e.pods[p.UID] = o
	e.used.Add(o.requests)
	e.ported += min(len(o.ports), 1)
	at, _ := e.at(p.UID)
	next := make([]*fit.Placed, 0, len(e.placed)+1)
	next = append(append(next, e.placed[:at]...), o.placed)
	if counts {
		at++
	}
	e.placed = append(next, e.placed[at:]...)
}

// remove ends that the pod counts.
func (e *entry) remove(uid types.UID) {
	o, counts := e.pods[uid]
	if !counts {
		return
	}
	delete(e.pods, uid)
	e.discount(o)
	at, _ := e.at(uid)
	e.placed = append(slices.Clone(e.placed[:at]), e.placed[at+1:]...)
}

func (e *entry) at(uid types.UID) (int, bool) {
	return slices.BinarySearchFunc(e.placed, uid,
		func(p *fit.Placed, uid types.UID) int { return strings.Compare(string(p.UID), string(uid)) })
}

func (e *entry) discount(o occupant) {
	e.used.Sub(o.requests)
	e.ported -= min(len(o.ports), 1)
}

// ports are the host ports that are taken.
func (e *entry) ports() []fit.HostPort {
	if e.ported == 0 {
		return nil
	}
	var out []fit.HostPort
	for _, p := range e.placed {
		out = append(out, e.pods[p.UID].ports...)
	}
	return out
}

// holds reports whether a pod of the DaemonSet is on the node.
func (e *entry) holds(set types.UID) bool {
	for _, o := range e.pods {
		if o.daemon == set {
			return true
		}
	}
	return false
}

// seen is the node as other pods' topology sees it.
func (e *entry) seen() *fit.Node {
	if e.resting != nil {
		return e.resting
	}
	return &e.node.Node
}

// remake makes the entry's nodes anew because the Node or its pool has changed. The caller holds
// mu.
func (v *View) remake(e *entry) {
	e.bare = claim.NodeOf(e.object, v.pools[v1alpha1.PoolName(e.object.Labels[v1alpha1.LabelPool])], v.daemons...)
	v.rebuild(e)
}

// rebuild makes the entry's nodes anew because the pods on it have changed. The caller holds mu.
func (v *View) rebuild(e *entry) {
	if e.bare == nil {
		return
	}
	was, n := e.node, *e.bare
	n.Used, n.Ports, n.Pods = e.used.Clone(), e.ports(), e.placed
	n.Expect(n.Daemons, e.holds)
	e.node, e.resting = &n, nil
	if !n.Ordinary() && n.State != v1alpha1.StateStarting {
		resting := n.Node
		resting.Taints, resting.Unschedulable, resting.WhenRunning = n.Present, n.Cordoned, &n.Node
		e.resting = &resting
	}
	v.changed(e, was)
}
