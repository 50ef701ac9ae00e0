package start

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// WarmAgain starts an instance to be warmed up once more; the intent (transition.WarmAgain) stands
// on the Node. It is not a scale-up: the node stays warming, no pod gets a claim on it, and the
// lifecycle repeats a refused call until preWarm.timeout.
func (s *Starter) WarmAgain(ctx context.Context, node *corev1.Node) error {
	return s.cloud.StartInstance(ctx, string(InstanceOf(node)))
}
