package cluster

import (
	"maps"
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

// typedView is a view of pool "p", whose class names the types a, b and c, with a clock that is
// set.
type typedView struct {
	*State
	now  time.Time
	lost []types.UID
	// generation is that of the class.
	generation int64
}

func newTypedView() *typedView {
	v := &typedView{now: epoch()}
	v.State = New(decide.NewClaims(), func() time.Time { return v.now })
	v.Listen(Listener{ClaimsLost: func(claims []decide.Claim) {
		for i := range claims {
			v.lost = append(v.lost, claims[i].Pod)
		}
	}})
	v.SetPool(poolObject("p", 1, func(p *v1alpha1.NodePool) {
		p.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "k"}
	}))
	v.SetNodeClass(typedClass("a", "b", "c"))
	return v
}

// typedClass is a class of which all the types are usable.
func typedClass(first string, others ...string) *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "k"}}
	c.Spec.InstanceType, c.Spec.FallbackInstanceTypes = first, others
	for _, kind := range c.NamedTypes() {
		c.Status.InstanceTypes = append(c.Status.InstanceTypes, v1alpha1.InstanceTypeStatus{Type: kind, Usable: true})
	}
	return c
}

// dry takes in that zone z has no instance of the type.
func (v *typedView) dry(kind string) {
	v.MarkOfferingUnavailable(decide.Offering{Zone: "z", Type: kind}, v.now)
}

// sees is the type that decisions see of the node.
func (v *typedView) sees(name string) string {
	for _, n := range lookUp(v.State, name) {
		return n.Labels[corev1.LabelInstanceTypeStable]
	}
	return ""
}

// inZ gives the Node zone z and the type.
func inZ(kind string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyZone] = "z"
		v1alpha1.SetInstanceType(n.Labels, kind)
	}
}

// TestTypesThatStandbyNodesStartAs: a node of type a.
func TestTypesThatStandbyNodesStartAs(t *testing.T) {
	for name, c := range map[string]struct {
		state v1alpha1.NodeState
		event func(*typedView)
		want  string
	}{
		"its own":                      {v1alpha1.StateStandby, func(*typedView) {}, "a"},
		"of the next, where it is dry": {v1alpha1.StateStandby, func(v *typedView) { v.dry("a") }, "b"},
		"of the one after that": {v1alpha1.StateStandby, func(v *typedView) { v.dry("a"); v.dry("b") },
			"c"},
		"all are dry": {v1alpha1.StateStandby, func(v *typedView) { v.dry("a"); v.dry("b"); v.dry("c") }, "a"},
		"the cloud has it again": {v1alpha1.StateStandby, func(v *typedView) {
			v.dry("a")
			v.MarkOfferingAvailable(decide.Offering{Zone: "z", Type: "a"})
			v.ExpireBackoffs(v.now)
		}, "a"},
		"its backoff has ended": {v1alpha1.StateStandby, func(v *typedView) {
			v.dry("a")
			v.now = v.now.Add(time.Hour)
			v.ExpireBackoffs(v.now)
		}, "a"},
		"a type that the cloud refuses for it": {v1alpha1.StateStandby,
			func(v *typedView) { v.dry("a"); v.RefuseType("n", "b") }, "c"},
		"refused for another node": {v1alpha1.StateStandby,
			func(v *typedView) { v.dry("a"); v.RefuseType("other", "b") }, "b"},
		"refused before its last stop": {v1alpha1.StateStandby, func(v *typedView) {
			v.dry("a")
			v.RefuseType("n", "b")
			v.SetNode(poolNode("n", v1alpha1.StateStopping, inZ("a")))
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
		}, "b"},
		"no type may be changed": {v1alpha1.StateStandby,
			func(v *typedView) { v.dry("a"); v.HoldTypeChanges(v.now.Add(time.Minute)) }, "a"},
		"types may be changed again": {v1alpha1.StateStandby, func(v *typedView) {
			v.dry("a")
			v.HoldTypeChanges(v.now.Add(time.Minute))
			v.now = v.now.Add(time.Minute)
			v.ExpireBackoffs(v.now)
		}, "b"},
		"the class leaves the next out": {v1alpha1.StateStandby, func(v *typedView) {
			v.dry("a")
			class := typedClass("a", "b", "c")
			class.Status.InstanceTypes[1].Usable = false
			v.SetNodeClass(class)
		}, "c"},
		"the class has no other type any more": {v1alpha1.StateStandby,
			func(v *typedView) { v.dry("a"); v.SetNodeClass(typedClass("a")) }, "a"},
		"the class is gone": {v1alpha1.StateStandby, func(v *typedView) { v.dry("a"); v.DeleteNodeClass("k") },
			"a"},
		"it runs":        {v1alpha1.StateRunning, func(v *typedView) { v.dry("a") }, "a"},
		"it starts":      {v1alpha1.StateStarting, func(v *typedView) { v.dry("a") }, "a"},
		"it still stops": {v1alpha1.StateStopping, func(v *typedView) { v.dry("a") }, "a"},
		"it is stopped only then": {v1alpha1.StateStopping, func(v *typedView) {
			v.dry("a")
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
		}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			v.SetNode(poolNode("n", c.state, inZ("a")))
			c.event(v)
			if got := v.sees("n"); got != c.want {
				t.Errorf("decisions see type %q, want %q", got, c.want)
			}
			want := ""
			if c.want != "a" {
				want = c.want
			}
			if got := v.StartType("n"); got != want {
				t.Errorf("it is to be made %q, want %q", got, want)
			}
		})
	}
}

