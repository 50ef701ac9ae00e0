package outages

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestTwoLeaders: two processes lead at once, for the whole of a life, and every asking of the
// scheduler goes to the other one. Whatever both want has one effect: instances are launched,
// started and replaced as if there were one.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	var both []framework.Running
	for _, name := range []string{"stratos-1", "stratos-2"} {
		both = append(both, assert.StartStratos(t, r, name, "--leader-elect=false"))
	}
	r.Recorder.Forward(both[0].Extender)
	var turn atomic.Uint32
	r.Recorder.Tell(func(framework.Asked) { r.Recorder.Forward(both[turn.Add(1)%2].Extender) })
	warm(t, r, "led", "m5.xlarge")
	launched(t, r, standbyNodes)
	nodes := assert.PoolNodes(t, r, "led")

	pods := framework.PoolPods(burstPods, "led", "led", "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitRunning(t, r, pods...)
	exact(t, r, nodes)

	assert.ChangePool(t, r, "led", func(s *v1alpha1.NodePoolSpec) { s.ScaleDown.EmptyNodeTTL = &metav1.Duration{} })
	assert.Remove(t, r, assert.Objects(pods)...)
	awaitAll(t, r, nodes)
	launched(t, r, standbyNodes)

	// Drift: one node at a time is replaced by a new one.
	assert.ChangePool(t, r, "led", func(s *v1alpha1.NodePoolSpec) {
		s.MinStandby, s.Template.Labels = standbyNodes, map[string]string{"example.com/version": "2"}
	})
	assert.AwaitNodes(t, r, "led", "all replaced and standby", func(now map[string]*corev1.Node) bool {
		for name := range now {
			if nodes[name] != nil {
				return false
			}
		}
		return len(now) == standbyNodes && assert.In(now, v1alpha1.StateStandby) == standbyNodes
	})
	launched(t, r, 2*standbyNodes)
	remove(t, r)
	for _, s := range both {
		if worked, err := framework.Metric(t.Context(), s.Metrics, "stratos_cloud_provider_calls_total", ""); err != nil ||
			worked == 0 {
			t.Errorf("%s led and made %v calls of the cloud, %v", s.Process.Name(), worked, err)
		}
	}
}

// warm creates the pool and waits until its nodes are standby. Then it asks for none: whatever is
// launched after that is one too many.
func warm(t *testing.T, r *framework.Rig, name, instanceType string) {
	t.Helper()
	pool := framework.Pool(name, poolSize)
	pool.Spec.MinStandby = standbyNodes
	assert.Warm(t, r, pool, framework.Class(name, instanceType))
	assert.ChangePool(t, r, name, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 0 })
}

// launched counts the instances that there ever were.
func launched(t *testing.T, r *framework.Rig, want int) {
	t.Helper()
	ids := map[v1alpha1.InstanceID]bool{}
	for _, c := range assert.Calls(t, r) {
		if c.Op == fake.OpLaunch && c.Err == "" {
			ids[c.Instance] = true
		}
	}
	if len(ids) != want {
		t.Errorf("%d instances were launched, want %d", len(ids), want)
	}
}

// awaitAll waits until every one of the nodes is standby.
func awaitAll(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	for name := range nodes {
		assert.AwaitState(t, r, name, v1alpha1.StateStandby)
	}
	stops := map[v1alpha1.InstanceID]bool{}
	for _, c := range assert.Accepted(t, r, fake.OpStop, nodes) {
		stops[c.Instance] = true
	}
	if len(stops) != burstNodes {
		t.Errorf("%d instances were stopped, want the %d that had been started", len(stops), burstNodes)
	}
}

// remove deletes the pool: nothing is left of it.
func remove(t *testing.T, r *framework.Rig) {
	t.Helper()
	assert.Remove(t, r, assert.Pool("led"))
	for id, v := range assert.PoolInstances(t, r, "led") {
		if v.State != provider.InstanceTerminated {
			t.Errorf("instance %s of the deleted pool is %s", id, v.State)
		}
	}
	if nodes := assert.PoolNodes(t, r, "led"); len(nodes) != 0 {
		t.Errorf("%d Nodes of the deleted pool are left", len(nodes))
	}
}
