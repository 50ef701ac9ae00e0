package scaler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// stopWarmed ends a warm-up. Like every stop it is written down before the cloud is asked, and a pod that somebody bound here holds it up.
func (c *nodes) stopWarmed(ctx context.Context, g gathered, force bool) error {
	if g.Node.StopIntent.IsZero() {
		counting, err := c.countingLive(ctx, g.node.Name)
		if err != nil {
			return err
		}
		if len(counting) > 0 {
			return apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name, fmt.Errorf("a pod is there"))
		}
		if err := c.patch(ctx, g.node, transition.WarmStop(g.node, c.now())); err != nil {
			return err
		}
	}
	return c.stop(ctx, g, force)
}

// forceStop stops an instance that has outstayed its deadline.
func (c *nodes) forceStop(ctx context.Context, g gathered) error {
	if g.Node.State == v1alpha1.StateWarmup {
		return c.stopWarmed(ctx, g, true)
	}
	return c.stop(ctx, g, true)
}