// TestTypesThatFailAreLeftOut: after three refusals in a row, or two starts after which no kubelet
// reported, no node of the class starts as the type until the spec changes.
func TestTypesThatFailAreLeftOut(t *testing.T) {
	again := func(v *typedView) { v.RefuseType("n", "b") }
	refuse := func(v *typedView) { // after a stop, which has the type tried again
		v.SetNode(poolNode("n", v1alpha1.StateStopping, inZ("a")))
		v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
		again(v)
	}
	blame := func(v *typedView) { v.BlameType("n", "b") }
	serve := func(v *typedView) {
		v.SetNode(poolNode("n", v1alpha1.StateStarting, inZ("b")))
		v.SetNode(poolNode("n", v1alpha1.StateRunning, inZ("b")))
	}
	for name, c := range map[string]struct {
		events []func(*typedView)
		sees   string
		failed []string
	}{
		"two refusals":               {[]func(*typedView){refuse, refuse}, "b", nil},
		"one, told three times":      {[]func(*typedView){refuse, again, again}, "b", nil},
		"three refusals":             {[]func(*typedView){refuse, refuse, refuse}, "c", []string{"b"}},
		"three, and a start between": {[]func(*typedView){refuse, refuse, serve, refuse}, "b", nil},
		"a start afterwards":         {[]func(*typedView){refuse, refuse, refuse, serve}, "c", []string{"b"}},
		"a silent start":             {[]func(*typedView){blame}, "b", nil},
		"two":                        {[]func(*typedView){blame, blame}, "c", []string{"b"}},
		"two, and a start between":   {[]func(*typedView){blame, serve, blame}, "b", nil},
		"of the first type":          {[]func(*typedView){func(v *typedView) { v.BlameType("n", "a"); v.BlameType("n", "a") }}, "b", nil},
		"the spec changes":           {[]func(*typedView){blame, blame, func(v *typedView) { v.respec(2) }}, "b", nil},
		"the class is made anew":     {[]func(*typedView){blame, blame, func(v *typedView) { v.DeleteNodeClass("k"); v.respec(0) }}, "b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
			for _, event := range c.events {
				event(v)
			}
			v.dry("a")
			v.SetNode(poolNode("other", v1alpha1.StateStandby, inZ("a")))
			if got := v.sees("other"); got != c.sees {
				t.Errorf("another node is seen as %s, want %s", got, c.sees)
			}
			if got := slices.Sorted(maps.Keys(v.FailedTypes("k", v.generation))); !slices.Equal(got, c.failed) {
				t.Errorf("failed types %v, want %v", got, c.failed)
			}
		})
	}
}

// respec gives the class the generation.
func (v *typedView) respec(generation int64) {
	class := typedClass("a", "b", "c")
	class.Generation, v.generation = generation, generation
	v.SetNodeClass(class)
}

