package decide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

func object(state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        "c",
		Labels:      map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(state)},
		Annotations: map[string]string{v1alpha1.AnnotationCordoned: "true"},
	}}
	n.Spec.Unschedulable = true
	n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
	n.Status.Allocatable = list("cpu", "4", "example.com/gpu", "0")
	for _, f := range change {
		f(n)
	}
	return n
}

func carrying(taints ...corev1.Taint) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func noSchedule(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
}

func nodePool(change ...func(*v1alpha1.NodePool)) *v1alpha1.NodePool {
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Template.Taints = []corev1.Taint{noSchedule("team")}
	p.Spec.Template.StartupTaints = []corev1.Taint{noSchedule("cni")}
	for _, f := range change {
		f(p)
	}
	return p
}

func TestNodeOfKeepsBack(t *testing.T) {
	now := metav1.NewTime(epoch())
	for name, c := range map[string]struct {
		node *corev1.Node
		pool *v1alpha1.NodePool
		want string
	}{
		"nothing against it": {object(v1alpha1.StateStandby), nodePool(), ""},
		"its pool is gone":   {object(v1alpha1.StateStandby), nil, "its NodePool is gone"},
		"its pool goes": {
			object(v1alpha1.StateStandby), nodePool(func(p *v1alpha1.NodePool) { p.DeletionTimestamp = &now }),
			"its NodePool is being deleted",
		},
		"the Node goes": {
			object(v1alpha1.StateStandby, func(n *corev1.Node) { n.DeletionTimestamp = &now }), nodePool(),
			"the Node is being deleted",
		},
		"a person annotated it": {
			object(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationDoNotStart, "true")), nodePool(),
			"annotated stratos.sh/do-not-start",
		},
		"a paused pool":                                        {object(v1alpha1.StateStandby), paused("true"), "its NodePool is paused"},
		"any other value pauses too":                           {object(v1alpha1.StateStandby), paused(""), "its NodePool is paused"},
		"a pool that says that it is not paused":               {object(v1alpha1.StateStandby), paused("false"), ""},
		"a warm node of a paused pool":                         {object(v1alpha1.StateWarmup), paused("true"), "its NodePool is paused"},
		"a node of a paused pool that starts already":          {object(v1alpha1.StateStarting), paused("true"), ""},
		"a node of a paused pool whose drain may be cancelled": {object(v1alpha1.StateStopping), paused("true"), ""},
		"do-not-start that says false": {
			object(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationDoNotStart, "false")), nodePool(), "",
		},
		"a person cordoned it": {
			object(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationCordoned, "")), nodePool(), "cordoned by another client",
		},
		"a person tainted it": {
			object(v1alpha1.StateStandby, carrying(noSchedule("broken"))), nodePool(), "tainted broken by another client",
		},
		"Cilium's operator tainted it": {
			object(v1alpha1.StateStandby, carrying(noSchedule("node.cilium.io/agent-not-ready"))), nodePool(), "",
		},
		"a CSI driver tainted it": {
			object(v1alpha1.StateStandby, carrying(noSchedule("ebs.csi.aws.com/agent-not-ready"))), nodePool(), "",
		},
		"a person tainted it by a similar name": {
			object(v1alpha1.StateStandby, carrying(noSchedule("example.com/my-agent-not-ready"))), nodePool(),
			"tainted example.com/my-agent-not-ready by another client",
		},
		"a person tainted it out of service": {
			object(v1alpha1.StateStandby, carrying(corev1.Taint{Key: corev1.TaintNodeOutOfService,
				Effect: corev1.TaintEffectNoExecute})),
			nodePool(), "tainted " + corev1.TaintNodeOutOfService + " by another client",
		},
		"a taint that only advises": {
			object(v1alpha1.StateStandby, carrying(corev1.Taint{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule})),
			nodePool(), "",
		},
		"taints of the template, of its start and of its state": {
			object(v1alpha1.StateStandby, carrying(
				noSchedule("team"), noSchedule("cni"), noSchedule(corev1.TaintNodeNotReady),
				noSchedule("node.cloudprovider.kubernetes.io/shutdown"),
			)), nodePool(), "",
		},
		"the template's taint with another effect is a person's": {
			object(v1alpha1.StateStandby, carrying(corev1.Taint{Key: "team", Effect: corev1.TaintEffectNoExecute})), nodePool(),
			"tainted team by another client",
		},
		"a running node is never kept back": {
			object(v1alpha1.StateRunning, carrying(noSchedule("broken"))), nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NodeOf(c.node, c.pool).NotStartable; got != c.want {
				t.Errorf("kept back for %q, want %q", got, c.want)
			}
		})
	}
}

