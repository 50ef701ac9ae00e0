package suite

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/lab"
)

// TestDaemonSetRollsOutBesideStandby: a DaemonSet that tolerates everything, has the documented affinity and may miss one pod at a time rolls out while nodes
// are stopped; a node that wakes later gets the new revision.
func TestDaemonSetRollsOutBesideStandby(t *testing.T) {
	l := lab.New(t)
	image := l.Push(t, "rollout/web:1")
	l.Namespace(t, "rollout")
	agent := lab.Everywhere("agent", "rollout", "", l.PauseImage(t))
	agent.Spec.Template.Spec.NodeSelector = nil // on the nodes that are always on, too
	l.Create(t, agent)
	awaitRollout(t, l, agent, 2)
	makePool(t, l, poolOf("rollout", 2, 2, image))

	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"revision":"second"}}}}}`)
	if err := l.Client.Patch(t.Context(), agent, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	awaitRollout(t, l, agent, 2)
	w := lab.Workload{Name: "web", Namespace: "rollout", Pool: "rollout", Image: image, CPU: podCPU, Replicas: 2}
	l.Create(t, w.Deployment())
	l.AwaitReady(t, "rollout", "web", 2)
	awaitRollout(t, l, agent, 4)
	l.Scale(t, w, 0)
	l.AwaitStandby(t, "rollout", 2)
}

// awaitRollout waits until the DaemonSet has that many pods, all of its present revision and Ready.
func awaitRollout(t *testing.T, l *lab.Lab, agent *appsv1.DaemonSet, pods int32) {
	t.Helper()
	lab.Await(t, fmt.Sprintf("the DaemonSet on %d nodes", pods), func(ctx context.Context) (bool, error) {
		if err := l.Client.Get(ctx, client.ObjectKeyFromObject(agent), agent); err != nil {
			return false, err
		}
		s := agent.Status
		if s.ObservedGeneration == agent.Generation && s.DesiredNumberScheduled == pods && s.UpdatedNumberScheduled == pods && s.NumberReady == pods && s.NumberUnavailable == 0 {
			return true, nil
		}
		return false, fmt.Errorf("status %+v", s)
	})
	for _, p := range podsOf(t, l, agent) {
		if got, want := p.Annotations["revision"], agent.Spec.Template.Annotations["revision"]; p.DeletionTimestamp == nil && got != want {
			t.Errorf("pod %s is of revision %q, want %q", p.Name, got, want)
		}
	}
}

func podsOf(t *testing.T, l *lab.Lab, agent *appsv1.DaemonSet) []corev1.Pod {
	t.Helper()
	pods, err := l.Pods(t.Context(), agent.Namespace, agent.Name)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}
