package network

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// stopped is when the last life of the node ended, by its own stamps; fresh is a moment of this
// one.
func stopped() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
func fresh() time.Time   { return stopped().Add(time.Hour) }

const (
	unavailable = corev1.NodeNetworkUnavailable
	taintKey    = "example.com/network"
)

// inState is a node in that state whose heartbeats and whose agent "cni" were recorded at its stop.
func inState(state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   "c",
		Labels: map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(state)},
		Annotations: map[string]string{
			v1alpha1.AnnotationHeartbeatAtStop: `{"Ready":"2026-03-01T12:00:00Z","NetworkUnavailable":"2026-03-01T12:00:00Z","NetworkingReady":"2026-03-01T12:00:00Z"}`,
			v1alpha1.AnnotationAgentsAtStop:    `{"kube-system/cni":"2026-03-01T12:00:05Z"}`,
		},
	}}
	if state == v1alpha1.StateStarting {
		n.Annotations[v1alpha1.AnnotationScaleUpStarted] = "2026-03-01T12:59:00Z"
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// neverStopped takes away what a stop records.
func neverStopped(n *corev1.Node) {
	delete(n.Annotations, v1alpha1.AnnotationHeartbeatAtStop)
	delete(n.Annotations, v1alpha1.AnnotationAgentsAtStop)
}

func reports(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string,
	at time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, LastHeartbeatTime: metav1.NewTime(at),
			LastTransitionTime: metav1.NewTime(stopped().Add(-time.Hour)),
		})
	}
}

func tainted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoSchedule})
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func agent(name string, change ...func(*Agent)) Agent {
	a := Agent{Set: types.NamespacedName{Namespace: "kube-system", Name: name}, Probed: true, Ready: true,
		Started: fresh()}
	for _, f := range change {
		f(&a)
	}
	return a
}

func notReady(a *Agent) { a.Ready = false }
func unprobed(a *Agent) { a.Probed = false }
func noPod(a *Agent)    { a.Ready, a.Started = false, time.Time{} }
func lastLife(a *Agent) { a.Started = stopped().Add(5 * time.Second) }
func unrecorded(a *Agent) {
	a.Set.Name = "other"
}

