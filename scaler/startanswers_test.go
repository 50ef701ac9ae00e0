package scaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// startsFor has the node start while a sweep every 15 s shows its instance in the given state.
func (r *rig) startsFor(t *testing.T, d time.Duration, state provider.InstanceState,
	change ...func(*provider.Instance)) {
	t.Helper()
	for end := r.now.Add(d); r.now.Before(end); r.now = r.now.Add(15 * time.Second) {
		r.sweep(instance(state, change...))
		r.reconcile()
		if r.starts.Len() > 0 {
			r.nodes.Starter.StepCall(t.Context())
		}
	}
}

// TestAStartThatTheCloudNeverAccepted: throttled, unauthorised or failing within the cloud. The
// node is standby again without a strike, nothing is stopped or terminated, and the pool shows the
// cloud's words.
func TestAStartThatTheCloudNeverAccepted(t *testing.T) {
	for name, refusal := range map[string]error{
		"throttled":      &provider.RateLimitError{Operation: "StartInstances", Err: errors.New("RequestLimitExceeded")},
		"unauthorised":   errors.New("UnauthorizedOperation: you are not authorized"),
		"internal error": errors.New("InternalError: an internal error has occurred"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStarting, unreported,
				markedAt(v1alpha1.AnnotationScaleUpStarted, epoch()), annotated(v1alpha1.AnnotationStartFailures, "2")))
			r.starting = refusal
			r.startsFor(t, 6*time.Minute, provider.InstanceStopped)

			n := r.node("c")
			if got := n.Labels[v1alpha1.LabelState]; got != string(v1alpha1.StateStandby) {
				t.Errorf("state %s, want standby", got)
			}
			if transition.Failures(n) != 2 || n.Annotations[v1alpha1.AnnotationUnavailableUntil] == "" {
				t.Errorf("failures %d, unavailable until %q; want 2, and a back-off", transition.Failures(n),
					n.Annotations[v1alpha1.AnnotationUnavailableUntil])
			}
			for _, done := range r.log {
				if strings.HasPrefix(done, "stop ") || strings.HasPrefix(done, "terminate ") {
					t.Errorf("%s", done)
				}
			}
			r.sweep(instance(provider.InstanceStopped))
			r.reconcilePool()
			degraded := meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionDegraded)
			if degraded.Reason != string(v1alpha1.ReasonStartFailed) || !strings.Contains(degraded.Message, refusal.Error()) {
				t.Errorf("Degraded %s: %s; want the cloud's words", degraded.Reason, degraded.Message)
			}
		})
	}
}

// TestAnAcceptedStartThatFallsBack: a grant is missing, and each start ends stopped. The event says
// why, and the node is replaced after the third, unless starts of other nodes fail as well.
func TestAnAcceptedStartThatFallsBack(t *testing.T) {
	words := "Client.InternalError: no kms:CreateGrant"
	fell := func(i *provider.Instance) { i.StateReason = words }
	other := nodeIn(v1alpha1.StateStandby, annotated(v1alpha1.AnnotationStartFailures, "1"),
		markedAt(v1alpha1.AnnotationUnavailableUntil, epoch().Add(time.Minute)), func(n *corev1.Node) {
			n.Name, n.Spec.ProviderID = "d", "fake:///zone-a/i-d"
		})
	for name, c := range map[string]struct {
		// failures are the starts that failed before.
		failures string
		others   []*corev1.Node
		want     v1alpha1.NodeState
	}{
		"the first time":                        {"0", nil, v1alpha1.StateStandby},
		"the third time":                        {"2", nil, v1alpha1.StateTerminating},
		"the third time, and others fail too":   {"2", []*corev1.Node{other}, v1alpha1.StateStandby},
		"the fourth time, and others fail too":  {"3", []*corev1.Node{other}, v1alpha1.StateStandby},
		"the fourth time, and no other has yet": {"3", nil, v1alpha1.StateTerminating},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStarting, unreported,
				markedAt(v1alpha1.AnnotationScaleUpStarted, epoch()), annotated(v1alpha1.AnnotationStartFailures, c.failures)))
			for _, n := range c.others {
				if err := r.api.Create(t.Context(), n.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			r.startsFor(t, 5*time.Minute+20*time.Second, provider.InstanceStopped, fell)
			if got := v1alpha1.NodeState(r.node("c").Labels[v1alpha1.LabelState]); got != c.want {
				t.Errorf("state %s, want %s", got, c.want)
			}
			if said := strings.Join(r.said(), "\n"); !strings.Contains(said, words) {
				t.Errorf("events %s; want the cloud's reason", said)
			}
		})
	}
}

// unreported: the kubelet has said nothing since the Node's last stop.
func unreported(n *corev1.Node) { n.Status.Conditions = nil }
