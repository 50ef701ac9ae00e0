package cluster

import (
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// agents is a DaemonSet of 100m and host port 9100 that tolerates no taint.
func agents(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "agent",
		Generation: 1}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent",
		Ports: []corev1.ContainerPort{{HostPort: 9100}}}}
	requesting("100m")(set)
	for _, f := range change {
		f(set)
	}
	return set
}

func requesting(cpu string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	}
}

func ofGeneration(n int64) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Generation = n }
}

func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch()} }

// agentPod is the DaemonSet's pod on the node.
func agentPod(on string, change ...func(*corev1.Pod)) *corev1.Pod {
	set := agents()
	p := testPod("agent-"+on, change...)
	p.Namespace, p.Spec = set.Namespace, *set.Spec.Template.Spec.DeepCopy() // as the DaemonSet controller makes it
	p.Spec.NodeName = on
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: new(true)}}
	return p
}

// TestDaemonsCountOnNodesThatDoNotRun: what a node of the pool uses, by its state and by what came
// before or after it.
func TestDaemonsCountOnNodesThatDoNotRun(t *testing.T) {
	const standby, starting, running = v1alpha1.StateStandby, v1alpha1.StateStarting, v1alpha1.StateRunning
	tolerated := func(p *v1alpha1.NodePool) {
		p.Spec.Template.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	}
	for name, c := range map[string]struct {
		events []any
		cpu    int64
		pods   int64
	}{
		"a standby node":                 {[]any{agents(), poolNode("a", standby)}, 100, 1},
		"the DaemonSet comes later":      {[]any{poolNode("a", standby), agents()}, 100, 1},
		"a starting node":                {[]any{agents(), poolNode("a", starting)}, 100, 1},
		"its pod is there":               {[]any{agents(), poolNode("a", starting), agentPod("a")}, 100, 1},
		"its pod is being deleted there": {[]any{agents(), poolNode("a", standby), agentPod("a", beingDeleted)}, 100, 1},
		"its pod has gone": {[]any{agents(), poolNode("a", standby), agentPod("a"), types.UID("agent-a")},
			100, 1},
		"its pod has failed": {[]any{agents(), poolNode("a", standby),
			agentPod("a", inPhase(corev1.PodFailed))}, 100, 1},
		"beside a pod of its own": {[]any{agents(), poolNode("a", starting), cpuPod("x", "a")}, 1100, 2},
		"a running node":          {[]any{agents(), poolNode("a", running)}, 0, 0},
		"the node opens":          {[]any{agents(), poolNode("a", starting), poolNode("a", running)}, 0, 0},
		"the node stops":          {[]any{agents(), poolNode("a", running), poolNode("a", standby)}, 100, 1},
		"a node of others":        {[]any{agents(), poolNode("a", "")}, 0, 0},
		"it asks for more": {[]any{agents(), poolNode("a", standby),
			agents(requesting("300m"), ofGeneration(2))}, 300, 1},
		"made anew under its name": {[]any{agents(), poolNode("a", standby),
			agents(requesting("300m"), func(s *appsv1.DaemonSet) { s.UID = "new" })}, 300, 1},
		"deleted": {[]any{agents(), poolNode("a", standby), "agent"}, 0, 0},
		"a taint that it does not tolerate": {[]any{poolObject("p", 2, tolerated), agents(), poolNode("a", standby, tainted)},
			0, 0},
		"its status changes": {[]any{agents(), poolNode("a", standby),
			agents(func(s *appsv1.DaemonSet) { s.Status.NumberReady = 3 })}, 100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newTestView()
			for _, e := range c.events {
				switch e := e.(type) {
				case *v1alpha1.NodePool:
					v.SetPool(e)
				case *appsv1.DaemonSet:
					v.SetDaemonSet(e)
				case *corev1.Node:
					v.SetNode(e)
				case *corev1.Pod:
					v.SetPod(e)
				case types.UID:
					v.DeletePod(agentPod("a"))
				case string:
					v.DeleteDaemonSet(agents())
				}
			}
			n := lookUp(v, "a")[0]
			if n.Used.MilliCPU != c.cpu || n.Used.Pods != c.pods || int64(len(n.Ports)) != c.pods {
				t.Errorf("uses %+v and %d ports, want %d milli-cpu, %d pods and their ports", n.Used, len(n.Ports), c.cpu, c.pods)
			}
		})
	}
}

// A status is written with each pod that becomes Ready: it must not have thousands of nodes made
// anew.
func TestTheStatusOfADaemonSetChangesNoNode(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateStandby))
	v.SetDaemonSet(agents())
	before := lookUp(v, "a")[0]
	v.SetDaemonSet(agents(func(s *appsv1.DaemonSet) { s.Status.NumberReady = 3 }))
	if lookUp(v, "a")[0] != before {
		t.Error("nodes were made anew")
	}
}

// TestNotReadyBeforeDaemonSetsAreThere: a decision without them would claim room that they take.
func TestNotReadyBeforeDaemonSetsAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _ := newTestView()
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		informers := &informertest.FakeInformers{Scheme: scheme,
			InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
		informerOf := func(object client.Object) *controllertest.FakeInformer {
			kinds, _, err := scheme.ObjectKinds(object)
			if err != nil {
				t.Fatal(err)
			}
			if informers.InformersByGVK[kinds[0]] == nil {
				informers.InformersByGVK[kinds[0]] = controllertest.NewFakeInformer()
			}
			return informers.InformersByGVK[kinds[0]].(*controllertest.FakeInformer)
		}
		others := []client.Object{
			&v1alpha1.NodePool{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Namespace{},
			&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{},
		}
		for _, object := range others {
			informerOf(object)
		}
		sets := informerOf(&appsv1.DaemonSet{})
		go func() { _ = (&feed{state: v, informers: informers}).Start(t.Context()) }()
		synctest.Wait()
		for _, object := range others {
			informerOf(object).Synced()
		}
		if v.Ready() == nil {
			t.Error("ready without DaemonSets")
		}
		if sets.Synced(); v.Ready() != nil {
			t.Errorf("not ready with all of them: %v", v.Ready())
		}
	})
}