// TestNetworkReady walks the table of docs/lifecycle.md.
func TestNetworkReady(t *testing.T) {
	starting, warmup := v1alpha1.StateStarting, v1alpha1.StateWarmup
	plain := transition.Template{RemoveStartupTaints: true}
	startup := transition.Template{RemoveStartupTaints: true, StartupTaints: []corev1.Taint{{Key: taintKey,
		Effect: corev1.TaintEffectNoSchedule}}}
	external := transition.Template{StartupTaints: startup.StartupTaints}
	up := reports(unavailable, corev1.ConditionFalse, "FlannelIsUp", fresh())
	stale := reports(unavailable, corev1.ConditionFalse, "CiliumIsUp", stopped())
	monitored := reports(networkingReady, corev1.ConditionTrue, "", fresh())
	for name, c := range map[string]struct {
		node     *corev1.Node
		template transition.Template
		agents   []Agent
		want     bool
	}{
		"none: a good condition of any reason": {inState(starting, tainted,
			reports(unavailable, corev1.ConditionFalse, "RouteCreated", fresh())), startup, nil, true},
		"none: the monitoring agent":             {inState(starting, tainted, monitored), startup, nil, true},
		"none: a condition from before the stop": {inState(starting, tainted, stale), startup, nil, false},
		"none: the monitoring agent from before the stop": {inState(starting, tainted,
			reports(networkingReady, corev1.ConditionTrue, "", stopped())), startup, nil, false},
		"none: nothing is reported":                  {inState(starting, tainted), startup, nil, false},
		"none: another controller removed the taint": {inState(starting), startup, nil, true},
		"none: no startup taints":                    {inState(starting), plain, nil, true},
		"none: no startup taints, and the network is down": {inState(starting,
			reports(unavailable, corev1.ConditionTrue, "NoRouteCreated", fresh())), plain, nil, false},
		"none: the same from before the stop": {inState(starting,
			reports(unavailable, corev1.ConditionTrue, "CalicoIsDown", stopped())), plain, nil, true},
		"none: the taint never stood in a first warm-up": {inState(warmup, neverStopped), startup, nil, false},
		"none: the taint stood in a first warm-up": {inState(warmup, neverStopped,
			annotated(v1alpha1.AnnotationStartupTaintsSeen, "true")), startup, nil, true},
		"none: the taint is gone in a second warm-up": {inState(warmup,
			annotated(v1alpha1.AnnotationWarmupStarted, "2026-03-01T12:59:00Z")), startup, nil, true},
		"none: the taint is gone while the node stands by": {inState(v1alpha1.StateStandby), startup, nil, false},
		"one: NetworkUnavailable=False of any reason": {inState(starting, tainted, up), startup,
			[]Agent{agent("cni", notReady)}, true},
		"one: its pod is Ready since this start": {inState(starting, tainted), startup, []Agent{agent("cni")},
			true},
		"one: its pod is not Ready": {inState(starting, tainted), startup,
			[]Agent{agent("cni", notReady)}, false},
		"one: its pod is missing": {inState(starting, tainted), startup,
			[]Agent{agent("cni", noPod)}, false},
		"one: its pod is missing, no startup taints": {inState(starting), plain, []Agent{agent("cni", noPod)}, false},
		"one: its pod shows the last life": {inState(starting, tainted), startup,
			[]Agent{agent("cni", lastLife)}, false},
		"one: not recorded, started after the heartbeat": {inState(starting, tainted), startup,
			[]Agent{agent("cni", unrecorded)}, true},
		"one: not recorded, started before the heartbeat": {inState(starting, tainted), startup,
			[]Agent{agent("cni", unrecorded, func(a *Agent) { a.Started = stopped() })}, false},
		"one: never stopped": {inState(warmup, neverStopped), startup,
			[]Agent{agent("cni", lastLife)}, true},
		"one: the monitoring agent proves nothing": {inState(starting, tainted, monitored), startup,
			[]Agent{agent("cni", notReady)}, false},
		"one: a removed taint proves nothing": {inState(starting), startup, []Agent{agent("cni", notReady)},
			false},
		"one: its condition from before the stop": {inState(starting, tainted, stale), startup,
			[]Agent{agent("cni", notReady)}, false},
		"one: Ready, its condition is from before the stop": {inState(starting, tainted, stale), startup,
			[]Agent{agent("cni")}, true},
		"one: Ready, but the network is reported down": {inState(starting, tainted,
			reports(unavailable, corev1.ConditionTrue, "CalicoIsDown", fresh())), startup, []Agent{agent("cni")}, false},
		"one: Ready, but NetworkingReady is False": {inState(starting, tainted,
			reports(networkingReady, corev1.ConditionFalse, "", fresh())), startup, []Agent{agent("cni")}, false},
		"one without a probe: its container runs": {inState(starting, tainted), startup,
			[]Agent{agent("cni", unprobed)}, true},
		"one without a probe: only its condition counts": {inState(starting, tainted, stale), startup,
			[]Agent{agent("cni", unprobed)}, false},
		"one without a probe: its condition is fresh": {inState(starting, tainted, up), startup,
			[]Agent{agent("cni", unprobed)}, true},
		"several: all are Ready": {inState(starting, tainted), startup,
			[]Agent{agent("cni"), agent("multus")}, true},
		"several: one is not Ready": {inState(starting, tainted), startup,
			[]Agent{agent("cni"), agent("multus", notReady)}, false},
		"several: a condition stands for one alone": {inState(starting, tainted, up), startup,
			[]Agent{agent("cni"), agent("multus", notReady)}, false},
		"External: the taint stands": {inState(starting, tainted, up), external,
			[]Agent{agent("cni")}, false},
		"External: the taint is gone, and the agent is down": {inState(starting), external, []Agent{agent("cni", notReady)},
			false},
		"External: the taint is gone, and the agent is up": {inState(starting), external, []Agent{agent("cni")}, true},
		"External: the taint is gone, no agent":            {inState(starting), external, nil, true},
		"External: a warm-up does not wait for the taint":  {inState(warmup, tainted, neverStopped), external, nil, true},
		"External: a warm-up waits for an agent": {inState(warmup, tainted, neverStopped), external,
			[]Agent{agent("cni", notReady)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(c.node, c.template, c.agents)
			if got.Up != c.want || (got.Missing == "") != got.Up {
				t.Errorf("%+v, want up %t, and what is missing where it is not", got, c.want)
			}
		})
	}
}

// TestConditionOfAnAgentIsFreshByItsTransitionToo: some stamp what they change without a heartbeat.
func TestConditionOfAnAgentIsFreshByItsTransitionToo(t *testing.T) {
	for name, c := range map[string]struct {
		beat, turned time.Duration
		want         bool
	}{
		"both before the stop":       {0, -time.Hour, false},
		"a heartbeat after it":       {time.Second, -time.Hour, true},
		"a transition after it":      {0, time.Second, true},
		"a transition at the moment": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := inState(v1alpha1.StateStarting, func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{
					Type: unavailable, Status: corev1.ConditionFalse, Reason: "CiliumIsUp",
					LastHeartbeatTime:  metav1.NewTime(stopped().Add(c.beat)),
					LastTransitionTime: metav1.NewTime(stopped().Add(c.turned)),
				}}
			})
			if got := availableSinceStart(n); got != c.want {
				t.Errorf("network up %t, want %t", got, c.want)
			}
		})
	}
}

