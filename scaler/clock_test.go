package scaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Our clock was set back by hours, or theirs is ahead: marks are in the future. Each of these tests
// ends by what may have been written.

func TestAConditionOfTheFutureIsWaitedForTwoSeconds(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"by a second": time.Second, "by hours": 5 * time.Hour} {
		for again, back := range map[string]time.Duration{"": 0, ", and our clock is set back meanwhile": time.Hour} {
			t.Run(name+again, func(t *testing.T) {
				pod := unschedulable(needing("1"), func(p *corev1.Pod) {
					p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch().Add(ahead))
				})
				r := newRig(t, pod, nodePool(2, 0))
				c := r.looksAfter()
				look := func() time.Duration {
					result, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
					if err != nil {
						t.Fatal(err)
					}
					return result.RequeueAfter
				}
				if in := look(); in != explainAfter {
					t.Errorf("looks again in %s, want %s", in, explainAfter)
				}
				r.now = r.now.Add(time.Second)
				if in := look(); in != time.Second {
					t.Errorf("a second later: looks again in %s, want a second", in)
				}
				if back > 0 {
					r.now = r.now.Add(-back)
					if in := look(); in != explainAfter {
						t.Errorf("after the step: looks again in %s, want %s", in, explainAfter)
					}
					r.now = r.now.Add(time.Second)
				}
				if said := r.said(); len(said) != 0 {
					t.Errorf("said %q before the time", said)
				}
				r.now = r.now.Add(time.Second)
				look()
				if said := r.said(); len(said) != 1 {
					t.Errorf("said %q, want one event", said)
				}
			})
		}
	}
}

func TestABackoffOfTheFutureEnds(t *testing.T) {
	for name, c := range map[string]struct {
		state v1alpha1.NodeState
		ahead time.Duration
		want  time.Duration // the mark afterwards, from now
	}{
		"the longest that is written": {v1alpha1.StateStandby, 30 * time.Minute, 30 * time.Minute},
		"a second more":               {v1alpha1.StateStandby, 30*time.Minute + time.Second, 30 * time.Minute},
		"hours":                       {v1alpha1.StateStandby, 5 * time.Hour, 30 * time.Minute},
		"one that is over":            {v1alpha1.StateStandby, -time.Hour, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), nodeIn(c.state, markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(c.ahead))))
			r.sweep(instance(provider.InstanceStopped, withTag(v1alpha1.LabelState, string(c.state))))
			r.reconcile()
			r.reconcile()
			if got := v1alpha1.TimeAnnotation(r.node("c"), v1alpha1.AnnotationUnavailableUntil).Sub(epoch()); got != c.want {
				t.Errorf("the back-off ends in %s, want %s", got, c.want)
			}
		})
	}
}

func TestANodeEmptySinceTheFutureStops(t *testing.T) {
	r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateRunning, markedAt(v1alpha1.AnnotationScaleDownCandidateSince,
		epoch().Add(5*time.Hour))))
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "running")))
	r.reconcile()
	if got := v1alpha1.TimeAnnotation(r.node("c"), v1alpha1.AnnotationScaleDownCandidateSince); !got.Equal(epoch()) {
		t.Errorf("empty since %s, want now", got)
	}
	ttl := nodePool(5, 0).Spec.ScaleDown.EmptyNodeTTLOrDefault()
	r.now = r.now.Add(ttl)
	r.reconcile()
	if got := r.node("c").Labels[v1alpha1.LabelState]; got != string(v1alpha1.StateStopping) {
		t.Errorf("after emptyNodeTTL the node is %s", got)
	}
}

// TestARecreatedPodPassesAnew: the successor of a pod is another wait.
func TestARecreatedPodPassesAnew(t *testing.T) {
	first := unschedulable(needing("1"), foreign)
	r := newRig(t, first, nodePool(5, 0), nodeIn(v1alpha1.StateRunning))
	c := r.looksAfter()
	look := func() time.Duration {
		result, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(first)})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if in := look(); in != explainAfter {
		t.Fatalf("a pod that a running node takes: looks again in %s", in)
	}
	second := unschedulable(needing("1"), foreign, func(p *corev1.Pod) { p.UID = "second" })
	if err := r.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := r.api.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if in := look(); in != explainAfter {
		t.Errorf("its successor: looks again in %s, want %s", in, explainAfter)
	}
}

// foreign gives the pod to a scheduler without the extender.
func foreign(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
