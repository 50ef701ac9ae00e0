package cluster

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newTestView() (*State, *decide.Claims) {
	v := New(decide.NewClaims(), epoch)
	v.SetPool(poolObject("p", 1))
	return v, v.claims
}

func poolObject(name string, generation int64, change ...func(*v1alpha1.NodePool)) *v1alpha1.NodePool {
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
		Generation: generation}}
	for _, f := range change {
		f(p)
	}
	return p
}

// poolNode is a Node of pool "p" with 4 cpu; with an empty state it is of no pool.
func poolNode(name string, state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{},
		Annotations: map[string]string{}}}
	if state != "" {
		n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelState] = "p", string(state)
	}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
	for _, f := range change {
		f(n)
	}
	return n
}

// testPod is a pod without requests.
func testPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	for _, f := range change {
		f(p)
	}
	return p
}

// cpuPod asks for one cpu and a host port.
func cpuPod(name, on string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := testPod(name)
	p.Spec.NodeName = on
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080}}
	for _, f := range change {
		f(p)
	}
	return p
}

func onItsWay(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "", node }
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func claimFor(t *testing.T, v *State, l *decide.Claims, pod *corev1.Pod, candidates ...string) {
	t.Helper()
	if d := l.Decide(decide.Ask{Pod: pod, Nodes: lookUp(v, candidates...)}, epoch()); d.Claim == nil {
		t.Fatalf("set-up: no claim: %q", d.Refused)
	}
}

// TestViewPlacesPods: what two nodes hold after a pod's events. Nodes and pods come in either
// order.
func TestViewPlacesPods(t *testing.T) {
	type counts struct{ a, b int64 }
	for name, c := range map[string]struct {
		events []any
		want   counts
	}{
		"bound":                           {[]any{cpuPod("x", "a")}, counts{1, 0}},
		"bound, and seen again":           {[]any{cpuPod("x", "a"), cpuPod("x", "a")}, counts{1, 0}},
		"nominated":                       {[]any{cpuPod("x", "", onItsWay("a"))}, counts{1, 0}},
		"nominated, then bound elsewhere": {[]any{cpuPod("x", "", onItsWay("a")), cpuPod("x", "b")}, counts{0, 1}},
		"the nomination was taken back":   {[]any{cpuPod("x", "", onItsWay("a")), cpuPod("x", "")}, counts{0, 0}},
		"finished": {[]any{cpuPod("x", "a"), cpuPod("x", "a", inPhase(corev1.PodSucceeded))},
			counts{0, 0}},
		"failed": {[]any{cpuPod("x", "a"), cpuPod("x", "a", inPhase(corev1.PodFailed))},
			counts{0, 0}},
		"deleted":     {[]any{cpuPod("x", "a"), types.UID("x")}, counts{0, 0}},
		"two of them": {[]any{cpuPod("x", "a"), cpuPod("y", "a"), cpuPod("z", "b")}, counts{2, 1}},
		"the Node went and came back": {[]any{cpuPod("x", "a"), v1alpha1.NodeName("a"),
			poolNode("a", v1alpha1.StateRunning)}, counts{1, 0}},
		"the pod went while the Node did": {[]any{cpuPod("x", "a"), v1alpha1.NodeName("a"), types.UID("x"),
			poolNode("a", v1alpha1.StateRunning)}, counts{0, 0}},
		"a state change keeps what is used": {[]any{cpuPod("x", "a"), poolNode("a", v1alpha1.StateStopping)}, counts{1, 0}},
	} {
		for order, nodesFirst := range map[string]bool{"nodes first": true, "pods first": false} {
			t.Run(name+", "+order, func(t *testing.T) {
				v, _ := newTestView()
				nodes := []any{poolNode("a", v1alpha1.StateRunning), poolNode("b", v1alpha1.StateRunning)}
				events := append(slices.Clip(nodes), c.events...)
				if !nodesFirst {
					events = append(append([]any{}, c.events...), poolNode("b", v1alpha1.StateRunning),
						poolNode("a", v1alpha1.StateRunning))
				}
				for _, e := range events {
					switch e := e.(type) {
					case *corev1.Pod:
						v.SetPod(e)
					case *corev1.Node:
						v.SetNode(e)
					case v1alpha1.NodeName:
						v.DeleteNode(e)
					case types.UID:
						v.DeletePod(cpuPod(string(e), "a"))
					}
				}
				nodesNow := lookUp(v, "a", "b")
				got := counts{nodesNow[0].Used.Pods, nodesNow[1].Used.Pods}
				if got != c.want {
					t.Errorf("pods %+v, want %+v", got, c.want)
				}
				if nodesNow[0].Used.MilliCPU != 1000*got.a || int64(len(nodesNow[0].Ports)) != got.a {
					t.Errorf("node a uses %d milli-cpu and %d ports for %d pods", nodesNow[0].Used.MilliCPU, len(nodesNow[0].Ports),
						got.a)
				}
			})
		}
	}
}

