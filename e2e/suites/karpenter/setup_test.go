// Package karpenter proves that Stratos and another autoscaler can share a cluster: a real control
// plane, Karpenter as it is released, with its provider that launches nodes in no cloud, and the
// separation that docs/karpenter.md tells people to make.
package karpenter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	c.create(t, class, pool)
	assert.Await(t, "Karpenter's NodePool ready", func(ctx context.Context) (bool, error) {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(pool.Object, "status", "conditions")
		for _, condition := range conditions {
			if condition, ok := condition.(map[string]any); ok && condition["type"] == "Ready" && condition["status"] == "True" {
				return true, err
			}
		}
		return false, errors.Join(err, fmt.Errorf("conditions %v", conditions))
	})
}

// ofKwok is the one change to the page's NodePool of Karpenter: its nodes are launched in no cloud.
func ofKwok() func(*unstructured.Unstructured) {
	return set(map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "general"}, "spec",
		"template", "spec", "nodeClassRef")
}

// warm creates Stratos's pools and waits for their standby nodes.
func (c *cluster) warm(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	c.create(t, objects...)
	for _, o := range objects {
		if o.GetKind() != "NodePool" {
			continue
		}
		want, _, err := unstructured.NestedInt64(o.Object, "spec", "minStandby")
		if err != nil || want == 0 {
			t.Fatalf("%s: minStandby %d, %v", keyOf(o), want, err)
		}
		if err := c.AwaitPool(t.Context(), o.GetName(),
			func(s v1alpha1.NodePoolStatus) bool { return int64(s.Standby) >= want }); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cluster) create(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %s: %v", keyOf(o), err)
		}
	}
}

// pods waits until the Deployment has its pods, and returns them.
func (c *cluster) pods(t *testing.T, deployment *unstructured.Unstructured) []*corev1.Pod {
	t.Helper()
	want, _, err := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	list := &corev1.PodList{}
	assert.Await(t, "pods of "+keyOf(deployment), func(ctx context.Context) (bool, error) {
		err := c.Client.List(ctx, list, client.InNamespace(deployment.GetNamespace()),
			client.MatchingLabels{"app": deployment.GetName()})
		if err != nil || int64(len(list.Items)) == want {
			return err == nil, err
		}
		return false, fmt.Errorf("%d pods, want %d", len(list.Items), want)
	})
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods
}

func (c *cluster) started(t *testing.T) []string {
	t.Helper()
	ids, err := c.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// awaitStarts waits until that many instances were started in all, and returns them.
func (c *cluster) awaitStarts(t *testing.T, want int) []string {
	t.Helper()
	var ids []string
	assert.Await(t, fmt.Sprintf("%d starts", want), func(ctx context.Context) (bool, error) {
		var err error
		if ids, err = c.Starts(ctx); err != nil || len(ids) >= want {
			return err == nil, err
		}
		return false, fmt.Errorf("started so far: %v", ids)
	})
	return ids
}

// awaitWord waits for an event of Stratos or Karpenter about the pod and returns its words.
func (c *cluster) awaitWord(t *testing.T, pod *corev1.Pod, by, reason, contains string) string {
	t.Helper()
	words := ""
	assert.Await(t, fmt.Sprintf("event %s by %s about pod %s with %q", reason, by, pod.Name, contains),
		func(ctx context.Context) (bool, error) {
			said, err := c.words(ctx, pod, by)
			if err != nil {
				return false, err
			}
			for _, w := range said[reason] {
				if strings.Contains(w, contains) {
					words = w
					return true, nil
				}
			}
			return false, fmt.Errorf("events of %s about it: %v", by, said)
		})
	return words
}

// words are the messages of the component's events about the pod, by reason.
func (c *cluster) words(ctx context.Context, pod *corev1.Pod, by string) (map[string][]string, error) {
	list := &corev1.EventList{}
	if err := c.Client.List(ctx, list, client.InNamespace(pod.Namespace)); err != nil {
		return nil, err
	}
	said := map[string][]string{}
	for _, e := range list.Items {
		if e.InvolvedObject.UID == pod.UID && (e.Source.Component == by || e.ReportingController == by) {
			said[e.Reason] = append(said[e.Reason], e.Message)
		}
	}
	return said, nil
}

func instanceIDs(names []string) []v1alpha1.InstanceID {
	ids := make([]v1alpha1.InstanceID, len(names))
	for i, name := range names {
		ids[i] = v1alpha1.InstanceID(name)
	}
	return ids
}
