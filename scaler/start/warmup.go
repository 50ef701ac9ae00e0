package start

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/provider"
)

// WarmAgain starts an instance to be warmed up once more; the intent (transition.WarmAgain) stands
// on the Node. It is not a scale-up: the node stays warming, no pod gets a claim on it, and the
// lifecycle repeats a refused call until preWarm.timeout. What its answer says of the cloud's
// capacity holds for starts too.
func (s *Starter) WarmAgain(ctx context.Context, node *corev1.Node) error {
	o, _, _ := s.state.StartOffering(node)
	err := s.cloud.StartInstance(ctx, string(InstanceOf(node)))
	switch {
	case err == nil:
		s.state.MarkOfferingAvailable(o)
	case provider.IsInsufficientCapacity(err):
		s.markUnavailable(node, o, err)
	}
	return err
}