// TestFailuresOfTypesAreForgotten: what is known against a type goes once it serves, and with the
// spec. Nothing else may bring the standby nodes up to date then.
func TestFailuresOfTypesAreForgotten(t *testing.T) {
	for name, event := range map[string]func(*typedView){
		"it serves": func(v *typedView) {
			v.SetNode(poolNode("other", v1alpha1.StateStarting, inZ("b")))
			v.SetNode(poolNode("other", v1alpha1.StateRunning, inZ("b")))
		},
		"the spec changes": func(v *typedView) { v.respec(2) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
			v.SetNode(poolNode("late", v1alpha1.StateStandby, inZ("b")))
			v.BlameType("late", "b")
			if len(v.types.records) != 1 {
				t.Fatalf("set-up: %d records", len(v.types.records))
			}
			if event(v); len(v.types.records) != 0 {
				t.Errorf("%d records are left", len(v.types.records))
			}
		})
	}
	v := newTypedView()
	v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
	v.BlameType("n", "b")
	v.BlameType("n", "b")
	v.dry("a")
	if got := v.sees("n"); got != "c" {
		t.Fatalf("set-up: the node is seen as %s", got)
	}
	if v.respec(2); v.sees("n") != "b" {
		t.Errorf("after the spec changed the node is seen as %s, want b", v.sees("n"))
	}
}

// TestAClassThatIsNotKnownYet: what failed under one spec is nothing against the next.
func TestAClassThatIsNotKnownYet(t *testing.T) {
	v := newTypedView()
	v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
	v.BlameType("n", "b")
	v.BlameType("n", "b")
	for generation, want := range map[int64]int{0: 1, 1: 0} {
		if got := v.FailedTypes("k", generation); len(got) != want {
			t.Errorf("generation %d: failed types %v, want %d", generation, got, want)
		}
	}
}

// TestANodeOfATypeThatIsLeftOut: this process has not seen the type fail, the status says so.
func TestANodeOfATypeThatIsLeftOut(t *testing.T) {
	v := newTypedView()
	class := typedClass("a", "b", "c")
	class.Status.InstanceTypes[1] = v1alpha1.InstanceTypeStatus{Type: "b", Failed: true, Reason: "no kubelet reported"}
	v.SetNode(poolNode("n", v1alpha1.StateStarting, inZ("b")))
	if got := v.FallbackOf("n"); got != "b" {
		t.Errorf("before: a failed start counts against type %q, want b", got)
	}
	v.SetNodeClass(class)
	if got := v.FallbackOf("n"); got != "" {
		t.Errorf("a failed start counts against type %q, want against the node", got)
	}
	v.SetNode(poolNode("n", v1alpha1.StateStarting, inZ("b"), func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationInstanceType] = "b"
	}))
	if got := v.FallbackOf("n"); got != "b" {
		t.Errorf("a failed start that made it the type counts against type %q, want b", got)
	}
	v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("b")))
	v.dry("a")
	if got := v.sees("n"); got != "c" {
		t.Errorf("decisions see type %q, want c", got)
	}
}

// TestRefusalsThatAnotherReplicaMeets: each replica counts those of the starts that it asks for,
// and leaves the type out of its own at the third. The status, which the leader writes by what it
// has counted, holds for all of them, and for the next leader.
func TestRefusalsThatAnotherReplicaMeets(t *testing.T) {
	replica := func() *typedView {
		v := newTypedView()
		v.dry("a")
		for _, name := range []string{"n1", "n2", "n3", "n4"} {
			v.SetNode(poolNode(name, v1alpha1.StateStandby, inZ("a")))
		}
		return v
	}
	leader, other := replica(), replica()
	sees := func(when string, ofLeader, ofOther string) {
		t.Helper()
		if got := leader.sees("n4"); got != ofLeader {
			t.Errorf("%s: the leader sees a node as %s, want %s", when, got, ofLeader)
		}
		if got := other.sees("n4"); got != ofOther {
			t.Errorf("%s: the other replica sees a node as %s, want %s", when, got, ofOther)
		}
	}
	for _, name := range []v1alpha1.NodeName{"n1", "n2", "n3"} {
		other.RefuseType(name, "b")
	}
	leader.RefuseType("n1", "b")
	sees("refused to the other replica", "b", "c")
	if failed := leader.FailedTypes("k", 0); len(failed) != 0 {
		t.Errorf("the leader writes into the status that %v failed, of which it knows nothing", failed)
	}
	failed := other.FailedTypes("k", 0)
	if failed["b"] == "" {
		t.Errorf("when the other replica leads it writes %v, want that b failed", failed)
	}
	class := typedClass("a", "b", "c")
	class.Status.InstanceTypes[1] = v1alpha1.InstanceTypeStatus{Type: "b", Failed: true, Reason: failed["b"]}
	leader.SetNodeClass(class)
	other.SetNodeClass(class)
	sees("written into the status", "c", "c")

	leader = replica() // of the next process, which has counted nothing
	sees("a process that knows no status", "b", "c")
	leader.SetNodeClass(class)
	sees("a process that reads the status", "c", "c")
}

