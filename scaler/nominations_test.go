package scaler

import (
	"context"
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/start"
)

// nominations writes what it is asked for to the log of a rig.
type nominations struct{ *rig }

func (n nominations) ClaimsWritten(node v1alpha1.NodeName) { n.note("claims written " + string(node)) }

func (n nominations) BeforeOpening(_ context.Context, node v1alpha1.NodeName) {
	n.note("before opening " + string(node))
}

// TestPodsAreNominatedBeforeTheirNodeOpens: an older pod would take the room in between.
func TestPodsAreNominatedBeforeTheirNodeOpens(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())), nodePool(5, 0))
	r.nodes.Starter = start.New(start.Options{State: r.nodes.State, Now: r.nodes.Now, Nominator: nominations{r}})
	r.sweep(instance(provider.InstanceRunning))
	r.reconcile()
	r.want("before opening c", "patch c running")
}
