package claim

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// index tells without the ledger's mu of which pods and nodes the ledger knows anything. Every
// event of every bound pod asks, most for nothing, and a decision must not wait for them. It is
// written with mu held, together with what it tells of.
type index struct {
	pods, nodes sync.Map // of types.UID and v1alpha1.NodeName
}

// Knows reports whether the pod has a claim, lost one to others, or was refused without one. It
// takes no lock that a decision holds.
func (l *Ledger) Knows(pod types.UID) bool {
	_, ok := l.index.pods.Load(pod)
	return ok
}

// Promised reports whether there are claims on the node. It takes no lock that a decision holds.
func (l *Ledger) Promised(node v1alpha1.NodeName) bool {
	_, ok := l.index.nodes.Load(node)
	return ok
}

// reindex takes in what has changed for the pod and the node, "" for none. The caller holds mu.
func (l *Ledger) reindex(pod types.UID, node v1alpha1.NodeName) {
	_, refused := l.unserved[pod]
	keep(&l.index.pods, pod, refused || l.pushed[pod] || l.byPod[pod] != nil)
	if node != "" {
		keep(&l.index.nodes, node, l.byNode[node] != nil)
	}
}

func keep[K comparable](m *sync.Map, key K, known bool) {
	if known {
		m.Store(key, struct{}{})
	} else {
		m.Delete(key)
	}
}
