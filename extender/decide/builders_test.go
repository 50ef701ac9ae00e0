package decide

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// epoch is the time at which every test begins.
func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// pod builds a pod that asks for one cpu, unless changed.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	asking("cpu", "1")(p)
	for _, f := range change {
		f(p)
	}
	return p
}

func asking(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}}
	}
}

func onPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}} }
}

func tolerating(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func withPriority(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &n }
}

func ownedBy(kind string) func(*corev1.Pod) {
	yes := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: &yes}}
	}
}

// controlledBy gives the pod a controller of its own.
func controlledBy(uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ownedBy("ReplicaSet")(p)
		p.OwnerReferences[0].UID = uid
	}
}

func podAnnotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func beingDeleted(p *corev1.Pod) {
	at := metav1.NewTime(epoch())
	p.DeletionTimestamp = &at
}

func inGroup(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }

// ours builds a node of pool "p" with 4 cpu and 16Gi.
func ours(name string, state v1alpha1.NodeState, change ...func(*Node)) *Node {
	n := &Node{
		Node: fit.Node{
			Name: v1alpha1.NodeName(name), Labels: map[string]string{corev1.LabelHostname: name},
			Allocatable: fit.FromList(list("cpu", "4", "memory", "16Gi", "pods", "110")),
		},
		Pool: "p", State: state, Weight: 10,
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func standby(name string, change ...func(*Node)) *Node {
	return ours(name, v1alpha1.StateStandby, change...)
}

func starting(name string, change ...func(*Node)) *Node {
	return ours(name, v1alpha1.StateStarting, change...)
}

func running(name string, change ...func(*Node)) *Node {
	return ours(name, v1alpha1.StateRunning, change...)
}

func foreign(name string, change ...func(*Node)) *Node {
	return ours(name, "", append([]func(*Node){func(n *Node) { n.Pool = "" }}, change...)...)
}

func offering(pairs ...string) func(*Node) {
	return func(n *Node) { n.Allocatable = fit.FromList(list(pairs...)) }
}

func using(pairs ...string) func(*Node) {
	return func(n *Node) { n.Used = fit.FromList(list(pairs...)) }
}

func tainted(key string, effect corev1.TaintEffect) func(*Node) {
	return func(n *Node) {
		n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: effect})
		n.CurrentTaints = append(n.CurrentTaints, corev1.Taint{Key: key, Effect: effect})
	}
}

// stopped is the taint that stands on a node only while it does not run.
func stopped(n *Node) {
	n.CurrentTaints = append(n.CurrentTaints,
		corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule})
}

func cordoned(n *Node) { n.Unschedulable, n.Cordoned = true, true }

func inPool(name v1alpha1.PoolName, weight int32) func(*Node) {
	return func(n *Node) { n.Pool, n.Weight = name, weight }
}

func keptBackFor(why string) func(*Node) { return func(n *Node) { n.NotStartable = why } }

func unavailableUntil(t time.Time) func(*Node) { return func(n *Node) { n.UnavailableUntil = t } }

// at looks at a node that does not change.
func ask(p *corev1.Pod, nodes ...*Node) Ask { return Ask{Pod: p, Nodes: nodes} }

// startedBy is the node to start now, or whose drain is to be cancelled, "" for none.
func startedBy(d Decision) v1alpha1.NodeName {
	if d.Kind == Started || d.Kind == Reclaimed {
		return d.Claim.Node
	}
	return ""
}

// tells reports whether some candidate is refused for exactly that reason.
func tells(d Decision, why string) bool {
	return slices.Contains(slices.Collect(maps.Values(d.Refused)), why)
}

// claimed asks for the pods one after the other and fails the test unless each gets a claim.
func claimed(t testing.TB, l *Claims, nodes []*Node, pods ...*corev1.Pod) {
	t.Helper()
	claimedAt(t, l, nodes, epoch(), pods...)
}

func claimedAt(t testing.TB, l *Claims, nodes []*Node, now time.Time, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		if d := l.Decide(ask(p, nodes...), now); d.Claim == nil {
			t.Fatalf("set-up: pod %s got no claim: %s %q", p.Name, d.Kind, d.Refused)
		}
	}
}

// claimOn fails the test unless the pod's claim is on the given node, "" for none.
func claimOn(t testing.TB, l *Claims, p string, want v1alpha1.NodeName) {
	t.Helper()
	c, _ := l.Of(types.UID(p))
	if c.Node != want {
		t.Errorf("claim of pod %s is on node %q, want %q", p, c.Node, want)
	}
}

func podsOf(claims []Claim) []types.UID {
	var out []types.UID
	for i := range claims {
		out = append(out, claims[i].Pod)
	}
	return out
}

func wantDiff(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(Claim{}),
		cmpopts.IgnoreFields(Claim{}, "burst", "digest")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
