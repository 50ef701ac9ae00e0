package failures

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// rollOut: a DaemonSet that tolerates everything and replaces one pod at a time, with the affinity
// of docs/operate.md. Its roll-out ends while nodes are standby, and a node that starts after it
// gets the new pod.
func rollOut(t *testing.T, r *framework.Rig) {
	pool(t, r, "agents", "t3.medium", 3)
	agent := agentOn("agents")
	first := podOn("agents-1", "agents")
	assert.Create(t, r, agent, first)
	assert.AwaitRunning(t, r, first)
	awaitRolledOut(t, r, agent, 1)
	assert.Change(t, r, agent, func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Containers[0].Image = "registry.example/agent:2"
	})
	awaitRolledOut(t, r, agent, 1)
	assert.AwaitStandby(t, r, "agents", 2)
	second := podOn("agents-2", "agents")
	assert.Serve(t, r, second)
	awaitRolledOut(t, r, agent, 2)
	assert.Remove(t, r, agent)
}

// agentOn is a DaemonSet on the pool's nodes that are not standby.
func agentOn(pool string) *appsv1.DaemonSet {
	spec := framework.PoolPod("agent", pool, "cpu", "100m").Spec // its scheduler is the only one of this rig
	spec.Containers[0].Image = "registry.example/agent:1"
	spec.Tolerations, spec.Affinity = framework.TolerateAll(), framework.NotOnStandby()
	return framework.DaemonSet("agent-of-"+pool, spec)
}

// awaitRolledOut waits until the present template is on so many nodes, and nothing else.
func awaitRolledOut(t *testing.T, r *framework.Rig, of *appsv1.DaemonSet, nodes int32) {
	t.Helper()
	assert.AwaitObject(t, r, of, fmt.Sprintf("rolled out on %d nodes", nodes), func(d *appsv1.DaemonSet) bool {
		s := d.Status
		return s.ObservedGeneration >= d.Generation && s.DesiredNumberScheduled == nodes &&
			s.UpdatedNumberScheduled == nodes && s.NumberAvailable == nodes
	})
}
