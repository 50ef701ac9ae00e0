package scaler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

func paused(p *v1alpha1.NodePool) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[v1alpha1.AnnotationPaused] = "true"
}

// pause annotates the pool, or removes the annotation.
func (r *rig) pause(is bool) {
	r.t.Helper()
	p := r.pool()
	delete(p.Annotations, v1alpha1.AnnotationPaused)
	if is {
		paused(p)
	}
	if err := r.api.Update(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
}

// TestAPausedPoolLaunchesAndReplacesNothing: one that is not paused does each with the same node.
func TestAPausedPoolLaunchesAndReplacesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		least    int32
		instance *provider.Instance
		pause    []func(*v1alpha1.NodePool)
		launches int
		replaced bool
	}{
		"fewer than minStandby": {least: 2, instance: instance(provider.InstanceStopped), launches: 1},
		"fewer than minStandby, paused": {least: 2, instance: instance(provider.InstanceStopped),
			pause: []func(*v1alpha1.NodePool){paused}},
		"of another template": {least: 1, instance: instance(provider.InstanceStopped, launchedFrom(otherTemplate)),
			replaced: true},
		"of another template, paused": {least: 1, instance: instance(provider.InstanceStopped, launchedFrom(otherTemplate)),
			pause: []func(*v1alpha1.NodePool){paused}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, c.least, c.pause...), nodeIn(v1alpha1.StateStandby))
			r.sweep(c.instance)
			r.reconcilePool()
			if len(r.launches) != c.launches || !r.turns.Of("p", "c").None() != c.replaced {
				t.Errorf("%d launches, disruption %+v", len(r.launches), r.turns.Of("p", "c"))
			}
			status := metav1.ConditionFalse
			if len(c.pause) > 0 {
				status = metav1.ConditionTrue
			}
			if !meta.IsStatusConditionPresentAndEqual(r.pool().Status.Conditions, v1alpha1.ConditionPaused, status) {
				t.Errorf("conditions %+v, want %s %s", r.pool().Status.Conditions, v1alpha1.ConditionPaused, status)
			}
		})
	}
}

// TestAPauseIsToldToEveryInstanceOnce: drains end at once, and what has waited begins when it is
// over.
func TestAPauseIsToldToEveryInstanceOnce(t *testing.T) {
	r := newRig(t, nodePool(1, 1, paused), nodeIn(v1alpha1.StateStandby))
	r.sweep(instance(provider.InstanceStopped))
	r.reconcilePool()
	r.reconcilePool()
	r.pause(false)
	r.reconcilePool()
	r.reconcilePool()
	wakes := slices.DeleteFunc(r.log, func(what string) bool { return what != "wake i-c" })
	if len(wakes) != 2 {
		t.Errorf("woken %d times by a pause and its end, each looked at twice", len(wakes))
	}
}

// TestTheDeletionOfAPausedPoolWaits, also where nothing is left of the pool.
func TestTheDeletionOfAPausedPoolWaits(t *testing.T) {
	for name, c := range map[string]struct {
		swept  []*provider.Instance
		change []func(*corev1.Node)
	}{
		"an instance is left":                        {swept: []*provider.Instance{instance(provider.InstanceStopped)}},
		"nothing is left but a kubelet that reports": {change: []func(*corev1.Node){scalertest.Reporting}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(2, 2, deleted, paused), nodeIn(v1alpha1.StateStandby, c.change...))
			r.sweep(c.swept...)
			if again := r.reconcilePool(); again != 0 {
				t.Errorf("reconciled again after %s", again)
			}
			if err := r.api.Get(t.Context(), client.ObjectKey{Name: "p"}, &v1alpha1.NodePool{}); err != nil {
				t.Error(err)
			}
			r.reconcile()
			for _, what := range r.log {
				if strings.HasPrefix(what, "patch") || strings.HasPrefix(what, "terminate") || strings.HasPrefix(what, "delete") {
					t.Errorf("%s in a paused pool", what)
				}
			}
		})
	}
}
