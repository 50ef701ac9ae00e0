package exactstarts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	// labelRank numbers the nodes of the search. A try with n nodes has the pods ask for ranks below
	// n: so the nodes stay, and to the scheduler the others are neither candidates nor topology
	// domains.
	labelRank = "stratos.test/rank"
	// tries for each number of nodes: the stock scheduler breaks ties by chance.
	tries = 5
	// slack is how many nodes above the lower bound the stock profile is sure to do with.
	slack = 30
)

// stockConfig is the stock profile. Only the client's limits and the backoff differ, which decide
// when a pod is looked at, not where it goes.
const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
clientConnection: {kubeconfig: ` + controlplane.KubeconfigPlaceholder + `, qps: 1000, burst: 2000}
profiles:
- schedulerName: ` + corev1.DefaultSchedulerName + `
- schedulerName: ` + watched + `
`

// watched is the stock profile under a name that Stratos has not been told to have the extender, so
// the watch serves its pods.
const watched = "watched-scheduler"

func startStock(t *testing.T, r *framework.Rig) {
	t.Helper()
	_, err := r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: "stock-scheduler",
		ConfigYAML: []byte(stockConfig)})
	if err != nil {
		t.Fatal(err)
	}
}

// stockNeedsLess reports whether the stock profile binds all pods, created in the same order, on
// fewer than so many empty running nodes, and on how few. It begins at a bound that no scheduler
// can be below, so where the pods fill that many nodes nothing has to be tried. It leaves nothing
// behind.
func stockNeedsLess(t *testing.T, r *framework.Rig, m mixed, than int) (n int, less bool) {
	t.Helper()
	least := atLeast(m)
	makeNodes(t, r, m.kind, least+slack)
	if !stockFits(t, r, m.pods, least+slack) {
		t.Fatalf("the stock profile does not place the pods on %d nodes either, so its refusals say nothing", least+slack)
	}
	for n = least; n < than; n++ {
		for range tries {
			if stockFits(t, r, m.pods, n) {
				return n, true
			}
		}
	}
	return n, false
}

func makeNodes(t *testing.T, r *framework.Rig, kind string, n int) {
	t.Helper()
	var made sync.WaitGroup
	errs := make([]error, n)
	for i := range errs {
		made.Go(func() { errs[i] = createNode(t.Context(), r, kind, i) })
	}
	made.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Client.DeleteAllOf(context.Background(), &corev1.Node{}, client.HasLabels{labelRank}); err != nil {
			t.Error(err)
		}
	})
}

// size of a node of the instance type.
func size(kind string) corev1.ResourceList {
	places := map[string]string{four: "110", few: "5"}
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse(places[kind]),
	}
}

// atLeast is a bound that needs no scheduler: what the pods request in all over the size of a node.
func atLeast(m mixed) int {
	node := size(m.kind)
	most := ceil(int64(len(m.pods)), node.Pods().Value())
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		var sum int64
		for _, p := range m.pods {
			sum += requested(p, name)
		}
		one := node[name]
		most = max(most, ceil(sum, one.MilliValue()))
	}
	return int(most)
}

// requested is what a pod with at most one init container takes of a node, in thousandths: a
// sidecar runs beside the main container, any other before it.
func requested(p *corev1.Pod, name corev1.ResourceName) int64 {
	of := func(c *corev1.Container) int64 {
		q := c.Resources.Requests[name]
		return q.MilliValue()
	}
	main := of(&p.Spec.Containers[0])
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil {
			main += of(c)
		} else {
			main = max(main, of(c))
		}
	}
	return main
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// stockFits reports whether the stock scheduler binds all pods on n empty nodes.
func stockFits(t *testing.T, r *framework.Rig, pods []*corev1.Pod, n int) bool {
	t.Helper()
	ctx := t.Context()
	for _, p := range pods {
		stock := p.DeepCopy()
		stock.Spec.SchedulerName = corev1.DefaultSchedulerName
		stock.Spec.Affinity = amongFirst(n, stock.Spec.Affinity)
		if err := r.Client.Create(ctx, stock); err != nil {
			t.Fatal(err)
		}
	}
	fits := false
	err := framework.Until(ctx, longGuard, func(ctx context.Context) (decided bool, err error) {
		// only those without a node: a list of all, 20 times a second, costs more than the scheduling
		left := &corev1.PodList{}
		if err := r.Client.List(ctx, left, client.InNamespace(metav1.NamespaceDefault),
			client.MatchingFields{"spec.nodeName": ""}); err != nil {
			return false, err
		}
		fits = len(left.Items) == 0
		return fits || slices.ContainsFunc(left.Items, unschedulable), nil
	})
	if err := errors.Join(err, removePods(ctx, r)); err != nil {
		t.Fatal(err)
	}
	return fits
}

// unschedulable pods of the search stay so: nothing that they wait for is yet to come.
func unschedulable(p corev1.Pod) bool {
	return strings.HasPrefix(framework.WhyPending(&p), corev1.PodReasonUnschedulable+": ")
}

// amongFirst adds to the affinity that the node is one of the first n.
func amongFirst(n int, to *corev1.Affinity) *corev1.Affinity {
	if to == nil {
		to = &corev1.Affinity{}
	}
	to.NodeAffinity = framework.OnNodes(labelRank, corev1.NodeSelectorOpLt, strconv.Itoa(n)).NodeAffinity
	return to
}

// createNode makes an empty running node by hand, in one of three zones in turn as a pool's nodes
// are.
func createNode(ctx context.Context, r *framework.Rig, kind string, rank int) error {
	name, now := fmt.Sprintf("stock-%03d", rank), metav1.Now()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			labelRank: strconv.Itoa(rank), corev1.LabelHostname: name, corev1.LabelTopologyZone: "us-east-1" +
				string("abc"[rank%3]),
		}},
		Status: corev1.NodeStatus{
			Capacity: size(kind), Allocatable: size(kind),
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now,
				LastTransitionTime: now,
			}},
		},
	}
	if err := r.Client.Create(ctx, node); err != nil {
		return err
	}
	// The API server gave the new Node its not-ready taint, and kube-controller-manager takes it away
	// because it is Ready.
	return framework.Until(ctx, longGuard, func(ctx context.Context) (bool, error) {
		got, err := framework.Read(ctx, r, node)
		if err != nil || len(got.Spec.Taints) == 0 {
			return err == nil, err
		}
		return false, fmt.Errorf("node %s is tainted: %v", name, got.Spec.Taints)
	})
}
