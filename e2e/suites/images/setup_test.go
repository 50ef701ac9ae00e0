// Package images proves on a real control plane that nodes have their images before they are
// standby: those that the pool names and those of DaemonSets. No scheduler binds the DaemonSets'
// pods here, so whatever a machine has pulled, it has pulled because Stratos asked for it.
package images

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// newRig starts a rig whose API server admits into Stratos's namespace only what the restricted
// standard allows.
func newRig(t *testing.T, cloud ...string) *framework.Rig {
	t.Helper()
	r := assert.NewRig(t, framework.Options{Cloud: append(assert.FastCloud(), cloud...)})
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: framework.Namespace}}
	restricted := own.DeepCopy()
	restricted.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if err := r.Client.Patch(t.Context(), restricted, client.MergeFrom(own)); err != nil {
		t.Fatal(err)
	}
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

// agents is a DaemonSet for the nodes with the labels.
func agents(name, image string, nodes map[string]string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{NodeSelector: nodes, Containers: []corev1.Container{{Name: "agent", Image: image}}},
			},
		},
	}
}

// disks are the images on the disks of the pool's instances, by instance.
func disks(ctx context.Context, r *framework.Rig, pool string) (map[v1alpha1.InstanceID][]string, error) {
	instances, err := assert.Instances(ctx, r, v1alpha1.LabelPool, pool)
	out := map[v1alpha1.InstanceID][]string{}
	for id, v := range instances {
		out[id] = v.Images
	}
	return out, err
}

// checkDisks fails the test if an instance of the pool lacks one of the images or has another.
func checkDisks(t *testing.T, r *framework.Rig, pool string, images ...string) {
	t.Helper()
	got, err := disks(t.Context(), r, pool)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(images)
	for id, on := range got {
		if !slices.Equal(on, images) {
			t.Errorf("instance %s of pool %s has %q, want %q", id, pool, on, images)
		}
	}
	if len(got) == 0 {
		t.Errorf("pool %s has no instances", pool)
	}
}

// awaitCondition waits until ImagesPulled is so, and returns its message.
func awaitCondition(t *testing.T, r *framework.Rig, pool string, status metav1.ConditionStatus,
	reason v1alpha1.Reason) string {
	t.Helper()
	message := ""
	assert.Await(t, fmt.Sprintf("ImagesPulled=%s of pool %s", status, pool), func(ctx context.Context) (bool, error) {
		p := &v1alpha1.NodePool{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: pool}, p); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionImagesPulled)
		if c != nil && c.Status == status && c.Reason == string(reason) {
			message = c.Message
			return true, nil
		}
		return false, fmt.Errorf("condition %+v, status %+v", c, p.Status)
	})
	return message
}

func awaitStandby(t *testing.T, r *framework.Rig, pool string, count int32) {
	t.Helper()
	if err := r.AwaitPool(t.Context(), pool,
		func(s v1alpha1.NodePoolStatus) bool { return s.Standby == count }); err != nil {
		t.Fatal(err)
	}
}

// awaitNoPulls waits until no pod that pulls is left.
func awaitNoPulls(t *testing.T, r *framework.Rig) {
	t.Helper()
	assert.Await(t, "the end of the pods that pull", func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := r.Client.List(ctx, list, client.InNamespace(framework.Namespace)); err != nil || len(list.Items) == 0 {
			return err == nil, err
		}
		return false, fmt.Errorf("%d pods are left", len(list.Items))
	})
}

// boots are how often the pool's instances have booted, by instance.
func boots(t *testing.T, r *framework.Rig, pool string) map[v1alpha1.InstanceID]int {
	t.Helper()
	instances, err := assert.Instances(t.Context(), r, v1alpha1.LabelPool, pool)
	if err != nil {
		t.Fatal(err)
	}
	out := map[v1alpha1.InstanceID]int{}
	for id, v := range instances {
		out[id] = v.Boots
	}
	return out
}

// starts is the number of starts of the pool's instances that the cloud accepted.
func starts(t *testing.T, r *framework.Rig, pool string) int {
	t.Helper()
	return len(assert.Accepted(t, r, fake.OpStart, assert.PoolNodes(t, r, pool)))
}
