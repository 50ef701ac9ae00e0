package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func over(key string, maxSkew int32, s *metav1.LabelSelector,
	change ...func(*corev1.TopologySpreadConstraint)) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{TopologyKey: key, MaxSkew: maxSkew, LabelSelector: s,
		WhenUnsatisfiable: corev1.DoNotSchedule}
	for _, f := range change {
		f(&c)
	}
	return c
}

func minDomains(n int32) func(*corev1.TopologySpreadConstraint) {
	return func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &n }
}

func affinityPolicy(p corev1.NodeInclusionPolicy) func(*corev1.TopologySpreadConstraint) {
	return func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &p }
}

func taintsPolicy(p corev1.NodeInclusionPolicy) func(*corev1.TopologySpreadConstraint) {
	return func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &p }
}

func labelKeys(keys ...string) func(*corev1.TopologySpreadConstraint) {
	return func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

func taintedNode(n *Node) *Node {
	n.Taints = []corev1.Taint{{Key: "stratos.sh/standby", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

func TestSpread(t *testing.T) {
	web := set("app", "web")
	x := func(name string, change ...func(*corev1.Pod)) *corev1.Pod { return podWith(name, web, change...) }
	rev := func(name, hash string) *corev1.Pod {
		return podWith(name, set("app", "web", "pod-template-hash", hash))
	}
	sel := selector("app", "web")
	bare := nodeIn("bare", "")
	bare.Labels = set(hostname, "bare")
	cases := map[string]struct {
		pod   *corev1.Pod
		world *World
		want  []string
	}{
		"to the emptier zone": {
			pod:   x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b")),
			want:  []string{"n2"},
		},
		"anywhere when level": {
			pod:   x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b", x("2"))),
			want:  []string{"n1", "n2"},
		},
		"a larger skew allows more": {
			pod:   x("p", spread(over(zone, 2, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"},
		},
		"a zone counts all its nodes": {
			pod:   x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "a"), nodeIn("n3", "b")),
			want:  []string{"n3"},
		},
		"a pod that the selector does not match adds nothing": {
			pod:   podWith("p", set("app", "db"), spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"},
		},
		"terminating pods do not count": {
			pod: x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1", func(p *corev1.Pod) {
				p.DeletionTimestamp = &metav1.Time{}
			})), nodeIn("n2", "b")),
			want: []string{"n1", "n2"},
		},
		"pods of other namespaces do not count": {
			pod:   x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1", inNamespace("other"))), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"},
		},
		"its own place does not count": {
			pod:   x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("p")), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"},
		},
		"a node without the label is never chosen, nor a domain": {
			pod:   x("p", spread(over(zone, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), bare),
			want:  []string{"n1"},
		},
		"a node that lacks one constraint's label is no domain of the other": {
			pod:   x("p", spread(over(zone, 1, sel), over(hostname, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "a", x("2")), bare),
			want:  []string{"n1", "n2"},
		},
		"all constraints must hold": {
			pod:   x("p", spread(over(zone, 1, sel), over(hostname, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "a"), nodeIn("n3", "b", x("3"))),
			want:  []string{"n2"},
		},
		"while there are fewer domains than minDomains the least counts as zero": {
			pod:   x("p", spread(over(zone, 1, sel, minDomains(3)))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b", x("2"))),
		},
		"with minDomains reached the real least counts": {
			pod:   x("p", spread(over(zone, 1, sel, minDomains(2)))),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b", x("2"))),
			want:  []string{"n1", "n2"},
		},
		"standby nodes count as empty domains unless taints are honoured": {
			pod:   x("p", spread(over(hostname, 1, sel))),
			world: worldOf(nodeIn("n1", "a", x("1")), taintedNode(nodeIn("standby", "a"))),
			want:  []string{"standby"},
		},
		"with nodeTaintsPolicy Honor they do not": {
			pod:   x("p", spread(over(hostname, 1, sel, taintsPolicy(corev1.NodeInclusionPolicyHonor)))),
			world: worldOf(nodeIn("n1", "a", x("1")), taintedNode(nodeIn("standby", "a"))),
			want:  []string{"n1", "standby"}, // the taint itself is another filter's business
		},
		"with Honor they do for pods that tolerate the taint": {
			pod: x("p", spread(over(hostname, 1, sel, taintsPolicy(corev1.NodeInclusionPolicyHonor))),
				tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})),
			world: worldOf(nodeIn("n1", "a", x("1")), taintedNode(nodeIn("standby", "a"))),
			want:  []string{"standby"},
		},
		"nodes that the pod does not select are no domains": {
			pod:   x("p", spread(over(hostname, 1, sel)), nodeSelector(zone, "a")),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"}, // n2 falls to the node affinity filter
		},
		"with nodeAffinityPolicy Ignore they are": {
			pod: x("p", spread(over(hostname, 1, sel, affinityPolicy(corev1.NodeInclusionPolicyIgnore))),
				nodeSelector(zone, "a")),
			world: worldOf(nodeIn("n1", "a", x("1")), nodeIn("n2", "b")),
			want:  []string{"n2"},
		},
		"matchLabelKeys spreads one revision, whatever the other does": {
			pod: podWith("p", set("app", "web", "pod-template-hash", "new"),
				spread(over(zone, 1, sel, labelKeys("pod-template-hash", "absent")))),
			world: worldOf(nodeIn("n1", "a", rev("1", "old"), rev("2", "old")), nodeIn("n2", "b", rev("3", "new"))),
			want:  []string{"n1"},
		},
		"matchLabelKeys narrows the empty selector too": {
			pod:   podWith("p", set("rev", "2"), spread(over(zone, 1, &metav1.LabelSelector{}, labelKeys("rev")))),
			world: worldOf(nodeIn("n1", "a", podWith("1", set("rev", "2"))), nodeIn("n2", "b", podWith("2", set("rev", "1")))),
			want:  []string{"n2"},
		},
		"the empty selector counts no pod but the asking one": {
			pod:   x("p", spread(over(zone, 1, &metav1.LabelSelector{}))),
			world: worldOf(nodeIn("n1", "a", x("1"), x("2")), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"},
		},
		"no selector counts nothing": {
			pod:   x("p", spread(over(zone, 1, nil, labelKeys("app")))),
			world: worldOf(nodeIn("n1", "a", x("1"), x("2")), nodeIn("n2", "b")),
			want:  []string{"n1", "n2"},
		},
		"ScheduleAnyway refuses nothing": {
			pod: x("p", spread(over(zone, 1, sel, func(c *corev1.TopologySpreadConstraint) {
				c.WhenUnsatisfiable = corev1.ScheduleAnyway
			}))),
			world: worldOf(nodeIn("n1", "a", x("1")), bare),
			want:  []string{"n1", "bare"},
		},
		"a constraint that does not parse fits nowhere": {
			pod:   x("p", spread(over(zone, 1, unparsable()))),
			world: worldOf(nodeIn("n1", "a")),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := NewPod(c.pod, nil)
			if diff := cmp.Diff(c.want, accepts(c.world, c.world.View(pod).SpreadOver)); diff != "" {
				t.Errorf("accepting nodes (-want +got):\n%s", diff)
			}
			one := func(n *Node) *Refusal { return c.world.View(pod).SpreadOver(n) }
			if diff := cmp.Diff(c.want, accepts(c.world, one)); diff != "" {
				t.Errorf("asked one by one (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpreadSaysWhetherEvictionsCanHelp(t *testing.T) {
	web := set("app", "web")
	pod := NewPod(podWith("p", web, spread(over(zone, 1, selector("app", "web")))), nil)
	bare := nodeIn("bare", "")
	bare.Labels = nil
	world := worldOf(nodeIn("n1", "a", podWith("1", web)), nodeIn("n2", "b"), bare)

	uneven := &Refusal{Reason: ReasonSpread, Message: "node(s) didn't match pod topology spread constraints",
		Subject: zone}
	if diff := cmp.Diff(uneven, world.View(pod).SpreadOver(world.Nodes[0])); diff != "" {
		t.Errorf("uneven (-want +got):\n%s", diff)
	}
	missing := &Refusal{Reason: ReasonSpread, Message: uneven.Message + " (missing required label)", Unresolvable: true,
		Subject: zone}
	if diff := cmp.Diff(missing, world.View(pod).SpreadOver(bare)); diff != "" {
		t.Errorf("missing label (-want +got):\n%s", diff)
	}
}

// TestALaunchedNodeIsADomainOfItsOwn: what the scaler asks before it launches.
func TestALaunchedNodeIsADomainOfItsOwn(t *testing.T) {
	web := set("app", "web")
	pod := NewPod(podWith("p", web, spread(over(hostname, 1, selector("app", "web")))), nil)
	launched := nodeIn("new", "a")
	world := worldOf(nodeIn("n1", "a", podWith("1", web)), nodeIn("n2", "a", podWith("2", web)), launched)
	if r := world.View(pod).SpreadOver(launched); r != nil {
		t.Errorf("the new node refuses: %s", r.Message)
	}
}
