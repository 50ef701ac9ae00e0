package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// hanging is a cloud that answers no call to stop an instance until it is released.
type hanging struct {
	provider.CloudProvider
	released chan struct{}
	stops    atomic.Int32
}

func (h *hanging) StopInstance(context.Context, string, bool) error {
	h.stops.Add(1)
	<-h.released
	return nil
}

// TestCallsThatHangLeaveWorkers: more instances are to be stopped than there are workers, and the
// cloud answers none of the calls. A part of the workers stays for what needs no cloud; the other
// calls are made once these have ended.
func TestCallsThatHangLeaveWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		intended := scalertest.Epoch().Add(-2 * time.Second)
		objects := []client.Object{scalertest.NodePool(100, 0)}
		var list []*provider.Instance
		for i := range nodeWorkers + 8 {
			id := fmt.Sprintf("i-%02d", i)
			is := instance(provider.InstanceRunning, func(e *inventory.Entry) {
				e.ID, e.ProviderID = v1alpha1.InstanceID(id), "fake:///zone-a/"+id
			})
			list = append(list, &is.Instance)
			objects = append(objects, scalertest.NodeIn(v1alpha1.StateStopping,
				scalertest.Annotated(v1alpha1.AnnotationStopReason, string(v1alpha1.StopEmpty)),
				scalertest.MarkedAt(v1alpha1.AnnotationStoppingSince, intended),
				scalertest.MarkedAt(v1alpha1.AnnotationStopIntent, intended), func(n *corev1.Node) {
					n.Name, n.UID, n.Spec.ProviderID = "n"+id, types.UID(id), is.ProviderID
				}))
		}
		c, _ := over(t, objects...)
		ctx, stop := context.WithCancel(t.Context())
		defer func() { stop(); synctest.Wait() }()
		go func() { _ = c.Starter.Start(ctx) }() // it ends its queues when it ends
		cloud := &hanging{released: make(chan struct{})}
		c.Cloud, c.Born, c.Poke = cloud, scalertest.Epoch(), func() {}
		c.Inventory.Replace(list, scalertest.Epoch())
		var wg sync.WaitGroup
		var again sync.Map
		for _, i := range list {
			wg.Go(func() {
				if result, err := c.Reconcile(ctx, i.ID); err != nil || result.RequeueAfter == callAgain {
					again.Store(i.ID, err)
				}
			})
		}
		synctest.Wait()
		if n := cloud.stops.Load(); n >= nodeWorkers || n == 0 {
			t.Errorf("%d calls hang at once, want fewer than the %d workers", n, nodeWorkers)
		}
		close(cloud.released)
		wg.Wait()
		again.Range(func(id, err any) bool {
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
			if _, err := c.Reconcile(ctx, id.(v1alpha1.InstanceID)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			return true
		})
		if n := cloud.stops.Load(); int(n) != len(list) {
			t.Errorf("%d instances were stopped, want %d", n, len(list))
		}
	})
}
