package node

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/start"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// over is a reconciler over an API server in memory that holds the objects.
func over(t *testing.T, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(f func(*corev1.Pod) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{f(o.(*corev1.Pod))} }
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}).
		WithIndex(&corev1.Node{}, inventory.IndexProviderID,
			func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&storagev1.VolumeAttachment{}, inventory.IndexAttachment,
			func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }).
		WithIndex(&corev1.Pod{}, "spec.nodeName", pod(func(p *corev1.Pod) string { return p.Spec.NodeName })).
		WithIndex(&corev1.Pod{}, inventory.IndexPodNode, pod(inventory.NodeOfPod)).
		Build()
	state := cluster.New(decide.NewClaims(), scalertest.Epoch)
	return &Reconciler{
		Reader: api, Live: api, Client: api, Now: scalertest.Epoch, State: state,
		Owner: inventory.Owner{Cluster: "here", UID: "uid"}, Inventory: inventory.New(),
		Demand: pending.NewDemand(), Disruptions: pool.NewDisruptions(),
		Starter: start.New(start.Options{State: state, Now: scalertest.Epoch}),
	}, api
}

// podOn is a workload pod that is bound to the node.
func podOn(node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node}}
	for _, f := range change {
		f(p)
	}
	return p
}

// instance is "i-c" of pool "p", as a sweep at the epoch shows it.
func instance(state provider.InstanceState, change ...func(*inventory.Entry)) inventory.Entry {
	e := inventory.Entry{Instance: provider.Instance{
		ID: "i-c", ProviderID: "fake:///zone-a/i-c", State: state, LaunchTime: scalertest.Epoch().Add(-time.Hour),
		Tags: map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "here",
			v1alpha1.TagClusterUID: "uid", v1alpha1.LabelPool: "p"},
	}, Seen: scalertest.Epoch()}
	for _, f := range change {
		f(&e)
	}
	return e
}

// TestDestructiveCallsCheckTheTagsThemselves: an instance of another cluster is neither stopped nor
// terminated, and nothing is written about it. The reconciler has no cloud: a call would panic.
func TestDestructiveCallsCheckTheTagsThemselves(t *testing.T) {
	c, _ := over(t)
	g := gathered{raw: raw{instance: inventory.Entry{Instance: provider.Instance{ID: "i-c", Tags: map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "there",
		v1alpha1.TagClusterUID: "uid"}}}}}
	written := func(context.Context) error {
		t.Error("a stop is written down that is not asked for")
		return nil
	}
	for name, call := range map[string]func() error{
		"stop":       func() error { return c.requestStop(t.Context(), g, written, false) },
		"force stop": func() error { return c.requestStop(t.Context(), g, written, true) },
		"terminate":  func() error { return c.terminate(t.Context(), g, lifecycle.Decision{Reason: "why"}) },
		"fail start": func() error { return c.failStart(t.Context(), g, lifecycle.FailStart, "why") },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "does not carry our tags") {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
	}
}

// TestANominatedPodIsAWorkloadPod: right before a stop, a pod that the scheduler has nominated to
// the node counts, although it is not bound.
func TestANominatedPodIsAWorkloadPod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "coming"},
		Status: corev1.PodStatus{NominatedNodeName: "c"}}
	c, _ := over(t, pod)
	if counting, err := c.countingLive(t.Context(), "c"); err != nil || len(counting) != 1 {
		t.Errorf("%d workload pods right before the stop (error %v), want the nominated one", len(counting), err)
	}
}

// TestPodsOfAStartedNodeStayReady: the cache still shows a node in standby that runs by now.
func TestPodsOfAStartedNodeStayReady(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec: corev1.PodSpec{NodeName: "c"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	c, api := over(t, scalertest.NodeIn(v1alpha1.StateStandby), pod)
	stale := &corev1.Node{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "c"}, stale); err != nil {
		t.Fatal(err)
	}
	running := stale.DeepCopy()
	running.Labels[v1alpha1.LabelState] = string(v1alpha1.StateRunning)
	if err := api.Update(t.Context(), running); err != nil {
		t.Fatal(err)
	}
	g := gathered{raw: raw{node: stale}}
	g.Node, g.Instance.State = observeNode(stale, transition.Template{}), provider.InstanceStopped
	if err := c.syncCondition(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Pod{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), after); err != nil {
		t.Fatal(err)
	}
	if after.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Error("the pod of a running node was turned to not ready")
	}
}