// TestLaunchesSayWhatIsOut: an instance that was launched as a type says that those before it in
// the list were not to be had in its zone.
func TestLaunchesSayWhatIsOut(t *testing.T) {
	for name, c := range map[string]struct {
		zone, kind, sees string
		// isFirst: the next launch is of the first type.
		isFirst bool
	}{
		"the first type":         {zone: "z", kind: "a", sees: "a", isFirst: true},
		"the second":             {zone: "z", kind: "b", sees: "b"},
		"the third":              {zone: "z", kind: "c", sees: "c"},
		"in another zone":        {zone: "y", kind: "b", sees: "a"},
		"not a type of the list": {zone: "z", kind: "d", sees: "a", isFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			v.SetNode(poolNode("n1", v1alpha1.StateStandby, inZ("a")))
			v.Launched(v.pools["p"], c.zone, c.kind)
			if got := v.sees("n1"); got != c.sees {
				t.Errorf("the node is seen as %s, want %s", got, c.sees)
			}
			if got := v.LaunchesFirstType(v.pools["p"], []string{"y", "z"}); got != c.isFirst {
				t.Errorf("the next launch is of the first type: %t, want %t", got, c.isFirst)
			}
			v.now = v.now.Add(time.Hour) // longer than any backoff
			if !v.LaunchesFirstType(v.pools["p"], []string{"y", "z"}) {
				t.Error("once no backoff stands, the next launch is not of the first type")
			}
		})
	}
}

// TestAnotherNodeBeforeAnotherType: a node that can start as what it is goes before one that
// changes its type.
func TestAnotherNodeBeforeAnotherType(t *testing.T) {
	v := newTypedView()
	v.SetNode(poolNode("early", v1alpha1.StateStandby, inZ("a")))
	v.SetNode(poolNode("late", v1alpha1.StateStandby, inZ("b")))
	v.dry("a")
	for n, want := range []v1alpha1.NodeName{"late", "early"} {
		pod := testPod([]string{"x", "y"}[n])
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
		v.SetPod(pod)
		claimFor(t, v.State, v.claims, pod, "early", "late")
		if c, _ := v.ClaimOf(pod.UID); c.Node != want {
			t.Errorf("claim %d is on %q, want %q", n, c.Node, want)
		}
	}
}

// TestClaimsOnANodeThatIsToBeAnotherType: those that do not fit it then end, for their pods to be
// placed anew.
func TestClaimsOnANodeThatIsToBeAnotherType(t *testing.T) {
	v := newTypedView()
	v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
	// A node of type b has less room.
	v.SetNode(poolNode("other", v1alpha1.StateRunning, inZ("b"), func(n *corev1.Node) {
		n.Status.Allocatable["cpu"] = resource.MustParse("1500m")
	}))
	selects := small("selects", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: "a"}
	})
	for _, pod := range []*corev1.Pod{selects, cpuPod("fits", ""), cpuPod("over", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = nil
	})} {
		v.SetPod(pod)
		claimFor(t, v.State, v.claims, pod, "n")
	}
	v.dry("a")
	slices.Sort(v.lost)
	if want := []types.UID{"over", "selects"}; !slices.Equal(v.lost, want) {
		t.Errorf("claims of %v ended, want those of %v", v.lost, want)
	}
	if got := v.sees("n"); got != "b" {
		t.Errorf("decisions see type %q, want b", got)
	}
}

