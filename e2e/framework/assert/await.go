package assert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// Await fails the test if done does not come true. What done returns as an error is what it last
// saw.
func Await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), framework.HangGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Eventually reads until the value is as it should be, and returns it. The failure shows the last.
func Eventually[T any](t *testing.T, what string, read func(context.Context) (T, error), so func(T) bool) T {
	t.Helper()
	var last T
	Await(t, what, func(ctx context.Context) (bool, error) {
		var err error
		if last, err = read(ctx); err == nil && so(last) {
			return true, nil
		}
		text, jsonErr := json.Marshal(last) // which follows pointers
		return false, errors.Join(err, jsonErr, fmt.Errorf("last seen: %s", text))
	})
	return last
}

// AwaitObject waits until the object is as it should be, and returns it. The argument stays as it
// is.
func AwaitObject[T client.Object](t *testing.T, r *framework.Rig, o T, what string, so func(T) bool) T {
	t.Helper()
	var now T
	Await(t, nameOf(o)+": "+what, func(ctx context.Context) (bool, error) {
		var err error
		if now, err = framework.Read(ctx, r, o); err != nil {
			return false, err
		}
		if so(now) {
			return true, nil
		}
		return false, errors.New(seen(now))
	})
	return now
}

// AwaitGone waits until none of the objects exists.
func AwaitGone(t *testing.T, r *framework.Rig, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		Await(t, nameOf(o)+" gone", func(ctx context.Context) (bool, error) {
			now, err := framework.Read(ctx, r, o)
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, errors.Join(err, errors.New("it is there, "+seen(now)))
		})
	}
}

func nameOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind // of objects that are not typed
	if kind == "" {
		kind = fmt.Sprintf("%T", o)
		kind = kind[strings.LastIndexByte(kind, '.')+1:]
	}
	return kind + " " + o.GetName()
}

// seen is what a wait that fails says of the object.
func seen(o client.Object) string {
	switch o := o.(type) {
	case *corev1.Node:
		return fmt.Sprintf("state %q, unschedulable %t, taints %v, annotations %v", StateOf(o), o.Spec.Unschedulable,
			o.Spec.Taints, o.Annotations)
	case *corev1.Pod:
		return fmt.Sprintf("phase %s %s, deletion %v, node %q, %s", o.Status.Phase, o.Status.Reason, o.DeletionTimestamp,
			o.Spec.NodeName, framework.WhyPending(o))
	case *v1alpha1.NodePool:
		return fmt.Sprintf("deletion %v, finalizers %v, status %+v", o.DeletionTimestamp, o.Finalizers, o.Status)
	}
	o.SetManagedFields(nil)
	text, err := json.Marshal(o)
	return fmt.Sprintf("%s%v", text, err)
}

// AwaitPool waits until the status of the pool is as it should be.
func AwaitPool(t *testing.T, r *framework.Rig, name, what string, so func(v1alpha1.NodePoolStatus) bool) {
	t.Helper()
	AwaitObject(t, r, Pool(name), what, func(p *v1alpha1.NodePool) bool { return so(p.Status) })
}

// AwaitStandby waits until so many nodes of the pool are standby.
func AwaitStandby(t *testing.T, r *framework.Rig, pool string, n int32) {
	t.Helper()
	AwaitPool(t, r, pool, fmt.Sprintf("%d standby", n), func(s v1alpha1.NodePoolStatus) bool { return s.Standby == n })
}

// AwaitAllStandby waits until the pool has so many nodes and all of them are standby.
func AwaitAllStandby(t *testing.T, r *framework.Rig, pool string, n int32) {
	t.Helper()
	AwaitPool(t, r, pool, fmt.Sprintf("%d nodes, all standby", n),
		func(s v1alpha1.NodePoolStatus) bool { return s.Standby == n && s.Total == n })
}

// AwaitCondition waits until the pool's condition has the status, and one of the reasons where
// there are any, and returns it.
func AwaitCondition(t *testing.T, r *framework.Rig, pool, kind string, status metav1.ConditionStatus,
	reasons ...v1alpha1.Reason) metav1.Condition {
	t.Helper()
	p := AwaitObject(t, r, Pool(pool), fmt.Sprintf("%s=%s %v", kind, status, reasons), func(p *v1alpha1.NodePool) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		return c != nil && c.Status == status && (len(reasons) == 0 || slices.Contains(reasons, v1alpha1.Reason(c.Reason)))
	})
	return *meta.FindStatusCondition(p.Status.Conditions, kind)
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
		AwaitObject(t, r, pod, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	}
}

// Serve creates the pod, waits until a kubelet calls it running, and returns its node.
func Serve(t *testing.T, r *framework.Rig, pod *corev1.Pod) string {
	t.Helper()
	Create(t, r, pod)
	AwaitRunning(t, r, pod)
	return Now(t, r, pod).Spec.NodeName
}

// AwaitPending waits until the pod's scheduler has said with the reason why the pod has no node, in
// a message with all of the words.
func AwaitPending(t *testing.T, r *framework.Rig, pod *corev1.Pod, reason string, words ...string) {
	t.Helper()
	AwaitObject(t, r, pod, fmt.Sprintf("%s %q", reason, words), func(p *corev1.Pod) bool {
		message, found := strings.CutPrefix(framework.WhyPending(p), reason+": ")
		return found && containsAll(message, words)
	})
}

func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// AwaitEvent waits for an event about the object whose message has all of the words, and returns
// the message.
func AwaitEvent(t *testing.T, r *framework.Rig, of client.Object, reason v1alpha1.Reason, words ...string) string {
	t.Helper()
	return AwaitEventBy(t, r, "", of, reason, words...)
}

