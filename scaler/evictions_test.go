package scaler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// refusals are what an API server answers to evictions, by the name of the pod.
func refusals() map[string]error {
	return map[string]error{
		"one-budget":  apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0),
		"two-budgets": apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget")),
		"webhook": apierrors.NewForbidden(corev1.Resource("pods"), "webhook",
			errors.New(`admission webhook "keep" denied the request`)),
		"successor":   apierrors.NewConflict(corev1.Resource("pods"), "successor", errors.New("uid does not match")),
		"unreachable": errors.New("connection refused"),
	}
}

// TestOneEvictionKeepsNoOtherPod: every pod is asked to go, and the Node says of each why it stays.
func TestOneEvictionKeepsNoOtherPod(t *testing.T) {
	for name, err := range refusals() {
		t.Run(name, func(t *testing.T) {
			node := nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, string(v1alpha1.StopRuntime)),
				markedAt(v1alpha1.AnnotationStoppingSince, epoch()))
			r := newRig(t, node, boundPod("a"), boundPod(name), boundPod("z"), nodePool(5, 0))
			asked := map[string]types.UID{}
			r.answering = func(pod string, e *policyv1.Eviction) error {
				if e.DeleteOptions != nil && e.DeleteOptions.Preconditions != nil && e.DeleteOptions.Preconditions.UID != nil {
					asked[pod] = *e.DeleteOptions.Preconditions.UID
				}
				if pod == name {
					return err
				}
				return nil
			}
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "terminating")))
			_, failed := r.nodes.Reconcile(t.Context(), "i-c")
			r.want("eviction a", "eviction "+name, "eviction z")
			for _, pod := range []string{"a", name, "z"} {
				if asked[pod] != types.UID(pod) {
					t.Errorf("the eviction of %s is bound to UID %q", pod, asked[pod])
				}
			}
			said := slices.ContainsFunc(r.said(), func(s string) bool {
				return strings.Contains(s, "DrainFailed pod default/"+name) && strings.Contains(s, err.Error())
			})
			words := name != "successor" && name != "unreachable"
			if said != words || (failed != nil) != (name == "unreachable") {
				t.Errorf("event %t, want %t; error %v", said, words, failed)
			}
		})
	}
}

func hourly(p *v1alpha1.NodePool) {
	limit := intstr.FromString("1h")
	p.Spec.MaxNodeRuntime = &limit
}

// TestADrainThatFailedBacksOff: twice as long after each failure, a day at most, and only while
// pods are on the node.
func TestADrainThatFailedBacksOff(t *testing.T) {
	for name, c := range map[string]struct {
		failures string
		ago      time.Duration
		empty    bool
		taken    bool
	}{
		"the first, a moment ago":      {failures: "1", ago: time.Minute},
		"the first, a drain ago":       {failures: "1", ago: 5 * time.Minute, taken: true},
		"of an earlier version":        {ago: 5 * time.Minute, taken: true},
		"the fourth, half an hour ago": {failures: "4", ago: 30 * time.Minute},
		"the fourth, 40 minutes ago":   {failures: "4", ago: 40 * time.Minute, taken: true},
		"the hundredth, 23 hours ago":  {failures: "100", ago: 23 * time.Hour},
		"the hundredth, a day ago":     {failures: "100", ago: 24 * time.Hour, taken: true},
		"the fourth, its pods left":    {failures: "4", ago: time.Minute, empty: true, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeIn(v1alpha1.StateRunning, markedAt(v1alpha1.AnnotationRunningSince, epoch().Add(-48*time.Hour)),
				markedAt(v1alpha1.AnnotationDrainFailedAt, epoch().Add(-c.ago)))
			if c.failures != "" {
				node.Annotations[v1alpha1.AnnotationDrainFailures] = c.failures
			}
			r := newRig(t, nodePool(5, 0, hourly), node)
			if !c.empty {
				r = newRig(t, nodePool(5, 0, hourly), node, boundPod("a"))
			}
			r.sweep(instance(provider.InstanceRunning))
			r.reconcilePool()
			if got := r.turn() == v1alpha1.StopRuntime; got != c.taken {
				t.Errorf("taken: %t, want %t", got, c.taken)
			}
		})
	}
}

