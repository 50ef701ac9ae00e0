package endpoints

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// grace is how long kube-controller-manager waits for a heartbeat.
const grace = 10 * time.Second

// TestControllerManagerTrustsAnUnknownNode shows why Stratos writes the pods' Ready conditions
// itself. kube-controller-manager turns the pods of a node to not ready when it turns the Node's
// Ready to Unknown itself. Where another client wrote Unknown first, it leaves the pods at
// Ready=True, and they stay endpoints.
func TestControllerManagerTrustsAnUnknownNode(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{NodeMonitorGracePeriod: grace, NodeMonitorPeriod: time.Second},
		NoStratos:    true, NoScheduler: true,
	})
	silent, told := assert.Ordinary("silent", 4), assert.Ordinary("told", 4)
	assert.Join(t, r, silent, told)
	assert.Create(t, r, service())
	onSilent, onTold := readyPod(t, r, "on-silent", silent.Name), readyPod(t, r, "on-told", told.Name)
	awaitEndpoint(t, r, onSilent, true)
	awaitEndpoint(t, r, onTold, true)

	writeUnknown(t, r, told.Name)
	awaitEndpoint(t, r, onSilent, false)
	assert.AwaitNode(t, r, silent.Name, "called unknown", func(n *corev1.Node) bool { return !assert.IsReady(n) })
	if p := assert.Now(t, r, onTold); !assert.PodIsReady(p) {
		t.Errorf("kube-controller-manager turned the pod to not ready: Stratos need not do it; conditions %v",
			p.Status.Conditions)
	}
	awaitEndpoint(t, r, onTold, true)
}

// readyPod is a pod of the Service on the node, with the status that a kubelet would write.
func readyPod(t *testing.T, r *framework.Rig, name, node string) *corev1.Pod {
	t.Helper()
	p := framework.Pod(name)
	p.Labels, p.Spec.NodeName = agentLabels(), node
	p.Spec.Tolerations = framework.TolerateAll()
	assert.Create(t, r, p)
	ip := map[string]string{"on-silent": "100.64.0.1", "on-told": "100.64.0.2"}[name]
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}}
	if err := r.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// writeUnknown turns the Node's Ready to Unknown, before kube-controller-manager does.
func writeUnknown(t *testing.T, r *framework.Rig, node string) {
	t.Helper()
	assert.Await(t, "Ready=Unknown on "+node, func(ctx context.Context) (bool, error) {
		n, err := framework.Read(ctx, r, assert.Node(node))
		if err != nil {
			return false, err
		}
		if !assert.IsReady(n) {
			return false, fmt.Errorf("kube-controller-manager was first: this shows nothing: %v", n.Status.Conditions)
		}
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionUnknown, "InstanceStopping"
		err = r.Client.Status().Update(ctx, n)
		return err == nil, err
	})
}
