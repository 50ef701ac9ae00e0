package start

import (
	"context"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Nominator shows the claims on a node to schedulers without the extender.
type Nominator interface {
	// ClaimsWritten is told that the Node shows its claims, or runs. It returns at once.
	ClaimsWritten(node v1alpha1.NodeName)
	// BeforeOpening is called right before the patch that opens the node. It returns when to ask
	// again, 0 to open the node now.
	BeforeOpening(ctx context.Context, node v1alpha1.NodeName) (wait time.Duration)
	// AtOpening is called in its place where the node cannot stay closed.
	AtOpening(ctx context.Context, node v1alpha1.NodeName)
}

// BeforeOpening nominates the pods with claims on a node that the caller is about to open. It
// returns soon, whatever comes of it, and says when to ask again: 0 is to open the node now.
func (s *Starter) BeforeOpening(ctx context.Context, node v1alpha1.NodeName) (wait time.Duration) {
	return s.nominator.BeforeOpening(ctx, node)
}

// AtOpening is BeforeOpening for a node whose drain or stop goes on until the patch that opens it.
func (s *Starter) AtOpening(ctx context.Context, node v1alpha1.NodeName) {
	s.nominator.AtOpening(ctx, node)
}

type noNominations struct{}

func (noNominations) ClaimsWritten(v1alpha1.NodeName) {}

func (noNominations) BeforeOpening(context.Context, v1alpha1.NodeName) time.Duration { return 0 }

func (noNominations) AtOpening(context.Context, v1alpha1.NodeName) {}