func TestViewForgetsNodesThatAreGone(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateRunning))
	v.SetPod(cpuPod("x", "a"))
	v.DeleteNode("a")
	if got := lookUp(v, "a"); len(got) != 0 {
		t.Errorf("a Node that is gone is a candidate")
	}
	v.DeletePod(cpuPod("x", "a"))
	if len(v.nodes) != 0 || len(v.podNode) != 0 {
		t.Errorf("%d nodes and %d pods are remembered", len(v.nodes), len(v.podNode))
	}
}

func TestViewCandidatesKeepTheirOrderAndLeaveOutTheUnknown(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("a", ""))
	v.SetNode(poolNode("b", ""))
	v.SetPod(cpuPod("x", "c")) // a node that only a pod has named so far
	got := lookUp(v, "b", "c", "nobody", "a")
	if len(got) != 2 || got[0].Name != "b" || got[1].Name != "a" {
		t.Errorf("candidates %v, want b and a", got)
	}
}

// The decide.Node that a decision holds must not change under it.
func TestViewNodesAreImmutable(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateRunning))
	held := lookUp(v, "a")[0]
	v.SetPod(cpuPod("x", "a"))
	v.SetNode(poolNode("a", v1alpha1.StateStopping))
	if held.Used.Pods != 0 || held.State != v1alpha1.StateRunning {
		t.Errorf("the node that was handed out has changed: %+v", held)
	}
}

func TestViewRebuildsNodesWhenTheirPoolChanges(t *testing.T) {
	weight := func(n int32) func(*v1alpha1.NodePool) { return func(p *v1alpha1.NodePool) { p.Spec.Weight = &n } }
	for name, c := range map[string]struct {
		change   func(*State)
		weight   int32
		keptBack string
	}{
		"nothing":          {func(*State) {}, 10, ""},
		"a new generation": {func(v *State) { v.SetPool(poolObject("p", 2, weight(50))) }, 50, ""},
		"another pool":     {func(v *State) { v.SetPool(poolObject("q", 2, weight(50))) }, 10, ""},
		"status only":      {func(v *State) { v.SetPool(poolObject("p", 1)) }, 10, ""},
		"made anew, same name": {func(v *State) {
			v.SetPool(poolObject("p", 1, weight(50),
				func(p *v1alpha1.NodePool) { p.UID = "new" }))
		}, 50, ""},
		"gone":          {func(v *State) { v.DeletePool("p") }, 0, "its NodePool is gone"},
		"gone and back": {func(v *State) { v.DeletePool("p"); v.SetPool(poolObject("p", 1, weight(50))) }, 50, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newTestView()
			v.SetNode(poolNode("a", v1alpha1.StateStandby))
			c.change(v)
			n := lookUp(v, "a")[0]
			if n.Weight != c.weight || n.NotStartable != c.keptBack {
				t.Errorf("weight %d, kept back for %q; want %d, %q", n.Weight, n.NotStartable, c.weight, c.keptBack)
			}
		})
	}
}

