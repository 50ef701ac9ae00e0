package nodeclass

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func node(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
}

func controlPlaneNode(image string) *corev1.Node {
	return node(map[string]string{v1alpha1.LabelControlPlane: "", v1alpha1.LabelNodeImage: image})
}

func TestEventsAfterWhichANodeImageIsReadAgain(t *testing.T) {
	p := namesAnotherImage()
	other := node(map[string]string{v1alpha1.LabelNodeImage: "a"})
	unlabelled := node(map[string]string{v1alpha1.LabelControlPlane: ""})
	for name, c := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"another image":                     {controlPlaneNode("a"), controlPlaneNode("b"), true},
		"the label comes":                   {unlabelled, controlPlaneNode("a"), true},
		"the label goes":                    {controlPlaneNode("a"), unlabelled, true},
		"it becomes a control-plane Node":   {node(nil), unlabelled, true},
		"it is one no more":                 {unlabelled, node(nil), true},
		"nothing of it":                     {controlPlaneNode("a"), controlPlaneNode("a"), false},
		"a Node that is no control plane's": {node(nil), other, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
				t.Errorf("update admitted: %t, want %t", got, c.want)
			}
		})
	}
	for of, want := range map[*corev1.Node]bool{controlPlaneNode("a"): true, unlabelled: true, other: false} {
		created, deleted := p.Create(event.CreateEvent{Object: of}), p.Delete(event.DeleteEvent{Object: of})
		if created != want || deleted != want {
			t.Errorf("labels %v: create %t, delete %t admitted, want %t", of.Labels, created, deleted, want)
		}
	}
}

// TestAChangedControlPlaneIsLookedAtAtOnce: of two classes that were resolved a moment ago, the one
// that follows the control plane is resolved again, also where the change comes during its look.
func TestAChangedControlPlaneIsLookedAtAtOnce(t *testing.T) {
	class := func(name string) *v1alpha1.AWSNodeClass {
		return &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
	}
	follows := class("follows")
	follows.Spec.NodeImage = &v1alpha1.NodeImage{FromCluster: true}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	during := func() {}
	kind := KindOf(v1alpha1.KindAWSNodeClass, func() *v1alpha1.AWSNodeClass { return &v1alpha1.AWSNodeClass{} },
		&v1alpha1.AWSNodeClassList{}, nil,
		func(_ context.Context, c *v1alpha1.AWSNodeClass) error {
			asked[c.Name]++
			during()
			return nil
		})
	now := time.Unix(1, 0)
	tick := func() time.Time { now = now.Add(time.Millisecond); return now }
	c := &Reconciler{Kind: kind, Events: events.NewFakeRecorder(100), Now: tick,
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(follows, class("fixed")).
			WithStatusSubresource(follows).Build()}
	reconcileAll := func(requests ...reconcile.Request) map[string]time.Duration {
		t.Helper()
		again := map[string]time.Duration{}
		for _, q := range requests {
			result, err := c.Reconcile(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			again[q.Name] = result.RequeueAfter
		}
		return again
	}
	of := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
	}

	reconcileAll(of("follows"), of("fixed"))
	changed := c.ofControlPlane(t.Context(), controlPlaneNode("a"))
	reconcileAll(changed...)
	if len(changed) != 2 || asked["follows"] != 2 || asked["fixed"] != 1 {
		t.Errorf("%d requests, looks %v; want one more of the class that follows alone", len(changed), asked)
	}
	reconcileAll(of("follows"))
	if asked["follows"] != 2 {
		t.Errorf("%d looks without a change since, want 2", asked["follows"])
	}

	c.ofControlPlane(t.Context(), controlPlaneNode("b"))
	during = func() { c.ofControlPlane(t.Context(), controlPlaneNode("c")); during = func() {} }
	if again := reconcileAll(of("follows")); again["follows"] != time.Second {
		t.Errorf("a change during the look: next look in %s, want 1s", again["follows"])
	}
	reconcileAll(of("follows"))
	if asked["follows"] != 4 {
		t.Errorf("%d looks, want 4", asked["follows"])
	}
}
