package start

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// WarmAgain starts an instance to be warmed up once more; the intent (transition.WarmAgain) stands
// on the Node. It is not a scale-up: the node stays warming, no pod is promised it, and a refused
// call is the lifecycle's to repeat until preWarm.timeout.
func (s *Starter) WarmAgain(ctx context.Context, node *corev1.Node) error {
	return s.cloud.StartInstance(ctx, string(InstanceOf(node)))
}
