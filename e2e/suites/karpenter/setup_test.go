// Package karpenter proves that Stratos and another autoscaler can share a cluster: a real control
// plane, Karpenter as it is released, with its provider that launches nodes in no cloud, and the
// separation that docs/karpenter.md tells people to make.
package karpenter

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// instanceType is that of the page's class: 2 cpu.
const instanceType = "m5.large"

// Events of Karpenter about a pod.
const (
	refused   = "FailedScheduling"
	nominated = "Nominated"
)

// cluster is one with both autoscalers.
type cluster struct {
	*framework.Rig
	karpenter *controlplane.Process
	page      *examples
}

// newCluster starts everything with the page's NodePool of Karpenter in it, whose nodes register so
// long after their launch.
func newCluster(t *testing.T, page *examples, registration time.Duration) *cluster {
	t.Helper()
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{DefaultScheduler: true, AuditLog: controlplane.AuditLog{Enabled: true}},
		Cloud:        assert.FastCloud(), Progress: os.Stderr,
	})
	c := &cluster{Rig: r, page: page}
	t.Cleanup(func() {
		if t.Failed() && c.karpenter != nil {
			assert.LogTail(t, c.karpenter)
		}
	})
	var err error
	if c.karpenter, err = r.StartKarpenter(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.offerKarpentersNodes(t, registration)
	return c
}

// offerKarpentersNodes creates what the page shows, with the class of the provider that needs no
// cloud.
func (c *cluster) offerKarpentersNodes(t *testing.T, registration time.Duration) {
	t.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.kwok.sh", Version: "v1alpha1",
		Kind: "KWOKNodeClass"})
	class.SetName("general")
	set(registration.String(), "spec", "nodeRegistrationDelay")(class)
	pool := c.page.take(t, "NodePool.karpenter.sh/general", ofKwok())
	assert.Create(t, c.Rig, class, pool)
	if err := c.AwaitTrue(t.Context(), pool, "Ready"); err != nil {
		t.Fatal(err)
	}
}

// ofKwok is the one change to the page's NodePool of Karpenter: its nodes are launched in no cloud.
func ofKwok() func(*unstructured.Unstructured) {
	return set(map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "general"}, "spec",
		"template", "spec", "nodeClassRef")
}

// warm creates Stratos's pools and waits for their standby nodes.
func (c *cluster) warm(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	assert.Create(t, c.Rig, assert.Objects(objects)...)
	for _, o := range objects {
		if o.GetKind() != "NodePool" {
			continue
		}
		want, _, err := unstructured.NestedInt64(o.Object, "spec", "minStandby")
		if err != nil || want == 0 {
			t.Fatalf("%s: minStandby %d, %v", keyOf(o), want, err)
		}
		assert.AwaitPool(t, c.Rig, o.GetName(), fmt.Sprintf("%d standby", want),
			func(s v1alpha1.NodePoolStatus) bool { return int64(s.Standby) >= want })
	}
}

// pods waits until the Deployment has its pods, and returns them.
func (c *cluster) pods(t *testing.T, deployment *unstructured.Unstructured) []*corev1.Pod {
	t.Helper()
	want, _, err := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	list := assert.AwaitPods(t, c.Rig, map[string]string{"app": deployment.GetName()}, int(want))
	pods := make([]*corev1.Pod, len(list))
	for i := range list {
		pods[i] = &list[i]
	}
	return pods
}
