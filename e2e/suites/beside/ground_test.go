// Package beside proves that Stratos and another autoscaler can share a cluster: a real control plane, Karpenter as it is released, with its
// provider that launches nodes in no cloud, and the separation that docs/karpenter.md tells people to make.
package beside

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
	"github.com/stratos-sh/stratos/e2e/rig"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
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
	*rig.Rig
	karpenter *controlplane.Process
	page      *examples
}

// newCluster starts everything with the page's NodePool of Karpenter in it, whose nodes register so long after their launch.
func newCluster(t *testing.T, page *examples, registration time.Duration) *cluster {
	t.Helper()
	r, err := rig.New(t.Context(), rig.Options{
		ControlPlane: controlplane.Options{
			DefaultScheduler: true, AuditLog: controlplane.AuditLog{Enabled: true},
			NodeMonitorGracePeriod: time.Hour, // nobody plays the kubelets of Karpenter's nodes
		},
		Cloud:    []string{"--fake-boot-time=500ms", "--fake-stop-time=200ms", "--fake-pull-time=0s"},
		Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Rig: r, page: page}
	t.Cleanup(func() {
		if t.Failed() {
			logTail(t, r.Stratos)
			logTail(t, c.karpenter)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if c.karpenter, err = r.StartKarpenter(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.offerKarpentersNodes(t, registration)
	return c
}

// offerKarpentersNodes creates what the page shows, with the class of the provider that needs no cloud.
func (c *cluster) offerKarpentersNodes(t *testing.T, registration time.Duration) {
	t.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClass"})
	class.SetName("general")
	set(registration.String(), "spec", "nodeRegistrationDelay")(class)
	pool := c.page.take(t, "NodePool.karpenter.sh/general", ofKwok())
	c.create(t, class, pool)
	c.await(t, "Karpenter's NodePool ready", func(ctx context.Context) (bool, error) {
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
	return set(map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "general"}, "spec", "template", "spec", "nodeClassRef")
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
		if err := c.AwaitPool(t.Context(), o.GetName(), func(s v1alpha1.NodePoolStatus) bool { return int64(s.Standby) >= want }); err != nil {
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

// await fails the test if done does not come true. What done returns as an error is what it last saw.
func (c *cluster) await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := rig.Until(t.Context(), rig.HangGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
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
	c.await(t, "pods of "+keyOf(deployment), func(ctx context.Context) (bool, error) {
		err := c.Client.List(ctx, list, client.InNamespace(deployment.GetNamespace()), client.MatchingLabels{"app": deployment.GetName()})
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

// holdStarts keeps the nodes that are started from now on starting, until release: so the test, not the machine's load, decides whether
// Karpenter sees the pods wait.
func (c *cluster) holdStarts(t *testing.T) {
	t.Helper()
	_, err := c.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpStart, Type: instanceType})
	if err != nil {
		t.Fatal(err)
	}
}

// release ends the hold and reboots the guests, whose kubelets then report.
func (c *cluster) release(t *testing.T, ids []string) {
	t.Helper()
	if err := c.Cloud.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		c.await(t, "reboot of "+id, func(ctx context.Context) (bool, error) {
			err := c.Cloud.Behind(ctx, id, fake.ActReboot)
			if provider.IsIncorrectState(err) { // still pending
				return false, err
			}
			return err == nil, err
		})
	}
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
	c.await(t, fmt.Sprintf("%d starts", want), func(ctx context.Context) (bool, error) {
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
	c.await(t, fmt.Sprintf("event %s by %s about pod %s with %q", reason, by, pod.Name, contains), func(ctx context.Context) (bool, error) {
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

// logTail shows what the process last said.
func logTail(t *testing.T, p *controlplane.Process) {
	t.Helper()
	if p == nil {
		return
	}
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Log(err)
		return
	}
	lines := strings.Split(string(text), "\n")
	t.Logf("end of %s's log:\n%s", p.Name(), strings.Join(lines[max(0, len(lines)-40):], "\n"))
}
