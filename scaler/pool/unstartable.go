package pool

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// unstartable remembers since when a person keeps standby nodes from starting, by pool. It is lost
// with the process: then preWarm.timeout begins anew. The zero value is ready.
type unstartable struct {
	// mu guards pools.
	mu    sync.Mutex
	pools map[v1alpha1.PoolName]map[v1alpha1.NodeName]time.Time
}

// look takes in the pool's nodes as they are now.
func (u *unstartable) look(pool *v1alpha1.NodePool, nodes []corev1.Node, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name := v1alpha1.PoolName(pool.Name)
	before, is := u.pools[name], map[v1alpha1.NodeName]time.Time{}
	for i := range nodes {
		n := decide.NodeOf(&nodes[i], pool)
		if n.State != v1alpha1.StateStandby || n.NotStartable == "" {
			continue
		}
		is[n.Name] = now
		if since, ok := before[n.Name]; ok {
			is[n.Name] = since
		}
	}
	if u.pools == nil {
		u.pools = map[v1alpha1.PoolName]map[v1alpha1.NodeName]time.Time{}
	}
	if u.pools[name] = is; len(is) == 0 {
		delete(u.pools, name)
	}
}

// count is how many of the pool's standby nodes are kept from starting, and how many of them for
// preWarm.timeout: those do not count towards minStandby.
func (u *unstartable) count(pool *v1alpha1.NodePool, now time.Time) (all, withheld int32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, since := range u.pools[v1alpha1.PoolName(pool.Name)] {
		all++
		if now.Sub(since) >= pool.Spec.PreWarm.TimeoutOrDefault() {
			withheld++
		}
	}
	return all, withheld
}

// withheld reports whether the node has been kept from starting for preWarm.timeout.
func (u *unstartable) withheld(pool *v1alpha1.NodePool, node v1alpha1.NodeName, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, ok := u.pools[v1alpha1.PoolName(pool.Name)][node]
	return ok && now.Sub(since) >= pool.Spec.PreWarm.TimeoutOrDefault()
}

// notStartable are the words for so many nodes in a condition, "" for none.
func notStartable(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of the standby nodes not startable", n)
}
