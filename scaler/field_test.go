package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// agentSet is a network agent's DaemonSet, agentPod its pod on node "c" with a container that
// started then.
func agentSet() *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-node",
		UID: "uid-aws-node"}}
	set.Spec.Template.Spec = corev1.PodSpec{
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "aws-node", ReadinessProbe: &corev1.Probe{}}},
		Volumes: []corev1.Volume{{Name: "cni",
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"}}}},
	}
	return set
}

func agentPod(ready bool, started time.Time) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-node-x", UID: "uid-x",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "aws-node", UID: "uid-aws-node", Controller: &yes},
			}},
		Spec: agentSet().Spec.Template.Spec,
	}
	p.Spec.NodeName, p.Status.Phase = "c", corev1.PodRunning
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "aws-node", State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)},
	}}}
	return p
}

// startingSince is the Node of a start that was asked so long ago and whose kubelet reports.
func startingSince(ago time.Duration, change ...func(*corev1.Node)) *corev1.Node {
	return nodeIn(v1alpha1.StateStarting, append([]func(*corev1.Node){
		markedAt(v1alpha1.AnnotationScaleUpStarted, epoch().Add(-ago)),
		annotated(v1alpha1.AnnotationHeartbeatAtStop, `{"Ready":"2026-03-01T11:00:00Z"}`),
		annotated(v1alpha1.AnnotationAgentsAtStop, `{"kube-system/aws-node":"2026-03-01T11:00:03Z"}`),
	}, change...)...)
}

// TestAStartWaitsForTheNetworkAgents: opened when the agent's pod is Ready with a container of this
// life, and after two minutes with an event that names the agents.
func TestAStartWaitsForTheNetworkAgents(t *testing.T) {
	lastLife := time.Date(2026, 3, 1, 11, 0, 3, 0, time.UTC)
	for name, c := range map[string]struct {
		ago    time.Duration
		pod    *corev1.Pod
		taints []corev1.Taint
		want   v1alpha1.NodeState
		event  string
	}{
		"Ready since this start": {time.Minute, agentPod(true, epoch()), nil, v1alpha1.StateRunning, ""},
		"not Ready":              {time.Minute, agentPod(false, epoch()), nil, v1alpha1.StateStarting, ""},
		"Ready in the last life": {time.Minute, agentPod(true, lastLife), nil, v1alpha1.StateStarting, ""},
		"not Ready for more than two minutes": {3 * time.Minute, agentPod(false, epoch()), nil, v1alpha1.StateRunning,
			"NetworkNotReported"},
		"the same with startup taints": {3 * time.Minute, agentPod(false, epoch()),
			[]corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}}, v1alpha1.StateRunning, "StartupTaintsForced"},
		"Ready late, no event": {3 * time.Minute, agentPod(true, epoch()), nil, v1alpha1.StateRunning, ""},
		"no pod of the agent for two minutes": {3 * time.Minute, boundPod("other"), nil, v1alpha1.StateRunning,
			"NetworkNotReported"},
		"no pod of the agent, two minutes ahead": {time.Minute, boundPod("other"), nil, v1alpha1.StateStarting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pool := nodePool(5, 0, func(p *v1alpha1.NodePool) { p.Spec.Template.StartupTaints = c.taints })
			node := startingSince(c.ago, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, c.taints...) })
			r := newRig(t, pool, agentSet(), c.pod, node)
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "starting")))
			r.reconcile()
			if got := v1alpha1.NodeState(r.node("c").Labels[v1alpha1.LabelState]); got != c.want {
				t.Errorf("state %s, want %s", got, c.want)
			}
			said := r.said()
			for _, reason := range []string{"NetworkNotReported", "StartupTaintsForced"} {
				told := slices.ContainsFunc(said, func(s string) bool {
					return strings.Contains(s, reason) &&
						strings.Contains(s, "kube-system/aws-node")
				})
				if told != (reason == c.event) {
					t.Errorf("events %q, want %q", said, c.event)
				}
			}
		})
	}
}

