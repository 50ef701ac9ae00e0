package minors

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
)

const (
	poolName = "minors"
	// Nodes without Stratos that have room: only a taint and a cordon keep pods off.
	taintedNode, cordonedNode = "tainted", "cordoned"
)

// pool is a warm pool of two nodes of 2 cpu, in addition to the nodes without Stratos.
type pool struct {
	standby map[string]*corev1.Node
	// all are the names of every node that the scheduler may ask about.
	all []string
}

func warmPool(t *testing.T, r *framework.Rig) pool {
	t.Helper()
	cordoned := assert.Ordinary(cordonedNode, 8)
	cordoned.Spec.Unschedulable = true
	assert.Join(t, r, cordoned, assert.Ordinary(taintedNode, 8, corev1.Taint{Key: "reserved", Value: "batch",
		Effect: corev1.TaintEffectNoSchedule}))
	nodes := framework.Pool(poolName, 2)
	nodes.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	assert.Warm(t, r, nodes, framework.Class(poolName, "m5.large"))
	p := pool{standby: assert.PoolNodes(t, r, poolName)}
	p.all = slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(p.standby)), taintedNode, cordonedNode)))
	return p
}

// testDedicated is the main job with the configuration that framework.StartScheduler generates for
// the control plane's minor.
func testDedicated(t *testing.T, r *framework.Rig, p pool) {
	p.checkOneStart(t, r, v1alpha1.SchedulerName, 1)
	p.checkTaints(t, r)
}

// checkOneStart: a pod that fits nowhere wakes one node, is bound to it, and the node goes back to
// standby when the pod is gone. total is how many starts there have been by then.
func (p pool) checkOneStart(t *testing.T, r *framework.Rig, scheduler string, total int) {
	t.Helper()
	pod := framework.Pod("wakes-one-"+scheduler, "cpu", "1")
	pod.Spec.SchedulerName = scheduler
	created := time.Now()
	assert.Create(t, r, pod)
	first := &assert.AwaitAsked(t, r.Recorder, framework.Filter, pod)[0]
	t.Logf("asked %s after the pod was created", first.At.Sub(created).Round(time.Millisecond))
	// With the two filters in the extender the scheduler itself keeps no node of these away.
	if diff := cmp.Diff(p.all, first.Nodes); diff != "" {
		t.Errorf("candidates (-every node +asked about):\n%s", diff)
	}
	promised := assert.ClaimedNode(t, first, poolName)
	if diff := cmp.Diff([]string{promised}, assert.AwaitBound(t, r, pod)); diff != "" {
		t.Fatalf("node of the pod (-promised +bound):\n%s", diff)
	}
	assert.AwaitRunning(t, r, pod)
	assert.Remove(t, r, pod)
	assert.AwaitAllStandby(t, r, poolName, 2)
	p.checkStandby(t, r, total)
}

func (p pool) checkStandby(t *testing.T, r *framework.Rig, starts int) {
	t.Helper()
	after := assert.PoolNodes(t, r, poolName)
	for name := range p.standby {
		n := after[name]
		if n == nil {
			t.Errorf("node %s is gone", name)
			continue
		}
		if state := assert.InstanceState(t, r, assert.InstanceOf(n)); state != provider.InstanceStopped ||
			!n.Spec.Unschedulable {
			t.Errorf("node %s: instance %s, cordoned %t; want it stopped and closed", name, state, n.Spec.Unschedulable)
		}
	}
	if ids := assert.Starts(t, r); len(ids) != starts {
		t.Errorf("starts of %v, want %d in all", ids, starts)
	}
}

// checkTaints: two pods too large for the pool, for which a node without Stratos has room. Only the
// one that tolerates its taint gets there.
func (p pool) checkTaints(t *testing.T, r *framework.Rig) {
	t.Helper()
	shutOut, tolerant := framework.Pod("shut-out", "cpu", "4"), framework.Pod("tolerant", "cpu", "4")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpExists}}
	assert.Create(t, r, shutOut)
	assert.AwaitPending(t, r, shutOut, corev1.PodReasonUnschedulable, "node(s) had untolerated taint(s)",
		"node(s) were unschedulable")
	asked := assert.AwaitAsked(t, r.Recorder, framework.Filter, shutOut)[0]
	if !cmp.Equal(asked.Nodes, []string{cordonedNode, taintedNode}) {
		t.Errorf("candidates %v, want the two nodes with room", asked.Nodes)
	}
	assert.Create(t, r, tolerant)
	if diff := cmp.Diff([]string{taintedNode}, assert.AwaitBound(t, r, tolerant)); diff != "" {
		t.Errorf("node of the pod that tolerates the taint (-want +bound):\n%s", diff)
	}
	if on := assert.Now(t, r, shutOut).Spec.NodeName; on != "" {
		t.Errorf("the pod without a toleration is on node %s", on)
	}
	assert.Remove(t, r, shutOut, tolerant)
	p.checkStandby(t, r, 1)
}