// TestWhatIsKnownOfAType: the room of a node that is to be another type.
func TestWhatIsKnownOfAType(t *testing.T) {
	withCPU := func(cpu string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse(cpu) }
	}
	ofClass := func(class string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[v1alpha1.LabelPool] = class }
	}
	for name, c := range map[string]struct {
		others []*corev1.Node
		want   int64
	}{
		"none of that type": {nil, 4000},
		"less than its own": {[]*corev1.Node{poolNode("x", v1alpha1.StateRunning, inZ("b"), withCPU("3"))}, 3000},
		"more than its own": {[]*corev1.Node{poolNode("x", v1alpha1.StateRunning, inZ("b"), withCPU("8"))}, 4000},
		"the smallest of several": {[]*corev1.Node{poolNode("x", v1alpha1.StateRunning, inZ("b"), withCPU("3")),
			poolNode("y", v1alpha1.StateStandby, inZ("b"), withCPU("2"))}, 2000},
		"one that warms up does not count": {[]*corev1.Node{poolNode("x", v1alpha1.StateWarmup, inZ("b"),
			withCPU("1"))}, 4000},
		"until then a smaller node of the first type": {[]*corev1.Node{poolNode("x", v1alpha1.StateRunning, inZ("a"),
			withCPU("2"))}, 2000},
		"one of another pool does not count": {[]*corev1.Node{poolNode("x", v1alpha1.StateRunning, inZ("b"),
			withCPU("1"), ofClass("other"))}, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			for _, n := range append(c.others, poolNode("n", v1alpha1.StateStandby, inZ("a"))) {
				v.SetNode(n)
			}
			v.dry("a")
			if got := lookUp(v.State, "n")[0].Allocatable.MilliCPU; got != c.want {
				t.Errorf("it has %dm cpu, want %dm", got, c.want)
			}
		})
	}
}

// TestANodeThatTurnsOutSmaller: claims on a node that starts as another type, of which nothing was
// known. Those that do not fit end when its kubelet reports, and not once it is open.
func TestANodeThatTurnsOutSmaller(t *testing.T) {
	intent := func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationInstanceType: "b", v1alpha1.AnnotationClaims: "x,y"}
	}
	large := func(n *corev1.Node) {
		n.Status.Allocatable["memory"] = resource.MustParse("2Gi")
		n.Status.Allocatable["ephemeral-storage"] = resource.MustParse("20Gi")
	}
	for name, has := range map[corev1.ResourceName]string{
		"cpu": "1500m", "memory": "1536Mi", "pods": "1", "ephemeral-storage": "15Gi",
	} {
		t.Run(string(name), func(t *testing.T) {
			v := newTypedView()
			var outdated []v1alpha1.NodeName
			v.Listen(Listener{NamesOutdated: func(n v1alpha1.NodeName) { outdated = append(outdated, n) }})
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a"), large))
			for _, pod := range []*corev1.Pod{small("x"), small("y")} {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1"),
					"memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("10Gi")}
				v.SetPod(pod)
				claimFor(t, v.State, v.claims, pod, "n")
			}
			v.SetNode(poolNode("n", v1alpha1.StateStarting, inZ("b"), large, intent))
			if len(v.lost) != 0 || len(outdated) != 0 {
				t.Fatalf("set-up: claims of %v ended, %v names others", v.lost, outdated)
			}
			v.SetNode(poolNode("n", v1alpha1.StateStarting, inZ("b"), large, intent, func(n *corev1.Node) {
				n.Status.Allocatable[name] = resource.MustParse(has)
			}))
			if len(v.lost) != 1 || len(v.ClaimsOn("n")) != 1 {
				t.Errorf("claims of %v ended, %d are left, want one of each", v.lost, len(v.ClaimsOn("n")))
			}
			if !slices.Equal(outdated, []v1alpha1.NodeName{"n"}) {
				t.Errorf("nodes that name claims which have ended: %v, want n", outdated)
			}
		})
	}
}

