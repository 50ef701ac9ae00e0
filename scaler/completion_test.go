package scaler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestWhoStopsAWarmNode: what the pool says, else it follows from the class. The pool's status
// shows it, and the Node of a class with bootstrap registers with the standby taint.
func TestWhoStopsAWarmNode(t *testing.T) {
	bootstrap := func(c *v1alpha1.AWSNodeClass) { c.Spec.Bootstrap = &v1alpha1.Bootstrap{} }
	for name, c := range map[string]struct {
		mode  v1alpha1.CompletionMode
		class []func(*v1alpha1.AWSNodeClass)
		want  v1alpha1.CompletionMode
	}{
		"unset, Stratos writes the user data":        {"", []func(*v1alpha1.AWSNodeClass){bootstrap}, v1alpha1.ControllerStop},
		"unset, hand-written user data":              {"", nil, v1alpha1.SelfStop},
		"an older pool, as it was stored":            {v1alpha1.SelfStop, []func(*v1alpha1.AWSNodeClass){bootstrap}, v1alpha1.SelfStop},
		"ControllerStop with hand-written user data": {v1alpha1.ControllerStop, nil, v1alpha1.ControllerStop},
	} {
		t.Run(name, func(t *testing.T) {
			class := awsClass()
			for _, f := range c.class {
				f(class)
			}
			pool := nodePool(5, 0, func(p *v1alpha1.NodePool) {
				p.Spec.PreWarm.CompletionMode, p.Spec.Template.NodeClassRef.Name = c.mode, class.Name
			})
			r := newRig(t, class, pool, warming(seenUp, markedAt(v1alpha1.AnnotationWarmedAt, epoch())))
			r.sweep(instance(provider.InstanceRunning, minuteOld))
			r.reconcile()
			stopped := slices.Contains(r.log, "stop i-c")
			if stopped != (c.want == v1alpha1.ControllerStop) {
				t.Errorf("stopped %t, want the mode %s: %v", stopped, c.want, r.log)
			}
			r.reconcilePool()
			if got := r.pool().Status.CompletionMode; got != c.want {
				t.Errorf("status.completionMode %q, want %q", got, c.want)
			}
		})
	}
}

// TestAWarmNodeWhoseClassIsGone is stopped as it would have been with its class.
func TestAWarmNodeWhoseClassIsGone(t *testing.T) {
	for was, want := range map[v1alpha1.CompletionMode]bool{"": false, v1alpha1.SelfStop: false, v1alpha1.ControllerStop: true} {
		r := newRig(t, nodePool(5, 0, func(p *v1alpha1.NodePool) {
			p.Spec.PreWarm.CompletionMode, p.Status.CompletionMode = "", was
		}), warming(seenUp, markedAt(v1alpha1.AnnotationWarmedAt, epoch())))
		r.sweep(instance(provider.InstanceRunning, minuteOld))
		r.reconcile()
		if stopped := slices.Contains(r.log, "stop i-c"); stopped != want {
			t.Errorf("status.completionMode %q: stopped %t, want %t", was, stopped, want)
		}
	}
}

// TestTheModeOfAPoolWithoutAClass is not known unless the pool says it; what it was stays.
func TestTheModeOfAPoolWithoutAClass(t *testing.T) {
	for name, c := range map[string]struct{ mode, was, want v1alpha1.CompletionMode }{
		"never known": {"", "", ""},
		"known once":  {"", v1alpha1.ControllerStop, v1alpha1.ControllerStop},
		"said":        {v1alpha1.SelfStop, v1alpha1.ControllerStop, v1alpha1.SelfStop},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0, func(p *v1alpha1.NodePool) {
				p.Spec.PreWarm.CompletionMode, p.Status.CompletionMode = c.mode, c.was
			}))
			r.sweep()
			r.reconcilePool()
			if got := r.pool().Status.CompletionMode; got != c.want {
				t.Errorf("status.completionMode %q, want %q", got, c.want)
			}
		})
	}
}

// TestANodeThatRegistersWithTheStandbyTaint is adopted, keeps the taint through its warm-up, and
// opens to no pod before.
func TestANodeThatRegistersWithTheStandbyTaint(t *testing.T) {
	r := newRig(t, nodePool(5, 1, withStartupTaint), nodeIn("", startupTainted, func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule})
		delete(n.Labels, v1alpha1.LabelPool)
		delete(n.Labels, v1alpha1.LabelState)
	}))
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	n := r.node("c")
	standby := 0
	for _, taint := range n.Spec.Taints {
		if taint.Key == v1alpha1.TaintStandby {
			standby++
		}
	}
	if n.Labels[v1alpha1.LabelState] != string(v1alpha1.StateWarmup) || standby != 1 ||
		n.Annotations[v1alpha1.AnnotationStartupTaintsSeen] != "true" {
		t.Errorf("labels %v, annotations %v, taints %v, want warm-up with the taint once", n.Labels, n.Annotations,
			n.Spec.Taints)
	}
}
