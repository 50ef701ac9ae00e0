package env

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// SetEmptyTTL sets how long an empty node of the pool stays up.
func (s *Env) SetEmptyTTL(ctx context.Context, name string, ttl time.Duration) error {
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"spec":{"scaleDown":{"emptyNodeTTL":%q}}}`, ttl)
	if err := s.Client.Patch(ctx, pool, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set emptyNodeTTL: %w", err)
	}
	return nil
}

// NodeWrites is how many writes of Stratos to Nodes the API server has accepted between the two
// times. The environment's audit log must be enabled.
func (s *Env) NodeWrites(from, until time.Time) (int, error) {
	return controlplane.CountWrites(s.ControlPlane.AuditLogPath(), controlplane.ByUser(framework.UserStratos),
		controlplane.ByResource("nodes", ""), controlplane.Accepted(),
		func(e controlplane.AuditEvent) bool { return !e.Received.Before(from) && !e.Received.After(until) })
}

// Sample counts, at equal intervals from now until series is called, and then once more, the pods
// that are not bound, the nodes of the pool that start, and the pods that are bound.
func (s *Seen) Sample(ctx context.Context, pool string, every time.Duration) (series func() figures.Series) {
	ctx, cancel := context.WithCancel(ctx)
	taken := make(chan figures.Series)
	go func() {
		out := figures.Series{Every: every.String()}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for ended := false; ; {
			s.Look(func(v *View) {
				out.Pending = append(out.Pending, len(v.Pods)-v.BoundPods)
				out.Starting = append(out.Starting, v.States[pool][v1alpha1.StateStarting])
				out.Bound = append(out.Bound, v.BoundPods)
			})
			if ended {
				taken <- out
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ended = true
			}
		}
	}()
	return func() figures.Series {
		cancel()
		return <-taken
	}
}