// TestStartsOfTheAgentsAreRecordedAtTheStop, as the API server has them: the start of a container
// that only came after the last heartbeat would pass for one of the next life.
func TestStartsOfTheAgentsAreRecordedAtTheStop(t *testing.T) {
	r := newRig(t, nodePool(5, 0), agentSet(), agentPod(true, epoch().Add(time.Second)),
		drained(markedAt(v1alpha1.AnnotationStopIntent, epoch().Add(-time.Minute))))
	r.sweep(instance(provider.InstanceStopped))
	r.reconcile()
	if got, want := r.node("c").Annotations[v1alpha1.AnnotationAgentsAtStop],
		`{"kube-system/aws-node":"2026-03-01T12:00:01Z"}`; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// TestAStartWaitsForTheTaintsOfAgents, and ends without a strike where one stays: the node is none
// the worse.
func TestAStartWaitsForTheTaintsOfAgents(t *testing.T) {
	taint := corev1.Taint{Key: "ebs.csi.aws.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, taint)
		n.Annotations[v1alpha1.AnnotationStartFailures] = "2"
	}
	for name, c := range map[string]struct {
		ago    time.Duration
		change func(*corev1.Node)
		named  []corev1.Taint
		want   v1alpha1.NodeState
	}{
		"it stands":                 {time.Minute, tainted, nil, v1alpha1.StateStarting},
		"it stands at readyTimeout": {5 * time.Minute, tainted, nil, v1alpha1.StateStopping},
		"it is gone":                {time.Minute, func(*corev1.Node) {}, nil, v1alpha1.StateRunning},
		"the pool names it in its startup taints": {3 * time.Minute, tainted, []corev1.Taint{taint}, v1alpha1.StateRunning},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0, func(p *v1alpha1.NodePool) { p.Spec.Template.StartupTaints = c.named }),
				startingSince(c.ago, c.change))
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "starting")))
			r.reconcile()
			n := r.node("c")
			if got := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]); got != c.want {
				t.Errorf("state %s, want %s", got, c.want)
			}
			if c.want != v1alpha1.StateStopping {
				return
			}
			if transition.Failures(n) != 2 {
				t.Errorf("%d failures are held against the node, want the 2 of before", transition.Failures(n))
			}
			if said := r.said(); !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, taint.Key) }) {
				t.Errorf("events %q, want one that names %s", said, taint.Key)
			}
		})
	}
}

// TestAnAgentThatGoesDownWhileItsNodeOpens: the taint that comes between the decision and the patch
// is waited for.
func TestAnAgentThatGoesDownWhileItsNodeOpens(t *testing.T) {
	r := newRig(t, nodePool(5, 0), startingSince(time.Minute))
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "starting")))
	tainted := false
	r.patching = func() error {
		if tainted {
			return nil
		}
		tainted = true
		n := r.node("c")
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.cilium.io/agent-not-ready",
			Effect: corev1.TaintEffectNoSchedule})
		return r.api.Update(t.Context(), n)
	}
	r.reconcile()
	if got := r.node("c").Labels[v1alpha1.LabelState]; got != string(v1alpha1.StateStarting) {
		t.Errorf("state %s with the taint of an agent that is down, want starting", got)
	}
	r.want("patch refused")
}