// TestADrainThatFailedAsksFirst: by dry-run evictions, before the node is closed, and a refusal
// counts like a failed drain.
func TestADrainThatFailedAsksFirst(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		failed bool
		want   []string
		count  string
	}{
		"no drain failed before": {want: []string{"patch c terminating"}},
		"evictions are allowed": {failed: true, want: []string{"dry-run eviction a", "dry-run eviction b",
			"patch c terminating"}, count: "2"},
		"one is refused": {
			failed: true, answer: refusals()["two-budgets"], count: "3",
			want: []string{"dry-run eviction a", "dry-run eviction b", "patch c running"},
		},
		"the API server does not answer": {
			failed: true, answer: refusals()["unreachable"], count: "2", want: []string{"dry-run eviction a",
				"dry-run eviction b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeIn(v1alpha1.StateRunning, markedAt(v1alpha1.AnnotationRunningSince, epoch().Add(-48*time.Hour)))
			if c.failed {
				markedAt(v1alpha1.AnnotationDrainFailedAt, epoch().Add(-time.Hour))(node)
				annotated(v1alpha1.AnnotationDrainFailures, "2")(node)
			}
			r := newRig(t, nodePool(5, 0, hourly), node, boundPod("a"), boundPod("b"))
			r.answering = func(pod string, _ *policyv1.Eviction) error {
				return map[string]error{"a": c.answer}[pod]
			}
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "running")))
			r.reconcilePool()
			r.log = nil
			for range 2 { // the second look finds what the first has written
				if _, err := r.nodes.Reconcile(t.Context(), "i-c"); err != nil && !errors.Is(err, c.answer) {
					t.Fatal(err)
				}
				if name == "the API server does not answer" || len(c.want) == 1 || c.answer == nil {
					break
				}
			}
			r.want(c.want...)
			n := r.node("c")
			if got := n.Annotations[v1alpha1.AnnotationDrainFailures]; got != c.count {
				t.Errorf("%q drains failed, want %q", got, c.count)
			}
			if said := strings.Join(r.said(), "\n"); strings.Contains(said,
				"more than one PodDisruptionBudget") != (c.count == "3") {
				t.Errorf("events %q", said)
			}
		})
	}
}

// TestAFailedDrainIsCounted: in the patch that opens the node again.
func TestAFailedDrainIsCounted(t *testing.T) {
	node := nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, string(v1alpha1.StopRuntime)),
		markedAt(v1alpha1.AnnotationStoppingSince, epoch().Add(-5*time.Minute)),
		annotated(v1alpha1.AnnotationDrainFailures, "2"))
	r := newRig(t, node, boundPod("busy"), nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "terminating")))
	r.reconcile()
	r.want("patch c running")
	n := r.node("c")
	if got := n.Annotations[v1alpha1.AnnotationDrainFailures]; got != "3" ||
		n.Annotations[v1alpha1.AnnotationDrainFailedAt] == "" {
		t.Errorf("%q drains failed, the last at %q", got, n.Annotations[v1alpha1.AnnotationDrainFailedAt])
	}
}

// TestWhatIsNotToBeDisrupted: the annotations of Karpenter and of Cluster Autoscaler protect from
// replacement as ours do.
func TestWhatIsNotToBeDisrupted(t *testing.T) {
	for name, c := range map[string]struct {
		key, value string
		kept       bool
	}{
		"ours":                                {v1alpha1.AnnotationDoNotDisrupt, "true", true},
		"Karpenter's":                         {"karpenter.sh/do-not-disrupt", "true", true},
		"Karpenter's, not true":               {"karpenter.sh/do-not-disrupt", "false", false},
		"Cluster Autoscaler's":                {"cluster-autoscaler.kubernetes.io/safe-to-evict", "false", true},
		"Cluster Autoscaler's, safe to evict": {"cluster-autoscaler.kubernetes.io/safe-to-evict", "true", false},
	} {
		for _, on := range []string{"pod", "node"} {
			t.Run(name+" on the "+on, func(t *testing.T) {
				node, pod := nodeIn(v1alpha1.StateRunning, markedAt(v1alpha1.AnnotationRunningSince, epoch().Add(-2*time.Hour))),
					boundPod("a")
				if on == "pod" {
					pod.Annotations = map[string]string{c.key: c.value}
				} else {
					node.Annotations[c.key] = c.value
				}
				r := newRig(t, nodePool(5, 0, hourly), node, pod)
				r.sweep(instance(provider.InstanceRunning))
				r.reconcilePool()
				if kept := r.turn() == ""; kept != c.kept {
					t.Errorf("kept: %t, want %t", kept, c.kept)
				}
			})
		}
	}
}
