package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestPodStartupIsMeasuredByItsPath: stratos_pod_startup_seconds has each of its values for the
// path, for the pod that took it and for no other.
func TestPodStartupIsMeasuredByItsPath(t *testing.T) {
	t.Parallel()
	r := assert.SharedRig(t)
	for path, run := range map[string]func(*testing.T, *framework.Rig, string){
		"standby": onStandby, "reclaimed": onReclaimed, "promoted": onPromoted, "cold": onCold,
	} {
		t.Run(path, func(t *testing.T) {
			pool := "by-" + path
			run(t, r, pool)
			observedOnce(t, r, pool, path)
		})
	}
}

// observedOnce waits until the histogram has one pod of the pool with the path.
func observedOnce(t *testing.T, r *framework.Rig, pool, path string) {
	t.Helper()
	assert.AwaitMetric(t, r.Metrics, "stratos_pod_startup_seconds_count", fmt.Sprintf("path=%q,pool=%q", path, pool),
		func(n float64) bool { return n == 1 })
}

func onStandby(t *testing.T, r *framework.Rig, pool string) {
	warm(t, r, shortLived(pool, 1), "m5.large")
	pod := framework.PoolPod(pool, pool, "cpu", "1")
	assert.Create(t, r, pod)
	assert.AwaitBound(t, r, pod)
}

// onReclaimed has a volume hold up the stop of a node, so that a pod comes while it is drained.
func onReclaimed(t *testing.T, r *framework.Rig, pool string) {
	warm(t, r, shortLived(pool, 1), "m5.xlarge")
	first := framework.PoolPod(pool+"-first", pool, "cpu", "1")
	node := assert.Serve(t, r, first)
	assert.Create(t, r, framework.Attachment("attached-on-"+pool, node))
	observedOnce(t, r, pool, "standby")
	assert.Remove(t, r, first)
	assert.AwaitState(t, r, node, v1alpha1.StateStopping)
	second := framework.PoolPod(pool+"-second", pool, "cpu", "1")
	assert.Create(t, r, second)
	assert.AwaitBound(t, r, second)
}

// onPromoted has an instance of the pool's own warm up. Its kubelet does not report until a pod
// waits.
func onPromoted(t *testing.T, r *framework.Rig, pool string) {
	const kind = "m5.2xlarge"
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpLaunch,
		Type: kind})
	p, class := framework.Pool(pool, 2), framework.Class(pool, kind)
	p.Spec.MinStandby = 1
	framework.StayUp(p, class, framework.PodImage)
	assert.Create(t, r, class, p)
	first := onlyInstance(t, r, pool)
	pod := framework.PoolPod(pool, pool, "cpu", "1")
	assert.Create(t, r, pod)
	// The kubelet of the launch for the pod does not report either: else its instance could be warm
	// first.
	assert.Eventually(t, "the launch for the pod", func(context.Context) (int, error) {
		return len(assert.PoolInstances(t, r, pool)), nil
	}, func(n int) bool { return n == 2 })
	assert.Reboot(t, r, first)
	assert.AwaitBound(t, r, pod)
}

// onlyInstance waits for the pool's first instance, and until a pod that is created now is younger
// by the API's whole seconds.
func onlyInstance(t *testing.T, r *framework.Rig, pool string) v1alpha1.InstanceID {
	t.Helper()
	var first v1alpha1.InstanceID
	var since time.Time
	assert.Await(t, "an instance of pool "+pool, func(ctx context.Context) (bool, error) {
		instances, err := assert.Instances(ctx, r, v1alpha1.LabelPool, pool)
		for id := range instances {
			first = id
			if since.IsZero() {
				since = time.Now()
			}
		}
		return first != "" && time.Now().Truncate(time.Second).After(since), err
	})
	return first
}

func onCold(t *testing.T, r *framework.Rig, pool string) {
	p, class := framework.Pool(pool, 1), framework.Class(pool, "m5.4xlarge")
	p.Spec.MinStandby = 0
	framework.StayUp(p, class, framework.PodImage)
	assert.Create(t, r, class, p)
	pod := framework.PoolPod(pool, pool, "cpu", "1")
	assert.Create(t, r, pod)
	assert.AwaitBound(t, r, pod)
	onlyCold(t, r, pool)
}

// onlyCold requires that the launch for the pod is counted as a cold start.
func onlyCold(t *testing.T, r *framework.Rig, pool string) {
	t.Helper()
	n, err := framework.Metric(t.Context(), r.Metrics, "stratos_nodepool_scaleup_total",
		fmt.Sprintf("pool=%q,trigger=%q", pool, "cold"))
	if err != nil || n != 1 {
		t.Errorf("%v cold starts, want 1: %v", n, err)
	}
}
