// Package images proves on a real control plane that nodes have their images before they are
// standby: those that the pool names and those of DaemonSets. No scheduler binds the DaemonSets'
// pods here, so whatever a machine has pulled, it has pulled because Stratos asked for it.
package images

import (
	"context"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestMain has those tests share a rig that change neither admission nor the times of the cloud.
func TestMain(m *testing.M) {
	os.Exit(assert.MainWithRig(m, framework.Options{Cloud: assert.FastCloud()}))
}

// restrict has the API server admit into Stratos's namespace only what the restricted standard
// allows.
func restrict(t *testing.T, r *framework.Rig) *framework.Rig {
	t.Helper()
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: framework.Namespace}}
	assert.Change(t, r, own, func(n *corev1.Namespace) {
		n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	})
	return r
}

// pool is a pool that wants the images, and its class: SelfStop, or ControllerStop with user data
// that does not power off.
func pool(name string, size int32, mode v1alpha1.CompletionMode, images ...string) (*v1alpha1.NodePool,
	*v1alpha1.AWSNodeClass) {
	p, class := framework.Pool(name, size), framework.Class(name, "m5.large")
	p.Spec.PreWarm.CompletionMode, p.Spec.PreWarm.ImagesToPull = mode, images
	if mode == v1alpha1.ControllerStop {
		framework.StayUp(p, class, images...)
	}
	return p, class
}

// agents is a DaemonSet for all nodes.
func agents(name, image string) *appsv1.DaemonSet {
	return framework.DaemonSet(name, corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: image}}})
}

// poolAgents is a DaemonSet for the pool's nodes.
func poolAgents(pool, image string) *appsv1.DaemonSet {
	set := agents("agent-of-"+pool, image)
	set.Spec.Template.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: pool}
	return set
}

// imagesPulled waits until ImagesPulled has the status and the reason, and returns its message.
func imagesPulled(t *testing.T, r *framework.Rig, pool string, status metav1.ConditionStatus,
	reason v1alpha1.Reason) string {
	t.Helper()
	return assert.AwaitCondition(t, r, pool, v1alpha1.ConditionImagesPulled, status, reason).Message
}

// checkDisks fails the test if an instance of the pool lacks one of the images or has another.
func checkDisks(t *testing.T, r *framework.Rig, pool string, images ...string) {
	t.Helper()
	got := assert.PoolInstances(t, r, pool)
	slices.Sort(images)
	for id, v := range got {
		if !slices.Equal(v.Images, images) {
			t.Errorf("instance %s of pool %s has %q, want %q", id, pool, v.Images, images)
		}
	}
	if len(got) == 0 {
		t.Errorf("pool %s has no instances", pool)
	}
}

// awaitNoPulls waits until no pod that pulls is left on the pool's nodes.
func awaitNoPulls(t *testing.T, r *framework.Rig, pool string) {
	t.Helper()
	nodes := assert.PoolNodes(t, r, pool)
	assert.Eventually(t, "pods that pull for pool "+pool, func(ctx context.Context) (int, error) {
		list := &corev1.PodList{}
		err := r.Client.List(ctx, list, client.InNamespace(framework.Namespace))
		return len(slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return nodes[p.Spec.NodeName] == nil })), err
	}, func(n int) bool { return n == 0 })
}

// starts is the number of starts of the pool's instances that the cloud accepted.
func starts(t *testing.T, r *framework.Rig, pool string) int {
	t.Helper()
	return len(assert.Accepted(t, r, fake.OpStart, assert.PoolNodes(t, r, pool)))
}