func TestNodeOfSaysWhatWillBeLeftOfTaintsAndCordon(t *testing.T) {
	all := carrying(noSchedule("team"), noSchedule("cni"), noSchedule(corev1.TaintNodeNotReady))
	standing := []corev1.Taint{noSchedule(v1alpha1.TaintStandby), noSchedule("team"), noSchedule("cni"),
		noSchedule(corev1.TaintNodeNotReady)}
	for name, c := range map[string]struct {
		node     *corev1.Node
		taints   []corev1.Taint
		cordoned bool
	}{
		"standby":  {object(v1alpha1.StateStandby, all), []corev1.Taint{noSchedule("team")}, false},
		"starting": {object(v1alpha1.StateStarting, all), []corev1.Taint{noSchedule("team")}, false},
		"running":  {object(v1alpha1.StateRunning, all), standing, true},
		"foreign":  {object("", all, func(n *corev1.Node) { n.Labels = nil }), standing, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := NodeOf(c.node, nodePool())
			wantDiff(t, "taints", n.Taints, c.taints)
			if n.Unschedulable != c.cordoned {
				t.Errorf("unschedulable %v, want %v", n.Unschedulable, c.cordoned)
			}
			wantDiff(t, "taints that stand now", n.CurrentTaints, standing)
			if !n.Cordoned {
				t.Error("the cordon that stands now is not told")
			}
		})
	}
}

// TestOutdatedTaints: kube-controller-manager wrote them from what the Node was before it was
// opened.
func TestOutdatedTaints(t *testing.T) {
	const shutdown = "node.cloudprovider.kubernetes.io/shutdown"
	ready := func(status corev1.ConditionStatus, cordoned bool) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Unschedulable = cordoned
			n.Spec.Taints = []corev1.Taint{noSchedule(corev1.TaintNodeNotReady), noSchedule(corev1.TaintNodeUnreachable),
				{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, noSchedule(shutdown),
				noSchedule(corev1.TaintNodeUnschedulable), noSchedule(corev1.TaintNodeOutOfService),
				noSchedule(corev1.TaintNodeDiskPressure), noSchedule("team")}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}}
		}
	}
	left := func(n *Node) string {
		keys := ""
		for i := range n.Taints {
			keys += n.Taints[i].Key[strings.LastIndex(n.Taints[i].Key, "/")+1:] + " "
		}
		return keys
	}
	for name, c := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"Ready, open": {object(v1alpha1.StateRunning, ready(corev1.ConditionTrue, false)),
			"out-of-service disk-pressure team "},
		"Ready, cordoned": {object(v1alpha1.StateRunning, ready(corev1.ConditionTrue, true)),
			"unschedulable out-of-service disk-pressure team "},
		"not Ready": {object(v1alpha1.StateRunning, ready(corev1.ConditionFalse, false)),
			"not-ready unreachable unreachable shutdown out-of-service disk-pressure team "},
		"foreign": {object("", ready(corev1.ConditionTrue, false), func(n *corev1.Node) { n.Labels = nil }),
			"not-ready unreachable unreachable shutdown unschedulable out-of-service disk-pressure team "},
	} {
		if got := left(NodeOf(c.node, nodePool())); got != c.want {
			t.Errorf("%s: %q is left, want %q", name, got, c.want)
		}
		if got := len(NodeOf(c.node, nodePool()).CurrentTaints); got != 8 {
			t.Errorf("%s: %d taints stand now, want 8", name, got)
		}
	}
}

