package scheduling

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	startupTaint    = "e2e.example/network"
	startupUserData = "#!/bin/bash\n/etc/eks/bootstrap.sh e2e --kubelet-extra-args '--register-with-taints=" +
		startupTaint + "=true:NoSchedule'\n"
)

// TestStandbyNodeStartsAtFilterTime is the main job, in all the ways a pool can be warmed up. The
// rows have instance types of their own, so that holding a start in one does not hold it in
// another.
func TestStandbyNodeStartsAtFilterTime(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(),
		ControlPlane: controlplane.Options{DefaultScheduler: true}})
	// Ready alone must not be enough where startup taints wait for the network.
	assert.SetTimes(t, r, fake.Times{NetworkDelay: 300 * time.Millisecond})
	j := assert.OpenJournal(t, r)
	for name, row := range map[string]mainJob{
		"machines that power themselves off after warm-up": {pool: "selfstop", instanceType: "m5.large",
			userData: framework.SelfStopUserData},
		"machines that Stratos stops after warm-up": {
			pool: "controllerstop", instanceType: "m6i.large", userData: framework.StayUpUserData, mode: v1alpha1.ControllerStop,
		},
		"startup taints that go when a condition says that the network is up": {
			pool: "calico", instanceType: "m7i.large", userData: startupUserData + "CNI=calico\npoweroff\n",
			startupTaints: []corev1.Taint{{Key: startupTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
		"startup taints that go when the pod of the network agent is Ready": {
			pool: "vpc-cni", instanceType: "c5.large", userData: startupUserData, mode: v1alpha1.ControllerStop,
			agent:         "aws-node",
			startupTaints: []corev1.Taint{{Key: startupTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
		"no startup taints, and a network agent": {
			pool: "untainted", instanceType: "c6i.large", userData: framework.StayUpUserData, mode: v1alpha1.ControllerStop,
			agent: "kindnet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.run(t, r, j)
		})
	}
}

// mainJob is one pool of three nodes with room for two of the pods each.
type mainJob struct {
	pool, instanceType, userData string
	mode                         v1alpha1.CompletionMode
	startupTaints                []corev1.Taint
	// agent is the DaemonSet that makes the network of the pool's nodes; "" for none.
	agent string
}

func (m mainJob) run(t *testing.T, r *framework.Rig, j *assert.Journal) {
	m.runAgent(t, r)
	m.warm(t, r)
	before := assert.PoolNodes(t, r, m.pool)
	m.checkStandby(t, r, before)
	checkRole(t, r, before, "standby")
	assert.HoldStarts(t, r, m.instanceType, 1)
	one, two := framework.PoolPod(m.pool+"-one", m.pool, "cpu", "1"),
		framework.PoolPod(m.pool+"-two", m.pool, "cpu", "1")
	assert.Create(t, r, one, two)

	promised, asked := m.promise(t, r, before, one, two)
	node := before[promised]
	call := assert.AwaitCall(t, r, fake.OpStart, assert.InstanceOf(node))
	assert.Reboot(t, r, assert.InstanceOf(node))
	if diff := cmp.Diff([]string{promised, promised}, assert.AwaitBound(t, r, one, two)); diff != "" {
		t.Fatalf("nodes of the pods (-promised +bound):\n%s", diff)
	}
	assert.AwaitRunning(t, r, one, two)
	if call.At.Before(asked) {
		t.Errorf("start requested at %s, before the scheduler asked at %s", call.At, asked)
	}
	checkRole(t, r, map[string]*corev1.Node{promised: node}, "<none>")
	m.checkOrder(t, j, node, call, one, two)

	assert.Remove(t, r, one, two)
	m.checkReturn(t, r, before, promised)
	checkRoles(t, j.NodeVersions(promised))
	if starts := assert.CallsAbout(t, r, fake.OpStart, before); len(starts) != 1 || starts[0].Err != "" {
		t.Errorf("StartInstance calls for two pods that share a node: %+v, want exactly one", starts)
	}
}

// checkRole: what kubectl shows under ROLES.
func checkRole(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node, want string) {
	t.Helper()
	for name := range nodes {
		row, err := assert.Kubectl(t, r.ControlPlane, "get", "node", name, "--no-headers")
		if cells := strings.Fields(row); err != nil || len(cells) < 3 || cells[2] != want {
			t.Errorf("kubectl shows %q (%v), want the role %s", row, err, want)
		}
	}
}

// checkRoles: the role is the state in each version of the Node, so no write of its own changes it.
func checkRoles(t *testing.T, versions []assert.Version[*corev1.Node]) {
	t.Helper()
	seen := map[string]bool{}
	for _, v := range versions {
		var roles []string
		for label := range v.Object.Labels {
			if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
				roles = append(roles, role)
			}
		}
		state := v.Object.Labels[v1alpha1.LabelState]
		seen[state] = true
		if running := v1alpha1.NodeState(state) == v1alpha1.StateRunning; state != "" && (len(roles) == 0) != running ||
			len(roles) > 1 || len(roles) == 1 && roles[0] != state {
			t.Errorf("node %s is %s at revision %d, with the roles %v", v.Object.Name, state, v.Revision, roles)
		}
	}
	for _, state := range []v1alpha1.NodeState{v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting,
		v1alpha1.StateRunning, v1alpha1.StateStopping} {
		if !seen[string(state)] {
			t.Errorf("no version of the node is %s", state)
		}
	}
}

// runAgent creates the DaemonSet of the pool's network agent, whose pods pass their readiness probe
// a while after each start.
func (m mainJob) runAgent(t *testing.T, r *framework.Rig) {
	t.Helper()
	if m.agent == "" {
		return
	}
	probe := corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	agent := framework.DaemonSet(m.agent, corev1.PodSpec{
		NodeSelector: map[string]string{v1alpha1.LabelPool: m.pool},
		Tolerations:  framework.TolerateAll(),
		HostNetwork:  true,
		Containers: []corev1.Container{{Name: "agent", Image: "registry.example.com/" + m.agent + ":1",
			ReadinessProbe: &probe}},
		Volumes: []corev1.Volume{{Name: "cni", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"},
		}}},
	})
	agent.Namespace = metav1.NamespaceSystem
	agent.Spec.Template.Annotations = map[string]string{fake.AnnotationReadyAfter: "2s"}
	assert.Create(t, r, agent)
}

func (m mainJob) warm(t *testing.T, r *framework.Rig) {
	t.Helper()
	class := framework.Class(m.pool, m.instanceType)
	class.Spec.UserData = m.userData
	pool := framework.Pool(m.pool, 3)
	pool.Spec.PreWarm.CompletionMode = m.mode
	pool.Spec.Template.StartupTaints = m.startupTaints
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	assert.Warm(t, r, pool, class)
}

// checkStandby: stopped in the cloud by whom the mode says, and closed to pods in the cluster.
func (m mainJob) checkStandby(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	if len(nodes) != 3 {
		t.Fatalf("%d nodes, want 3", len(nodes))
	}
	stopped := map[v1alpha1.InstanceID]bool{} // a stop may be asked twice: only the sweep shows that it was taken
	for _, c := range assert.CallsAbout(t, r, fake.OpStop, nodes) {
		stopped[c.Instance] = true
	}
	if want := map[bool]int{true: 3}[m.mode == v1alpha1.ControllerStop]; len(stopped) != want {
		t.Errorf("StopInstance was called for %d instances during warm-up, want %d", len(stopped), want)
	}
	for name, n := range nodes {
		if state := assert.InstanceState(t, r, assert.InstanceOf(n)); state != provider.InstanceStopped {
			t.Errorf("instance of standby node %s is %s", name, state)
		}
		checkClosed(t, n)
	}
}

// checkClosed: what a standby Node must look like.
func checkClosed(t *testing.T, n *corev1.Node) {
	t.Helper()
	if !n.Spec.Unschedulable || !assert.HasTaint(n, v1alpha1.TaintStandby) {
		t.Errorf("node %s: unschedulable %t, taints %v", n.Name, n.Spec.Unschedulable, n.Spec.Taints)
	}
	if n.Labels[v1alpha1.LabelState] != string(v1alpha1.StateStandby) || n.Labels[v1alpha1.LabelExcludeDisruption] == "" {
		t.Errorf("node %s: labels %v", n.Name, n.Labels)
	}
	for _, mark := range []string{
		v1alpha1.AnnotationScaleUpStarted, v1alpha1.AnnotationScaleDownCandidateSince, v1alpha1.AnnotationClaims,
		v1alpha1.AnnotationStopReason, v1alpha1.AnnotationStopIntent, v1alpha1.AnnotationStoppingSince,
		v1alpha1.AnnotationRunningSince,
		v1alpha1.AnnotationNudgedAt, v1alpha1.AnnotationStartFailures, v1alpha1.AnnotationUnavailableUntil,
	} {
		if value, left := n.Annotations[mark]; left {
			t.Errorf("node %s: mark %s=%s is left over", n.Name, mark, value)
		}
	}
}

// promise waits until both pods were asked about and returns the node that both answers name, and
// when the scheduler first asked.
func (m mainJob) promise(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node, pods ...*corev1.Pod) (string,
	time.Time) {
	t.Helper()
	candidates := slices.Sorted(maps.Keys(nodes))
	var node string
	var at time.Time
	for _, pod := range pods {
		asks := assert.AwaitAsked(t, r.Recorder, framework.Filter, pod)
		if diff := cmp.Diff(candidates, asks[0].Nodes); diff != "" {
			t.Fatalf("candidates for pod %s (-the standby nodes +asked):\n%s", pod.Name, diff)
		}
		for _, a := range asks {
			named := assert.ClaimedNode(t, &a, m.pool)
			if node != "" && named != node {
				t.Fatalf("pods of one node's size were promised %s and %s", node, named)
			}
			node = named
		}
		if at.IsZero() || asks[0].At.Before(at) {
			at = asks[0].At
		}
	}
	return node, at
}

// checkOrder: intent, then the kubelet's report, then open to pods, then bound; closed all the time
// before.
func (m mainJob) checkOrder(t *testing.T, j *assert.Journal, node *corev1.Node, call fake.Call, pods ...*corev1.Pod) {
	t.Helper()
	versions := func() []assert.Version[*corev1.Node] { return j.NodeVersions(node.Name) }
	standby := assert.First(t, "standby", 0, versions, assert.InState(v1alpha1.StateStandby))
	intent := assert.First(t, "start intent", standby.Revision, versions, assert.InState(v1alpha1.StateStarting))
	ready := assert.First(t, "Ready again", intent.Revision, versions, assert.IsReady)
	running := assert.First(t, "running", intent.Revision, versions, assert.InState(v1alpha1.StateRunning))

	if assert.IsReady(intent.Object) {
		t.Errorf("a Ready left over from before the stop stood on node %s when its start began", node.Name)
	}
	if ready.Revision > running.Revision {
		t.Errorf("node %s was opened at revision %d, before its kubelet reported Ready at %d", node.Name, running.Revision,
			ready.Revision)
	}
	if beat := assert.NodeCondition(ready.Object,
		corev1.NodeReady).LastHeartbeatTime; beat.Time.Before(call.At.Truncate(time.Second)) {
		t.Errorf("node %s was Ready at %s, before its start was requested at %s", node.Name, beat, call.At)
	}
	for _, v := range versions() {
		if v.Revision < running.Revision && v.Revision > standby.Revision &&
			(!v.Object.Spec.Unschedulable || !assert.HasTaint(v.Object, v1alpha1.TaintStandby)) {
			t.Errorf("revision %d of node %s is open before it runs: cordon %t, taints %v", v.Revision, node.Name,
				v.Object.Spec.Unschedulable, v.Object.Spec.Taints)
		}
	}
	for _, p := range pods {
		bound := assert.First(t, p.Name+" bound", 0, func() []assert.Version[*corev1.Pod] { return j.PodVersions(p.UID) },
			func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
		if bound.Revision < running.Revision {
			t.Errorf("pod %s was bound at revision %d, before node %s ran at %d", p.Name, bound.Revision, node.Name,
				running.Revision)
		}
	}
	if open := running.Object; open.Spec.Unschedulable || len(open.Spec.Taints) != 0 ||
		open.Labels[v1alpha1.LabelExcludeDisruption] != "" {
		t.Errorf("running node %s: cordon %t, taints %v, labels %v", node.Name, open.Spec.Unschedulable, open.Spec.Taints,
			open.Labels)
	}
	if len(m.startupTaints) > 0 {
		checkStartupTaint(t, versions(), standby, running)
	}
	switch {
	case m.agent != "":
		m.checkAgent(t, j, node.Name, ready, running)
	case len(m.startupTaints) > 0:
		checkNetworkReport(t, standby, ready, running)
	}
}

// checkAgent: the node is opened after the agent's pod has turned Ready with a container of this
// life.
func (m mainJob) checkAgent(t *testing.T, j *assert.Journal, node string, ready, running assert.Version[*corev1.Node]) {
	t.Helper()
	boot := assert.NodeCondition(ready.Object, corev1.NodeReady).LastHeartbeatTime
	var started, up int64
	for _, v := range j.PodsOf(metav1.NamespaceSystem, m.agent, node) {
		run := newestStart(v.Object)
		switch {
		case run.Before(&boot): // the last life
		case !assert.PodIsReady(v.Object) && started == 0:
			started = v.Revision
		case assert.PodIsReady(v.Object) && up == 0:
			up = v.Revision
		}
	}
	if started == 0 || up < started || up > running.Revision {
		t.Errorf("node %s was opened at revision %d, its agent started at %d and was Ready at %d (0: never)", node,
			running.Revision, started, up)
	}
}

func newestStart(p *corev1.Pod) *metav1.Time {
	newest := &metav1.Time{}
	for i := range p.Status.ContainerStatuses {
		if run := p.Status.ContainerStatuses[i].State.Running; run != nil && newest.Before(&run.StartedAt) {
			newest = &run.StartedAt
		}
	}
	return newest
}

// checkStartupTaint: it stands until the node is opened, also while the node is Ready already.
func checkStartupTaint(t *testing.T, versions []assert.Version[*corev1.Node], standby,
	running assert.Version[*corev1.Node]) {
	t.Helper()
	for _, v := range versions {
		if v.Revision >= standby.Revision && v.Revision < running.Revision && !assert.HasTaint(v.Object, startupTaint) {
			t.Errorf("revision %d: the startup taint is gone before the node runs at %d", v.Revision, running.Revision)
		}
	}
}

// checkNetworkReport: the node is opened after the CNI has reported in this boot.
func checkNetworkReport(t *testing.T, standby, ready, running assert.Version[*corev1.Node]) {
	t.Helper()
	was := assert.NodeCondition(standby.Object, corev1.NodeNetworkUnavailable).LastHeartbeatTime
	if beat := assert.NodeCondition(ready.Object, corev1.NodeNetworkUnavailable).LastHeartbeatTime; beat.After(was.Time) {
		t.Errorf("the network was up with the first Ready (%s after %s), so that this row shows nothing", beat, was)
	}
	beat := assert.NodeCondition(running.Object, corev1.NodeNetworkUnavailable).LastHeartbeatTime
	if !beat.After(was.Time) {
		t.Errorf("the node was opened on a network report of %s, which is from before the stop (%s)", beat, was)
	}
}

// checkReturn: the empty node is stopped and looks as it did before its life; the others never
// moved.
func (m mainJob) checkReturn(t *testing.T, r *framework.Rig, before map[string]*corev1.Node, used string) {
	t.Helper()
	assert.AwaitAllStandby(t, r, m.pool, 3)
	after := assert.PoolNodes(t, r, m.pool)
	// The tag that people read follows the Node's label.
	assert.Eventually(t, "state tags", func(context.Context) (map[v1alpha1.InstanceID]fake.View, error) {
		return assert.PoolInstances(t, r, m.pool), nil
	}, func(views map[v1alpha1.InstanceID]fake.View) bool {
		for _, n := range before {
			if views[assert.InstanceOf(n)].Tags[v1alpha1.LabelState] != string(v1alpha1.StateStandby) {
				return false
			}
		}
		return true
	})
	for name, n := range after {
		checkClosed(t, n)
		if state := assert.InstanceState(t, r, assert.InstanceOf(n)); state != provider.InstanceStopped {
			t.Errorf("instance of standby node %s is %s", name, state)
		}
		if before[name] == nil {
			t.Errorf("node %s is new", name)
			continue
		}
		if diff := cmp.Diff(bearingOf(before[name]), bearingOf(n)); diff != "" {
			t.Errorf("node %s (used: %t) after its return to standby (-before +after):\n%s", name, name == used, diff)
		}
	}
	views := assert.PoolInstances(t, r, m.pool)
	for name, n := range before {
		// Warm-up, the held start, the reboot that released it.
		if boots, want := views[assert.InstanceOf(n)].Boots, map[bool]int{true: 3, false: 1}[name == used]; boots != want {
			t.Errorf("instance of node %s booted %d times, want %d", name, boots, want)
		}
	}
}

// bearing is what Stratos and people write on a Node. Left out: the taints that the node and cloud
// controllers set and remove in loops of their own, and what is recorded at each start and stop.
type bearing struct {
	Labels, Annotations map[string]string
	Taints              []corev1.Taint
	Unschedulable       bool
}

func bearingOf(n *corev1.Node) bearing {
	b := bearing{Labels: n.Labels, Annotations: maps.Clone(n.Annotations), Unschedulable: n.Spec.Unschedulable}
	delete(b.Annotations, v1alpha1.AnnotationHeartbeatAtStop)
	delete(b.Annotations, v1alpha1.AnnotationAgentsAtStop)
	delete(b.Annotations, v1alpha1.AnnotationLastStart)
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, "node.kubernetes.io/") || strings.HasPrefix(taint.Key,
			"node.cloudprovider.kubernetes.io/") {
			continue
		}
		taint.TimeAdded = nil
		b.Taints = append(b.Taints, taint)
	}
	slices.SortFunc(b.Taints, func(x, y corev1.Taint) int { return strings.Compare(x.ToString(), y.ToString()) })
	return b
}
