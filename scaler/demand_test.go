package scaler

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/plan"
)

func waits(name, cpu string) *corev1.Pod {
	return boundPod(name, needing(cpu), func(p *corev1.Pod) { p.Spec.NodeName = "" })
}

func TestDemandIsByPodAndPool(t *testing.T) {
	d := pending.NewDemand()
	again := waits("a", "1")
	again.UID = "another"
	for i, step := range []struct {
		pod  *corev1.Pod
		pool v1alpha1.PoolName
		news bool
	}{
		{waits("b", "1"), "p", true}, {waits("a", "1"), "p", true}, {waits("a", "1"), "p", false},
		{waits("a", "1"), "q", true}, {again, "q", true}, {again, "p", true},
	} {
		if got := d.Add(step.pod, step.pool); got != step.news {
			t.Errorf("step %d: news %v, want %v", i, got, step.news)
		}
	}
	var names []string
	for _, p := range d.Of("p") {
		names = append(names, p.Name)
	}
	if len(names) != 2 || names[0] != "a" || names[1] != "b" || len(d.Of("q")) != 0 {
		t.Errorf("p wants %v, q %d; want a and b, none", names, len(d.Of("q")))
	}
	key := types.NamespacedName{Namespace: "default", Name: "a"}
	if pool, was := d.Remove(key); !was || pool != "p" {
		t.Errorf("removed from %q, %v", pool, was)
	}
	if _, was := d.Remove(key); was {
		t.Error("removed twice")
	}
}

// promise is a node as a class of so many cpus describes it.
func promise(cpus string) *corev1.Node {
	n := nodeIn("")
	n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpus)
	return n
}

// TestWhatAClassPromises: an empty pool plans by what the cloud said of the class, and by nothing
// while it has said nothing.
func TestWhatAClassPromises(t *testing.T) {
	class := awsClass()
	r := newRig(t, class)
	pool := nodePool(1, 1, func(p *v1alpha1.NodePool) {
		p.Spec.Template.Labels = map[string]string{"team": "a"}
		p.Spec.Template.Taints = []corev1.Taint{{Key: "only", Effect: corev1.TaintEffectNoSchedule}}
	})
	if got := nodeclass.PromisedBy(t.Context(), r.pools.Classes, pool); got != nil {
		t.Errorf("before the cloud has said anything: %v", got)
	}
	class.Status = v1alpha1.AWSNodeClassStatus{Architecture: "arm64",
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	class.Spec.InstanceType = "m7g.large"
	if err := errors.Join(r.api.Update(t.Context(), class.DeepCopy()), r.setStatus(class)); err != nil {
		t.Fatal(err)
	}
	got := nodeclass.PromisedBy(t.Context(), r.pools.Classes, pool)
	if got == nil {
		t.Fatal("nothing is promised")
	}
	labels := map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: "standby", "team": "a",
		corev1.LabelArchStable: "arm64", corev1.LabelInstanceTypeStable: "m7g.large", corev1.LabelOSStable: "linux"}
	if diff := cmp.Diff(labels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if cpu := got.Status.Allocatable[corev1.ResourceCPU]; cpu.String() != "2" || len(got.Spec.Taints) != 1 {
		t.Errorf("%s cpus, taints %v", cpu.String(), got.Spec.Taints)
	}
}

// setStatus writes the class's status as it stands in c.
func (r *rig) setStatus(c *v1alpha1.AWSNodeClass) error {
	now := &v1alpha1.AWSNodeClass{}
	if err := r.api.Get(r.t.Context(), client.ObjectKeyFromObject(c), now); err != nil {
		return err
	}
	now.Status = c.Status
	return r.api.Status().Update(r.t.Context(), now)
}

func TestDemandInNodes(t *testing.T) {
	pool := nodePool(9, 0)
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		nodes    []corev1.Node
		want     int32
		promised *corev1.Node
		daemons  []*fit.Daemon
	}{
		"beside a DaemonSet's pod two of 2 cpu do not share": {
			pods: []*corev1.Pod{waits("a", "2"), waits("b", "2")}, nodes: []corev1.Node{*nodeIn(v1alpha1.StateStandby)}, want: 2,
			daemons: []*fit.Daemon{fit.NewDaemon(agents())},
		},
		"nor on nodes like one that runs": {
			pods: []*corev1.Pod{waits("a", "2"), waits("b", "2")}, nodes: []corev1.Node{*nodeIn(v1alpha1.StateRunning)}, want: 2,
			daemons: []*fit.Daemon{fit.NewDaemon(agents())},
		},
		"nor on what the class promises": {pods: []*corev1.Pod{waits("a", "2"), waits("b", "2")}, want: 2,
			promised: promise("4"), daemons: []*fit.Daemon{fit.NewDaemon(agents())}},
		"nobody waits": {pods: nil, nodes: []corev1.Node{*nodeIn(v1alpha1.StateStandby)}, want: 0,
			promised: promise("4")},
		"placed on nodes like those of the pool": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")},
			nodes: []corev1.Node{*nodeIn(v1alpha1.StateStandby)}, want: 2},
		"which tell more than the class": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")},
			nodes: []corev1.Node{*nodeIn(v1alpha1.StateStandby)}, want: 2, promised: promise("64")},
		"while there is none to go by: one": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")}, want: 1},
		"unless the class promises something": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3"), waits("c", "3")},
			want: 3, promised: promise("4")},
		"and fits several on one": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3"), waits("c", "3")},
			want: 2, promised: promise("8")},
		"one also where nothing seems to fit": {pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")}, want: 1,
			promised: promise("2")},
		"one that has said nothing yet is none to go by": {
			pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")}, nodes: []corev1.Node{*nodeIn("",
				func(n *corev1.Node) { n.Status.Allocatable = nil })}, want: 1,
		},
		"nor is another pool's": {
			pods: []*corev1.Pod{waits("a", "3"), waits("b", "3")}, nodes: []corev1.Node{*nodeIn(v1alpha1.StateStandby,
				func(n *corev1.Node) { n.Labels[v1alpha1.LabelPool] = "q" })}, want: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := pending.NewDemand()
			for _, p := range c.pods {
				d.Add(p, "p")
			}
			offer := pending.Offer{Promised: c.promised, Daemons: c.daemons}
			state := cluster.New(decide.NewClaims(), time.Now)
			if got := d.Need(pool, c.nodes, offer, plan.Supply{}, state).Any; got != c.want {
				t.Errorf("%d nodes, want %d", got, c.want)
			}
		})
	}
}

