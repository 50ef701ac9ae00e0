package decide

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// typedNode is a Node of a type in zone z with 4 cpu and 16Gi.
func typedNode(kind string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		corev1.LabelTopologyZone: "z", corev1.LabelInstanceType: kind, corev1.LabelInstanceTypeStable: kind,
	}, Annotations: map[string]string{}}}
	n.Status.Allocatable = list("cpu", "4", "memory", "16Gi")
	for _, f := range change {
		f(n)
	}
	return n
}

func nodeAnnotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func TestStartsAs(t *testing.T) {
	for name, c := range map[string]struct {
		// is is the type of the node, "" for none. dry are the types that zone z has none of.
		is      string
		dry     []string
		refused map[string]bool
		want    string
	}{
		"its own":                       {is: "a", want: "a"},
		"its own, though not the first": {is: "b", want: "b"},
		"others are dry":                {is: "a", dry: []string{"b", "c"}, want: "a"},
		"the first that is not dry":     {is: "a", dry: []string{"a", "b"}, want: "c"},
		"back to the first":             {is: "b", dry: []string{"b"}, want: "a"},
		"a type that was refused for it": {is: "a", dry: []string{"a"}, refused: map[string]bool{"b": true},
			want: "c"},
		"all are dry": {is: "a", dry: []string{"a", "b", "c"}, want: ""},
		"dry or refused": {is: "a", dry: []string{"a", "c"}, refused: map[string]bool{"b": true},
			want: ""},
		"one that the class does not name":      {is: "x", want: "x"},
		"one that the class does not name, dry": {is: "x", dry: []string{"x"}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			for _, kind := range c.dry {
				l.MarkOfferingUnavailable(Offering{Zone: "z", Type: kind}, epoch())
			}
			l.MarkOfferingUnavailable(Offering{Zone: "elsewhere", Type: "b"}, epoch())
			got := l.StartsAs(typedNode(c.is), []string{"a", "b", "c"}, c.refused, epoch().Add(time.Second))
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestStartsAsWhatItIsAgain: the backoff of an offering ends.
func TestStartsAsWhatItIsAgain(t *testing.T) {
	l := NewClaims()
	dry := Offering{Zone: "z", Type: "a"}
	l.MarkOfferingUnavailable(dry, epoch())
	until := l.OfferingUnavailableUntil(dry, epoch())
	for at, want := range map[time.Time]string{until.Add(-time.Second): "b", until: "a"} {
		if got := l.StartsAs(typedNode("a"), []string{"a", "b"}, nil, at); got != want {
			t.Errorf("at %s %q, want %q", at, got, want)
		}
	}
}

func TestMayChangeType(t *testing.T) {
	trunkAtStop := v1alpha1.FormatResources(list("cpu", "4", "vpc.amazonaws.com/pod-eni", "9"))
	for name, c := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"of a type":      {typedNode("a"), true},
		"without a type": {typedNode(""), false},
		"with a trunk interface": {typedNode("a", func(n *corev1.Node) {
			n.Status.Allocatable = list("cpu", "4", "vpc.amazonaws.com/pod-eni", "9")
		}), false},
		"that had one when it stopped": {
			typedNode("a", nodeAnnotated(v1alpha1.AnnotationAllocatableAtStop, trunkAtStop)), false},
	} {
		if got := MayChangeType(c.node); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestANodeOfAnotherType: the smaller of what the Node reports and of what is known of the type.
// The Node itself stays as it is.
func TestANodeOfAnotherType(t *testing.T) {
	for name, c := range map[string]struct {
		node        *corev1.Node
		least, want corev1.ResourceList
	}{
		"nothing is known of the type": {typedNode("a"), nil, list("cpu", "4", "memory", "16Gi")},
		"it has less of something": {typedNode("a"), list("cpu", "8", "memory", "15Gi"),
			list("cpu", "4", "memory", "15Gi")},
		"it has something more": {typedNode("a"), list("cpu", "4", "memory", "16Gi", "example.com/card", "1"),
			list("cpu", "4", "memory", "16Gi")},
		"what was recorded at the stop counts": {
			typedNode("a", nodeAnnotated(v1alpha1.AnnotationAllocatableAtStop,
				v1alpha1.FormatResources(list("cpu", "4", "memory", "16Gi", "example.com/card", "2")))),
			list("memory", "8Gi", "example.com/card", "1"), list("cpu", "4", "memory", "8Gi", "example.com/card", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			was := c.node.DeepCopy()
			is := OfType(c.node, "b", c.least)
			wantDiff(t, "what it has", allocatable(is), c.want)
			wantDiff(t, "the Node that was given", c.node, was)
			for _, label := range []string{corev1.LabelInstanceType, corev1.LabelInstanceTypeStable} {
				if is.Labels[label] != "b" {
					t.Errorf("label %s is %q, want b", label, is.Labels[label])
				}
			}
		})
	}
}

// TestMisfits: claims on a stopped node that is to be another type. Those that stay are for what it
// will be.
func TestMisfits(t *testing.T) {
	ofType := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: kind}
		}
	}
	ofKind := func(kind string) func(*Node) {
		return func(n *Node) { n.Labels[corev1.LabelInstanceTypeStable] = kind }
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		is   *Node
		want []string
	}{
		"all fit": {[]*corev1.Pod{pod("x"), pod("y")}, standby("n", ofKind("b")), nil},
		"one selects": {[]*corev1.Pod{pod("x", ofType("a")), pod("y")}, standby("n", ofKind("b")),
			[]string{"x"}},
		"less room": {[]*corev1.Pod{pod("x"), pod("y")},
			standby("n", ofKind("b"), offering("cpu", "1", "pods", "9")), []string{"y"}},
		"no room": {[]*corev1.Pod{pod("x"), pod("y")},
			standby("n", ofKind("b"), offering("cpu", "500m", "pods", "9")), []string{"x", "y"}},
		"both": {[]*corev1.Pod{pod("x", ofType("a")), pod("y"), pod("z")},
			standby("n", ofKind("b"), offering("cpu", "1", "pods", "9")), []string{"x", "z"}},
		"other devices": {[]*corev1.Pod{pod("x", asking("example.com/card", "1"))}, standby("n", ofKind("b")),
			[]string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			was := standby("n", ofKind("a"),
				offering("cpu", "4", "memory", "16Gi", "pods", "110", "example.com/card", "1"))
			claimed(t, l, []*Node{was}, c.pods...)
			var ended []string
			for _, uid := range podsOf(l.ReleaseMisfits(c.is)) {
				ended = append(ended, string(uid))
			}
			wantDiff(t, "claims that ended", ended, c.want)
			for _, p := range c.pods {
				_, has := l.Of(p.UID)
				if stays := !slices.Contains(c.want, p.Name); has != stays {
					t.Errorf("pod %s has a claim: %v, want %v", p.Name, has, stays)
				}
			}
			if asked := l.startRequested["n"]; asked != (len(c.want) < len(c.pods)) {
				t.Errorf("its start is asked for: %v, with %d claims left", asked, len(c.pods)-len(c.want))
			}
		})
	}
}

// TestTheLeastOfAType: what nodes of one type are known to have at least.
func TestTheLeastOfAType(t *testing.T) {
	having := func(pairs ...string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable = list(pairs...) }
	}
	var least corev1.ResourceList
	for _, n := range []*corev1.Node{
		typedNode("a", having()), // its kubelet has not reported
		typedNode("a", having("cpu", "4", "memory", "15Gi")),
		typedNode("a", having("cpu", "3900m", "memory", "16Gi", "example.com/card", "1")),
		// It is not the type yet.
		typedNode("a", having("cpu", "1"), nodeAnnotated(v1alpha1.AnnotationInstanceType, "a")),
		// It was made the type, and has not run since.
		typedNode("a", having("cpu", "1"), nodeAnnotated(v1alpha1.AnnotationAllocatableAtStop, `{}`)),
	} {
		least = Least(least, n)
	}
	wantDiff(t, "the least", least, list("cpu", "3900m", "memory", "15Gi", "example.com/card", "1"))
}
