// Package recycling proves on a real control plane how nodes are replaced: within the budget,
// standby nodes first, none taken from under its pods but after a drain by the rules; how surplus
// goes, and how a warm-up that stopped incomplete is tried again.
package recycling

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

const instanceType = "m5.large"

// TestRecycling gives each test a pool of its own on one rig. They run side by side, so one pool's
// budget must not be another's.
func TestRecycling(t *testing.T) {
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()})
	j := assert.OpenJournal(t, r)
	for name, test := range map[string]func(*testing.T, *framework.Rig, *assert.Journal){
		"DriftReplacesStandbyNodesFirst": driftReplacesStandbyNodesFirst,
		"MaxNodeRuntime":                 maxNodeRuntime,
		"TerminationGracePeriod":         terminationGracePeriod,
		"ExpireAfter":                    expireAfter,
		"SurplusGoes":                    surplusGoes,
		"LoweredPoolSize":                loweredPoolSize,
		"SecondWarmUp":                   secondWarmUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r, j)
		})
	}
}

// newPool is a pool that replaces one node at a time.
func newPool(name string, size, least int32) *v1alpha1.NodePool {
	pool := framework.Pool(name, size)
	one := intstr.FromInt32(1)
	pool.Spec.MinStandby, pool.Spec.Disruption.Budget = least, &one
	return pool
}

func warm(t *testing.T, r *framework.Rig, pool *v1alpha1.NodePool) {
	t.Helper()
	assert.Warm(t, r, pool, framework.Class(pool.Name, instanceType))
}

func bigPod(name string) *corev1.Pod { return framework.Pod(name, "cpu", "1500m") }

// ranSince brings the clock forward for one node, by bringing its beginning back: maxNodeRuntime
// counts from this annotation, and its shortest allowed value is a minute. From the same annotation
// Stratos reckons whether its last look at the cloud can show the start, so it has to have looked:
// when it lists for the second time it has taken in what the first told.
func ranSince(t *testing.T, r *framework.Rig, node string, ago time.Duration) {
	t.Helper()
	lists := func(context.Context) (int, error) {
		return len(slices.DeleteFunc(assert.Calls(t, r), func(c fake.Call) bool { return c.Op != fake.OpList })), nil
	}
	before, _ := lists(t.Context())
	assert.Eventually(t, "two looks at the cloud", lists, func(n int) bool { return n >= before+2 })
	assert.Change(t, r, assert.Node(node), func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationRunningSince] = time.Now().Add(-ago).UTC().Format(time.RFC3339)
	})
}

// revisionOf is that of the last write of the object.
func revisionOf(o client.Object) (revision int64) {
	revision, _ = strconv.ParseInt(o.GetResourceVersion(), 10, 64) // the API guarantees a number
	return revision
}

// moment is the pool's nodes as they were with one revision.
type moment struct {
	revision int64
	nodes    map[string]*corev1.Node
}

// history is what the journal has of the pool's nodes, one moment for each version of each, from
// the revision on.
func history(j *assert.Journal, pool string, from int64) []moment {
	now, out := map[string]*corev1.Node{}, []moment{}
	for _, e := range j.AllNodes() {
		delete(now, e.Object.Name)
		if !e.Deleted && e.Object.Labels[v1alpha1.LabelPool] == pool {
			now[e.Object.Name] = e.Object
		}
		if e.Revision >= from {
			out = append(out, moment{e.Revision, maps.Clone(now)})
		}
	}
	return out
}

// checkBounds holds every moment against the budget and against the fewest standby nodes that there
// may be.
func checkBounds(t *testing.T, moments []moment, budget, least int) {
	t.Helper()
	if len(moments) == 0 {
		t.Fatal("the journal has nothing to check")
	}
	for _, m := range moments {
		if got := assert.In(m.nodes, v1alpha1.StateTerminating); got > budget {
			t.Errorf("revision %d: %d nodes are being replaced, the budget is %d", m.revision, got, budget)
		}
		if got := assert.In(m.nodes, v1alpha1.StateStandby); got < least {
			t.Errorf("revision %d: %d nodes stand by, at least %d must", m.revision, got, least)
		}
	}
}

// terminated are the Nodes' instances that the cloud was asked to terminate, in order, each once:
// asking again does nothing.
func terminated(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) []v1alpha1.InstanceID {
	t.Helper()
	var ids []v1alpha1.InstanceID
	for _, c := range assert.Accepted(t, r, fake.OpTerminate, nodes) {
		if !slices.Contains(ids, c.Instance) {
			ids = append(ids, c.Instance)
		}
	}
	return ids
}

// checkSize replays the cloud's calls about the pool's instances: there were never more than
// poolSize.
func checkSize(t *testing.T, r *framework.Rig, pool string, size int) {
	t.Helper()
	ours := assert.PoolInstances(t, r, pool)
	there, launched := map[v1alpha1.InstanceID]bool{}, 0
	for _, c := range assert.Calls(t, r) {
		_, pools := ours[c.Instance]
		switch {
		case c.Err != "" || !pools:
		case c.Op == fake.OpLaunch:
			there[c.Instance] = true
			launched++
		case c.Op == fake.OpTerminate:
			delete(there, c.Instance)
		}
		if len(there) > size {
			t.Fatalf("%d instances with call %d, poolSize is %d", len(there), c.Seq, size)
		}
	}
	if launched <= size { // else the cloud has forgotten those that it terminated, and nothing was checked
		t.Errorf("the cloud tells of %d launches, which is no more than poolSize", launched)
	}
}
