package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestPodStartupIsMeasuredByItsPath: stratos_pod_startup_seconds has each of its values for the
// path, for the pod that took it and for no other.
func TestPodStartupIsMeasuredByItsPath(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, run := range map[string]func(*testing.T, *framework.Rig, string){
		"standby": onStandby, "reclaimed": onReclaimed, "promoted": onPromoted, "cold": onCold,
	} {
		t.Run(path, func(t *testing.T) {
			pool := "by-" + path
			run(t, r, pool)
			awaitObserved(t, r, pool, path, 1)
		})
	}
}

// awaitObserved waits until the histogram has so many pods of the pool with the path.
func awaitObserved(t *testing.T, r *framework.Rig, pool, path string, want float64) {
	t.Helper()
	series := fmt.Sprintf("stratos_pod_startup_seconds_count{path=%q,pool=%q}", path, pool)
	assert.Await(t, series, func(ctx context.Context) (bool, error) {
		of, err := assert.Samples(ctx, r.Metrics+"/metrics", "stratos_pod_startup_seconds_count")
		if err == nil && of[series] != want {
			err = fmt.Errorf("want %v, found %v", want, of)
		}
		return err == nil, err
	})
}

func onStandby(t *testing.T, r *framework.Rig, pool string) {
	warm(t, r, shortLived(pool, 1), "m5.large")
	pod := assert.OnPool(framework.Pod(pool, "cpu", "1"), pool)
	assert.Create(t, r, pod)
	assert.AwaitBound(t, r, pod)
}

// onReclaimed has a volume hold up the stop of a node, so that a pod comes while it is drained.
func onReclaimed(t *testing.T, r *framework.Rig, pool string) {
	warm(t, r, shortLived(pool, 1), "m5.xlarge")
	first := assert.OnPool(framework.Pod(pool+"-first", "cpu", "1"), pool)
	assert.Create(t, r, first)
	node := assert.AwaitBound(t, r, first)[0]
	assert.AwaitRunning(t, r, first)
	volume := "pv-of-" + pool
	assert.Create(t, r, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attached-on-" + pool},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	})
	awaitObserved(t, r, pool, "standby", 1)
	assert.Remove(t, r, first)
	assert.AwaitNode(t, r, node, "drained", assert.InState(v1alpha1.StateStopping))
	second := assert.OnPool(framework.Pod(pool+"-second", "cpu", "1"), pool)
	assert.Create(t, r, second)
	assert.AwaitBound(t, r, second)
}

// onPromoted has an instance of the pool's own warm up. Its kubelet does not report until a pod
// waits.
func onPromoted(t *testing.T, r *framework.Rig, pool string) {
	const kind = "m5.2xlarge"
	if _, err := r.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpLaunch,
		Type: kind}); err != nil {
		t.Fatal(err)
	}
	p, class := framework.Pool(pool, 2), framework.Class(pool, kind)
	p.Spec.MinStandby = 1
	framework.StayUp(p, class, framework.PodImage)
	assert.Create(t, r, class, p)
	first := onlyInstance(t, r, pool)
	pod := assert.OnPool(framework.Pod(pool, "cpu", "1"), pool)
	assert.Create(t, r, pod)
	// The kubelet of the launch for the pod does not report either: else its instance could be warm
	// first.
	assert.Await(t, "the launch for the pod", func(ctx context.Context) (bool, error) {
		instances, err := assert.Instances(ctx, r, v1alpha1.LabelPool, pool)
		return len(instances) == 2, err
	})
	assert.Release(t, r, first)
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
	pod := assert.OnPool(framework.Pod(pool, "cpu", "1"), pool)
	assert.Create(t, r, pod)
	assert.AwaitBound(t, r, pod)
	onlyCold(t, r, pool)
}

// onlyCold requires that the launch for the pod is counted as a cold start.
func onlyCold(t *testing.T, r *framework.Rig, pool string) {
	t.Helper()
	want := fmt.Sprintf("stratos_nodepool_scaleup_total{pool=%q,trigger=%q}", pool, "cold")
	of, err := assert.Samples(t.Context(), r.Metrics+"/metrics", "stratos_nodepool_scaleup_total")
	if err != nil || of[want] != 1 {
		t.Errorf("starts %v, want 1 of %s: %v", of, want, err)
	}
}