func TestViewEndsClaims(t *testing.T) {
	gone := metav1.NewTime(epoch())
	for name, c := range map[string]struct {
		event func(*State)
		keeps bool
	}{
		"the pod is bound there":     {func(v *State) { v.SetPod(cpuPod("x", "a")) }, false},
		"the pod is bound elsewhere": {func(v *State) { v.SetPod(cpuPod("x", "b")) }, false},
		"the pod is being deleted": {func(v *State) {
			v.SetPod(cpuPod("x", "",
				func(p *corev1.Pod) { p.DeletionTimestamp = &gone }))
		}, false},
		"the pod is gone":          {func(v *State) { v.DeletePod(cpuPod("x", "")) }, false},
		"the pod's status changed": {func(v *State) { v.SetPod(cpuPod("x", "")) }, true},
		"the pod is nominated":     {func(v *State) { v.SetPod(cpuPod("x", "", onItsWay("a"))) }, true},
		"the Node is gone":         {func(v *State) { v.DeleteNode("a") }, false},
		"the Node starts":          {func(v *State) { v.SetNode(poolNode("a", v1alpha1.StateStarting)) }, true},
		"the Node's start fails": {func(v *State) {
			v.SetNode(poolNode("a", v1alpha1.StateStarting))
			v.SetNode(poolNode("a", v1alpha1.StateStandby))
		}, false},
		"the Node is replaced":           {func(v *State) { v.SetNode(poolNode("a", v1alpha1.StateTerminating)) }, false},
		"somebody took the pool's label": {func(v *State) { v.SetNode(poolNode("a", "")) }, false},
		"another Node is gone":           {func(v *State) { v.DeleteNode("b") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			var ended []decide.Claim
			v.Listen(Listener{PodServed: func(c decide.Claim, _ *corev1.Pod) { ended = append(ended, c) }})
			v.SetNode(poolNode("a", v1alpha1.StateStandby))
			claimFor(t, v, l, cpuPod("x", ""), "a")
			c.event(v)
			if keeps := l.HasClaim(cpuPod("x", "").UID); keeps != c.keeps {
				t.Errorf("claim kept %v, want %v", keeps, c.keeps)
			}
			if len(ended) > 1 {
				t.Errorf("told %d times of one claim", len(ended))
			}
		})
	}
}

// A nominated pod counts as used; its claim must count no second time, nor be overdue while its
// volume is made.
func TestViewTellsTheLedgerOfNominations(t *testing.T) {
	v, l := newTestView()
	v.SetNode(poolNode("a", v1alpha1.StateStandby))
	claimFor(t, v, l, cpuPod("x", ""), "a")
	v.SetNode(poolNode("a", v1alpha1.StateRunning))
	v.SetPod(cpuPod("x", "", onItsWay("a")))
	if over := l.Overdue(epoch().Add(time.Hour)); len(over) != 0 {
		t.Errorf("overdue: %v", over)
	}
	v.SetPod(cpuPod("x", ""))
	if over := l.Overdue(epoch().Add(time.Hour)); len(over) != 1 {
		t.Errorf("%d overdue after the nomination was taken back, want 1", len(over))
	}
}

func TestViewIsNotReadyBeforeItsCachesAre(t *testing.T) {
	v, _ := newTestView()
	if v.Ready() == nil {
		t.Error("ready before anything is synced")
	}
	v.synced = func() bool { return true }
	if err := v.Ready(); err != nil {
		t.Errorf("not ready although synced: %v", err)
	}
}

