package start

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// An instance starts for a warm-up only where the Node says so: behind a Node that says anything else none may run.
func TestWarmUp(t *testing.T) {
	marked := func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationWarmupStarted: "2026-03-01T12:00:00Z"}
	}
	for name, c := range map[string]struct {
		state  v1alpha1.NodeState
		change func(*corev1.Node)
		want   []string
	}{
		"the intent stands":              {v1alpha1.StateWarmup, marked, []string{"start i-c"}},
		"the warm-up after the launch":   {v1alpha1.StateWarmup, func(*corev1.Node) {}, nil},
		"the node stands by again":       {v1alpha1.StateStandby, marked, nil},
		"the node starts for pods":       {v1alpha1.StateStarting, func(*corev1.Node) {}, nil},
		"the node is on its way to gone": {v1alpha1.StateTerminating, marked, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := nodeIn(c.state)
				c.change(node)
				r := newRig(t, node)
				r.run(func() { r.starter.WarmUp("c") })
				r.want(c.want...)
				if said := r.said(); len(said) > 0 {
					t.Errorf("said %q: no pod waits for it", said)
				}
			})
		})
	}
}
