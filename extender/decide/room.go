package decide

import (
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// ReleaseOverflow ends the claims on a running node for which there is no room any more, because
// pods without a claim there took it: the lowest priority and the youngest first, and last
// those whose pods are being bound. It returns them sorted, for their pods to be placed anew.
func (l *Claims) ReleaseOverflow(n *Node, now time.Time) []Claim {
	if n.State != v1alpha1.StateRunning {
		return nil
	}
	joined := l.byNode[n.Name] != nil && l.byNode[n.Name].joined
	var out []Claim
	for {
		c, ok := l.overflow(n)
		if !ok {
			return out
		}
		out = append(out, c)
		l.drop(l.byPod[c.Pod])
		if c.ToCome() {
			continue // no pod waits for it
		}
		if !joined {
			l.recordOverflow(c, now)
		} else if p := l.byNode[n.Name]; p != nil {
			p.joined = false
		}
	}
}

// recordOverflow takes in that a claim lost its room on its node. When that happens to a pod for
// the second time, two starts were futile, and its owner backs off as after any futile start: a pod
// that fits our nodes only in our view of them would wake one after the other. It is not called
// where another workload took the room, for that start was of use: a scheduler that does not see
// the claims lets the pods of a burst change places.
func (l *Claims) recordOverflow(c Claim, now time.Time) {
	if l.overflowed[c.Pod] {
		l.futileOwners.fail(c.owner, now)
		l.futileOverflows = append(l.futileOverflows, c)
	}
	l.overflowed[c.Pod] = true
}

// overflow gives the claim that has to go first, if the node has no room for all.
func (l *Claims) overflow(n *Node) (Claim, bool) {
	p := l.byNode[n.Name]
	if p == nil {
		return Claim{}, false
	}
	left := n.Allocatable.Clone()
	left.Sub(n.Used)
	if len(n.Ports) == 0 && left.Short(p.sum) == "" {
		return Claim{}, false
	}
	var standing []Claim
	var sum fit.Resources
	for _, c := range l.claimsOn(n.Name) {
		if c.isOnNode(&n.Node) || l.IsPassing(c.Pod) {
			continue
		}
		if fit.PortsConflict(c.digest.Ports, n.Ports) {
			return c, true
		}
		sum.Add(c.digest.Requests)
		standing = append(standing, c)
	}
	if len(standing) == 0 || left.Short(sum) == "" {
		return Claim{}, false
	}
	return slices.MaxFunc(standing, preemptionOrder), true
}

// isOnNode reports whether the node's Used holds the claimed pod already: it is on its way there.
func (c *Claim) isOnNode(n *fit.Node) bool {
	return c.nominated || slices.ContainsFunc(n.Pods, func(p *fit.Placed) bool { return p.UID == c.Pod })
}

// taken is what the pod finds taken on a node: what is used, and the claims of others that are not
// within the given reach. The caller must not change it.
func (j *attempt) taken(n *Node, within reach) (fit.Resources, []fit.HostPort) {
	taken, ports := n.Used, n.Ports
	claims := j.on(n.Name)
	if len(claims) == 0 { // of most nodes: this is asked twice of each of thousands
		return taken, ports
	}
	owned := taken.Scalar == nil // whether taken may be added to
	if n.Coming != nil {         // claims were made beside the pods of DaemonSets, whose room is not free either
		taken, owned = taken.Clone(), true
		taken.Add(n.Coming.Requests)
		ports = append(slices.Clone(ports), n.Coming.Ports...)
	}
	for uid, c := range claims {
		if uid == j.Pod.UID || j.displaced[uid] || c.isWithin(within) || c.isOnNode(&n.Node) || c.holdsNothing(n) ||
			j.IsPassing(uid) { // it is being bound to another node, and takes room there
			continue
		}
		if !owned {
			taken, owned = taken.Clone(), true
		}
		taken.Add(c.digest.Requests)
		if len(c.digest.Ports) > 0 {
			ports = append(slices.Clone(ports), c.digest.Ports...)
		}
	}
	return taken, ports
}
