package scheduling

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// holdFinalizer keeps an evicted pod until the test lets it go, as a slow shutdown would.
const holdFinalizer = "e2e.example/hold"

// TestPoolDeletion: standby nodes go at once, a running one when its pod has left, the finalizer
// last; another pool, and another cluster's pool of the same name, are not touched.
func TestPoolDeletion(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()})
	doomed, other := framework.Pool("doomed", 3), framework.Pool("other", 2)
	assert.Create(t, r, framework.Class("doomed", "m5.large"), framework.Class("other", "m5.large"), doomed, other)
	assert.AwaitStandby(t, r, "doomed", 3)
	assert.AwaitStandby(t, r, "other", 2)
	class := framework.Class("foreign", "m5.large")
	class.Spec.UserData = framework.StayUpUserData
	foreign := assert.LaunchForeign(t, r, class, "doomed", v1alpha1.StateRunning)

	evicted, stays := framework.PoolPod("evicted", "doomed", "cpu", "2"),
		framework.PoolPod("stays", "other", "cpu", "2")
	evicted.Finalizers = []string{holdFinalizer}
	assert.Create(t, r, evicted, stays)
	on := assert.AwaitBound(t, r, evicted, stays)
	assert.AwaitRunning(t, r, evicted, stays)
	ours, others := assert.PoolNodes(t, r, "doomed"), assert.PoolNodes(t, r, "other")
	inUse := ours[on[0]]

	assert.Delete(t, r, doomed)
	// Its eviction and the end of the standby nodes are events that come after the decision to remove
	// the pool. By then a Stratos that does not wait for pods would have terminated the running node
	// as well.
	assert.AwaitObject(t, r, evicted, "evicted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	awaitGone(t, r, ours, on[0])
	if calls := assert.CallsAbout(t, r, fake.OpTerminate, map[string]*corev1.Node{on[0]: inUse}); len(calls) != 0 {
		t.Errorf("terminated under its pod: %+v", calls)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(doomed), doomed); err != nil ||
		len(doomed.Finalizers) == 0 {
		t.Errorf("the pool is gone, or without its finalizer %v, while an instance is left: %v", doomed.Finalizers, err)
	}
	assert.Change(t, r, evicted, func(p *corev1.Pod) { p.Finalizers = nil })

	assert.AwaitGone(t, r, doomed)
	awaitGone(t, r, ours, "")
	if left := assert.PoolNodes(t, r, "doomed"); len(left) != 0 {
		t.Errorf("Nodes left: %v", left)
	}
	checkEnded(t, r, "doomed", foreign)
	checkUntouched(t, r, others, stays, on[1])
}

// awaitGone waits until every Node but one is gone, and their instances with them.
func awaitGone(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node, but string) {
	t.Helper()
	for name, n := range nodes {
		if name == but {
			continue
		}
		assert.AwaitGone(t, r, n)
		if calls := assert.CallsAbout(t, r, fake.OpTerminate, map[string]*corev1.Node{name: n}); len(calls) == 0 {
			t.Errorf("node %s was removed and its instance not terminated", name)
		}
	}
}

// checkEnded: of everything tagged with the pool only the foreign instance lives.
func checkEnded(t *testing.T, r *framework.Rig, pool string, foreign v1alpha1.InstanceID) {
	t.Helper()
	views := assert.PoolInstances(t, r, pool)
	for id, v := range views {
		if ended := v.State == provider.InstanceTerminated; ended == (id == foreign) {
			t.Errorf("instance %s of cluster %s is %s", id, v.Tags[v1alpha1.TagCluster], v.State)
		}
	}
	for _, c := range assert.Calls(t, r) {
		if c.Instance == foreign && c.Op != fake.OpLaunch {
			t.Errorf("call about another cluster's instance: %+v", c)
		}
	}
}

// checkUntouched: the other pool's Nodes are the same ones in the same state, its pod runs, and its
// cloud calls are the one start.
func checkUntouched(t *testing.T, r *framework.Rig, before map[string]*corev1.Node, pod *corev1.Pod, on string) {
	t.Helper()
	assert.MustLive(t, r, pod, on)
	after := assert.PoolNodes(t, r, "other")
	for name, n := range before {
		now := after[name]
		if now == nil {
			t.Errorf("node %s of the other pool is gone", name)
			continue
		}
		if diff := cmp.Diff(identityOf(n), identityOf(now)); diff != "" {
			t.Errorf("node %s of the other pool (-before +after):\n%s", name, diff)
		}
	}
	for _, op := range []fake.Op{fake.OpStop, fake.OpTerminate} {
		if calls := assert.CallsAbout(t, r, op, before); len(calls) != 0 {
			t.Errorf("calls about the other pool: %+v", calls)
		}
	}
	if pool := assert.Now(t, r, assert.Pool("other")); pool.DeletionTimestamp != nil {
		t.Errorf("the other pool: deletion %v", pool.DeletionTimestamp)
	}
}

// identityOf tells one Node from another of the same name, and what state it is in.
func identityOf(n *corev1.Node) string {
	return fmt.Sprintf("%s %s, state %s, deletion %v", n.UID, n.Spec.ProviderID, n.Labels[v1alpha1.LabelState],
		n.DeletionTimestamp)
}
