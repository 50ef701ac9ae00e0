package exactstarts

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// keptPools are a rig's pools, which stay from one row to the next: to stop the machines that a row
// has started costs less than to make others.
type keptPools struct {
	rig *framework.Rig
	// sizes of the pools that there are, by kind
	sizes map[string]int32
}

func newKeptPools(r *framework.Rig) *keptPools { return &keptPools{rig: r, sizes: map[string]int32{}} }

// inOrder are the names of the rows in the order in which most pools stay and only grow: the rows
// without the largest pool first, and those with two pools before those with one of them.
func inOrder(rows map[string]row) []string {
	size := func(name string) int32 {
		for _, p := range rows[name].pools {
			if p.kind == four {
				return p.size
			}
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		x, y := rows[a].pools, rows[b].pools
		return cmp.Or(cmp.Compare(min(size(a), 1), min(size(b), 1)), cmp.Compare(len(y), len(x)),
			cmp.Compare(size(a), size(b)), cmp.Compare(x[0].kind, y[0].kind), cmp.Compare(a, b))
	})
}

// provide ends the row before and makes the pools of the next, all of whose nodes are standby. It
// removes the others. A pool that is there grows. It may be larger than the row says, which leaves
// more nodes to start in error. Not so in a row of several pools: there the sizes decide how the
// pods divide.
func (k *keptPools) provide(t *testing.T, pools []pool) {
	t.Helper()
	if err := removePods(t.Context(), k.rig); err != nil {
		t.Fatal(err)
	}
	k.removeOthers(t, pools)
	var made, kept []pool
	for _, p := range pools {
		size, there := k.sizes[p.kind]
		p.size = max(p.size, size)
		if k.sizes[p.kind] = p.size; there {
			kept = append(kept, p)
		} else {
			made = append(made, p)
		}
	}
	// An empty node that stops during a row could be started once more, so it may only between rows.
	for _, p := range kept {
		k.change(t, p, 0)
	}
	warm(t, k.rig, made)
	for _, p := range kept {
		// The Nodes say it before the pool's status, which may be of the time before the row.
		assert.AwaitNodes(t, k.rig, p.kind, "all standby", func(nodes map[string]*corev1.Node) bool {
			return assert.In(nodes, v1alpha1.StateStandby) == int(p.size)
		})
		assert.AwaitAllStandby(t, k.rig, p.kind, p.size)
		k.change(t, p, framework.Pool(p.kind, p.size).Spec.ScaleDown.EmptyNodeTTL.Duration)
	}
}

// removeOthers removes the pools that a row has not, or has smaller where it has several.
func (k *keptPools) removeOthers(t *testing.T, pools []pool) {
	t.Helper()
	var others []pool
	for kind, size := range k.sizes {
		at := slices.IndexFunc(pools, func(p pool) bool { return p.kind == kind })
		if at < 0 || len(pools) > 1 && size > pools[at].size {
			others = append(others, pool{kind: kind})
			delete(k.sizes, kind)
		}
	}
	remove(t, k.rig, others)
}

// change gives the pool its size and weight, and the time after which its empty nodes stop.
func (k *keptPools) change(t *testing.T, p pool, ttl time.Duration) {
	t.Helper()
	assert.ChangePool(t, k.rig, p.kind, func(s *v1alpha1.NodePoolSpec) {
		s.PoolSize, s.MinStandby, s.Weight = p.size, p.size, &p.weight
		s.ScaleDown.EmptyNodeTTL = &v1alpha1.Duration{Duration: ttl}
	})
}
