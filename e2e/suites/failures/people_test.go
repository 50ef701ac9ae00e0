package failures

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// marksTaken: what people take from Nodes and instances comes back, and no pod notices.
func marksTaken(t *testing.T, r *framework.Rig) {
	pool(t, r, "marks", "m7i.xlarge", 2)
	pod := podOn("marks-1", "marks")
	assert.Create(t, r, pod)
	running := assert.AwaitBound(t, r, pod)[0]
	nodes := assert.PoolNodes(t, r, "marks")
	for name := range nodes {
		if name != running {
			assert.Change(t, r, assert.Node(name), func(n *corev1.Node) {
				n.Spec.Unschedulable, n.Spec.Taints = false, nil
				delete(n.Labels, v1alpha1.LabelExcludeDisruption)
			})
			assert.AwaitNode(t, r, name, "closed again", func(n *corev1.Node) bool {
				return n.Spec.Unschedulable && n.Labels[v1alpha1.LabelExcludeDisruption] == "true" &&
					assert.HasTaint(n, v1alpha1.TaintStandby)
			})
		}
	}
	assert.Change(t, r, assert.Node(running), func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelPool) })
	assert.AwaitNode(t, r, running, "labelled again",
		func(n *corev1.Node) bool { return n.Labels[v1alpha1.LabelPool] == "marks" })
	id := assert.InstanceOf(nodes[running])
	for _, tag := range []string{v1alpha1.LabelPool, v1alpha1.TagCluster, v1alpha1.LabelState} {
		if err := r.Cloud.UpdateInstanceTags(t.Context(), string(id), map[string]string{tag: ""}); err != nil {
			t.Fatal(err)
		}
		assert.Eventually(t, "tag "+tag+" of "+string(id), func(ctx context.Context) (map[string]string, error) {
			i, err := r.Cloud.GetInstance(ctx, string(id))
			return i.Tags, err
		}, func(tags map[string]string) bool { return tags[tag] != "" })
	}
	if n := assert.PoolNodes(t, r, "marks")[running]; n == nil || assert.StateOf(n) != v1alpha1.StateRunning {
		t.Errorf("node %s no longer runs: %v", running, n)
	}
	assert.MustLive(t, r, pod, running)
	for _, op := range []fake.Op{fake.OpStop, fake.OpTerminate} {
		if calls := assert.CallsAbout(t, r, op, map[string]*corev1.Node{running: nodes[running]}); len(calls) != 0 {
			t.Errorf("%v", calls)
		}
	}
}

// behindOurBack: instances that others start, stops and terminates.
func behindOurBack(t *testing.T, r *framework.Rig) {
	p := pool(t, r, "console", "c5.xlarge", 1)
	n := assert.OnlyNode(t, r, "console")
	act := func(what fake.Action) { assert.Behind(t, r, assert.InstanceOf(n), what) }
	act(fake.ActStart)
	assert.AwaitState(t, r, n.Name, v1alpha1.StateRunning)
	pod := podOn("console-1", "console")
	assert.Serve(t, r, pod)
	act(fake.ActStop)
	assert.AwaitCall(t, r, fake.OpStart, assert.InstanceOf(n)) // a pod is bound to it
	assert.AwaitState(t, r, n.Name, v1alpha1.StateRunning)
	if got := assert.InstanceState(t, r, assert.InstanceOf(n)); got != provider.InstanceRunning {
		t.Errorf("instance is %s", got)
	}
	act(fake.ActTerminate)
	assert.AwaitGone(t, r, n)
	assert.AwaitStandby(t, r, p.Name, 1)
}

// countedStandby: pods and DaemonSets for which stopped nodes count where they should not are told.
func countedStandby(t *testing.T, r *framework.Rig) {
	pool(t, r, "counted", "c6i.xlarge", 1)
	spec := framework.PoolPod("agent", "counted").Spec // its scheduler is the only one of this rig
	spec.Tolerations = framework.TolerateAll()
	agent := framework.DaemonSet("agent", spec)
	pod := podOn("counted-1", "counted")
	pod.Labels = map[string]string{"app": "spread"}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *agentTooMuch()
	assert.Create(t, r, agent, pod) // the pod fits no node, so the node stays standby
	assert.AwaitEvent(t, r, agent, v1alpha1.ReasonDaemonSetCountsStandby, "stratos.sh/state NotIn [standby]")
	assert.AwaitEvent(t, r, pod, v1alpha1.ReasonSpreadCountsStandby, "nodeTaintsPolicy: Honor")
	assert.Remove(t, r, pod, agent)
}
