package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestPoolsFollowEveryChange: what is remembered of pools is what is computed of them, after each
// kind of change that says something of a pool or its nodes.
func TestPoolsFollowEveryChange(t *testing.T) {
	type seen struct {
		Pool   string
		Total  int32
		Nodes  []string
		States []v1alpha1.NodeState
		// CPU is what pods of DaemonSets take; a node that offers nothing yet has no room for any.
		CPU      []int64
		Patterns []string
	}
	v, _ := newTestView() // has pool p
	unknown := func(n *corev1.Node) { n.Status.Allocatable = nil }
	steps := []struct {
		what   string
		change func()
		want   []seen
	}{
		{"nothing", func() {}, []seen{{Pool: "p"}}},
		{"a node", func() { v.SetNode(poolNode("b", v1alpha1.StateStandby)) },
			[]seen{{Pool: "p", Nodes: []string{"b"}, States: []v1alpha1.NodeState{"standby"}, CPU: []int64{0},
				Patterns: []string{"b"}}}},
		{"a node that has not reported yet", func() { v.SetNode(poolNode("a", v1alpha1.StateWarmup, unknown)) },
			[]seen{{Pool: "p", Nodes: []string{"a", "b"}, States: []v1alpha1.NodeState{"warmup", "standby"},
				CPU: []int64{0, 0}, Patterns: []string{"b"}}}},
		{"a DaemonSet", func() { v.SetDaemonSet(agents()) },
			[]seen{{Pool: "p", Nodes: []string{"a", "b"}, States: []v1alpha1.NodeState{"warmup", "standby"},
				CPU: []int64{0, 100}, Patterns: []string{"b"}}}},
		{"a pod on a node", func() { v.SetPod(cpuPod("x", "b")) },
			[]seen{{Pool: "p", Nodes: []string{"a", "b"}, States: []v1alpha1.NodeState{"warmup", "standby"},
				CPU: []int64{0, 100}, Patterns: []string{"b"}}}},
		{"a start", func() { v.SetNode(poolNode("b", v1alpha1.StateStarting)) },
			[]seen{{Pool: "p", Nodes: []string{"a", "b"}, States: []v1alpha1.NodeState{"warmup", "starting"},
				CPU: []int64{0, 100}, Patterns: []string{"b"}}}},
		{"a status of the pool", func() {
			p := poolObject("p", 1)
			p.Status.Total = 2
			v.SetPool(p)
		}, []seen{{Pool: "p", Total: 2, Nodes: []string{"a", "b"}, States: []v1alpha1.NodeState{"warmup", "starting"},
			CPU: []int64{0, 100}, Patterns: []string{"b"}}}},
		{"nodes of another type", func() {
			another := func(n *corev1.Node) { n.Labels[corev1.LabelInstanceTypeStable] = "m6i.large" }
			v.SetNode(poolNode("c", v1alpha1.StateStarting, another))
			v.SetNode(poolNode("d", v1alpha1.StateStarting, another))
		}, []seen{{Pool: "p", Total: 2, Nodes: []string{"a", "b", "c", "d"},
			States: []v1alpha1.NodeState{"warmup", "starting", "starting", "starting"},
			CPU:    []int64{0, 100, 100, 100}, Patterns: []string{"b", "c"}}}},
		{"nodes that are gone", func() { v.DeleteNode("c"); v.DeleteNode("d") },
			[]seen{{Pool: "p", Total: 2, Nodes: []string{"a", "b"}, States: []v1alpha1.NodeState{"warmup", "starting"},
				CPU: []int64{0, 100}, Patterns: []string{"b"}}}},
		{"a node that is gone", func() { v.DeleteNode("b") },
			[]seen{{Pool: "p", Total: 2, Nodes: []string{"a"}, States: []v1alpha1.NodeState{"warmup"}, CPU: []int64{0}}}},
		{"another pool", func() { v.SetPool(poolObject("o", 1)) },
			[]seen{{Pool: "o"}, {Pool: "p", Total: 2, Nodes: []string{"a"}, States: []v1alpha1.NodeState{"warmup"},
				CPU: []int64{0}}}},
		{"a pool that is gone", func() { v.DeletePool("p") }, []seen{{Pool: "o"}}},
	}
	for _, step := range steps {
		step.change()
		var got []seen
		for _, p := range v.Pools() {
			s := seen{Pool: p.Pool.Name, Total: p.Pool.Status.Total}
			for _, n := range p.Nodes {
				s.Nodes, s.States = append(s.Nodes, string(n.Name)), append(s.States, n.State)
				s.CPU = append(s.CPU, n.Used.MilliCPU)
			}
			for _, n := range p.Patterns {
				s.Patterns = append(s.Patterns, n.Name)
			}
			got = append(got, s)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestIsPublished: a claim counts as published as long as a node of a pool names it.
func TestIsPublished(t *testing.T) {
	v, _ := newTestView()
	naming := func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationClaims: "one,two"}
	}
	v.SetNode(poolNode("a", v1alpha1.StateStarting, naming))
	if !v.IsPublished("one") || !v.IsPublished("two") || v.IsPublished("three") || v.IsPublished("") {
		t.Error("the node names one and two")
	}
	v.SetNode(poolNode("a", v1alpha1.StateRunning))
	if v.IsPublished("one") {
		t.Error("the node names no pod any more")
	}
}
