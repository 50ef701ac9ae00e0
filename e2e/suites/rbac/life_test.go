package rbac

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// preempts: pool main is full, so one of its pods is evicted.
func preempts(t *testing.T, r *framework.Rig) {
	assert.Create(t, r, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000})
	pod := framework.PoolPod("urgent", "main", "cpu", "3")
	pod.Spec.PriorityClassName = "urgent"
	assert.Serve(t, r, pod)
	deletions := countRequests(t, r, controlplane.ByUserAgent(scheduler), controlplane.ByVerb("delete"),
		controlplane.ByResource("pods", ""), controlplane.Accepted())
	if deletions != 1 {
		t.Errorf("the scheduler deleted %d pods, want 1", deletions)
	}
}

func watched(t *testing.T, r *framework.Rig) {
	pod := framework.PoolPod("watched", "watched", "cpu", "3")
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	assert.Serve(t, r, pod)
}

// withVolume: the scheduler binds the claim to a volume that can be reached from the pool's zone.
func withVolume(t *testing.T, r *framework.Rig) {
	const name = "data"
	zone := assert.OnlyNode(t, r, "volumes").Labels[corev1.LabelTopologyZone]
	mode, class := storagev1.VolumeBindingWaitForFirstConsumer, name
	claim, pod := framework.VolumeClaim(name, class), framework.PoolPod("with-volume", "volumes", "cpu", "3")
	framework.Mount(pod, name)
	assert.Create(t, r,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: &mode},
		framework.Volume(name, class, zone), claim, pod)
	assert.AwaitRunning(t, r, pod)
	if claim = assert.Now(t, r, claim); claim.Spec.VolumeName != name {
		t.Errorf("the claim has volume %q", claim.Spec.VolumeName)
	}
}

func scaleDown(t *testing.T, r *framework.Rig) {
	pod := framework.PoolPod("short", "short", "cpu", "3")
	node := assert.Serve(t, r, pod)
	assert.Remove(t, r, pod)
	assert.AwaitNode(t, r, node, "standby again", func(n *corev1.Node) bool {
		return assert.StateOf(n) == v1alpha1.StateStandby && framework.StandbyCondition(n) == corev1.ConditionTrue
	})
}

// deletion: the running node's pod may not be evicted at first.
func deletion(t *testing.T, r *framework.Rig) {
	const name = "guarded"
	pod := framework.PoolPod(name, name, "cpu", "3")
	pod.Labels = map[string]string{"app": name}
	budget := framework.Budget(name, pod.Labels)
	assert.Create(t, r, budget, pod)
	assert.AwaitRunning(t, r, pod)
	pool := newPool(name, 1)
	assert.Delete(t, r, pool)
	refused := func(e controlplane.AuditEvent) bool { return e.Code == 429 }
	assert.Await(t, "an eviction that the budget refuses", func(context.Context) (bool, error) {
		return countRequests(t, r, controlplane.ByResource("pods", "eviction"), refused) > 0, nil
	})
	if p := assert.Now(t, r, pod); p.DeletionTimestamp != nil {
		t.Error("the pod was evicted against its budget")
	}
	assert.Remove(t, r, budget)
	assert.AwaitGone(t, r, pool)
}

// testFake has Stratos play the cloud and its machines in process, for which the chart adds a role.
func testFake(t *testing.T) {
	r := newRig(t)
	if err := r.StopCloud(); err != nil {
		t.Fatal(err)
	}
	chart := assert.ReadChart(t, "fake")
	chart.Apply(t, r, "Deployment")
	identity := chart.Identity(t, r)
	stratos := chart.Replica(t, r, "stratos", append(assert.FastCloud(), types(), "--fake-endpoint=")...)
	t.Setenv("KUBE_FEATURE_WatchListClient", "false") // see testApart
	stratos.Start(t, r, identity)

	pool := newPool("played", 2)
	assert.Warm(t, r, pool, framework.Class(className, instanceType))
	pod := framework.PoolPod("played", pool.Name, "cpu", "3")
	*pod.Spec.TerminationGracePeriodSeconds = 1 // so that the last word on it is the kubelet's
	assert.Serve(t, r, pod)
	assert.Remove(t, r, pool)
	stratos.Stop(t)
	t.Run("nothing was forbidden", func(t *testing.T) {
		checkForbidden(t, r, identity, stratos.Process,
			stratos.Scheduler)
	})
	t.Run("each by a role of its own", func(t *testing.T) {
		checkOwn(t, r, "Stratos", byStratos, granted(t, chart, "stratos", "stratos-fake"))
	})
	t.Run("every right was used", func(t *testing.T) {
		checkUsed(t, r, granted(t, chart, "stratos-fake"), map[string]string{
			"create tokenreviews.authentication.k8s.io": "asks about a bootstrap token, and no class here is of the family Kubeadm (TestKubeadmPool)",
		})
	})
}
