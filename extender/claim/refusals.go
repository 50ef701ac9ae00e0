package claim

import (
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// reason is why a node refuses; pool is set where the reason speaks for the node's pool.
type reason struct {
	pool v1alpha1.PoolName
	text string
}

func (r reason) String() string {
	if r.pool == "" {
		return r.text
	}
	return "pool " + string(r.pool) + ": " + r.text
}

// refusals are reasons, each with the first node by name that it holds for. They are put into words at the end: of
// thousands of candidates most have the same reason.
type refusals map[reason]v1alpha1.NodeName

func (r refusals) add(node v1alpha1.NodeName, why reason) {
	if first, ok := r[why]; !ok || node < first {
		r[why] = node
	}
}

// one gives one node for each reason.
func (r refusals) one() map[v1alpha1.NodeName]string {
	out := make(map[v1alpha1.NodeName]string, len(r)+1)
	for why, node := range r {
		out[node] = why.String()
	}
	return out
}

// orAny adds a reason that holds for the pod as a whole, at the first candidate that could be started: on an ordinary
// node it would read as that node's own. Where there is no such candidate, the pod's event alone tells it.
func (r refusals) orAny(ask Ask, why string) map[v1alpha1.NodeName]string {
	out := r.one()
	first := v1alpha1.NodeName("")
	for _, n := range ask.Nodes {
		if _, taken := out[n.Name]; !taken && !n.Ordinary() && (first == "" || n.Name < first) {
			first = n.Name
		}
	}
	if first != "" {
		out[first] = why
	}
	return out
}

// String lists the reasons, sorted. It does not count nodes: a count that moves would make each attempt a write to the pod.
func (r refusals) String() string {
	words := make([]string, 0, len(r))
	for why := range r {
		words = append(words, why.String())
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}