// A claim that another process published is taken over, whichever of Node and pod is seen first.
// What is published on a node that is not on its way to running is old, and a pod that is bound
// needs no claim.
func TestViewAdoptsPublishedClaims(t *testing.T) {
	publishing := func(uids string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = uids }
	}
	for name, c := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want v1alpha1.NodeName
	}{
		"a pod that waits": {poolNode("a", v1alpha1.StateStarting, publishing("x")), cpuPod("x", ""), "a"},
		"one of several": {poolNode("a", v1alpha1.StateStarting, publishing("w,x,y")), cpuPod("x", ""),
			"a"},
		"the node runs already": {poolNode("a", v1alpha1.StateRunning, publishing("x")), cpuPod("x", ""), "a"},
		"another pod":           {poolNode("a", v1alpha1.StateStarting, publishing("xy")), cpuPod("x", ""), ""},
		"the pod is bound":      {poolNode("a", v1alpha1.StateStarting, publishing("x")), cpuPod("x", "b"), ""},
		"the pod has ended": {poolNode("a", v1alpha1.StateStarting, publishing("x")),
			cpuPod("x", "", inPhase(corev1.PodFailed)), ""},
		"the start has failed since":       {poolNode("a", v1alpha1.StateStandby, publishing("x")), cpuPod("x", ""), ""},
		"a node that is nobody's any more": {poolNode("a", "", publishing("x")), cpuPod("x", ""), ""},
		"nothing is published":             {poolNode("a", v1alpha1.StateStarting), cpuPod("x", ""), ""},
	} {
		for order, nodeFirst := range map[string]bool{"Node first": true, "pod first": false} {
			t.Run(name+", "+order, func(t *testing.T) {
				v, l := newTestView()
				if nodeFirst {
					v.SetNode(c.node)
					v.SetPod(c.pod)
				} else {
					v.SetPod(c.pod)
					v.SetNode(c.node)
				}
				if got, _ := l.Of(c.pod.UID); got.Node != c.want {
					t.Errorf("claim on %q, want %q", got.Node, c.want)
				}
			})
		}
	}
}

// A claim that was released here is not adopted from an annotation that is older: the pod has
// moved.
func TestViewDoesNotAdoptWhatItGaveAway(t *testing.T) {
	v, l := newTestView()
	node := poolNode("a", v1alpha1.StateStarting, func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationClaims] = "x" })
	v.SetPod(cpuPod("x", ""))
	v.SetNode(node)
	high := int32(1)
	d := l.Decide(decide.Ask{Pod: cpuPod("high", "", func(p *corev1.Pod) { p.Spec.Priority = &high }),
		Nodes: lookUp(v, "a")}, epoch())
	if len(d.Displaced) != 1 {
		t.Fatalf("set-up: %s displaced %d claims, want 1", d.Kind, len(d.Displaced))
	}
	v.SetNode(node.DeepCopy()) // a heartbeat: the annotation is still the old one
	if l.HasClaim("x") || !l.HasClaim("high") {
		t.Errorf("x has a claim: %v, the pod of higher priority: %v", l.HasClaim("x"), l.HasClaim("high"))
	}
}

// TestViewTellsOfTheHomeless: pods that still wait, and whose node will not take them after all.
func TestViewTellsOfTheHomeless(t *testing.T) {
	for name, c := range map[string]struct {
		event func(*State)
		want  []types.UID
	}{
		"the Node is gone":   {func(v *State) { v.DeleteNode("a") }, []types.UID{"x", "y"}},
		"the start fails":    {func(v *State) { v.SetNode(poolNode("a", v1alpha1.StateStandby)) }, []types.UID{"x", "y"}},
		"the Node runs":      {func(v *State) { v.SetNode(poolNode("a", v1alpha1.StateRunning)) }, nil},
		"the pod is deleted": {func(v *State) { v.DeletePod(small("x")) }, nil},
		"its label is gone":  {func(v *State) { v.SetNode(poolNode("a", "")) }, []types.UID{"x", "y"}},
		"a foreign pod takes the room when it runs": {func(v *State) {
			v.SetNode(poolNode("a", v1alpha1.StateRunning))
			v.SetPod(small("thief", func(p *corev1.Pod) {
				p.Spec.NodeName, p.Spec.Containers[0].Resources.Requests["cpu"] = "a", resource.MustParse("3")
			}))
		}, []types.UID{"y"}},
		"a foreign pod was there when it began to run": {func(v *State) {
			v.SetPod(small("thief", func(p *corev1.Pod) {
				p.Spec.NodeName, p.Spec.Containers[0].Resources.Requests["cpu"] = "a", resource.MustParse("3")
			}))
			v.SetNode(poolNode("a", v1alpha1.StateRunning))
		}, []types.UID{"y"}},
		"a claimed pod is bound there": {func(v *State) {
			v.SetNode(poolNode("a", v1alpha1.StateRunning))
			v.SetPod(small("x", func(p *corev1.Pod) { p.Spec.NodeName = "a" }))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			var homeless []types.UID
			v.Listen(Listener{PodServed: func(decide.Claim, *corev1.Pod) {}}) // one that wants to hear of something else
			v.Listen(Listener{ClaimsLost: func(claims []decide.Claim) {
				for i := range claims {
					homeless = append(homeless, claims[i].Pod)
				}
			}})
			v.SetNode(poolNode("a", v1alpha1.StateStarting))
			for _, name := range []string{"x", "y"} {
				v.SetPod(small(name))
				claimFor(t, v, l, small(name), "a")
			}
			c.event(v)
			slices.Sort(homeless)
			if !slices.Equal(homeless, c.want) {
				t.Errorf("homeless %v, want %v", homeless, c.want)
			}
		})
	}
}