// TestANodeThatHasNotRunAsItsType: it was larger when it last ran, and reports that still.
func TestANodeThatHasNotRunAsItsType(t *testing.T) {
	returned := func(n *corev1.Node) {
		n.Status.Allocatable["cpu"] = resource.MustParse("6")
		n.Annotations = map[string]string{v1alpha1.AnnotationAllocatableAtStop: `{"example.com/card":"1"}`}
	}
	for _, state := range []v1alpha1.NodeState{v1alpha1.StateStandby, v1alpha1.StateStarting} {
		v := newTypedView()
		v.SetNode(poolNode("n", state, inZ("a"), returned))
		v.SetNode(poolNode("x", v1alpha1.StateRunning, inZ("a")))
		v.SetNode(poolNode("n", state, inZ("a"), returned, func(n *corev1.Node) { n.ResourceVersion = "2" }))
		if got := lookUp(v.State, "n")[0].Allocatable.MilliCPU; got != 4000 {
			t.Errorf("a %s node has %dm cpu, want 4000m", state, got)
		}
	}
}

// TestATypeThatShowsItsRoomLater: nothing was known of type b when claims were made on nodes that
// are to run as it. They are checked against its room as soon as a node shows that, by warming up
// or by opening, and not by their own next events.
func TestATypeThatShowsItsRoomLater(t *testing.T) {
	returned := func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationAllocatableAtStop: `{"example.com/card":"1"}`}
	}
	intent := func(n *corev1.Node) {
		returned(n)
		n.Annotations[v1alpha1.AnnotationInstanceType], n.Annotations[v1alpha1.AnnotationClaims] = "b", "x,y"
	}
	smaller := func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("1500m") }
	for name, c := range map[string]struct {
		node   *corev1.Node
		starts *corev1.Node
		dry    bool
		from   v1alpha1.NodeState
		to     v1alpha1.NodeState
	}{
		"one that is to become it": {node: poolNode("n", v1alpha1.StateStandby, inZ("a")), dry: true,
			from: v1alpha1.StateStarting, to: v1alpha1.StateRunning},
		"one that became it": {node: poolNode("n", v1alpha1.StateStandby, inZ("b"), returned),
			from: v1alpha1.StateStarting, to: v1alpha1.StateRunning},
		"one that starts as it": {node: poolNode("n", v1alpha1.StateStandby, inZ("b"), returned),
			starts: poolNode("n", v1alpha1.StateStarting, inZ("b"), intent),
			from:   v1alpha1.StateStarting, to: v1alpha1.StateRunning},
		"by a warm-up": {node: poolNode("n", v1alpha1.StateStandby, inZ("b"), returned),
			from: v1alpha1.StateWarmup, to: v1alpha1.StateStandby},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			v.SetNode(c.node)
			if c.dry {
				v.dry("a")
			}
			for _, pod := range []*corev1.Pod{small("x"), small("y")} {
				v.SetPod(pod)
				claimFor(t, v.State, v.claims, pod, "n")
			}
			if c.starts != nil {
				v.SetNode(c.starts)
			}
			v.SetNode(poolNode("other", c.from, inZ("b"), smaller))
			if len(v.lost) != 0 {
				t.Fatalf("set-up: claims of %v ended", v.lost)
			}
			v.SetNode(poolNode("other", c.to, inZ("b"), smaller))
			if len(v.lost) != 1 || len(v.ClaimsOn("n")) != 1 {
				t.Errorf("claims of %v ended, %d are left, want one of each", v.lost, len(v.ClaimsOn("n")))
			}
		})
	}
}

