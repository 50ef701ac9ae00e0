package node

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
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
			o := observeNode(n, transition.Template{})
			if o.Ready != c.ready || o.EverReady != c.ever {
				t.Errorf("ready %v, ever %v; want %v, %v", o.Ready, o.EverReady, c.ready, c.ever)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	yes, at := false, metav1.NewTime(scalertest.Epoch())
	for name, c := range map[string]struct {
		pool  *v1alpha1.NodePool
		want  lifecycle.Policy
		class v1alpha1.NodeClass
	}{
		"gone": {pool: nil},
		"all defaults, Stratos writes the user data": {scalertest.NodePool(5, 1), lifecycle.Policy{
			Exists: true, WarmupTimeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute, ScaleDown: true,
			EmptyTTL: 5 * time.Minute, DrainTimeout: 5 * time.Minute,
		}, &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{Bootstrap: &v1alpha1.Bootstrap{}}}},
		"all defaults": {scalertest.NodePool(5, 1), lifecycle.Policy{
			Exists: true, SelfStop: true, WarmupTimeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute, ScaleDown: true,
			EmptyTTL: 5 * time.Minute, DrainTimeout: 5 * time.Minute,
		}, nil},
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
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, policyOf(c.pool, c.class)); diff != "" {
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

// reading is what was read of "i-c" and its Node in the state, at the epoch.
func reading(state v1alpha1.NodeState, machine provider.InstanceState, change ...func(*raw)) raw {
	r := raw{instance: instance(machine), pool: scalertest.NodePool(5, 0), node: scalertest.NodeIn(state),
		settings: settings{namespace: "stratos"}}
	if state == v1alpha1.StateStandby {
		scalertest.Reporting(r.node)
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

// unremarkable is the observation of such a reading. Its Node is as observeNode shows it.
func unremarkable(state v1alpha1.NodeState, machine provider.InstanceState) lifecycle.Observation {
	is := instance(machine)
	return lifecycle.Observation{
		Instance: lifecycle.Instance{State: machine, Launched: is.LaunchTime, Seen: is.Seen},
		Policy:   policyOf(scalertest.NodePool(5, 0), nil),
		Node: &lifecycle.Node{State: state, Ready: true, Reports: true, EverReady: true, Complete: true,
			ImagesOptional: true},
	}
}

// observed is a row of a table: what was read, and how the observation differs from an
// unremarkable one.
type observed struct {
	state   v1alpha1.NodeState
	machine provider.InstanceState
	read    func(*raw)
	want    func(*lifecycle.Observation)
}

func checkObserved(t *testing.T, table map[string]observed) {
	t.Helper()
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			want := unremarkable(c.state, c.machine)
			c.want(&want)
			got := observe(reading(c.state, c.machine, c.read), scalertest.Epoch())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}

func unchanged(*lifecycle.Observation) {}

// endedAtBirth is "i-c" that ended while this process knew of it, and before a Node registered.
func endedAtBirth(change ...func(*inventory.Entry)) inventory.Entry {
	known := inventory.New()
	for _, state := range []provider.InstanceState{provider.InstancePending, provider.InstanceTerminated} {
		is := instance(state)
		known.Replace([]*provider.Instance{&is.Instance}, scalertest.Epoch())
	}
	e, _ := known.Get("i-c")
	e.Since, e.Up = time.Time{}, time.Time{}
	for _, f := range change {
		f(&e)
	}
	return e
}

func TestObserveAnInstanceWithoutANode(t *testing.T) {
	at := scalertest.Epoch().Add(-time.Minute)
	noNode := func(o *lifecycle.Observation) { o.Node = nil }
	ours := func(e *inventory.Entry) { e.EndExplained = true }
	checkObserved(t, map[string]observed{
		"none has registered yet": {
			machine: provider.InstanceRunning,
			read:    func(r *raw) { r.node, r.stepObservedAt = nil, at },
			want:    func(o *lifecycle.Observation) { o.Node, o.StepObservedAt = nil, at },
		},
		"the cloud ended it": {
			machine: provider.InstanceTerminated,
			read:    func(r *raw) { r.node, r.instance = nil, endedAtBirth() },
			want:    func(o *lifecycle.Observation) { o.Node, o.EndUnexplained = nil, true },
		},
		"it had ended when this process first saw it": {
			machine: provider.InstanceTerminated,
			read:    func(r *raw) { r.node = nil },
			want:    noNode,
		},
		"this process ended it": {
			machine: provider.InstanceTerminated,
			read:    func(r *raw) { r.node, r.instance = nil, endedAtBirth(ours) },
			want:    func(o *lifecycle.Observation) { o.Node, o.TerminationRequested = nil, true },
		},
		"the cloud ended it, and its pool is gone": {
			machine: provider.InstanceTerminated,
			read:    func(r *raw) { r.node, r.instance, r.pool = nil, endedAtBirth(), nil },
			want:    func(o *lifecycle.Observation) { o.Node, o.Policy = nil, lifecycle.Policy{} },
		},
	})
}

func TestObserveWhatThisProcessKnows(t *testing.T) {
	at := scalertest.Epoch().Add(-time.Minute)
	checkObserved(t, map[string]observed{
		"since when": {v1alpha1.StateRunning, provider.InstanceRunning,
			func(r *raw) { r.processStart, r.stepObservedAt, r.unreported = at, at.Add(1), at.Add(2) },
			func(o *lifecycle.Observation) {
				o.ProcessStart, o.StepObservedAt, o.Unreported = at, at.Add(1), at.Add(2)
			}},
		"claims": {v1alpha1.StateRunning, provider.InstanceRunning,
			func(r *raw) { r.claims = 2 },
			func(o *lifecycle.Observation) { o.Claims = 2 }},
		"the pool disrupts the node": {v1alpha1.StateRunning, provider.InstanceRunning,
			func(r *raw) { r.disruption = plan.Disruption{Reason: v1alpha1.StopDrift, Why: "another class"} },
			func(o *lifecycle.Observation) { o.Recycle, o.Why = v1alpha1.StopDrift, "another class" }},
		"the pool refreshes its images": {v1alpha1.StateStandby, provider.InstanceStopped,
			func(r *raw) { r.disruption = plan.Disruption{Refresh: true, Why: "new images"} },
			func(o *lifecycle.Observation) { o.Refresh, o.Why = true, "new images" }},
		"the cloud accepted the start": {v1alpha1.StateStarting, provider.InstancePending,
			func(r *raw) { r.startAccepted = at },
			func(o *lifecycle.Observation) { o.Instance.Accepted, o.Node.NetworkReady = at, true }},
	})
}

func TestObservePods(t *testing.T) {
	running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	ending := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: scalertest.Epoch().Add(-ago)} }
	}
	ofDaemonSet := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	}
	marked := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	nominated := func(p *corev1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "", "c" }
	table := map[string]observed{}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want func(*lifecycle.Observation)
	}{
		"bound": {podOn("c", "a"),
			func(o *lifecycle.Observation) { o.WorkloadPods = 1 }},
		"running": {podOn("c", "a", running),
			func(o *lifecycle.Observation) { o.WorkloadPods, o.Serving = 1, 1 }},
		"nominated": {podOn("", "a", nominated),
			func(o *lifecycle.Observation) { o.WorkloadPods = 1 }},
		"deleted, at the end of its grace": {podOn("c", "a", running, ending(podOverdue)),
			func(o *lifecycle.Observation) { o.WorkloadPods = 1 }},
		"deleted, long after it": {podOn("c", "a", running, ending(podOverdue+1)),
			func(o *lifecycle.Observation) { o.WorkloadPods, o.OverduePods = 1, 1 }},
		"of a DaemonSet": {podOn("c", "a", running, ofDaemonSet),
			unchanged},
		"of a DaemonSet, deleted": {podOn("c", "a", ofDaemonSet, ending(0)),
			func(o *lifecycle.Observation) { o.DeletingPods = 1 }},
		"static, deleted": {podOn("c", "a", marked(corev1.MirrorPodAnnotationKey, "x"), ending(0)),
			unchanged},
		"finished": {podOn("c", "a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			unchanged},
		"not to be disrupted": {podOn("c", "a", marked(v1alpha1.AnnotationSafeToEvict, "false")),
			func(o *lifecycle.Observation) { o.WorkloadPods, o.Node.DoNotDisrupt = 1, true }},
		"of a DaemonSet, not to be disrupted": {
			podOn("c", "a", marked(v1alpha1.AnnotationDoNotDisrupt, "true"), ofDaemonSet),
			unchanged},
	} {
		table[name] = observed{v1alpha1.StateRunning, provider.InstanceRunning,
			func(r *raw) { r.pods = []corev1.Pod{*c.pod} }, c.want}
	}
	table["none, and the node is not to be disrupted"] = observed{v1alpha1.StateRunning, provider.InstanceRunning,
		func(r *raw) { r.node.Annotations[v1alpha1.AnnotationDoNotDisrupt] = "true" },
		func(o *lifecycle.Observation) { o.Node.DoNotDisrupt = true }}
	checkObserved(t, table)
}

// TestObserveTheNetwork: a pool's startup taint stands on the Node, and no agent is recognised.
func TestObserveTheNetwork(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		state   v1alpha1.NodeState
		machine provider.InstanceState
		// since is how long ago this process first saw the node in the state.
		since   time.Duration
		removal v1alpha1.StartupTaintRemoval
		want    bool
	}{
		"a start":                                  {v1alpha1.StateStarting, provider.InstanceRunning, time.Minute, "", false},
		"a start, after the limit":                 {v1alpha1.StateStarting, provider.InstanceRunning, time.Hour, "", true},
		"the same where others remove the taint":   {v1alpha1.StateStarting, provider.InstanceRunning, time.Hour, v1alpha1.RemoveExternal, false},
		"a warm-up, after the limit":               {v1alpha1.StateWarmup, provider.InstanceRunning, time.Hour, "", true},
		"a warm-up whose machine is off, after it": {v1alpha1.StateWarmup, provider.InstanceStopped, time.Hour, "", false},
		"a standby node that a person started":     {v1alpha1.StateStandby, provider.InstanceRunning, time.Hour, "", true},
		"a standby node":                           {v1alpha1.StateStandby, provider.InstanceStopped, time.Hour, "", false},
		"a running node, on which nothing depends": {v1alpha1.StateRunning, provider.InstanceRunning, time.Hour, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(reading(c.state, c.machine, func(r *raw) {
				r.pool.Spec.Template.StartupTaints = []v1alpha1.Taint{taint}
				r.pool.Spec.Template.StartupTaintRemoval = c.removal
				r.node.Spec.Taints = append(r.node.Spec.Taints, taint)
				r.stepObservedAt = scalertest.Epoch().Add(-c.since)
			}), scalertest.Epoch())
			if o.Node.NetworkReady != c.want {
				t.Errorf("network ready: %t, want %t", o.Node.NetworkReady, c.want)
			}
		})
	}
}