// A kubelet reports 0 of each device until its plugin registers again: what counts is what was
// there before the stop. Of cpu it reports what the machine has, which may be another type by now.
func TestNodeOfAllocatable(t *testing.T) {
	recorded := annotated(v1alpha1.AnnotationAllocatableAtStop, v1alpha1.FormatResources(list("cpu", "6",
		"example.com/gpu", "2")))
	for name, c := range map[string]struct {
		node *corev1.Node
		gpus int64
	}{
		"standby with a record":              {object(v1alpha1.StateStandby, recorded), 2},
		"starting with a record":             {object(v1alpha1.StateStarting, recorded), 2},
		"standby without a record":           {object(v1alpha1.StateStandby), 0},
		"running: the kubelet's word counts": {object(v1alpha1.StateRunning, recorded), 0},
		"a record that somebody else garbled": {object(v1alpha1.StateStandby,
			annotated(v1alpha1.AnnotationAllocatableAtStop, "{")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := NodeOf(c.node, nodePool())
			if got := n.Allocatable.Of("example.com/gpu"); got != c.gpus {
				t.Errorf("%d gpus, want %d", got, c.gpus)
			}
			if n.Allocatable.MilliCPU != 4000 {
				t.Errorf("%d milli-cpu, want 4000", n.Allocatable.MilliCPU)
			}
		})
	}
}

// TestTaintsOfAgentsPassWithTheStart: pods are placed as if they were gone, but not on a node that
// runs with them.
func TestTaintsOfAgentsPassWithTheStart(t *testing.T) {
	taint := noSchedule("node.cilium.io/agent-not-ready")
	if n := NodeOf(object(v1alpha1.StateStarting, carrying(taint)), nodePool()); len(n.Taints) != 0 {
		t.Errorf("a node that starts has the taints %v", n.Taints)
	}
	if n := NodeOf(object(v1alpha1.StateRunning, carrying(taint)), nodePool()); !has(n.Taints, &taint) {
		t.Errorf("a node that runs has the taints %v, want that of the agent too", n.Taints)
	}
}

func TestNodeOfReadsThePool(t *testing.T) {
	weight := int32(77)
	pool := nodePool(func(p *v1alpha1.NodePool) {
		p.Spec.Weight = &weight
		p.Spec.ScaleUp.DefaultPodResources = &v1alpha1.PodResources{Requests: list("cpu", "500m")}
	})
	n := NodeOf(object(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationUnavailableUntil, "2026-03-01T12:03:00Z")),
		pool)
	want := &Node{
		Node: fit.Node{
			Name: "c", Labels: map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: "standby"},
			Allocatable: fit.FromList(list("cpu", "4", "example.com/gpu", "0")),
		},
		Pool: "p", State: v1alpha1.StateStandby, Weight: 77, Anticipate: v1alpha1.AnticipateReplicas,
		CurrentTaints: []corev1.Taint{noSchedule(v1alpha1.TaintStandby)}, Cordoned: true,
		Defaults:         list("cpu", "500m"),
		UnavailableUntil: epoch().Add(3 * time.Minute),
	}
	wantDiff(t, "node", n, want)
	if garbled := NodeOf(object(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationUnavailableUntil, "soon")),
		pool); !garbled.UnavailableUntil.IsZero() {
		t.Errorf("unavailable until %v, want a mark that cannot be read to be none", garbled.UnavailableUntil)
	}
}

// paused is a pool with the annotation.
func paused(value string) *v1alpha1.NodePool {
	p := nodePool()
	p.Annotations = map[string]string{v1alpha1.AnnotationPaused: value}
	return p
}
