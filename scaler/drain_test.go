package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

func attachment(name, node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}

// TestVolumesAreDetachedBeforeTheStop: those of pods that left are waited for, those of pods that
// stay are not.
func TestVolumesAreDetachedBeforeTheStop(t *testing.T) {
	daemon := boundPod("agent", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "ds", Controller: new(bool)}}
		*p.OwnerReferences[0].Controller = true
		p.Spec.Volumes = []corev1.Volume{
			{
				Name: "v",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "own"},
				},
			},
		}
	})
	own := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-own"}}
	stop := []string{"intent c", "stop i-c"}
	for name, c := range map[string]struct {
		objects []client.Object
		node    *corev1.Node
		want    []string
		event   string
	}{
		"nothing is attached": {node: drained(), want: stop},
		"a volume of a pod that left": {objects: []client.Object{attachment("a", "c", "pv-1")},
			node: drained()},
		"a volume of another node": {objects: []client.Object{attachment("a", "other", "pv-1")},
			node: drained(), want: stop},
		"a DaemonSet's volume": {objects: []client.Object{daemon, own, attachment("a", "c", "pv-own")},
			node: drained(), want: stop},
		"a DaemonSet's, and one of a pod that left": {objects: []client.Object{daemon, own, attachment("a", "c", "pv-own"),
			attachment("b", "c", "pv-1")}, node: drained()},
		"it is never detached": {
			objects: []client.Object{attachment("a", "c", "pv-1")}, node: drained(markedAt(v1alpha1.AnnotationStoppingSince,
				epoch().Add(-5*time.Minute))),
			want:  []string{"patch c running"},
			event: "DrainFailed not drained within scaleDown.drainTimeout, back to running; held up by volume attachment a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(c.objects, c.node, nodePool(5, 0))...)
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "stopping")))
			r.reconcile()
			r.want(c.want...)
			said := r.said()
			if c.event != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.event) }) {
				t.Errorf("events %q, want %q among them", said, c.event)
			}
		})
	}
}

// TestADrainThatCannotEnd: nothing is forced, the user reads why, and a node that may stay goes
// back to running.
func TestADrainThatCannotEnd(t *testing.T) {
	leaving := func(reason v1alpha1.StopReason, since time.Duration) *corev1.Node {
		return nodeIn(v1alpha1.StateTerminating, annotated(v1alpha1.AnnotationStopReason, string(reason)),
			markedAt(v1alpha1.AnnotationStoppingSince, epoch().Add(-since)))
	}
	guarded := boundPod(
		"guarded",
		func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationDoNotDisrupt: "true"} },
	)
	for name, c := range map[string]struct {
		node     *corev1.Node
		pod      *corev1.Pod
		evicting error
		want     []string
		event    string
	}{
		"a disruption budget": {
			leaving(v1alpha1.StopRuntime, time.Minute), boundPod("busy"), apierrors.NewTooManyRequests("budget", 1),
			[]string{"eviction busy"}, "DrainFailed pod default/busy cannot be evicted now: budget",
		},
		"a pod that may not be disturbed is not even asked": {
			leaving(v1alpha1.StopRuntime, time.Minute), guarded, nil, nil,
			"DrainFailed pod default/guarded is annotated stratos.sh/do-not-disrupt",
		},
		"given up after drainTimeout": {
			leaving(v1alpha1.StopRuntime, 5*time.Minute), boundPod("busy"), nil, []string{"patch c running"},
			"DrainFailed not drained within scaleDown.drainTimeout, back to running; held up by pod default/busy",
		},
		"the same for drift": {leaving(v1alpha1.StopDrift, 5*time.Minute), guarded, nil, []string{"patch c running"},
			"held up by pod default/guarded"},
		"the same for a person": {leaving(v1alpha1.StopRequested, 5*time.Minute), guarded, nil, []string{"patch c running"},
			"held up by pod default/guarded"},
		"a deleted pool's drain goes on": {
			leaving(v1alpha1.StopDeleted, time.Hour), boundPod("busy"), apierrors.NewTooManyRequests("budget", 1),
			[]string{"eviction busy"}, "DrainFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.node, c.pod, nodePool(5, 0))
			r.evicting = c.evicting
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "terminating")))
			r.reconcile()
			r.want(c.want...)
			if said := r.said(); !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.event) }) {
				t.Errorf("events %q, want %q among them", said, c.event)
			}
		})
	}
}

// TestReadyTurnsWithTheAcceptedStop: EndpointSlices are not to wait for the grace period.
func TestReadyTurnsWithTheAcceptedStop(t *testing.T) {
	r := newRig(t, drained(), nodePool(5, 0))
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "stopping")))
	r.reconcile()
	r.want("intent c", "stop i-c")
	ready := transition.Condition(r.node("c"), corev1.NodeReady)
	if ready.Status != corev1.ConditionUnknown || !ready.LastHeartbeatTime.Time.Equal(epoch()) {
		t.Errorf("Ready is %s with heartbeat %s; want Unknown, and the kubelet's own heartbeat", ready.Status,
			ready.LastHeartbeatTime)
	}
}

// TestStartupTaintsThatAreForcedAreReported after two minutes without a report of the network
// agent.
func TestStartupTaintsThatAreForcedAreReported(t *testing.T) {
	taint := corev1.Taint{Key: "cni", Effect: corev1.TaintEffectNoSchedule}
	pool := nodePool(5, 0, func(p *v1alpha1.NodePool) { p.Spec.Template.StartupTaints = []corev1.Taint{taint} })
	for name, c := range map[string]struct {
		ago    time.Duration
		agent  bool
		state  v1alpha1.NodeState
		forced bool
	}{
		"two minutes":         {ago: 2 * time.Minute, state: v1alpha1.StateStarting},
		"more":                {ago: 2*time.Minute + time.Second, state: v1alpha1.StateRunning, forced: true},
		"the agent reported":  {ago: time.Second, agent: true, state: v1alpha1.StateRunning},
		"it did so very late": {ago: time.Hour, agent: true, state: v1alpha1.StateRunning},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pool.DeepCopy(), nodeIn(v1alpha1.StateStarting, markedAt(v1alpha1.AnnotationScaleUpStarted,
				epoch().Add(-c.ago)), func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, taint)
				if c.agent {
					n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable,
						Status: corev1.ConditionFalse, Reason: "CiliumIsUp"})
				}
			}))
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "starting")))
			r.reconcile()
			n := r.node("c")
			if got := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]); got != c.state {
				t.Errorf("state %s, want %s", got, c.state)
			}
			if tainted := len(n.Spec.Taints) > 0; tainted != (c.state == v1alpha1.StateStarting) {
				t.Errorf("taints %v in state %s", n.Spec.Taints, c.state)
			}
			said := r.said()
			if got := slices.ContainsFunc(said, func(s string) bool {
				return strings.Contains(s,
					"StartupTaintsForced")
			}); got != c.forced {
				t.Errorf("events %q, StartupTaintsForced among them: %t, want %t", said, got, c.forced)
			}
			counted := testutil.ToFloat64(r.nodes.Metrics.StartupTaintsForced.WithLabelValues("p"))
			if (counted > 0) != c.forced {
				t.Errorf("%v counted, forced: %t", counted, c.forced)
			}
		})
	}
}