// daemonSet is one that tolerates everything and mounts these folders of the host.
func daemonSet(name string, change func(*corev1.PodSpec), paths ...string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name,
		UID: types.UID("uid-" + name)}}
	spec := &set.Spec.Template.Spec
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	spec.Containers = []corev1.Container{{Name: "agent", ReadinessProbe: &corev1.Probe{}}}
	for _, path := range paths {
		spec.Volumes = append(spec.Volumes,
			corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	if change != nil {
		change(spec)
	}
	return set
}

// podOf is a pod of the DaemonSet that is Ready with a container of this life.
func podOf(set *appsv1.DaemonSet, change ...func(*corev1.Pod)) corev1.Pod {
	yes := true
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-x",
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &yes},
		}}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	p.Spec.NodeName, p.Status.Phase = "c", corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{
			State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(fresh().Add(-time.Minute))},
			},
		},
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(fresh())}}},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func TestAgentsOf(t *testing.T) {
	cni := daemonSet("cni", nil, "/etc/cni/net.d")
	multus := daemonSet("multus", nil, "/opt/cni/bin/")
	logs := daemonSet("logs", nil, "/var/log", "/etc/cni/net.d-backup")
	elsewhere := daemonSet("elsewhere", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"os": "windows"} },
		"/etc/cni/net.d")
	late := daemonSet("late", func(s *corev1.PodSpec) { s.Tolerations = nil }, "/etc/cni/net.d")
	unknown := daemonSet("unknown", func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe = nil },
		"/var/lib/rancher/k3s/agent/etc/cni/net.d")
	deleted := daemonSet("deleted", nil, "/etc/cni/net.d")
	deleted.DeletionTimestamp = &metav1.Time{Time: fresh()}
	sets := []*appsv1.DaemonSet{multus, cni, logs, elsewhere, late, deleted}
	at := metav1.NewTime(fresh())
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &at }
	pending := func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }
	named := func(names ...string) *v1alpha1.NodePool {
		p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		for _, name := range names {
			p.Spec.Template.NetworkAgents = append(p.Spec.Template.NetworkAgents,
				v1alpha1.NetworkAgent{Namespace: "kube-system", Name: name})
		}
		return p
	}
	for name, c := range map[string]struct {
		pool *v1alpha1.NodePool
		sets []*appsv1.DaemonSet
		pods []corev1.Pod
		want []Agent
	}{
		"those that mount the folders of the CNI": {named(), sets, []corev1.Pod{podOf(cni), podOf(multus), podOf(logs)},
			[]Agent{agent("cni"), agent("multus")}},
		"a pod that is missing": {named(), sets, []corev1.Pod{podOf(cni)},
			[]Agent{agent("cni"), agent("multus", noPod)}},
		"pods that failed, go or wait": {named(), []*appsv1.DaemonSet{cni, multus},
			[]corev1.Pod{podOf(cni, failed), podOf(cni, leaving), podOf(multus, pending)},
			[]Agent{agent("cni", noPod), agent("multus", noPod)}},
		"one whose pod is there before the node opens": {named(), []*appsv1.DaemonSet{late}, []corev1.Pod{podOf(late)},
			[]Agent{agent("late")}},
		"without a readiness probe": {named(), []*appsv1.DaemonSet{unknown}, []corev1.Pod{podOf(unknown)},
			[]Agent{agent("unknown", unprobed)}},
		"those that the pool names and no others": {named("logs", "gone"), sets, []corev1.Pod{podOf(cni), podOf(logs)},
			[]Agent{agent("gone", noPod, unprobed), agent("logs")}},
		"during an update the pod that is Ready": {named(), []*appsv1.DaemonSet{cni},
			[]corev1.Pod{podOf(cni, pending), podOf(cni)}, []Agent{agent("cni")}},
		"a pool that is gone": {nil, sets, []corev1.Pod{podOf(cni)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := AgentsOf(c.pool, inState(v1alpha1.StateStarting), c.sets, c.pods)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("agents (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStartsAreRecorded: what is recorded at a stop is what the next start compares with.
func TestStartsAreRecorded(t *testing.T) {
	agents := []Agent{agent("cni"), agent("multus", noPod)}
	n := inState(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationAgentsAtStop, FormatStarts(agents)))
	if agents[0].startedSince(n) {
		t.Error("the start that was recorded counts as one of this life")
	}
	agents[0].Started = fresh().Add(time.Second)
	if !agents[0].startedSince(n) {
		t.Error("a later start does not count")
	}
	if got := FormatStarts([]Agent{agent("multus", noPod)}); got != "" {
		t.Errorf("recorded %q of agents that run nothing", got)
	}
}