// TestAStartingNodeShowsTheRoomOfItsType: the first node that starts as type b has less room than
// was known of that. It shows it by what its kubelet reports, before it opens: pods are to be sent
// to no other node as type b that do not fit there.
func TestAStartingNodeShowsTheRoomOfItsType(t *testing.T) {
	as := func(cpu, cards string) *corev1.Node {
		return poolNode("first", v1alpha1.StateStarting, inZ("b"), func(n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.AnnotationInstanceType: "b"}
			n.Status.Allocatable["cpu"] = resource.MustParse(cpu)
			n.Status.Allocatable["example.com/card"] = resource.MustParse(cards)
		})
	}
	for name, c := range map[string]struct {
		reports *corev1.Node
		fits    bool
	}{
		"it reports less":             {as("1500m", "1"), false},
		"it reports no devices yet":   {as("4", "0"), true},
		"it reports more":             {as("6", "1"), true},
		"it does not report anything": {as("4", "1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			card := func(n *corev1.Node) { n.Status.Allocatable["example.com/card"] = resource.MustParse("1") }
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a"), card))
			v.dry("a")
			wide := small("wide")
			wide.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3"),
				"example.com/card": resource.MustParse("1")}
			v.SetPod(wide)
			claimFor(t, v.State, v.claims, wide, "n")
			v.SetNode(as("4", "1"))
			v.SetNode(c.reports)
			if fits := len(v.lost) == 0; fits != c.fits {
				t.Errorf("the claim on a node that is to start as the type stands: %t, want %t", fits, c.fits)
			}
			stops := c.reports.DeepCopy() // its start has failed, and the next event is of the other node
			stops.Labels[v1alpha1.LabelState] = string(v1alpha1.StateStopping)
			v.SetNode(stops)
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a"), card))
			if n := lookUp(v.State, "n")[0]; n.Allocatable.MilliCPU == 4000 != c.fits {
				t.Errorf("after a start that failed %dm of cpu are counted on", n.Allocatable.MilliCPU)
			}
		})
	}
}

// TestANodeStartsAsNoTypeThatIsTooSmallForItsPods: pods were bound to it before it stopped. Its
// kubelet would reject them.
func TestANodeStartsAsNoTypeThatIsTooSmallForItsPods(t *testing.T) {
	for name, c := range map[string]struct {
		cpu, want string
	}{
		"it holds them":            {cpu: "3", want: "a"},
		"it does not":              {cpu: "5", want: "c"},
		"no type does but its own": {cpu: "7"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			of := func(cpu string) func(*corev1.Node) {
				return func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse(cpu) }
			}
			v.SetNode(poolNode("small", v1alpha1.StateRunning, inZ("a"), of("4")))
			v.SetNode(poolNode("large", v1alpha1.StateRunning, inZ("c"), of("6")))
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("b"), of("8")))
			v.dry("b")
			if got := v.StartType("n"); got != "a" {
				t.Fatalf("without pods it starts as %q, want a", got)
			}
			v.SetPod(small("bound", func(p *corev1.Pod) {
				p.Spec.NodeName = "n"
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(c.cpu)}
			}))
			if got := v.StartType("n"); got != c.want {
				t.Errorf("it starts as %q, want %q", got, c.want)
			}
			if again := v.MayStartAgain("n"); again != (c.want != "") {
				t.Errorf("it may start as another type: %t", again)
			}
		})
	}
}

// TestReturnsToTheFirstType: a standby node of type b.
func TestReturnsToTheFirstType(t *testing.T) {
	trunk := func(n *corev1.Node) { n.Status.Allocatable["vpc.amazonaws.com/pod-eni"] = resource.MustParse("9") }
	for name, c := range map[string]struct {
		node  *corev1.Node
		shows string
		event func(*typedView)
		want  string
	}{
		"it may":                      {shows: "b", want: "a"},
		"it is the first type":        {shows: "a"},
		"of a type that is not named": {shows: "x"},
		"the first is dry":            {shows: "b", event: func(v *typedView) { v.dry("a") }},
		"the cloud refuses it":        {shows: "b", event: func(v *typedView) { v.RefuseType("n", "a") }},
		"no type may be changed": {shows: "b",
			event: func(v *typedView) { v.HoldTypeChanges(v.now.Add(time.Minute)) }},
		"it has a trunk interface":     {node: poolNode("n", v1alpha1.StateStandby, inZ("b"), trunk), shows: "b"},
		"its class has no other types": {shows: "b", event: func(v *typedView) { v.SetNodeClass(typedClass("a")) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			node := c.node
			if node == nil {
				node = poolNode("n", v1alpha1.StateStandby, inZ("b"))
			}
			v.SetNode(node)
			if c.event != nil {
				c.event(v)
			}
			if got := v.ReturnsTo(node, c.shows); got != c.want {
				t.Errorf("it returns to %q, want %q", got, c.want)
			}
		})
	}
}
