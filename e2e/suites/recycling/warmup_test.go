package recycling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// secondWarmUp: the machine powers itself off at the end of its first boot, before its network was
// up. It is started once more, and stopped by Stratos when it is complete; until then it is open to
// no pod.
func secondWarmUp(t *testing.T, r *framework.Rig, j *assert.Journal) {
	const pool, otherType = "again", "m6i.large" // a type of its own, so that the fault strikes no other pool
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultNoNetwork, Op: fake.OpLaunch, Type: otherType,
		Count: 1})
	p := newPool(pool, 1, 1)
	p.Spec.Template.StartupTaints = []v1alpha1.Taint{{Key: "e2e.example/cni", Effect: corev1.TaintEffectNoSchedule}}
	assert.Warm(t, r, p, framework.Class(pool, otherType))

	node := assert.OnlyNode(t, r, pool)
	nodes := map[string]*corev1.Node{node.Name: node}
	for op, want := range map[fake.Op]int{fake.OpStart: 1, fake.OpStop: 1, fake.OpTerminate: 0} {
		if calls := assert.Accepted(t, r, op, nodes); len(calls) != want {
			t.Errorf("%s: %+v, want %d", op, calls, want)
		}
	}
	assert.AwaitEvent(t, r, node, v1alpha1.ReasonWarmupFailed, "once more")
	tried := false
	for _, v := range j.NodeVersions(node.Name) {
		state := assert.StateOf(v.Object)
		tried = tried || v.Object.Annotations[v1alpha1.AnnotationWarmupStarted] != ""
		if state != "" && !v.Object.Spec.Unschedulable {
			t.Errorf("revision %d: the node is %s and open", v.Revision, state)
		}
		if state != "" && state != v1alpha1.StateWarmup && state != v1alpha1.StateStandby {
			t.Errorf("revision %d: the node is %s", v.Revision, state)
		}
	}
	if !tried {
		t.Error("no version of the node tells of the second try")
	}
	if node.Annotations[v1alpha1.AnnotationWarmupStarted] != "" {
		t.Error("the standby node still bears the marks of its warm-up")
	}
	// It serves: the same machine starts for a pod.
	pod := framework.Pod("served", "cpu", "1")
	if on := assert.Serve(t, r, framework.OnPool(pod, pool)); on != node.Name {
		t.Errorf("pod %s is on %s", pod.Name, on)
	}
}
