// Package scheduling proves on a real control plane what happens between kube-scheduler and the extender: starts at filter time, taints
// and cordons judged as the stock profile judges them, and preemption that never evicts in vain.
package scheduling

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/rig"
)

// fastCloud keeps the machines' own times out of the way: what is proved here is order, not duration.
func fastCloud() []string {
	return []string{"--fake-boot-time=500ms", "--fake-stop-time=300ms", "--fake-pull-time=100ms"}
}

// newRig starts a rig whose hand-made nodes stay Ready: they have no kubelet, and nobody renews their leases.
func newRig(t *testing.T, o rig.Options) *rig.Rig {
	t.Helper()
	o.ControlPlane.NodeMonitorGracePeriod = time.Hour
	o.Cloud = fastCloud()
	r, err := rig.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logTail(t, r.Stratos)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// logTail shows what the process last said.
func logTail(t *testing.T, p *controlplane.Process) {
	t.Helper()
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Log(err)
		return
	}
	lines := strings.Split(string(text), "\n")
	t.Logf("end of %s's log:\n%s", p.Name(), strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

// await fails the test if done does not come true. What done returns as an error is what it last saw.
func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := rig.Until(t.Context(), rig.HangGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func create(t *testing.T, r *rig.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := r.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// remove deletes the objects and waits until they are gone.
func remove(t *testing.T, r *rig.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := client.IgnoreNotFound(r.Client.Delete(t.Context(), o)); err != nil {
			t.Fatalf("delete %T %s: %v", o, o.GetName(), err)
		}
	}
	for _, o := range objects {
		await(t, fmt.Sprintf("deletion of %T %s", o, o.GetName()), func(ctx context.Context) (bool, error) {
			err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), nil
		})
	}
}

// podNow reads the pod; a pod of that name with another UID is another pod.
func podNow(ctx context.Context, r *rig.Rig, of *corev1.Pod) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(of), p); err != nil {
		return nil, err
	}
	if p.UID != of.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), of.Name)
	}
	return p, nil
}

// mustLive fails the test unless the pod is there, on the node, and nobody has asked for its deletion.
func mustLive(t *testing.T, r *rig.Rig, pod *corev1.Pod, on string) {
	t.Helper()
	p, err := podNow(t.Context(), r, pod)
	switch {
	case err != nil:
		t.Errorf("pod %s: %v", pod.Name, err)
	case p.DeletionTimestamp != nil, p.Spec.NodeName != on, p.Status.Phase == corev1.PodFailed:
		t.Errorf("pod %s: deletion %v, node %q (want %q), phase %s %s", p.Name, p.DeletionTimestamp, p.Spec.NodeName, on, p.Status.Phase, p.Status.Reason)
	}
}

func awaitBound(t *testing.T, r *rig.Rig, pods ...*corev1.Pod) []string {
	t.Helper()
	nodes, err := r.AwaitBound(t.Context(), pods...)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func awaitRunning(t *testing.T, r *rig.Rig, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		await(t, "pod "+pod.Name+" running", func(ctx context.Context) (bool, error) {
			p, err := podNow(ctx, r, pod)
			if err != nil {
				return false, err
			}
			if p.Status.Phase == corev1.PodRunning {
				return true, nil
			}
			return false, fmt.Errorf("phase %s %s, node %q, %s", p.Status.Phase, p.Status.Reason, p.Spec.NodeName, rig.WhyPending(p))
		})
	}
}

// awaitUnschedulable waits until the pod's scheduler has called it unschedulable in words that ok accepts, and returns them.
func awaitUnschedulable(t *testing.T, r *rig.Rig, pod *corev1.Pod, ok func(message string) bool) string {
	t.Helper()
	message := ""
	await(t, "pod "+pod.Name+" unschedulable", func(ctx context.Context) (bool, error) {
		p, err := podNow(ctx, r, pod)
		if err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && ok(c.Message) {
				message = c.Message
				return true, nil
			}
		}
		return false, fmt.Errorf("node %q, %s", p.Spec.NodeName, rig.WhyPending(p))
	})
	return message
}

func anyWords(string) bool { return true }

// poolNodes returns the pool's Nodes by name.
func poolNodes(t *testing.T, r *rig.Rig, pool string) map[string]*corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), list, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes
}

// onPool confines the pod to the pool's nodes.
func onPool(pod *corev1.Pod, pool string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: pool}
	return pod
}

// ordinary is a Node that is not of a pool: Ready, without a kubelet. Its memory is 4 GiB for each cpu.
func ordinary(name string, cpu int64, taints ...corev1.Taint) *corev1.Node {
	now := metav1.Now()
	size := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(cpu<<32, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
}

// join creates the nodes and waits until kube-controller-manager has said its part: the taint that admission puts on every new node is
// gone, and a cordoned node has the taint of that name.
func join(t *testing.T, r *rig.Rig, nodes ...*corev1.Node) {
	t.Helper()
	create(t, r, objects(nodes)...)
	for _, n := range nodes {
		want := slices.Clone(n.Spec.Taints)
		// Read back from the answer to the creation, in which admission's taint stands already.
		want = slices.DeleteFunc(want, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		if n.Spec.Unschedulable {
			want = append(want, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		awaitTaints(t, r, n.Name, want)
	}
}

func awaitTaints(t *testing.T, r *rig.Rig, node string, want []corev1.Taint) {
	t.Helper()
	await(t, "taints of node "+node, func(ctx context.Context) (bool, error) {
		now := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: node}, now); err != nil {
			return false, err
		}
		if sameTaints(now.Spec.Taints, want) {
			return true, nil
		}
		return false, fmt.Errorf("taints %v, want %v", now.Spec.Taints, want)
	})
}

func sameTaints(a, b []corev1.Taint) bool {
	in := func(taints []corev1.Taint, x corev1.Taint) bool {
		return slices.ContainsFunc(taints, func(y corev1.Taint) bool { return x.MatchTaint(&y) && x.Value == y.Value })
	}
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !in(b, x) {
			return false
		}
	}
	return true
}
