package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/transition"
)

func TestObserveReady(t *testing.T) {
	for name, c := range map[string]struct {
		record      string
		status      corev1.ConditionStatus
		ready, ever bool
		reason      string
	}{
		"reported since the stop":      {`{"Ready":"2026-03-01T11:59:59Z"}`, corev1.ConditionTrue, true, true, ""},
		"left over from before":        {`{"Ready":"2026-03-01T12:00:00Z"}`, corev1.ConditionTrue, false, true, ""},
		"never stopped":                {"", corev1.ConditionTrue, true, true, ""},
		"reported, and not ready":      {"", corev1.ConditionFalse, false, false, ""},
		"nobody has heard of it yet":   {"", corev1.ConditionUnknown, false, false, "NodeStatusNeverUpdated"},
		"silent after it had reported": {"", corev1.ConditionUnknown, false, true, "NodeStatusUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			n := scalertest.NodeIn(v1alpha1.StateStarting, scalertest.Annotated(v1alpha1.AnnotationHeartbeatAtStop, c.record))
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = c.status, c.reason
			o := Observe(n, transition.Template{})
			if o.Ready != c.ready || o.EverReady != c.ever {
				t.Errorf("ready %v, ever %v; want %v, %v", o.Ready, o.EverReady, c.ready, c.ever)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	yes, at := false, metav1.NewTime(scalertest.Epoch())
	for name, c := range map[string]struct {
		pool *v1alpha1.NodePool
		want lifecycle.Policy
	}{
		"gone": {nil, lifecycle.Policy{}},
		"all defaults": {scalertest.NodePool(5, 1), lifecycle.Policy{
			Exists: true, SelfStop: true, WarmupTimeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute, ScaleDown: true,
			EmptyTTL: 5 * time.Minute, DrainTimeout: 5 * time.Minute,
		}},
		"all set": {scalertest.NodePool(5, 1, func(p *v1alpha1.NodePool) {
			p.DeletionTimestamp = &at
			p.Spec.PreWarm.CompletionMode, p.Spec.PreWarm.TimeoutAction = v1alpha1.ControllerStop, v1alpha1.TimeoutTerminate
			p.Spec.PreWarm.Timeout = &v1alpha1.Duration{Duration: time.Minute}
			p.Spec.ScaleUp.ReadyTimeout = &v1alpha1.Duration{Duration: 2 * time.Minute}
			p.Spec.ScaleDown.Enabled = &yes
			p.Spec.ScaleDown.EmptyNodeTTL = &v1alpha1.Duration{}
			p.Spec.ScaleDown.DrainTimeout = &v1alpha1.Duration{Duration: 3 * time.Minute}
		}), lifecycle.Policy{
			Exists: true, Deleting: true, TerminateOnTimeout: true, WarmupTimeout: time.Minute, ReadyTimeout: 2 * time.Minute,
			DrainTimeout: 3 * time.Minute,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, policyOf(c.pool)); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeMarkThatCannotBeReadIsNone(t *testing.T) {
	n := scalertest.NodeIn(v1alpha1.StateRunning, scalertest.Annotated("a", "yesterday"),
		scalertest.MarkedAt("b", scalertest.Epoch()))
	if got := v1alpha1.TimeAnnotation(n, "a"); !got.IsZero() {
		t.Errorf("%v, want none", got)
	}
	if got := v1alpha1.TimeAnnotation(n, "b"); !got.Equal(scalertest.Epoch()) {
		t.Errorf("%v, want %v", got, scalertest.Epoch())
	}
}
