package endpoints

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestPodsOfAStoppedNodeAreNotEndpoints: a DaemonSet whose pods stay bound to standby nodes stands
// behind a Service. Its pod on a node is an endpoint while the node runs, and none while the node
// is standby: after the warm-up and after each life. kube-controller-manager does not help, because
// its grace period is an hour here.
func TestPodsOfAStoppedNodeAreNotEndpoints(t *testing.T) {
	t.Parallel()
	const pool = "served"
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()})
	j := assert.OpenJournal(t, r)
	assert.Create(t, r, service(), agents(pool))
	p, class := framework.Pool(pool, 1), framework.Class(pool, "m5.large")
	p.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	framework.StayUp(p, class, framework.PodImage)
	assert.Warm(t, r, p, class)
	node := assert.OnlyNode(t, r, pool).Name
	agent := agentOn(t, r, node)
	wasReady(t, j, agent, 0)
	awaitEndpoint(t, r, agent, false)
	for life := 1; life <= 2; life++ {
		since := lastOf(j, agent)
		pod := framework.PoolPod(fmt.Sprintf("life-%d", life), pool, "cpu", "1")
		assert.Serve(t, r, pod)
		wasReady(t, j, agent, since)
		awaitEndpoint(t, r, agent, true)
		assert.Remove(t, r, pod)
		assert.AwaitState(t, r, node, v1alpha1.StateStandby)
		awaitEndpoint(t, r, agent, false)
	}
	if now := agentOn(t, r, node); now.UID != agent.UID {
		t.Error("the agent was replaced: this shows nothing of a pod that stays")
	}
}

// wasReady requires that the kubelet called the pod ready after the revision: without it a pod that
// is no endpoint shows nothing.
func wasReady(t *testing.T, j *assert.Journal, pod *corev1.Pod, since int64) {
	t.Helper()
	assert.First(t, "pod "+pod.Name+" ready", since,
		func() []assert.Version[*corev1.Pod] { return j.PodVersions(pod.UID) }, assert.PodIsReady)
}

func lastOf(j *assert.Journal, pod *corev1.Pod) int64 {
	versions := j.PodVersions(pod.UID)
	return versions[len(versions)-1].Revision
}
