// Package assert is what the suites stand on: a rig that ends with its test, waits that say what
// they last saw, a journal of every version of Nodes and pods, and the truth of the fake cloud.
// What it cannot do ends the test.
package assert

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// FastCloud keeps the machines' own times out of the way: what suites prove is order, not duration.
func FastCloud() []string {
	return []string{"--fake-boot-time=500ms", "--fake-stop-time=300ms", "--fake-pull-time=100ms"}
}

// NewRig starts a rig that ends with the test, and shows the end of Stratos's log if the test
// failed. kube-controller-manager calls no machine lost, neither hand-made nodes without a kubelet
// nor those that a busy test machine lets wait.
func NewRig(t *testing.T, o framework.Options) *framework.Rig {
	t.Helper()
	if o.ControlPlane.NodeMonitorGracePeriod == 0 {
		o.ControlPlane.NodeMonitorGracePeriod = time.Hour
	}
	keepLogs(t, &o)
	r, err := framework.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && r.Stratos != nil {
			LogTail(t, r.Stratos)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// keepLogs has the logs of a test that fails stay in a folder of their own below the one that
// STRATOS_E2E_LOGS names.
func keepLogs(t *testing.T, o *framework.Options) {
	t.Helper()
	root := os.Getenv("STRATOS_E2E_LOGS")
	if root == "" || o.ControlPlane.LogDir != "" {
		return
	}
	dir, err := os.MkdirTemp(root, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	o.ControlPlane.LogDir = dir
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
}

// LogTail shows what the process last said.
func LogTail(t *testing.T, p *controlplane.Process) {
	t.Helper()
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Log(err)
		return
	}
	lines := strings.Split(string(text), "\n")
	t.Logf("end of %s's log:\n%s", p.Name(), strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

// Await fails the test if done does not come true. What done returns as an error is what it last
// saw.
func Await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), framework.HangGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Create creates the objects, in order.
func Create(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := r.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// Remove deletes the objects and waits until they are gone.
func Remove(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := client.IgnoreNotFound(r.Client.Delete(t.Context(), o)); err != nil {
			t.Fatalf("delete %T %s: %v", o, o.GetName(), err)
		}
	}
	for _, o := range objects {
		Await(t, fmt.Sprintf("deletion of %T %s", o, o.GetName()), func(ctx context.Context) (bool, error) {
			err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), nil
		})
	}
}

// AwaitBound waits until the pods are bound and returns their nodes, in order.
func AwaitBound(t *testing.T, r *framework.Rig, pods ...*corev1.Pod) []string {
	t.Helper()
	nodes, err := r.AwaitBound(t.Context(), pods...)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// AwaitRunning waits until the kubelets call the pods running.
func AwaitRunning(t *testing.T, r *framework.Rig, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		Await(t, "pod "+pod.Name+" running", func(ctx context.Context) (bool, error) {
			p, err := PodOf(ctx, r, pod)
			if err != nil {
				return false, err
			}
			if p.Status.Phase == corev1.PodRunning {
				return true, nil
			}
			return false, fmt.Errorf("phase %s %s, node %q, %s", p.Status.Phase, p.Status.Reason, p.Spec.NodeName,
				framework.WhyPending(p))
		})
	}
}

// PodNow reads the pod.
func PodNow(t *testing.T, r *framework.Rig, of *corev1.Pod) *corev1.Pod {
	t.Helper()
	p, err := PodOf(t.Context(), r, of)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// PodOf reads the pod; a pod of that name with another UID is another pod.
func PodOf(ctx context.Context, r *framework.Rig, of *corev1.Pod) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(of), p); err != nil {
		return nil, err
	}
	if p.UID != of.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), of.Name)
	}
	return p, nil
}

// AwaitEvent waits for an event about the object and returns its words.
func AwaitEvent(t *testing.T, r *framework.Rig, of client.Object, reason v1alpha1.Reason) string {
	t.Helper()
	words := ""
	Await(t, fmt.Sprintf("event %s about %s", reason, of.GetName()), func(ctx context.Context) (bool, error) {
		notes, err := EventsAbout(ctx, r, of)
		if err != nil || len(notes[reason]) == 0 {
			return false, errors.Join(err, fmt.Errorf("events so far: %v", notes))
		}
		words = notes[reason][0]
		return true, nil
	})
	return words
}

// EventsAbout are the words of the events about the object, by reason.
func EventsAbout(ctx context.Context, r *framework.Rig, of client.Object) (map[v1alpha1.Reason][]string, error) {
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

// Objects are the same list for Create and Remove, which take objects of any kinds.
func Objects[T client.Object](list []T) []client.Object {
	out := make([]client.Object, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
