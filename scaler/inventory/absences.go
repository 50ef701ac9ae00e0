package inventory

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const (
	// absentMost is how many Nodes are deleted within absentWindow because the cloud does not know
	// their instances, and absentShare is the part of all Nodes of Stratos. Where both are exceeded
	// none is: a cloud that forgets many at once was asked in the wrong region, or with the
	// credentials of another account.
	absentMost   = 3
	absentShare  = 10 // percent
	absentWindow = 5 * time.Minute
)

// absences knows which Nodes were deleted, and which are kept, because the cloud does not know
// their instances. It is safe for concurrent use.
type absences struct {
	// mu guards the fields below.
	mu sync.Mutex
	// counted is the sweep for which absent and nodes were read.
	counted time.Time
	// absent are the instances of Nodes that no sweep shows; nodes is how many Nodes of Stratos there
	// are.
	absent map[v1alpha1.InstanceID]bool
	nodes  int
	// deleted is when the Nodes of these instances were deleted.
	deleted map[v1alpha1.InstanceID]time.Time
	// kept are the pools of the instances whose Nodes are kept.
	kept map[v1alpha1.InstanceID]v1alpha1.PoolName
}

func newAbsences() *absences {
	return &absences{deleted: map[v1alpha1.InstanceID]time.Time{}, kept: map[v1alpha1.InstanceID]v1alpha1.PoolName{}}
}

// Release notes that nothing keeps the instance's Node any more: the cloud knows it, or there is no
// Node.
func (a *absences) Release(id v1alpha1.InstanceID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, id)
}

// CountAbsent reads, once per sweep, how many Nodes of Stratos there are and which of their
// instances no sweep shows.
func (i *Inventory) CountAbsent(ctx context.Context, reader client.Reader) error {
	a, swept := i.Absences, i.LastSweep()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.absent != nil && a.counted.Equal(swept) {
		return nil
	}
	list := &corev1.NodeList{}
	if err := reader.List(ctx, list, client.HasLabels{v1alpha1.LabelPool, v1alpha1.LabelState}); err != nil {
		return err
	}
	absent := map[v1alpha1.InstanceID]bool{}
	for n := range list.Items {
		if id := InstanceOf(&list.Items[n]); i.Lacks(id) {
			absent[id] = true
		}
	}
	a.counted, a.absent, a.nodes = swept, absent, len(list.Items)
	return nil
}

// Decide reports whether the Node of the instance is kept, and whether it is the first of its pool.
// One that is not kept is about to be deleted.
func (a *absences) Decide(id v1alpha1.InstanceID, pool v1alpha1.PoolName, now time.Time) (kept, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.deleted, func(_ v1alpha1.InstanceID, at time.Time) bool { return now.Sub(at) > absentWindow })
	absent, nodes := len(a.absent), a.nodes
	for other := range a.deleted {
		if !a.absent[other] { // deleted before the Nodes were counted
			absent++
			nodes++
		}
	}
	if absent <= absentMost || 100*absent <= absentShare*nodes {
		a.deleted[id] = now
		delete(a.kept, id)
		return false, false
	}
	first = true
	for _, of := range a.kept {
		first = first && of != pool
	}
	a.kept[id] = pool
	return true, first
}

// DegradedBy is what the pool's condition says of its Nodes that are kept, "" where none is. lacks
// tells which instances the cloud still does not know.
func (a *absences) DegradedBy(pool v1alpha1.PoolName, lacks func(v1alpha1.InstanceID) bool) (v1alpha1.Reason, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var one v1alpha1.InstanceID
	count := 0
	for id, of := range a.kept {
		if of == pool && lacks(id) {
			count++
			if one == "" || id < one {
				one = id
			}
		}
	}
	if count == 0 {
		return "", ""
	}
	return v1alpha1.ReasonInstancesNotFound,
		fmt.Sprintf("the cloud does not know instance %s of a Node, nor those of %d other Nodes; "+
			"their Nodes are kept, because too many would go at once: check the credentials and the region of Stratos, or delete the Nodes",
			one, max(len(a.absent), count)-1)
}

// Lacks reports whether the cloud does not know the instance: no sweep has shown it, or it is
// missing since. One that the cloud knows as another owner's is not lacking.
func (i *Inventory) Lacks(id v1alpha1.InstanceID) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	e, ok := i.instances[id]
	return !ok && !i.foreign[id] || e.Absent
}

// IsForeign notes whether the cloud, asked about the instance of a Node, knows it as another
// owner's.
func (i *Inventory) IsForeign(id v1alpha1.InstanceID, foreign bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if foreign {
		i.foreign[id] = true
	} else {
		delete(i.foreign, id)
	}
}
