package exactstarts

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestReplicasStartTheirNodes: the pods of a ReplicaSet are created by kube-controller-manager at
// its own rate and bound by the real scheduler. Nodes start for what the owner wants, and for no
// more.
func TestReplicasStartTheirNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, framework.Options{}, corev1.PreemptLowerPriority)
	warm(t, r, []pool{{few, 14, 10}, {four, 10, 10}, {eight, 14, 10}})
	t.Run("all of them", func(t *testing.T) {
		create(t, r, replicaSet("all", 60))
		awaitReplicas(t, r, "all", 60)
		exactly(t, r, 12)
	})
	t.Run("as many as a quota leaves", func(t *testing.T) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "quota"}}
		quota.Spec.Hard = corev1.ResourceList{"requests.cpu": resource.MustParse("25700m")} // 600m are used by the pods above
		create(t, r, quota)
		assert.Eventually(t, "what the quota has used", func(ctx context.Context) (*corev1.ResourceQuota, error) {
			return framework.Read(ctx, r, quota)
		}, func(q *corev1.ResourceQuota) bool { return q.Status.Used["requests.cpu"] == resource.MustParse("600m") })
		set := replicaSet("limited", 60)
		set.Spec.Template.Spec.NodeSelector[v1alpha1.LabelPool] = four
		set.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("800m")
		create(t, r, set)
		awaitReplicas(t, r, "limited", 31)
		exactly(t, r, 12+7)
		assert.Change(t, r, set, func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32(31)) }) // it would go on otherwise
		if err := r.Client.Delete(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("none once it is deleted", func(t *testing.T) {
		set := replicaSet("deleted", 60)
		set.Spec.Template.Spec.NodeSelector[v1alpha1.LabelPool] = eight
		set.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1600m")
		before := replicaMetric(t, r, "released")
		create(t, r, set)
		assert.Await(t, "some of its pods", func(ctx context.Context) (bool, error) {
			pods, err := podsOf(ctx, r, "deleted")
			return len(pods) > 0, err
		})
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		if err := r.Client.Delete(t.Context(), set, background); err != nil {
			t.Fatal(err)
		}
		assert.Await(t, "all of its pods to be gone", func(ctx context.Context) (bool, error) {
			pods, err := podsOf(ctx, r, "deleted")
			return len(pods) == 0, err
		})
		assert.Await(t, "no claim", func(ctx context.Context) (bool, error) {
			n, err := framework.Metric(ctx, r.Metrics, "stratos_claims", "")
			return n == 0, err
		})
		t.Logf("%v claims were released", replicaMetric(t, r, "released")-before)
		if n := len(starts(t, r)); n > 12+7+12 {
			t.Errorf("%d nodes were started, want no more than it ever wanted, 12", n-12-7)
		}
	})
}

// exactly compares how many nodes were started by now, each once.
func exactly(t *testing.T, r *framework.Rig, want int) {
	t.Helper()
	if n := len(starts(t, r)); n != want {
		t.Errorf("%d nodes were started by now, want %d", n, want)
	}
}

func podsOf(ctx context.Context, r *framework.Rig, app string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": app})
	return list.Items, err
}

// awaitReplicas waits until just so many pods of the ReplicaSet are bound, and no others exist.
func awaitReplicas(t *testing.T, r *framework.Rig, app string, want int) {
	t.Helper()
	assert.Eventually(t, "bound replicas", func(ctx context.Context) ([2]int, error) {
		pods, err := podsOf(ctx, r, app)
		bound := 0
		for i := range pods {
			if pods[i].Spec.NodeName != "" {
				bound++
			}
		}
		return [2]int{bound, len(pods)}, err
	}, func(n [2]int) bool { return n == [2]int{want, want} })
}

func replicaMetric(t *testing.T, r *framework.Rig, result string) float64 {
	t.Helper()
	n, err := framework.Metric(t.Context(), r.Metrics, "stratos_replica_claims_total", `result="`+result+`"`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
