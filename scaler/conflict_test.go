package scaler

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// TestAConflictIsLookedAtAgain: the cache is behind our own write of a status, of which no event
// comes.
func TestAConflictIsLookedAtAgain(t *testing.T) {
	conflict := func() error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodepools"}, "p", errors.New("it has been modified"))
	}
	without := nodePool(1, 1, func(p *v1alpha1.NodePool) { p.Finalizers = nil })
	for name, pool := range map[string]client.Object{"the finalizer": without, "launch numbers": nodePool(1, 1)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pool)
			r.patching = conflict
			r.sweep()
			if again := r.reconcilePool(); again <= 0 || again > inventory.SweepEvery {
				t.Errorf("looked at again after %s, want soon", again)
			}
			r.patching = nil
			r.reconcilePool()
			if len(r.launches) != 1 {
				t.Errorf("%d launches after it, want 1", len(r.launches))
			}
		})
	}
	t.Run("the finalizer of a class", func(t *testing.T) {
		pool := nodePool(1, 1, func(p *v1alpha1.NodePool) { p.Spec.Template.NodeClassRef.Name = "class" })
		r := newRig(t, awsClass(), pool)
		r.patching = conflict
		if _, again := lookAtClass(t, r.api, r.classLoop()); again <= 0 {
			t.Error("never looked at again")
		}
	})
}
