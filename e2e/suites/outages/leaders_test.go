package outages

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestTwoLeaders: two processes lead at once, for the whole of a life, and every asking of the
// scheduler goes to the other one. Whatever both want has one effect: instances are launched,
// started and replaced as if there were one.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	var both []framework.Running
	for _, name := range []string{"stratos-1", "stratos-2"} {
		s, err := r.StartStratos(t.Context(), name, "--leader-elect=false")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				assert.LogTail(t, s.Process)
			}
		})
		both = append(both, s)
	}
	r.Recorder.Forward(both[0].Extender)
	var turn atomic.Uint32
	r.Recorder.Tell(func(framework.Asked) { r.Recorder.Forward(both[turn.Add(1)%2].Extender) })
	warm(t, r, "led", "m5.xlarge")
	launched(t, r, standbyNodes)
	nodes := assert.PoolNodes(t, r, "led")

	var pods []*corev1.Pod
	for i := range burstPods {
		pods = append(pods, assert.OnPool(framework.Pod(fmt.Sprintf("led-%02d", i), "cpu", "1500m"), "led"))
		assert.Create(t, r, pods[i])
	}
	assert.AwaitRunning(t, r, pods...)
	exact(t, r, nodes)

	change(t, r, "led", func(s *v1alpha1.NodePoolSpec) { s.ScaleDown.EmptyNodeTTL = &metav1.Duration{} })
	assert.Remove(t, r, assert.Objects(pods)...)
	awaitAll(t, r, nodes)
	launched(t, r, standbyNodes)

	// Drift: one node at a time is replaced by a new one.
	change(t, r, "led", func(s *v1alpha1.NodePoolSpec) {
		s.MinStandby, s.Template.Labels = standbyNodes, map[string]string{"example.com/version": "2"}
	})
	assert.Await(t, "replacement of all nodes", func(ctx context.Context) (bool, error) {
		fresh := 0
		list := &corev1.NodeList{}
		if err := r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: "led"}); err != nil {
			return false, err
		}
		for i := range list.Items {
			if n := &list.Items[i]; nodes[n.Name] == nil && assert.StateOf(n) == v1alpha1.StateStandby {
				fresh++
			}
		}
		if fresh == standbyNodes && len(list.Items) == standbyNodes {
			return true, nil
		}
		return false, fmt.Errorf("%d nodes, %d of them new and standby", len(list.Items), fresh)
	})
	launched(t, r, 2*standbyNodes)
	remove(t, r)
	for _, s := range both {
		if worked, err := assert.Metric(t.Context(), s.Metrics, "stratos_cloud_provider_calls_total", ""); err != nil ||
			worked == 0 {
			t.Errorf("%s led and made %v calls of the cloud, %v", s.Process.Name(), worked, err)
		}
	}
}

// warm creates the pool and waits until its nodes are standby. Then it asks for none: whatever is
// launched after that is one too many.
func warm(t *testing.T, r *framework.Rig, name, instanceType string) {
	t.Helper()
	pool := framework.Pool(name, poolSize)
	pool.Spec.MinStandby = standbyNodes
	if err := r.Warm(t.Context(), pool, framework.Class(name, instanceType)); err != nil {
		t.Fatal(err)
	}
	change(t, r, name, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 0 })
}

// launched counts the instances that there ever were.
func launched(t *testing.T, r *framework.Rig, want int) {
	t.Helper()
	calls, err := r.Cloud.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[v1alpha1.InstanceID]bool{}
	for _, c := range calls {
		if c.Op == fake.OpLaunch && c.Err == "" {
			ids[c.Instance] = true
		}
	}
	if len(ids) != want {
		t.Errorf("%d instances were launched, want %d", len(ids), want)
	}
}

// awaitAll waits until every one of the nodes is standby.
func awaitAll(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	for name := range nodes {
		assert.AwaitNode(t, r, name, "standing by", assert.InState(v1alpha1.StateStandby))
	}
	stops := map[v1alpha1.InstanceID]bool{}
	for _, c := range assert.Accepted(t, r, fake.OpStop, nodes) {
		stops[c.Instance] = true
	}
	if len(stops) != burstNodes {
		t.Errorf("%d instances were stopped, want the %d that had been started", len(stops), burstNodes)
	}
}

func change(t *testing.T, r *framework.Rig, pool string, how func(*v1alpha1.NodePoolSpec)) {
	t.Helper()
	assert.Await(t, "change of the pool", func(ctx context.Context) (bool, error) {
		p := &v1alpha1.NodePool{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: pool}, p); err != nil {
			return false, err
		}
		how(&p.Spec)
		err := r.Client.Update(ctx, p)
		return err == nil, err
	})
}

// remove deletes the pool: nothing is left of it.
func remove(t *testing.T, r *framework.Rig) {
	t.Helper()
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "led"}}
	if err := r.Client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	assert.Await(t, "deletion of the pool", func(ctx context.Context) (bool, error) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		return apierrors.IsNotFound(err), errors.Join(client.IgnoreNotFound(err))
	})
	left, err := assert.Instances(t.Context(), r, v1alpha1.LabelPool, "led")
	if err != nil {
		t.Fatal(err)
	}
	for id, v := range left {
		if v.State != provider.InstanceTerminated {
			t.Errorf("instance %s of the deleted pool is %s", id, v.State)
		}
	}
	if nodes := assert.PoolNodes(t, r, "led"); len(nodes) != 0 {
		t.Errorf("%d Nodes of the deleted pool are left", len(nodes))
	}
}