// AwaitEventBy is AwaitEvent for the events of one component.
func AwaitEventBy(t *testing.T, r *framework.Rig, by string, of client.Object, reason v1alpha1.Reason,
	words ...string) string {
	t.Helper()
	message := ""
	Await(t, fmt.Sprintf("event %s %q about %s", reason, words, nameOf(of)), func(ctx context.Context) (bool, error) {
		events, err := EventsAbout(ctx, r, by, of)
		for _, message = range events[reason] {
			if containsAll(message, words) {
				return true, nil
			}
		}
		return false, errors.Join(err, fmt.Errorf("events so far: %v", events))
	})
	return message
}

// EventsAbout are the messages of the events about the object, by reason; with by, those of that
// component alone.
func EventsAbout(ctx context.Context, r *framework.Rig, by string,
	of client.Object) (map[v1alpha1.Reason][]string, error) {
	list := &corev1.EventList{}
	err := r.Client.List(ctx, list)
	messages := map[v1alpha1.Reason][]string{}
	for i := range list.Items {
		e := &list.Items[i]
		if e.InvolvedObject.UID == of.GetUID() && (by == "" || e.Source.Component == by || e.ReportingController == by) {
			messages[v1alpha1.Reason(e.Reason)] = append(messages[v1alpha1.Reason(e.Reason)], e.Message)
		}
	}
	return messages, err
}

// MustHaveNoEvent fails the test if there is an event with the reason about the object.
func MustHaveNoEvent(t *testing.T, r *framework.Rig, of client.Object, reason v1alpha1.Reason) {
	t.Helper()
	events, err := EventsAbout(t.Context(), r, "", of)
	if err != nil || len(events[reason]) > 0 {
		t.Errorf("events %s about %s: %q, %v", reason, nameOf(of), events[reason], err)
	}
}

// AwaitAsked waits until the scheduler has called the verb about the pod, and returns its calls so
// far.
func AwaitAsked(t *testing.T, recorder *framework.Recorder, verb string, pod *corev1.Pod) []framework.Asked {
	t.Helper()
	return Eventually(t, verb+" about pod "+pod.Name,
		func(context.Context) ([]framework.Asked, error) { return recorder.About(verb, pod.UID), nil },
		func(asked []framework.Asked) bool { return len(asked) > 0 })
}

// AwaitClaims waits until an answer to the scheduler has named a starting node for each of the
// pods.
func AwaitClaims(t *testing.T, r *framework.Rig, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		Eventually(t, "a starting node for pod "+p.Name,
			func(context.Context) ([]string, error) { return r.Recorder.Starting(p.UID), nil },
			func(nodes []string) bool { return len(nodes) > 0 })
	}
}

// ClaimedNode is the one node of the pool that the answer to /filter names as starting. It refuses
// every candidate so that no eviction helps, and the message at the node itself names it.
func ClaimedNode(t *testing.T, a *framework.Asked, pool string) string {
	t.Helper()
	if a.Code != 200 || a.Filter.Error != "" || a.Filter.NodeNames == nil || len(*a.Filter.NodeNames) != 0 ||
		len(a.Filter.FailedNodes) != 0 {
		t.Fatalf("answer about pod %s: %d %+v, want no node and no node that eviction would free", a.Pod.Name, a.Code,
			a.Filter)
	}
	refused := maps.Clone(a.Filter.FailedAndUnresolvableNodes)
	maps.DeleteFunc(refused, func(node, message string) bool {
		return !strings.HasPrefix(message, "starting standby node "+node+" of pool "+pool)
	})
	for node := range refused {
		if len(refused) == 1 {
			return node
		}
	}
	t.Fatalf("answer about pod %s names %v as starting: %+v", a.Pod.Name, refused, a.Filter.FailedAndUnresolvableNodes)
	return ""
}

// AwaitMetric waits until the sum of the metric's series whose labels contain the text is as it
// should be.
func AwaitMetric(t *testing.T, url, name, labels string, so func(float64) bool) {
	t.Helper()
	Eventually(t, "metric "+name+" of "+labels, func(ctx context.Context) (float64, error) {
		return framework.Metric(ctx, url, name, labels)
	}, so)
}

// AwaitEnd waits until the process has ended.
func AwaitEnd(t *testing.T, p *controlplane.Process) {
	t.Helper()
	Eventually(t, "end of "+p.Name(), func(context.Context) (int, error) { return p.PID(), nil },
		func(pid int) bool { return pid == 0 })
}

// MustRun fails the test unless the pods, which ran before, still do and are not being deleted.
func MustRun(t *testing.T, r *framework.Rig, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		p, err := framework.Read(t.Context(), r, pod)
		if err != nil || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s should run on: %s, %v", pod.Name, seen(p), err)
		}
	}
}

// MustLive fails the test unless the pod is on the node, as the object that it was, and not being
// deleted.
func MustLive(t *testing.T, r *framework.Rig, pod *corev1.Pod, on string) {
	t.Helper()
	p, err := framework.Read(t.Context(), r, pod)
	if err != nil || p.DeletionTimestamp != nil || p.Spec.NodeName != on || p.Status.Phase == corev1.PodFailed {
		t.Errorf("pod %s should be left alone on %s: %s, %v", pod.Name, on, seen(p), err)
	}
}

// AwaitPods waits until there are so many pods with the labels, and returns them.
func AwaitPods(t *testing.T, r *framework.Rig, labels map[string]string, n int) []corev1.Pod {
	t.Helper()
	what := fmt.Sprintf("%d pods with labels %v", n, labels)
	return Eventually(t, what, func(ctx context.Context) ([]corev1.Pod, error) {
		list := &corev1.PodList{}
		err := r.Client.List(ctx, list, client.MatchingLabels(labels))
		return list.Items, err
	}, func(pods []corev1.Pod) bool { return len(pods) == n })
}
