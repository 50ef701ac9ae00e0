package assert

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// Create creates the objects, in order.
func Create(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := r.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %s: %v", nameOf(o), err)
		}
		if class, ok := o.(*schedulingv1.PriorityClass); ok {
			awaitAdmission(t, r, class)
		}
	}
}

// awaitAdmission waits until the API server takes pods of the class: its admission reads a cache.
func awaitAdmission(t *testing.T, r *framework.Rig, class *schedulingv1.PriorityClass) {
	t.Helper()
	Await(t, "admission of pods of "+nameOf(class), func(ctx context.Context) (bool, error) {
		pod := framework.Pod("of-class")
		pod.Spec.PriorityClassName = class.Name
		err := r.Client.Create(ctx, pod, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return true, err
	})
}

// Delete deletes the objects, which exist, and does not wait until they are gone.
func Delete(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := r.Client.Delete(t.Context(), o); err != nil {
			t.Fatalf("delete %s: %v", nameOf(o), err)
		}
	}
}

// Remove deletes the objects and waits until they are gone.
func Remove(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := client.IgnoreNotFound(r.Client.Delete(t.Context(), o)); err != nil {
			t.Fatalf("delete %s: %v", nameOf(o), err)
		}
	}
	AwaitGone(t, r, objects...)
}

// Now reads the object as it is now. Another object of the same name is not the object.
func Now[T client.Object](t *testing.T, r *framework.Rig, o T) T {
	t.Helper()
	now, err := framework.Read(t.Context(), r, o)
	if err != nil {
		t.Fatalf("read %s: %v", nameOf(o), err)
	}
	return now
}

// Change writes the object as it is now with the change, and returns what was written.
func Change[T client.Object](t *testing.T, r *framework.Rig, o T, change func(T)) T {
	t.Helper()
	now, err := framework.Change(t.Context(), r, o, change)
	if err != nil {
		t.Fatalf("change of %s: %v", nameOf(o), err)
	}
	return now
}

// ChangePool is Change for the spec of a pool.
func ChangePool(t *testing.T, r *framework.Rig, name string, change func(*v1alpha1.NodePoolSpec)) *v1alpha1.NodePool {
	t.Helper()
	return Change(t, r, Pool(name), func(p *v1alpha1.NodePool) { change(&p.Spec) })
}

// Pool, Node and Pod have the name alone. They are what the object of the name is read, changed and
// waited for by.
func Pool(name string) *v1alpha1.NodePool {
	return &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Node is described at Pool.
func Node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Pod is described at Pool; it is in the namespace default.
func Pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
}

// Objects are the same list for Create and Remove, which take objects of any kinds.
func Objects[T client.Object](list []T) []client.Object {
	out := make([]client.Object, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// Namespace makes the namespace, or gives the one that there is the labels, and returns once pods
// can be created in it.
func Namespace(t *testing.T, r *framework.Rig, name string, labels map[string]string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreAlreadyExists(r.Client.Create(t.Context(), namespace.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	Change(t, r, namespace, func(n *corev1.Namespace) { maps.Copy(n.Labels, labels) })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
	AwaitObject(t, r, account, "created", func(*corev1.ServiceAccount) bool { return true })
}

// OptIn is Namespace with the label by which its pods get Stratos's scheduler.
func OptIn(t *testing.T, r *framework.Rig, name string) {
	t.Helper()
	Namespace(t, r, name, map[string]string{v1alpha1.LabelScheduler: v1alpha1.SchedulerEnabled})
}