// TestAStartEndsNoRunningPod: whatever it lacks, a node on which a pod runs and whose kubelet
// reports is opened, not stopped.
func TestAStartEndsNoRunningPod(t *testing.T) {
	runs := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	lacking := func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationAllocatableAtStop] = `{"example.com/gpu":"8"}`
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("4")
	}
	notReady := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }
	for name, c := range map[string]struct {
		node  *corev1.Node
		pod   *corev1.Pod
		want  []string
		event string
	}{
		"devices that do not come back": {startingSince(5*time.Minute, lacking), nil, []string{"patch c running"},
			"4 of 8 example.com/gpu are back"},
		"devices that may come yet": {startingSince(4*time.Minute, lacking), nil, nil, ""},
		"a pod runs, not Ready": {startingSince(5*time.Minute, notReady), boundPod("a", runs),
			[]string{"patch c running"}, "a Ready kubelet"},
		"no pod, not Ready": {startingSince(5*time.Minute, notReady), nil, []string{"intent c", "force-stop i-c"},
			"not running within"},
		"a pod is bound and does not run": {startingSince(5*time.Minute, notReady), boundPod("a"),
			[]string{"intent c", "force-stop i-c"},
			"not running within"},
		"a pod of the last life, its kubelet is silent": {startingSince(5*time.Minute,
			annotated(v1alpha1.AnnotationHeartbeatAtStop, `{"Ready":"2026-03-01T12:00:00Z"}`)),
			boundPod("a", runs), []string{"intent c", "force-stop i-c"}, "not running within"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), c.node)
			if c.pod != nil {
				if err := r.api.Create(t.Context(), c.pod); err != nil {
					t.Fatal(err)
				}
			}
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "starting")))
			r.reconcile()
			r.want(c.want...)
			if said := strings.Join(r.said(), " "); c.event != "" && !strings.Contains(said, c.event) {
				t.Errorf("events %q, want %q", said, c.event)
			}
		})
	}
}

// TestWarmUpOfAKubeletThatShutsDownInOrder: its last word is NotReady, and 0 devices. What was seen
// before is on the Node.
func TestWarmUpOfAKubeletThatShutsDownInOrder(t *testing.T) {
	devices := func(n string) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Status.Allocatable["example.com/gpu"] = resource.MustParse(n) }
	}
	r := newRig(t, nodePool(5, 1), warming(devices("8")))
	r.sweep(instance(provider.InstanceRunning, minuteOld, withTag(v1alpha1.LabelState, "warmup")))
	r.reconcile() // complete at its first look
	r.want("patch c warmup")
	n := r.node("c")
	for _, key := range []string{v1alpha1.AnnotationReadySeen, v1alpha1.AnnotationNetworkSeen,
		v1alpha1.AnnotationWarmedAt} {
		if n.Annotations[key] == "" {
			t.Errorf("%s is not written down: %v", key, n.Annotations)
		}
	}
	n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionFalse, "KubeletNotReady"
	devices("0")(n)
	if err := r.api.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	r.sweep(instance(provider.InstanceStopped, minuteOld))
	r.reconcile()
	r.want("patch c standby")
	if got := r.node("c").Annotations[v1alpha1.AnnotationAllocatableAtStop]; !strings.Contains(got,
		`"example.com/gpu":"8"`) {
		t.Errorf("recorded %s, want the devices of before the shutdown", got)
	}
}

// TestReadyIsKnownFromItsTransition: no Stratos saw the node Ready, and its kubelet ended with
// NotReady.
func TestReadyIsKnownFromItsTransition(t *testing.T) {
	for name, c := range map[string]struct {
		turned time.Duration
		want   []string
	}{
		"it turned NotReady later than it registered": {time.Minute, []string{"patch c warmup", "start i-c"}},
		"it was never Ready":                          {0, []string{"patch c terminating"}},
		"in the same report, over a whole second":     {time.Second, []string{"patch c terminating"}},
	} {
		t.Run(name, func(t *testing.T) {
			registered := metav1.NewTime(epoch().Add(-time.Minute))
			r := newRig(t, nodePool(5, 1), warming(func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{
					{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastTransitionTime: registered},
					{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
						LastTransitionTime: metav1.NewTime(registered.Add(c.turned))},
				}
			}))
			r.sweep(instance(provider.InstanceStopped, minuteOld))
			r.reconcile()
			r.want(c.want...)
		})
	}
}