// small asks for one cpu and no port.
func small(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	return cpuPod(name, "", append([]func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }},
		change...)...)
}

func TestViewKnowsWhoWaits(t *testing.T) {
	gone := metav1.NewTime(epoch())
	for name, c := range map[string]struct {
		then  func(*State)
		waits bool
	}{
		"nothing happened": {func(*State) {}, true},
		"it is nominated":  {func(v *State) { v.SetPod(cpuPod("x", "", onItsWay("a"))) }, true},
		"it is bound":      {func(v *State) { v.SetPod(cpuPod("x", "a")) }, false},
		"it has ended":     {func(v *State) { v.SetPod(cpuPod("x", "", inPhase(corev1.PodSucceeded))) }, false},
		"it is being deleted": {func(v *State) {
			v.SetPod(cpuPod("x", "", func(p *corev1.Pod) { p.DeletionTimestamp = &gone }))
		}, false},
		"it is gone": {func(v *State) { v.DeletePod(cpuPod("x", "")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newTestView()
			v.SetPod(cpuPod("x", ""))
			c.then(v)
			if got := v.PendingPod("x") != nil; got != c.waits {
				t.Errorf("waits %v, want %v", got, c.waits)
			}
		})
	}
}

// Fitting is what kube-scheduler would offer, for pods that it does not ask us about: running nodes
// as they are, the others as they will be.
func TestViewFitting(t *testing.T) {
	standbyTaint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
	}
	v, _ := newTestView()
	for _, n := range []*corev1.Node{
		poolNode("standby", v1alpha1.StateStandby, standbyTaint), poolNode("running", v1alpha1.StateRunning),
		poolNode("foreign", ""),
		poolNode("tainted", v1alpha1.StateRunning, standbyTaint), poolNode("full", v1alpha1.StateStandby),
	} {
		v.SetNode(n)
	}
	v.SetPod(small("hog", func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.Containers[0].Resources.Requests["cpu"] = "full", resource.MustParse("4")
	}))
	var got []v1alpha1.NodeName
	for _, n := range v.Fitting(small("x")) {
		got = append(got, n.Name)
	}
	if want := []v1alpha1.NodeName{"foreign", "running", "standby"}; !slices.Equal(got, want) {
		t.Errorf("fitting %v, want %v", got, want)
	}
}

// TestFittingFollowsClaimedPartners: until a partner is bound, its claim says where it will be.
func TestFittingFollowsClaimedPartners(t *testing.T) {
	zone := func(z string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = z }
	}
	term := func(app string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelTopologyZone,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}
	}
	db := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} }
	with := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("db")},
		}
	}
	without := func(p *corev1.Pod) {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term("cache"),
		}
	}
	for name, c := range map[string]struct {
		claimed []*corev1.Pod
		pod     *corev1.Pod
		want    []v1alpha1.NodeName
	}{
		"no partner anywhere": {nil, small("x", with), nil},
		"a claimed partner": {[]*corev1.Pod{small("y", db)}, small("x", with),
			[]v1alpha1.NodeName{"a1", "a2"}},
		"the pod's own claim is none":    {[]*corev1.Pod{small("x")}, small("x", with), nil},
		"what the pod is kept away from": {[]*corev1.Pod{small("y", db)}, small("x", with, without), nil},
		"a pod that wishes nothing": {[]*corev1.Pod{small("y", db)}, small("x"),
			[]v1alpha1.NodeName{"a1", "a2", "b1"}},
		"the first of its group, no claim": {nil, small("x", db, with), []v1alpha1.NodeName{"a1", "a2", "b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, l := newTestView()
			v.SetNode(poolNode("a1", v1alpha1.StateStandby, zone("a")))
			v.SetNode(poolNode("a2", v1alpha1.StateStandby, zone("a")))
			v.SetNode(poolNode("b1", v1alpha1.StateStandby, zone("b")))
			v.SetPod(small("cache", func(p *corev1.Pod) { p.Labels, p.Spec.NodeName = map[string]string{"app": "cache"}, "a2" }))
			for _, p := range c.claimed {
				claimFor(t, v, l, p, "a1")
			}
			var got []v1alpha1.NodeName
			for _, n := range v.Fitting(c.pod) {
				got = append(got, n.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("fitting %v, want %v", got, c.want)
			}
		})
	}
}

