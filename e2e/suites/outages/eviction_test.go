package outages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	ordinaryNodes = 5
	// asleep nodes are 80 % of the zone.
	asleep     = 20
	podsOnDead = 5
	// grace is how long kube-controller-manager waits for a heartbeat. The fake kubelets renew their
	// leases every 10 s.
	grace = 30 * time.Second
)

// eviction is what became of the pods of a node that died.
type eviction struct {
	// after is when the pods were deleted, counted from the moment at which the node was called
	// unreachable, the last of them.
	after time.Duration
	count int
}

// TestEvictionBesideStandbyNodes: a node of a zone dies, of which four nodes in five are standby.
// kube-controller-manager evicts its pods as it does where there are no standby nodes: as many, and
// after the same time. If it counted standby nodes as unhealthy, it would evict no pods: it stops
// evictions in a zone with that many unhealthy nodes.
func TestEvictionBesideStandbyNodes(t *testing.T) {
	t.Parallel()
	runs := map[int]*eviction{0: {}, asleep: {}}
	t.Run("runs", func(t *testing.T) { // ends when both have
		for standby, result := range runs {
			t.Run(fmt.Sprintf("beside %d standby nodes", standby), func(t *testing.T) {
				t.Parallel()
				*result = evict(t, int32(standby)) //nolint:gosec // 20
			})
		}
	})
	control, beside := runs[0], runs[asleep]
	t.Logf("evicted without standby nodes: %d, the last after %s; beside them: %d, after %s", control.count, control.after,
		beside.count, beside.after)
	if control.count != podsOnDead || beside.count != podsOnDead {
		t.Errorf("%d pods were evicted without standby nodes and %d beside them, want %d", control.count, beside.count,
			podsOnDead)
	}
	// Both wait for the same tolerations. The slower of kube-controller-manager's paces, one node in
	// 100 s, would be ten times that.
	if beside.after > 3*control.after+20*time.Second {
		t.Errorf("the last pod was evicted after %s beside standby nodes, without them after %s", beside.after, control.after)
	}
}

func evict(t *testing.T, standby int32) eviction {
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{NodeMonitorGracePeriod: grace, NodeMonitorPeriod: time.Second,
			ControllerManagerArgs: []string{"--node-eviction-rate=2"}},
		Cloud: assert.FastCloud(),
	})
	zone := warmZone(t, r, standby)
	var nodes []*corev1.Node
	for i := range ordinaryNodes {
		n := assert.Ordinary(fmt.Sprintf("ordinary-%d", i), 8)
		for k, v := range zone {
			n.Labels[k] = v
		}
		nodes = append(nodes, n)
	}
	alive := keepAlive(t, r, nodes)
	assert.Join(t, r, nodes...)
	pods, others := guests(t, r, nodes)
	for name := range assert.PoolNodes(t, r, "asleep") {
		assert.AwaitNode(t, r, name, "standing by, with its own turn over", func(n *corev1.Node) bool {
			return assert.StateOf(n) == v1alpha1.StateStandby && !assert.IsReady(n) && hasTurnedOut(n)
		})
	}

	alive.dies(nodes[0].Name)
	ready := func(n *corev1.Node) corev1.NodeCondition { return assert.NodeCondition(n, corev1.NodeReady) }
	dead := assert.AwaitNode(t, r, nodes[0].Name, "called unreachable", func(n *corev1.Node) bool {
		return ready(n).Status == corev1.ConditionUnknown
	})
	since := ready(dead).LastTransitionTime.Time
	result := eviction{}
	for _, p := range pods {
		assert.Await(t, "eviction of "+p.Name, func(ctx context.Context) (bool, error) {
			got, err := framework.Read(ctx, r, p)
			if err != nil && !apierrors.IsNotFound(err) || err == nil && got.DeletionTimestamp == nil {
				return false, errors.Join(err, fmt.Errorf("pod %s is left", p.Name))
			}
			return true, nil
		})
		result.count++
	}
	result.after = time.Since(since)
	for _, p := range others {
		if got := assert.Now(t, r, p); got.DeletionTimestamp != nil {
			t.Errorf("pod %s of a living node was evicted", p.Name)
		}
	}
	return result
}

// warmZone warms so many standby nodes and returns the labels of their zone.
func warmZone(t *testing.T, r *framework.Rig, standby int32) map[string]string {
	t.Helper()
	zone := map[string]string{corev1.LabelTopologyRegion: "us-east-1", corev1.LabelTopologyZone: "us-east-1a"}
	if standby > 0 {
		assert.Warm(t, r, framework.Pool("asleep", standby), framework.Class("asleep", "m5.large"))
		for _, n := range assert.PoolNodes(t, r, "asleep") {
			zone[corev1.LabelTopologyRegion], zone[corev1.LabelTopologyZone] = n.Labels[corev1.LabelTopologyRegion],
				n.Labels[corev1.LabelTopologyZone]
			if n.Labels[v1alpha1.LabelExcludeDisruption] == "" {
				t.Errorf("standby node %s counts when the zone is judged", n.Name)
			}
		}
	}
	return zone
}

// hasTurnedOut reports whether kube-controller-manager has called the node unfit for the pods on
// it. It does so with unready nodes one after another, so many in a second for each zone; a node
// that dies meanwhile is queued among them.
func hasTurnedOut(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute && (taint.Key == corev1.TaintNodeUnreachable ||
			taint.Key == corev1.TaintNodeNotReady) {
			return true
		}
	}
	return false
}

// guests creates the pods of the node that is to die, which leave an unreachable node after 2 s,
// and one on each of the others.
func guests(t *testing.T, r *framework.Rig, nodes []*corev1.Node) (on, others []*corev1.Pod) {
	t.Helper()
	soon := int64(2)
	bound := func(name, node string) *corev1.Pod {
		p := framework.Pod(name, "cpu", "100m")
		p.Spec.NodeName = node
		for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon,
			})
		}
		assert.Create(t, r, p)
		return p
	}
	for i := range podsOnDead {
		on = append(on, bound(fmt.Sprintf("dying-%d", i), nodes[0].Name))
	}
	for _, n := range nodes[1:] {
		others = append(others, bound("on-"+n.Name, n.Name))
	}
	return on, others
}

// living renews the leases of nodes without a kubelet.
type living struct {
	mu    sync.Mutex
	names map[string]bool
}

func keepAlive(t *testing.T, r *framework.Rig, nodes []*corev1.Node) *living {
	t.Helper()
	l := &living{names: map[string]bool{}}
	for _, n := range nodes {
		l.names[n.Name] = true
		assert.Create(t, r, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.Name, RenewTime: &metav1.MicroTime{Time: time.Now()}},
		})
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, n := range nodes {
				l.renew(ctx, t, r, n.Name)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return l
}

func (l *living) renew(ctx context.Context, t *testing.T, r *framework.Rig, name string) {
	l.mu.Lock()
	defer l.mu.Unlock() // while the lease is written, so that no lease is renewed after its holder's death
	if !l.names[name] {
		return
	}
	now := metav1.NowMicro().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"renewTime":"`+now+`"}}`))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	if err := r.Client.Patch(ctx, lease, patch); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// dies ends the renewal.
func (l *living) dies(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, name)
}
