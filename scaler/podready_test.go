package scaler

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// agent is a DaemonSet's pod on node "c" whose kubelet calls it ready.
func agent(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	return boundPod(name, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agents", UID: "agents",
			Controller: &yes}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}
	}}, change...)...)
}

func unready(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }

func elsewhere(p *corev1.Pod) { p.Spec.NodeName = "d" }

// readyPods are the pods that are ready, by name.
func (r *rig) readyPods() map[string]bool {
	r.t.Helper()
	list := &corev1.PodList{}
	if err := r.api.List(r.t.Context(), list); err != nil {
		r.t.Fatal(err)
	}
	ready := map[string]bool{}
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready[list.Items[i].Name] = true
			}
		}
	}
	return ready
}

// TestPodsOfAStoppedNodeAreNotReady: at each stop that the cloud accepted, and again when the
// instance is stopped, because the kubelet goes on reporting while its machine goes down.
func TestPodsOfAStoppedNodeAreNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		node     *corev1.Node
		instance provider.InstanceState
		stopping error
		want     map[string]bool
		writes   int
	}{
		"an empty node is stopped": {node: drained(), instance: provider.InstanceRunning,
			want: map[string]bool{"elsewhere": true}, writes: 2},
		"the cloud refuses the stop": {
			node: drained(), instance: provider.InstanceRunning, stopping: &provider.RateLimitError{},
			want: map[string]bool{"a": true, "b": true, "elsewhere": true},
		},
		"a warm node is stopped": {
			node:     warming(seenUp, markedAt(v1alpha1.AnnotationWarmedAt, epoch().Add(-1))),
			instance: provider.InstanceRunning, want: map[string]bool{"elsewhere": true}, writes: 2,
		},
		"the instance is stopped": {
			node: drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-1))), instance: provider.InstanceStopped,
			want: map[string]bool{"elsewhere": true}, writes: 2,
		},
		"a standby node does not say so yet": {node: nodeIn(v1alpha1.StateStandby), instance: provider.InstanceStopped,
			want: map[string]bool{"elsewhere": true}, writes: 2},
		"somebody else started a standby node": {
			node: nodeIn(v1alpha1.StateStandby), instance: provider.InstancePending,
			want: map[string]bool{"a": true, "b": true, "elsewhere": true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.node, nodePool(5, 0,
				func(p *v1alpha1.NodePool) { p.Spec.PreWarm.CompletionMode = v1alpha1.ControllerStop }),
				agent("a"), agent("b"), agent("not-ready", unready), agent("elsewhere", elsewhere))
			r.stopping = c.stopping
			writes := 0
			r.statusingPod = func(*corev1.Pod) error { writes++; return nil }
			r.sweep(instance(c.instance, minuteOld))
			r.reconcile()
			if diff := cmp.Diff(c.want, r.readyPods()); diff != "" {
				t.Errorf("pods that are ready (-want +got):\n%s", diff)
			}
			if writes != c.writes {
				t.Errorf("%d pods were written, want %d", writes, c.writes)
			}
		})
	}
}

// TestOnePodThatCannotBeWrittenKeepsNoOther: and it is tried again, so the Node does not say
// Standby before.
func TestOnePodThatCannotBeWrittenKeepsNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		fail bool
	}{
		"a webhook refuses": {apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("denied")), true},
		"it is gone":        {apierrors.NewNotFound(corev1.Resource("pods"), "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-1))), nodePool(5, 0), agent("a"),
				agent("b"))
			r.statusingPod = func(p *corev1.Pod) error {
				if p.Name == "a" {
					return c.err
				}
				return nil
			}
			r.sweep(instance(provider.InstanceStopped))
			if _, err := r.nodes.Reconcile(t.Context(), "i-c"); c.fail != (err != nil) {
				t.Errorf("error %v, want one: %t", err, c.fail)
			}
			n := r.node("c")
			if ready := transition.Condition(n, corev1.NodeReady); ready.Status != corev1.ConditionUnknown {
				t.Errorf("the Node's Ready is %s, want Unknown", ready.Status)
			}
			if said := transition.Condition(n, v1alpha1.ConditionStandby); c.fail == (said != nil) {
				t.Errorf("condition %+v", said)
			}
			if got := r.readyPods(); got["b"] {
				t.Error("pod b is ready: one error kept the other pod")
			}
			r.statusingPod = nil
			r.reconcile()
			said := transition.Condition(r.node("c"), v1alpha1.ConditionStandby)
			if said == nil || said.Status != corev1.ConditionTrue || r.readyPods()["a"] != !c.fail {
				t.Errorf("at the next look: condition %+v, ready %v", said, r.readyPods())
			}
		})
	}
}

// TestAKubeletsNewerReportStands: a node that starts again may report between our look at its pods
// and our write.
func TestAKubeletsNewerReportStands(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStandby), nodePool(5, 0), agent("a"))
	r.statusingPod = func(*corev1.Pod) error {
		p := &corev1.Pod{}
		if err := r.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, p); err != nil {
			return err
		}
		p.Labels = map[string]string{"reported": "again"}
		return r.api.Update(context.WithoutCancel(t.Context()), p)
	}
	r.sweep(instance(provider.InstanceStopped))
	r.reconcile()
	if !r.readyPods()["a"] {
		t.Error("the newer report was overwritten")
	}
	if said := transition.Condition(r.node("c"), v1alpha1.ConditionStandby); said != nil {
		t.Errorf("condition %+v, want none before the pod was looked at again", said)
	}
}
