package assert

import (
	"context"
	"slices"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// Lease remembers who held a lease, in order; "" is a lease that was given back.
type Lease struct {
	name string
	// mu guards holders.
	mu      sync.Mutex
	holders []string
}

// WatchLease returns when the watch is set up, and hands every version of the lease to the checks.
// The namespace must exist.
func WatchLease(t *testing.T, r *framework.Rig, namespace, name string, checks ...func(*coordinationv1.Lease)) *Lease {
	t.Helper()
	l := &Lease{name: name}
	Follow(t, r.Client, &coordinationv1.LeaseList{}, func(e watch.Event) {
		if lease, ok := e.Object.(*coordinationv1.Lease); ok && lease.Name == name {
			l.see(lease)
			for _, check := range checks {
				check(lease)
			}
		}
	}, client.InNamespace(namespace))
	return l
}

func (l *Lease) see(lease *coordinationv1.Lease) {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.holders) == 0 || l.holders[len(l.holders)-1] != holder {
		l.holders = append(l.holders, holder)
	}
}

// Holders are those so far.
func (l *Lease) Holders() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.holders)
}

// AwaitHolder waits until the lease has a holder that is not one of those, and returns it.
func (l *Lease) AwaitHolder(t *testing.T, not ...string) string {
	t.Helper()
	all := Eventually(t, "a holder of lease "+l.name, func(context.Context) ([]string, error) { return l.Holders(), nil },
		func(all []string) bool {
			return len(all) > 0 && all[len(all)-1] != "" && !slices.Contains(not, all[len(all)-1])
		})
	return all[len(all)-1]
}
