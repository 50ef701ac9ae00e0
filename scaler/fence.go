package scaler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// reportSuffix marks what the witness knows of the reports of an instance's kubelet.
const reportSuffix = "/report"

// unreported is since when this process has seen that Ready of the Node is Unknown with the
// heartbeat that it has. It is zero where the kubelet reports, or nobody watches. The heartbeat is
// only compared with itself.
func (w *stepClock) unreported(id v1alpha1.InstanceID, n *corev1.Node, now time.Time) time.Time {
	if n == nil {
		return time.Time{}
	}
	ready := transition.Condition(n, corev1.NodeReady)
	if ready == nil {
		return time.Time{}
	}
	since := w.since(id+reportSuffix, fmt.Sprintf("%s %s %s", n.UID, ready.Status, ready.LastHeartbeatTime), now)
	if ready.Status != corev1.ConditionUnknown {
		return time.Time{}
	}
	return since
}

// fence stops by force the instance of a running node whose machine died. The pods are read from
// the API server: none may be left that was not asked to end. Once the instance is stopped the pods
// that are still bound to it have it started.
func (c *nodes) fence(ctx context.Context, g gathered, d lifecycle.Decision) error {
	counting, err := c.countingLive(ctx, g.node.Name)
	if err != nil {
		return err
	}
	if overdueOf(counting, c.now()) < len(counting) {
		return apierrors.NewConflict(corev1.Resource("nodes"), g.node.Name,
			fmt.Errorf("a pod is there that was not asked to end"))
	}
	return c.markAndStop(ctx, g, transition.Fence(g.node, c.now()), true, func() {
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonNodeFenced, fmt.Sprintf("instance %s is stopped by force: %s",
			g.instance.ID, d.Reason))
	})
}
