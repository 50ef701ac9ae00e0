package failures

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
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
	was := agent.DeepCopy()
	agent.Spec.Template.Spec.Containers[0].Image = "registry.example/agent:2"
	if err := r.Client.Patch(t.Context(), agent, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
	awaitRolledOut(t, r, agent, 1)
	awaitStandby(t, r, "agents", 2)
	second := podOn("agents-2", "agents")
	assert.Create(t, r, second)
	assert.AwaitRunning(t, r, second)
	awaitRolledOut(t, r, agent, 2)
	assert.Remove(t, r, agent)
}

// agentOn is a DaemonSet on the pool's nodes that are not standby.
func agentOn(pool string) *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent-of-" + pool}
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agent-of-" + pool}}
	agent.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	agent.Spec.Template.Labels = labels
	spec := framework.Pod("agent").Spec // its scheduler is the only one of this rig
	spec.Containers[0].Image = "registry.example/agent:1"
	spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	spec.NodeSelector = map[string]string{v1alpha1.LabelPool: pool}
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: v1alpha1.LabelState, Operator: corev1.NodeSelectorOpNotIn, Values: []string{string(v1alpha1.StateStandby)}},
			}}},
		}},
	}
	agent.Spec.Template.Spec = spec
	return agent
}

// awaitRolledOut waits until the present template is on so many nodes, and nothing else.
func awaitRolledOut(t *testing.T, r *framework.Rig, of *appsv1.DaemonSet, nodes int32) {
	t.Helper()
	assert.Await(t, fmt.Sprintf("roll-out of %s on %d nodes", of.Name, nodes), func(ctx context.Context) (bool, error) {
		d := &appsv1.DaemonSet{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(of), d); err != nil {
			return false, err
		}
		s := d.Status
		if s.ObservedGeneration >= d.Generation && s.DesiredNumberScheduled == nodes && s.UpdatedNumberScheduled == nodes &&
			s.NumberAvailable == nodes {
			return true, nil
		}
		return false, fmt.Errorf("generation %d, status %+v", d.Generation, s)
	})
}
