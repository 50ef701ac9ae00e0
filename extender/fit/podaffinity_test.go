package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func term(key string, s *metav1.LabelSelector, namespaces ...string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: s, Namespaces: namespaces}
}

func termIn(key string, s, namespaces *metav1.LabelSelector) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: s, NamespaceSelector: namespaces}
}

func lacking(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key,
		Operator: metav1.LabelSelectorOpDoesNotExist}}}
}

func unparsable() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}
}

func TestAntiAffinityKeepsPodsApartInBothDirections(t *testing.T) {
	web := set("app", "web")
	apart := antiAffinity(term(hostname, selector("app", "web")))
	cases := map[string]struct {
		pod        *corev1.Pod
		world      *World
		namespaces map[string]map[string]string
		want       []string
	}{
		"a pod that repels its own kind goes where none is": {
			pod: podWith("p", web, apart),
			world: worldOf(nodeIn("n1", "a", podWith("x", web)), nodeIn("n2", "a", podWith("y", set("app", "db"))),
				nodeIn("n3", "b")),
			want: []string{"n2", "n3"},
		},
		"a placed pod that repels keeps away a pod that has no terms": {
			pod:   podWith("p", web),
			world: worldOf(nodeIn("n1", "a", podWith("x", set("app", "db"), apart)), nodeIn("n2", "a")),
			want:  []string{"n2"},
		},
		"by zone, the whole zone is closed": {
			pod:   podWith("p", web, antiAffinity(term(zone, selector("app", "web")))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web)), nodeIn("n2", "a"), nodeIn("n3", "b")),
			want:  []string{"n3"},
		},
		"placed pods close whole zones too": {
			pod: podWith("p", web),
			world: worldOf(nodeIn("n1", "a", podWith("x", nil, antiAffinity(term(zone, selector("app", "web"))))),
				nodeIn("n2", "a"), nodeIn("n3", "b")),
			want: []string{"n3"},
		},
		"a node without the topology label is open": {
			pod:   podWith("p", web, antiAffinity(term("rack", selector("app", "web")))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web)), nodeIn("n2", "a")),
			want:  []string{"n1", "n2"},
		},
		"another namespace does not count": {
			pod:   podWith("p", web, apart),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, inNamespace("other")))),
			want:  []string{"n1"},
		},
		"unless it is named": {
			pod:   podWith("p", web, antiAffinity(term(hostname, selector("app", "web"), "other"))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, inNamespace("other"))), nodeIn("n2", "a", podWith("y", web))),
			want:  []string{"n2"},
		},
		"or selected by its labels": {
			pod: podWith("p", web, antiAffinity(termIn(hostname, selector("app", "web"), selector("team", "x")))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, inNamespace("other"))),
				nodeIn("n2", "a", podWith("y", web))),
			namespaces: map[string]map[string]string{"other": set("team", "x"), "default": {}},
			want:       []string{"n2"},
		},
		"the empty namespace selector means all, known or not": {
			pod:   podWith("p", web, antiAffinity(termIn(hostname, selector("app", "web"), &metav1.LabelSelector{}))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, inNamespace("other"))), nodeIn("n2", "a")),
			want:  []string{"n2"},
		},
		"a selector that asks for a label's absence means the known namespaces without it": {
			pod: podWith("p", web, antiAffinity(termIn(hostname, selector("app", "web"), lacking("team")))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, inNamespace("other"))),
				nodeIn("n2", "a", podWith("y", web, inNamespace("gone"))),
				nodeIn("n3", "a", podWith("z", web, inNamespace("bare"))), nodeIn("n4", "a")),
			namespaces: map[string]map[string]string{"other": set("team", "x"), "bare": nil},
			want:       []string{"n1", "n2", "n4"},
		},
		"a namespace that is gone is selected by no label": {
			pod:   podWith("p", web, antiAffinity(termIn(hostname, selector("app", "web"), selector("team", "x")))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, inNamespace("gone")))),
			want:  []string{"n1"},
		},
		"a placed pod asks for the label's absence in earnest": {
			pod: podWith("p", web),
			world: worldOf(nodeIn("n1", "a", podWith("x", nil, antiAffinity(termIn(hostname, selector("app", "web"),
				lacking("team")))))),
			namespaces: map[string]map[string]string{"default": set("team", "x")},
			want:       []string{"n1"},
		},
		"seen from a placed pod an unknown namespace has no labels, so their absence selects it": {
			pod: podWith("p", web),
			world: worldOf(nodeIn("n1", "a", podWith("x", nil, antiAffinity(termIn(hostname, selector("app", "web"),
				lacking("team"))))), nodeIn("n2", "a")),
			want: []string{"n2"},
		},
		"no label selector matches no pod": {
			pod:   podWith("p", web, antiAffinity(term(hostname, nil))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web))),
			want:  []string{"n1"},
		},
		"the empty label selector matches every pod": {
			pod:   podWith("p", web, antiAffinity(term(hostname, &metav1.LabelSelector{}))),
			world: worldOf(nodeIn("n1", "a", podWith("x", nil)), nodeIn("n2", "a")),
			want:  []string{"n2"},
		},
		"a terminating pod still repels": {
			pod: podWith("p", web, apart),
			world: worldOf(nodeIn("n1", "a", podWith("x", web, func(p *corev1.Pod) {
				p.DeletionTimestamp = &metav1.Time{}
			})), nodeIn("n2", "a")),
			want: []string{"n2"},
		},
		"the pod's own place does not keep it away": {
			pod:   podWith("p", web, apart),
			world: worldOf(nodeIn("n1", "a", podWith("p", web, apart)), nodeIn("n2", "a")),
			want:  []string{"n1", "n2"},
		},
		"a pod whose terms do not parse fits nowhere": {
			pod:   podWith("p", web, antiAffinity(term(hostname, unparsable()))),
			world: worldOf(nodeIn("n1", "a")),
		},
		"a placed pod whose terms do not parse repels nobody": {
			pod: podWith("p", web),
			world: worldOf(nodeIn("n1", "a", podWith("x", nil, antiAffinity(term(hostname, selector("app", "web")),
				term(hostname, unparsable()))))),
			want: []string{"n1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.world.Namespaces = c.namespaces
			pod := NewPod(c.pod, nil)
			if diff := cmp.Diff(c.want, accepts(c.world, c.world.View(pod).AntiAffinity)); diff != "" {
				t.Errorf("accepting nodes (-want +got):\n%s", diff)
			}
			one := func(n *Node) *Refusal { return c.world.View(pod).AntiAffinity(n) }
			if diff := cmp.Diff(c.want, accepts(c.world, one)); diff != "" {
				t.Errorf("asked one by one (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAntiAffinityNamesTheDirection(t *testing.T) {
	web, apart := set("app", "web"), antiAffinity(term(hostname, selector("app", "web")))
	besideWeb, besideApart := nodeIn("n", "a", podWith("x", web)), nodeIn("n", "a", podWith("x", nil, apart))
	own := worldOf(besideWeb).View(NewPod(podWith("p", web, apart), nil)).AntiAffinity(besideWeb)
	wantMessage(t, own, "node(s) didn't match pod anti-affinity rules")
	theirs := worldOf(besideApart).View(NewPod(podWith("p", web), nil)).AntiAffinity(besideApart)
	wantMessage(t, theirs, "node(s) didn't satisfy existing pods anti-affinity rules")
	for _, r := range []*Refusal{own, theirs} {
		if r.Reason != ReasonAntiAffinity || r.Unresolvable || r.Subject != hostname {
			t.Errorf("refusal %+v: an eviction can help", r)
		}
	}
}

func TestPodAffinity(t *testing.T) {
	web := set("app", "web")
	together := podAffinity(term(zone, selector("app", "web")))
	unlabelled := nodeIn("bare", "a")
	unlabelled.Labels = set(hostname, "bare")
	cases := map[string]struct {
		pod   *corev1.Pod
		world *World
		want  []string
	}{
		"a pod without terms goes anywhere": {pod: podWith("p", web), world: worldOf(nodeIn("n1", "a"), unlabelled),
			want: []string{"n1", "bare"}},
		"to the zone of its partner": {
			pod:   podWith("p", nil, together),
			world: worldOf(nodeIn("n1", "a", podWith("x", web)), nodeIn("n2", "a"), nodeIn("n3", "b")),
			want:  []string{"n1", "n2"},
		},
		"no partner anywhere, and not its own partner": {pod: podWith("p", nil, together), world: worldOf(nodeIn("n1", "a"))},
		"the first of a group goes anywhere that has the label": {
			pod: podWith("p", web, together), world: worldOf(nodeIn("n1", "a"), nodeIn("n2", "b"), unlabelled),
			want: []string{"n1", "n2"},
		},
		"the second follows the first": {
			pod:   podWith("p", web, together),
			world: worldOf(nodeIn("n1", "a"), nodeIn("n2", "b", podWith("x", web))),
			want:  []string{"n2"},
		},
		"a partner on a node outside the topology does not make the pod the second": {
			pod: podWith("p", web, together),
			world: worldOf(nodeIn("n1", "a"), func() *Node {
				n := nodeIn("lost", "", podWith("x", web))
				n.Labels = set(hostname, "lost")
				return n
			}()),
			want: []string{"n1"},
		},
		"first of its group only if it matches all of its terms": {
			pod:   podWith("p", web, podAffinity(term(zone, selector("app", "web")), term(hostname, selector("app", "db")))),
			world: worldOf(nodeIn("n1", "a")),
		},
		"a partner must match all terms, not one each": {
			pod: podWith("p", nil, podAffinity(term(zone, selector("app", "web")), term(zone, selector("tier", "front")))),
			world: worldOf(nodeIn("n1", "a", podWith("x", web), podWith("y", set("tier", "front"))),
				nodeIn("n2", "b", podWith("z", set("app", "web", "tier", "front")))),
			want: []string{"n2"},
		},
		"the group's first may be in another namespace only if named": {
			pod:   podWith("p", web, podAffinity(term(zone, selector("app", "web"), "other"))),
			world: worldOf(nodeIn("n1", "a")),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := NewPod(c.pod, nil)
			if diff := cmp.Diff(c.want, accepts(c.world, c.world.View(pod).PodAffinity)); diff != "" {
				t.Errorf("accepting nodes (-want +got):\n%s", diff)
			}
			for _, n := range c.world.Nodes {
				r := c.world.View(pod).PodAffinity(n)
				if r != nil && (r.Message != "node(s) didn't match pod affinity rules" || !r.Unresolvable ||
					r.Reason != ReasonPodAffinity) {
					t.Errorf("refusal %+v", r)
				}
			}
		})
	}
}

// TestALaunchedNodeSharesItsZone: the scaler adds a node to the world before it asks about it.
func TestALaunchedNodeSharesItsZone(t *testing.T) {
	web := set("app", "web")
	pod := NewPod(podWith("p", web, antiAffinity(term(zone, selector("app", "web")))), nil)
	a, b := nodeIn("new-a", "a"), nodeIn("new-b", "b")
	view := worldOf(nodeIn("n1", "a", podWith("x", web)), a, b).View(pod)
	if view.AntiAffinity(a) == nil {
		t.Error("a node to be launched in zone a ignores the pod in zone a")
	}
	if r := view.AntiAffinity(b); r != nil {
		t.Errorf("a node to be launched in zone b refuses: %v", r.Message)
	}
}