func TestObserveVolumes(t *testing.T) {
	attachment := func(name, volume string) storagev1.VolumeAttachment {
		a := storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if volume != "" {
			a.Spec.Source.PersistentVolumeName = &volume
		}
		return a
	}
	checkObserved(t, map[string]observed{
		"two that hold up the drain, and one of a DaemonSet": {v1alpha1.StateStopping, provider.InstanceRunning,
			func(r *raw) {
				r.volumes = nodeVolumes{
					attachments: []storagev1.VolumeAttachment{attachment("a", "data"), attachment("b", ""),
						attachment("c", "logs")},
					staying: map[string]bool{"logs": true},
				}
			},
			func(o *lifecycle.Observation) { o.Attached = 2 }},
	})
}

// TestObserveOtherStarts: a node that may fail to start for the third time is not replaced while
// other nodes of the pool fail too.
func TestObserveOtherStarts(t *testing.T) {
	failed := func(name string, times int, until time.Time) poolNode {
		return poolNode{node: scalertest.NodeIn(v1alpha1.StateStandby, func(n *corev1.Node) { n.Name = name },
			scalertest.Annotated(v1alpha1.AnnotationStartFailures, strconv.Itoa(times)),
			scalertest.MarkedAt(v1alpha1.AnnotationUnavailableUntil, until))}
	}
	lately := scalertest.Epoch().Add(-failureHolds + time.Second)
	for name, c := range map[string]struct {
		failures int
		machine  provider.InstanceState
		others   []poolNode
		want     bool
	}{
		"another failed lately":              {2, provider.InstanceStopped, []poolNode{failed("d", 1, lately)}, true},
		"another failed long ago":            {2, provider.InstanceStopped, []poolNode{failed("d", 1, lately.Add(-time.Second))}, false},
		"another has started since":          {2, provider.InstanceStopped, []poolNode{failed("d", 0, lately)}, false},
		"the node itself failed":             {2, provider.InstanceStopped, []poolNode{failed("c", 2, lately)}, false},
		"it has tries left":                  {1, provider.InstanceStopped, []poolNode{failed("d", 1, lately)}, false},
		"its instance runs, so it has begun": {2, provider.InstanceRunning, []poolNode{failed("d", 1, lately)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(reading(v1alpha1.StateStarting, c.machine, func(r *raw) {
				r.node.Annotations[v1alpha1.AnnotationStartFailures] = strconv.Itoa(c.failures)
				r.poolNodes = c.others
			}), scalertest.Epoch())
			if o.OtherStartsFail != c.want {
				t.Errorf("other starts fail: %t, want %t", o.OtherStartsFail, c.want)
			}
		})
	}
}

