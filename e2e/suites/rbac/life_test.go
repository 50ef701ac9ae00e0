package rbac

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// preempts: pool main is full, so one of its pods is evicted.
func preempts(t *testing.T, r *framework.Rig) {
	assert.Create(t, r, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000})
	pod := assert.OnPool(framework.Pod("urgent", "cpu", "3"), "main")
	pod.Spec.PriorityClassName = "urgent"
	assert.Create(t, r, pod)
	assert.AwaitRunning(t, r, pod)
	deletions := countRequests(t, r, controlplane.ByUserAgent(scheduler), controlplane.ByVerb("delete"),
		controlplane.ByResource("pods", ""), controlplane.Accepted())
	if deletions != 1 {
		t.Errorf("the scheduler deleted %d pods, want 1", deletions)
	}
}

func watched(t *testing.T, r *framework.Rig) {
	pod := assert.OnPool(framework.Pod("watched", "cpu", "3"), "watched")
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	assert.Create(t, r, pod)
	assert.AwaitRunning(t, r, pod)
}

// withVolume: the scheduler binds the claim to a volume that can be reached from the pool's zone.
func withVolume(t *testing.T, r *framework.Rig) {
	const name = "data"
	zone := assert.OnlyNode(t, r, "volumes").Labels[corev1.LabelTopologyZone]
	mode, class := storagev1.VolumeBindingWaitForFirstConsumer, name
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: once,
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	pod := assert.OnPool(framework.Pod("with-volume", "cpu", "3"), "volumes")
	pod.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	assert.Create(t, r,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: &mode},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class,
			AccessModes:                   once,
			Capacity:                      size,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone,
						Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
				}}},
			},
		}},
		claim, pod,
	)
	assert.AwaitRunning(t, r, pod)
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil ||
		claim.Spec.VolumeName != name {
		t.Errorf("the claim has volume %q, %v", claim.Spec.VolumeName, err)
	}
}

func scaleDown(t *testing.T, r *framework.Rig) {
	pod := assert.OnPool(framework.Pod("short", "cpu", "3"), "short")
	assert.Create(t, r, pod)
	node := assert.AwaitBound(t, r, pod)[0]
	assert.AwaitRunning(t, r, pod)
	assert.Remove(t, r, pod)
	assert.AwaitNode(t, r, node, "standby again", func(n *corev1.Node) bool {
		return assert.StateOf(n) == v1alpha1.StateStandby && framework.StandbyCondition(n) == corev1.ConditionTrue
	})
}

// deletion: the running node's pod may not be evicted at first.
func deletion(t *testing.T, r *framework.Rig) {
	const name = "guarded"
	pod := assert.OnPool(framework.Pod(name, "cpu", "3"), name)
	pod.Labels = map[string]string{"app": name}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &intstr.IntOrString{IntVal: 1},
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}
	assert.Create(t, r, budget, pod)
	assert.AwaitRunning(t, r, pod)
	pool := newPool(name, 1)
	if err := r.Client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	refused := func(e controlplane.AuditEvent) bool { return e.Code == 429 }
	assert.Await(t, "an eviction that the budget refuses", func(context.Context) (bool, error) {
		return countRequests(t, r, controlplane.ByResource("pods", "eviction"), refused) > 0, nil
	})
	if p := assert.PodNow(t, r, pod); p.DeletionTimestamp != nil {
		t.Error("the pod was evicted against its budget")
	}
	assert.Remove(t, r, budget)
	assert.Await(t, "end of the pool", func(ctx context.Context) (bool, error) {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("finalizers %v, status %+v, %w", pool.Finalizers, pool.Status, err)
	})
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
	if err := r.Warm(t.Context(), pool, framework.Class(className, instanceType)); err != nil {
		t.Fatal(err)
	}
	pod := assert.OnPool(framework.Pod("played", "cpu", "3"), pool.Name)
	*pod.Spec.TerminationGracePeriodSeconds = 1 // so that the last word on it is the kubelet's
	assert.Create(t, r, pod)
	assert.AwaitRunning(t, r, pod)
	assert.Remove(t, r, pool)
	stratos.Stop(t)
	t.Run("nothing was forbidden", func(t *testing.T) {
		checkForbidden(t, r, identity, stratos.Process,
			stratos.Scheduler)
	})
	t.Run("each by a role of its own", func(t *testing.T) {
		checkOwn(t, r, "Stratos", byStratos, granted(t, chart, "stratos", "stratos-fake"))
	})
	t.Run("every right was used", func(t *testing.T) { checkUsed(t, r, granted(t, chart, "stratos-fake"), nil) })
}
