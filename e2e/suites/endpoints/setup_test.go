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

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

func agentLabels() map[string]string { return map[string]string{"app": "agent"} }

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

// service selects the agents.
func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agents"},
		Spec:       corev1.ServiceSpec{Selector: agentLabels(), Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// agents is a DaemonSet on the pool's nodes that tolerates everything, so that its pods stay bound
// to stopped nodes.
func agents(pool string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agents"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: agentLabels()}
	d.Spec.Template.Labels = agentLabels()
	d.Spec.Template.Spec = framework.Pod("agent").Spec
	d.Spec.Template.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: pool}
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return d
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// onlyAgent is the one pod of the agents, which is on the node.
func onlyAgent(ctx context.Context, r *framework.Rig, node string) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Client.List(ctx, list, client.MatchingLabels(agentLabels())); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 || list.Items[0].Spec.NodeName != node {
		return nil, fmt.Errorf("%d pods of the agents, want one on %s", len(list.Items), node)
	}
	return &list.Items[0], nil
}

// awaitEndpoint waits until the pod's address takes connections by the EndpointSlices of the
// Service, or takes none.
func awaitEndpoint(t *testing.T, r *framework.Rig, pod *corev1.Pod, want bool) {
	t.Helper()
	assert.Await(t, fmt.Sprintf("endpoint of %s ready=%t", pod.Name, want), func(ctx context.Context) (bool, error) {
		is, err := isEndpoint(ctx, r, pod)
		if err == nil && is != want {
			p, podErr := assert.PodOf(ctx, r, pod)
			err = podErr
			if podErr == nil {
				err = fmt.Errorf("endpoint ready=%t, pod ready=%t", is, isReady(p))
			}
		}
		return err == nil, err
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
