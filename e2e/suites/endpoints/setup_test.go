package endpoints

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

func agentLabels() map[string]string { return map[string]string{"app": "agents"} }

// agents is a DaemonSet on the pool's nodes that tolerates everything, so that its pods stay bound
// to stopped nodes.
func agents(pool string) *appsv1.DaemonSet {
	spec := framework.PoolPod("agent", pool).Spec
	spec.Tolerations = framework.TolerateAll()
	return framework.DaemonSet("agents", spec)
}

// agentOn is the one pod of the agents, which is on the node.
func agentOn(t *testing.T, r *framework.Rig, node string) *corev1.Pod {
	t.Helper()
	agent := &assert.AwaitPods(t, r, agentLabels(), 1)[0]
	return assert.AwaitObject(t, r, agent, "on "+node, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
}

// service selects the agents.
func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agents"},
		Spec:       corev1.ServiceSpec{Selector: agentLabels(), Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// awaitEndpoint waits until the pod's address takes connections by the EndpointSlices of the
// Service, or takes none.
func awaitEndpoint(t *testing.T, r *framework.Rig, pod *corev1.Pod, want bool) {
	t.Helper()
	assert.Await(t, fmt.Sprintf("endpoint of %s ready=%t", pod.Name, want), func(ctx context.Context) (bool, error) {
		is, err := isEndpoint(ctx, r, pod)
		if err == nil && is == want {
			return true, nil
		}
		p, podErr := framework.Read(ctx, r, pod)
		return false, errors.Join(err, podErr, fmt.Errorf("endpoint ready=%t, pod ready=%t", is, assert.PodIsReady(p)))
	})
}

func isEndpoint(ctx context.Context, r *framework.Rig, pod *corev1.Pod) (bool, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := r.Client.List(ctx, list, client.MatchingLabels{discoveryv1.LabelServiceName: "agents"}); err != nil {
		return false, err
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if e.TargetRef != nil && e.TargetRef.UID == pod.UID {
				return e.Conditions.Ready != nil && *e.Conditions.Ready, nil
			}
		}
	}
	return false, errors.New("the pod is in no EndpointSlice")
}
