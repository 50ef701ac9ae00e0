package decide

import (
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// reason is why a node refuses; pool is set where the reason holds for the node's whole pool. It is
// built for thousands of nodes and printed for few, so text and detail, which follows it, are
// strings that exist already.
type reason struct {
	pool         v1alpha1.PoolName
	text, detail string
}

func (r reason) String() string {
	if r.pool == "" {
		return r.text + r.detail
	}
	return "pool " + string(r.pool) + ": " + r.text + r.detail
}

// refusals are reasons, each with the first node by name that it holds for. They are put into words
// at the end: of thousands of candidates most have the same reason.
type refusals struct {
	first map[reason]v1alpha1.NodeName
	// last is the reason that was added last, and lastFirst the first node that it holds for: looked
	// at before the map.
	last      reason
	lastFirst v1alpha1.NodeName
}

func (r *refusals) add(node v1alpha1.NodeName, why reason) {
	if why != r.last || r.lastFirst == "" {
		r.last, r.lastFirst = why, r.first[why]
	}
	if r.lastFirst != "" && r.lastFirst <= node {
		return
	}
	if r.first == nil {
		r.first = map[reason]v1alpha1.NodeName{}
	}
	r.first[why], r.lastFirst = node, node
}

// byNode gives one node for each reason.
func (r *refusals) byNode() map[v1alpha1.NodeName]string {
	out := make(map[v1alpha1.NodeName]string, len(r.first)+1)
	for why, node := range r.first {
		out[node] = why.String()
	}
	return out
}

// withPodReason adds a reason that holds for the pod as a whole, at the first candidate that could
// be started: on a node in service it would read as that node's own. Where there is no such
// candidate, only the pod's event has the reason.
func (r *refusals) withPodReason(ask Ask, why string) map[v1alpha1.NodeName]string {
	out := r.byNode()
	first := v1alpha1.NodeName("")
	for _, n := range ask.Nodes {
		if _, taken := out[n.Name]; !taken && !n.InService() && (first == "" || n.Name < first) {
			first = n.Name
		}
	}
	if first != "" {
		out[first] = why
	}
	return out
}

// String lists the reasons, sorted. It does not count nodes: a count that moves would make each
// attempt a write to the pod.
func (r *refusals) String() string {
	words := make([]string, 0, len(r.first))
	for why := range r.first {
		words = append(words, why.String())
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}