// TestObserveWhetherPodsNeedTheNode: "c" is warm. A pod of 3 CPUs fits on a node of the pool, and
// two do not.
func TestObserveWhetherPodsNeedTheNode(t *testing.T) {
	now := scalertest.Epoch()
	warm := func(name string) *corev1.Node {
		return scalertest.NodeIn(v1alpha1.StateWarmup, scalertest.MarkedAt(v1alpha1.AnnotationNetworkSeen, now),
			scalertest.MarkedAt(v1alpha1.AnnotationWarmedAt, now), func(n *corev1.Node) { n.Name = name })
	}
	opened := func(name string, ago time.Duration) *corev1.Node {
		return scalertest.NodeIn(v1alpha1.StateRunning, scalertest.MarkedAt(v1alpha1.AnnotationRunningSince, now.Add(-ago)),
			func(n *corev1.Node) { n.Name = name })
	}
	pod := func(name string) *corev1.Pod {
		return podOn("", name, func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}}}}
		})
	}
	full := *pod("z")
	full.Spec.NodeName = "b"
	for name, c := range map[string]struct {
		pending []*corev1.Pod
		nodes   []poolNode
		node    *corev1.Node
		want    bool
	}{
		"no pod waits": {nil, []poolNode{{node: warm("c")}}, warm("c"), false},
		"one does":     {[]*corev1.Pod{pod("a")}, []poolNode{{node: warm("c")}}, warm("c"), true},
		"one does, and the node is not warm yet": {[]*corev1.Pod{pod("a")}, []poolNode{{node: warm("c")}},
			scalertest.NodeIn(v1alpha1.StateWarmup), false},
		"another warm node takes it": {[]*corev1.Pod{pod("a")}, []poolNode{{node: warm("c")}, {node: warm("b")}},
			warm("c"), false},
		"two do not share that one": {[]*corev1.Pod{pod("a"), pod("b")}, []poolNode{{node: warm("c")}, {node: warm("b")}},
			warm("c"), true},
		"it is on its way to a node that opened": {[]*corev1.Pod{pod("a")},
			[]poolNode{{node: warm("c")}, {node: opened("b", bindTime-time.Second)}}, warm("c"), false},
		"that one has opened long ago": {[]*corev1.Pod{pod("a")},
			[]poolNode{{node: warm("c")}, {node: opened("b", bindTime)}}, warm("c"), true},
		"that one is full": {[]*corev1.Pod{pod("a")},
			[]poolNode{{node: warm("c")}, {node: opened("b", 0), pods: []corev1.Pod{full}}}, warm("c"), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := observe(reading("", provider.InstanceRunning, func(r *raw) {
				r.node, r.pending, r.poolNodes = c.node, c.pending, c.nodes
			}), now)
			if o.Wanted != c.want {
				t.Errorf("wanted: %t, want %t", o.Wanted, c.want)
			}
		})
	}
}
