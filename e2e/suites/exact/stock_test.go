package exact

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/rig"
)

const (
	labelStock = "stratos.test/stock"
	// tries for each number of nodes: the stock scheduler breaks ties by chance.
	tries = 5
)

// stockNeed is the smallest number of empty running nodes on which the stock profile binds all pods of the row, created in the same
// order.
func stockNeed(t *testing.T, r *rig.Rig, row row) int {
	t.Helper()
	for n := atLeast(row.pods); n <= len(row.pods); n++ {
		for range tries {
			if stockFits(t, r, row.pods, n) {
				t.Logf("the stock profile needs %d nodes", n)
				return n
			}
		}
	}
	t.Fatal("the stock profile cannot place the pods on a node each")
	return 0
}

// atLeast is a bound that needs no scheduler: the cpu and memory of all pods over those of a node of type four.
func atLeast(pods []*corev1.Pod) int {
	var cpu, memory int64
	for _, p := range pods {
		requests := p.Spec.Containers[0].Resources.Requests
		cpu += requests.Cpu().MilliValue()
		memory += requests.Memory().Value()
	}
	return int(max((cpu+3999)/4000, (memory+16<<30-1)/(16<<30), 1))
}

func stockFits(t *testing.T, r *rig.Rig, pods []*corev1.Pod, n int) bool {
	t.Helper()
	ctx := t.Context()
	for i := range n {
		if err := createNode(ctx, r, fmt.Sprintf("stock-%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pods {
		stock := p.DeepCopy()
		stock.Spec.SchedulerName = corev1.DefaultSchedulerName
		stock.Spec.NodeSelector = map[string]string{labelStock: "true"}
		if err := r.Client.Create(ctx, stock); err != nil {
			t.Fatal(err)
		}
	}
	all := false
	err := rig.Until(ctx, longGuard, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := r.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return false, err
		}
		judged := 0
		all = true
		for i := range list.Items {
			if list.Items[i].Spec.NodeName == "" {
				all = false
			}
			if list.Items[i].Spec.NodeName != "" || unschedulable(&list.Items[i]) {
				judged++
			}
		}
		return judged == len(pods), nil
	})
	err = errors.Join(err, removePods(ctx, r), r.Client.DeleteAllOf(ctx, &corev1.Node{}, client.HasLabels{labelStock}))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// createNode makes an empty running node of the size of type four by hand.
func createNode(ctx context.Context, r *rig.Rig, name string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelStock: "true", corev1.LabelHostname: name}}}
	if err := r.Client.Create(ctx, n); err != nil {
		return err
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	now := metav1.Now()
	status := n.DeepCopy()
	status.Status.Capacity, status.Status.Allocatable = size, size
	status.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	if err := r.Client.Status().Patch(ctx, status, client.MergeFrom(n)); err != nil {
		return err
	}
	// The API server gave the new Node its not-ready taint, and kube-controller-manager takes it away now that it is Ready.
	return rig.Until(ctx, longGuard, func(ctx context.Context) (bool, error) {
		got := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, got); err != nil || len(got.Spec.Taints) == 0 {
			return err == nil, err
		}
		return false, fmt.Errorf("node %s is tainted: %v", name, got.Spec.Taints)
	})
}
