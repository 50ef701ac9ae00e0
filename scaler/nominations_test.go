package scaler

import (
	"context"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/start"
)

// nominations writes what it is asked for to the log of a rig.
type nominations struct {
	*rig
	// waits are the answers before each opening, one after another; then 0.
	waits *[]time.Duration
}

func (n nominations) ClaimsWritten(node v1alpha1.NodeName) { n.note("claims written " + string(node)) }

func (n nominations) BeforeOpening(_ context.Context, node v1alpha1.NodeName) time.Duration {
	n.note("before opening " + string(node))
	if n.waits == nil || len(*n.waits) == 0 {
		return 0
	}
	wait := (*n.waits)[0]
	*n.waits = (*n.waits)[1:]
	return wait
}

func (n nominations) AtOpening(_ context.Context, node v1alpha1.NodeName) {
	n.note("at opening " + string(node))
}

// TestPodsAreNominatedBeforeTheirNodeOpens: an older pod would take the room in between.
func TestPodsAreNominatedBeforeTheirNodeOpens(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch())), nodePool(5, 0))
	asked := nominations{r, &[]time.Duration{30 * time.Millisecond}}
	r.nodes.Starter = start.New(start.Options{State: r.nodes.State, Now: r.nodes.Now, Nominator: asked})
	r.sweep(instance(provider.InstanceRunning))
	if again := r.reconcile(); again != 30*time.Millisecond {
		t.Errorf("the node is looked at after %v, want the 30ms until the scheduler may have seen the nominations", again)
	}
	r.want("before opening c")
	r.reconcile()
	r.want("before opening c", "patch c running")
}
