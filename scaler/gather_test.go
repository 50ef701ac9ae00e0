package scaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/transition"
)

func reporting(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string, at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: metav1.NewTime(at)})
	}
}

func TestNetworkReady(t *testing.T) {
	fresh := epoch().Add(time.Second)
	unavailable, networking := corev1.NodeNetworkUnavailable, corev1.NodeConditionType("NetworkingReady")
	for name, c := range map[string]struct {
		condition func(*corev1.Node)
		want      bool
	}{
		"Cilium is up":                     {reporting(unavailable, corev1.ConditionFalse, "CiliumIsUp", fresh), true},
		"Calico is up":                     {reporting(unavailable, corev1.ConditionFalse, "CalicoIsUp", fresh), true},
		"the EKS agent is up":              {reporting(networking, corev1.ConditionTrue, "", fresh), true},
		"Cilium was up before the stop":    {reporting(unavailable, corev1.ConditionFalse, "CiliumIsUp", epoch()), false},
		"the agent was up before the stop": {reporting(networking, corev1.ConditionTrue, "", epoch()), false},
		"the agent is not up":              {reporting(networking, corev1.ConditionFalse, "", fresh), false},
		"a route controller's word":        {reporting(unavailable, corev1.ConditionFalse, "RouteCreated", fresh), false},
		"Cilium is down":                   {reporting(unavailable, corev1.ConditionTrue, "CiliumIsUp", fresh), false},
		"nobody reports":                   {func(*corev1.Node) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationHeartbeatAtStop,
				`{"NetworkUnavailable":"2026-03-01T12:00:00Z","NetworkingReady":"2026-03-01T12:00:00Z"}`), c.condition)
			if got := networkReady(n); got != c.want {
				t.Errorf("ready %v, want %v", got, c.want)
			}
		})
	}
}

func TestObserveNetwork(t *testing.T) {
	startup := transition.Template{StartupTaints: []corev1.Taint{{Key: "cni"}}, RemoveStartupTaints: true}
	external := startup
	external.RemoveStartupTaints = false
	for name, c := range map[string]struct {
		template transition.Template
		node     *corev1.Node
		want     bool
	}{
		"no startup taints":                        {transition.Template{RemoveStartupTaints: true}, nodeIn(v1alpha1.StateStarting), true},
		"startup taints that others have removed":  {external, nodeIn(v1alpha1.StateStarting), true},
		"startup taints that others will remove":   {external, nodeIn(v1alpha1.StateStarting, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "cni"}) }), false},
		"a warm-up does not wait for others":       {external, nodeIn(v1alpha1.StateWarmup, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "cni"}) }), true},
		"nobody reports yet":                       {startup, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-2*time.Minute))), false},
		"nobody has reported for two minutes":      {startup, nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-2*time.Minute-time.Second))), true},
		"a node that warms up, unknown agent":      {startup, nodeIn(v1alpha1.StateWarmup), true},
		"a node that has begun to warm up":         {startup, nodeIn(v1alpha1.StateWarmup, func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(epoch()) }), false},
		"a node that somebody else started, never": {startup, nodeIn(v1alpha1.StateStandby), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := observe(c.node, c.template, epoch()).NetworkReady; got != c.want {
				t.Errorf("network ready %v, want %v", got, c.want)
			}
		})
	}
}

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
			n := nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationHeartbeatAtStop, c.record))
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = c.status, c.reason
			o := observe(n, transition.Template{}, epoch())
			if o.Ready != c.ready || o.EverReady != c.ever {
				t.Errorf("ready %v, ever %v; want %v, %v", o.Ready, o.EverReady, c.ready, c.ever)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		now    map[corev1.ResourceName]string
		want   bool
	}{
		"no record":                            {"", map[corev1.ResourceName]string{"cpu": "4"}, true},
		"all there":                            {`{"cpu":"4","example.com/gpu":"2"}`, map[corev1.ResourceName]string{"cpu": "4", "example.com/gpu": "2"}, true},
		"the device plugin has not registered": {`{"example.com/gpu":"2"}`, nil, false},
		"it has registered nothing yet":        {`{"example.com/gpu":"2"}`, map[corev1.ResourceName]string{"example.com/gpu": "0"}, false},
		"one device of two":                    {`{"example.com/gpu":"2"}`, map[corev1.ResourceName]string{"example.com/gpu": "1"}, false},
		"more than before":                     {`{"example.com/gpu":"2"}`, map[corev1.ResourceName]string{"example.com/gpu": "3"}, true},
		"a little less cpu and memory":         {`{"cpu":"4","memory":"16Gi"}`, map[corev1.ResourceName]string{"cpu": "3900m", "memory": "15Gi"}, true},
		"a record that somebody else garbled":  {`{`, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationAllocatableAtStop, c.record))
			n.Status.Allocatable = corev1.ResourceList{}
			for k, v := range c.now {
				n.Status.Allocatable[k] = resource.MustParse(v)
			}
			if got := complete(n); got != c.want {
				t.Errorf("complete %v, want %v", got, c.want)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	yes, at := false, metav1.NewTime(epoch())
	for name, c := range map[string]struct {
		pool *v1alpha1.NodePool
		want lifecycle.Policy
	}{
		"gone": {nil, lifecycle.Policy{}},
		"all defaults": {nodePool(5, 1), lifecycle.Policy{
			Exists: true, SelfStop: true, WarmupTimeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute, ScaleDown: true, EmptyTTL: 5 * time.Minute, DrainTimeout: 5 * time.Minute,
		}},
		"all set": {nodePool(5, 1, func(p *v1alpha1.NodePool) {
			p.DeletionTimestamp = &at
			p.Spec.PreWarm.CompletionMode, p.Spec.PreWarm.TimeoutAction = v1alpha1.ControllerStop, v1alpha1.TimeoutTerminate
			p.Spec.PreWarm.Timeout = &v1alpha1.Duration{Duration: time.Minute}
			p.Spec.ScaleUp.ReadyTimeout = &v1alpha1.Duration{Duration: 2 * time.Minute}
			p.Spec.ScaleDown.Enabled = &yes
			p.Spec.ScaleDown.EmptyNodeTTL = &v1alpha1.Duration{}
			p.Spec.ScaleDown.DrainTimeout = &v1alpha1.Duration{Duration: 3 * time.Minute}
		}), lifecycle.Policy{
			Exists: true, Deleting: true, TerminateOnTimeout: true, WarmupTimeout: time.Minute, ReadyTimeout: 2 * time.Minute, DrainTimeout: 3 * time.Minute,
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
	n := nodeIn(v1alpha1.StateRunning, annotated("a", "yesterday"), markedAt("b", epoch()))
	if got := timeMark(n, "a"); !got.IsZero() {
		t.Errorf("%v, want none", got)
	}
	if got := timeMark(n, "b"); !got.Equal(epoch()) {
		t.Errorf("%v, want %v", got, epoch())
	}
}
