package recycling

import (
	"strings"
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
	if _, err := r.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultNoNetwork, Op: fake.OpLaunch, Type: otherType,
		Count: 1}); err != nil {
		t.Fatal(err)
	}
	p := newPool(pool, 1, 1)
	p.Spec.Template.StartupTaints = []v1alpha1.Taint{{Key: "e2e.example/cni", Effect: corev1.TaintEffectNoSchedule}}
	if err := r.Warm(t.Context(), p, framework.Class(pool, otherType)); err != nil {
		t.Fatal(err)
	}

	node := assert.OnlyNode(t, r, pool)
	nodes := map[string]*corev1.Node{node.Name: node}
	for op, want := range map[fake.Op]int{fake.OpStart: 1, fake.OpStop: 1, fake.OpTerminate: 0} {
		if calls := assert.Accepted(t, r, op, nodes); len(calls) != want {
			t.Errorf("%s: %+v, want %d", op, calls, want)
		}
	}
	if words := assert.AwaitEvent(t, r, node, v1alpha1.ReasonWarmupFailed); !strings.Contains(words, "once more") {
		t.Errorf("event %s says %q, want the second try", v1alpha1.ReasonWarmupFailed, words)
	}
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
	if on := occupy(t, r, pool, pod); on != node.Name {
		t.Errorf("pod %s is on %s", pod.Name, on)
	}
}