// A pod that no standby node can serve has one launched, and no second one once the first is on its
// way; when the pod is served the demand ends.
func TestAWaitingPodHasAnInstanceLaunched(t *testing.T) {
	r := newRig(t, nodePool(2, 0, counting(1)), nodeIn(v1alpha1.StateRunning), unschedulable(needing("1")))
	r.sweep(instance(provider.InstanceRunning))
	r.now = epoch().Add(explainAfter)
	c := r.looksAfter()
	r.look(c)
	r.look(c)
	r.want("pool p")
	r.reconcilePool()
	r.want("patch c running", `reserve {"next":1,"pending":[0]}`, "launch 0")
	r.reconcilePool()
	r.want()
	r.promise("a", "c")
	r.look(c)
	r.want("pool p")
	if len(r.demand.Of("p")) != 0 {
		t.Error("the demand outlives the pod's wait")
	}
}

// TestStandbyNodesThatAreTooSmallServeNoPod: an instance that ran as a fallback type, whose kubelet
// leaves less to pods, is the first type again and shows what it last reported. Pods that a new
// instance has room for have one launched.
func TestStandbyNodesThatAreTooSmallServeNoPod(t *testing.T) {
	pool := nodePool(9, 0)
	small := nodeIn(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationAllocatableAtStop, "{}"))
	small.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3")
	large := nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) { n.Name, n.UID = "large", "large" })
	for name, c := range map[string]struct {
		nodes, seen []*corev1.Node
		pods        []*corev1.Pod
		want        plan.Need
	}{
		"one that fits it": {[]*corev1.Node{small}, []*corev1.Node{small}, []*corev1.Pod{waits("a", "3")}, plan.Need{Any: 1}},
		"one that does not": {[]*corev1.Node{small}, []*corev1.Node{small}, []*corev1.Pod{waits("a", "4"), waits("b", "4")},
			plan.Need{Any: 2, New: 2}},
		"both": {[]*corev1.Node{small}, []*corev1.Node{small}, []*corev1.Pod{waits("a", "3"), waits("b", "4")},
			plan.Need{Any: 2, New: 1}},
		"beside a larger one": {[]*corev1.Node{small, large}, []*corev1.Node{small, large},
			[]*corev1.Pod{waits("a", "4")}, plan.Need{Any: 1}},
		"while the larger one is not known yet": {[]*corev1.Node{small, large}, []*corev1.Node{small},
			[]*corev1.Pod{waits("a", "4")}, plan.Need{Any: 1}},
		"beside a larger one that may not start": {[]*corev1.Node{small, large}, []*corev1.Node{small, held(large)},
			[]*corev1.Pod{waits("a", "4")}, plan.Need{Any: 1, New: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			state := cluster.New(decide.NewClaims(), time.Now)
			state.SetPool(pool)
			for _, n := range c.seen {
				state.SetNode(n)
			}
			d, nodes := pending.NewDemand(), []corev1.Node{}
			for _, n := range c.nodes {
				nodes = append(nodes, *n)
			}
			for _, p := range c.pods {
				d.Add(p, "p")
			}
			got := d.Need(pool, nodes, pending.Offer{Promised: promise("4"), OfFirstType: true}, plan.Supply{}, state)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("need (-want +got):\n%s", diff)
			}
		})
	}
}

// held is the node as a person keeps it from starting.
func held(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "person", Effect: corev1.TaintEffectNoSchedule})
	return n
}
