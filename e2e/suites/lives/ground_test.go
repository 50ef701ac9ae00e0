// Package lives proves on a real control plane what becomes of nodes over time: bursts that come while nodes boot, nodes that live again
// and again, drains that are cancelled, starts that were for nothing.
package lives

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/rig"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// newRig starts a rig whose machines are fast: what is proved here is order, not duration. NodeMonitorGracePeriod keeps
// kube-controller-manager from calling a machine lost that a busy test machine lets wait.
func newRig(t *testing.T, cloud ...string) *rig.Rig {
	t.Helper()
	r, err := rig.New(t.Context(), rig.Options{
		ControlPlane: controlplane.Options{NodeMonitorGracePeriod: time.Hour},
		Cloud:        append([]string{"--fake-boot-time=500ms", "--fake-stop-time=300ms", "--fake-pull-time=100ms"}, cloud...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logTail(t, r.Stratos)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// logTail shows what the process last said.
func logTail(t *testing.T, p *controlplane.Process) {
	t.Helper()
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Log(err)
		return
	}
	lines := strings.Split(string(text), "\n")
	t.Logf("end of %s's log:\n%s", p.Name(), strings.Join(lines[max(0, len(lines)-40):], "\n"))
}

// await fails the test if done does not come true. What done returns as an error is what it last saw.
func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := rig.Until(t.Context(), rig.HangGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// warm creates the pool with its class and waits until all of it stands by.
func warm(t *testing.T, r *rig.Rig, pool *v1alpha1.NodePool, instanceType string) {
	t.Helper()
	if err := r.Warm(t.Context(), pool, rig.Class(pool.Name, instanceType)); err != nil {
		t.Fatal(err)
	}
}

// shortLived is a pool whose nodes stop a second after they are empty, and whose start budget no test meets.
func shortLived(name string, size int32) *v1alpha1.NodePool {
	pool := rig.Pool(name, size)
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	pool.Spec.ScaleUp.StartBudget = new(int32)
	*pool.Spec.ScaleUp.StartBudget = 1000
	return pool
}

func create[T client.Object](t *testing.T, r *rig.Rig, objects ...T) {
	t.Helper()
	for _, o := range objects {
		if err := r.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// remove deletes the pods and waits until they are gone.
func remove(t *testing.T, r *rig.Rig, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		if err := client.IgnoreNotFound(r.Client.Delete(t.Context(), p)); err != nil {
			t.Fatalf("delete pod %s: %v", p.Name, err)
		}
	}
	for _, p := range pods {
		await(t, "deletion of pod "+p.Name, func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(r.Client.Get(ctx, client.ObjectKeyFromObject(p), &corev1.Pod{})), nil
		})
	}
}

func awaitBound(t *testing.T, r *rig.Rig, pods ...*corev1.Pod) []string {
	t.Helper()
	nodes, err := r.AwaitBound(t.Context(), pods...)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func awaitRunning(t *testing.T, r *rig.Rig, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		await(t, "pod "+pod.Name+" running", func(ctx context.Context) (bool, error) {
			p := &corev1.Pod{}
			if err := r.Client.Get(ctx, client.ObjectKeyFromObject(pod), p); err != nil {
				return false, err
			}
			if p.Status.Phase == corev1.PodRunning {
				return true, nil
			}
			return false, fmt.Errorf("phase %s %s, node %q, %s", p.Status.Phase, p.Status.Reason, p.Spec.NodeName, rig.WhyPending(p))
		})
	}
}

// onPool confines the pod to the pool's nodes.
func onPool(pod *corev1.Pod, pool string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: pool}
	return pod
}

// poolNodes returns the pool's Nodes by name.
func poolNodes(t *testing.T, r *rig.Rig, pool string) map[string]*corev1.Node {
	t.Helper()
	list := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), list, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes
}

func onlyNode(t *testing.T, r *rig.Rig, pool string) *corev1.Node {
	t.Helper()
	nodes := poolNodes(t, r, pool)
	if len(nodes) != 1 {
		t.Fatalf("pool %s has %d nodes, want 1", pool, len(nodes))
	}
	for _, n := range nodes {
		return n
	}
	return nil
}

func stateOf(n *corev1.Node) v1alpha1.NodeState {
	return v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
}

// awaitNode waits until the Node is so, and returns it.
func awaitNode(t *testing.T, r *rig.Rig, name, what string, so func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	await(t, "node "+name+" "+what, func(ctx context.Context) (bool, error) {
		n := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return false, err
		}
		found = n
		if so(n) {
			return true, nil
		}
		return false, fmt.Errorf("state %s, unschedulable %t, taints %v, annotations %v", stateOf(n), n.Spec.Unschedulable, n.Spec.Taints, n.Annotations)
	})
	return found
}

func inState(s v1alpha1.NodeState) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return stateOf(n) == s }
}

// instanceOf is the instance that the Node's provider id names.
func instanceOf(n *corev1.Node) v1alpha1.InstanceID {
	return v1alpha1.InstanceID(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])
}

// accepted are the calls of one kind that the cloud accepted for the nodes' instances, in order.
func accepted(t *testing.T, r *rig.Rig, op fake.Op, nodes map[string]*corev1.Node) []fake.Call {
	t.Helper()
	ids := map[v1alpha1.InstanceID]bool{}
	for _, n := range nodes {
		ids[instanceOf(n)] = true
	}
	all, err := r.Cloud.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var calls []fake.Call
	for _, c := range all {
		if c.Op == op && ids[c.Instance] && c.Err == "" {
			calls = append(calls, c)
		}
	}
	return calls
}

// holdStarts keeps the instances of the type that are started from now on from ever reporting, until release. So a test decides how long
// a node is starting.
func holdStarts(t *testing.T, r *rig.Rig, instanceType string) {
	t.Helper()
	_, err := r.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpStart, Type: instanceType})
	if err != nil {
		t.Fatal(err)
	}
}

// release ends the hold and reboots the guests, whose kubelets then report.
func release(t *testing.T, r *rig.Rig, ids ...v1alpha1.InstanceID) {
	t.Helper()
	if err := r.Cloud.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		await(t, "reboot of "+string(id), func(ctx context.Context) (bool, error) {
			err := r.Cloud.Behind(ctx, string(id), fake.ActReboot)
			if provider.IsIncorrectState(err) { // still pending
				return false, err
			}
			return err == nil, err
		})
	}
}

// awaitEvent waits for an event about the object and returns its words.
func awaitEvent(t *testing.T, r *rig.Rig, of client.Object, reason v1alpha1.Reason) string {
	t.Helper()
	words := ""
	await(t, fmt.Sprintf("event %s about %s", reason, of.GetName()), func(ctx context.Context) (bool, error) {
		notes, err := eventsAbout(ctx, r, of)
		if err != nil || len(notes[reason]) == 0 {
			return false, errors.Join(err, fmt.Errorf("events so far: %v", notes))
		}
		words = notes[reason][0]
		return true, nil
	})
	return words
}

func eventsAbout(ctx context.Context, r *rig.Rig, of client.Object) (map[v1alpha1.Reason][]string, error) {
	list := &corev1.EventList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, err
	}
	notes := map[v1alpha1.Reason][]string{}
	for _, e := range list.Items {
		if e.InvolvedObject.UID == of.GetUID() {
			notes[v1alpha1.Reason(e.Reason)] = append(notes[v1alpha1.Reason(e.Reason)], e.Message)
		}
	}
	return notes, nil
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

func mergeFrom(o client.Object) client.Patch { return client.MergeFrom(o) }

func podNow(t *testing.T, r *rig.Rig, of *corev1.Pod) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(of), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