// The world is what others' topology sees: a stopped node bears its taints, a starting one those
// that it will have.
func TestViewWorld(t *testing.T) {
	standbyTaint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
	}
	v, _ := newTestView()
	v.SetNode(poolNode("b", v1alpha1.StateStandby, standbyTaint))
	v.SetNode(poolNode("a", v1alpha1.StateStarting, standbyTaint))
	v.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default",
		Labels: map[string]string{"team": "x"}}})
	w := v.World()
	if len(w.Nodes) != 2 || w.Nodes[0].Name != "a" || w.Nodes[1].Name != "b" {
		t.Fatalf("%d nodes, want a and b", len(w.Nodes))
	}
	if len(w.Nodes[0].Taints) != 0 || len(w.Nodes[1].Taints) != 1 {
		t.Errorf("taints %v of the starting node, %v of the stopped one; want none and its own", w.Nodes[0].Taints,
			w.Nodes[1].Taints)
	}
	if when := w.Nodes[1].WhenRunning; w.Nodes[0].WhenRunning != nil || when == nil || len(when.Taints) != 0 {
		t.Errorf("when they run: the starting node %v, the stopped one %v; want nothing else and no taint",
			w.Nodes[0].WhenRunning, when)
	}
	if w.Namespaces["default"]["team"] != "x" {
		t.Errorf("namespaces %v", w.Namespaces)
	}
	if v.World() != w {
		t.Error("made anew although nothing has changed")
	}
	v.SetPod(small("x", func(p *corev1.Pod) { p.Spec.NodeName = "a" }))
	v.DeleteNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	is := v.World()
	if len(is.Nodes[0].Pods) != 1 || len(is.Namespaces) != 0 || len(w.Nodes[0].Pods) != 0 || len(w.Namespaces) != 1 {
		t.Errorf("%d pods and %d namespaces; the one handed out before holds %d and %d", len(is.Nodes[0].Pods),
			len(is.Namespaces), len(w.Nodes[0].Pods), len(w.Namespaces))
	}
}

func TestViewAnyOfOurs(t *testing.T) {
	v, _ := newTestView()
	v.SetNode(poolNode("a", ""))
	if n, ok := v.AnyPoolNode(); ok {
		t.Errorf("node %s of nobody", n)
	}
	v.SetNode(poolNode("c", v1alpha1.StateStandby))
	v.SetNode(poolNode("b", v1alpha1.StateRunning))
	if n, ok := v.AnyPoolNode(); !ok || n != "b" {
		t.Errorf("node %q, want b", n)
	}
}

// lookUp returns the named nodes as the extender finds them, without those that the cluster state
// does not know.
func lookUp(v *State, names ...string) []*decide.Node {
	var found Candidates
	raw := make([][]byte, len(names))
	for i, name := range names {
		raw[i] = []byte(name)
	}
	v.Lookup(raw, &found)
	return found.Present()
}

// TestTellsOfStandbyNodes: each time that a node comes to be standby.
func TestTellsOfStandbyNodes(t *testing.T) {
	told := 0
	v, _ := newTestView()
	v.Listen(Listener{NodeStandby: func() { told++ }})
	for _, state := range []v1alpha1.NodeState{v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStandby,
		v1alpha1.StateStarting, v1alpha1.StateStandby} {
		v.SetNode(poolNode("n", state))
	}
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}
