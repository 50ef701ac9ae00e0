package extender

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
)

func milli(m int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = nil
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(m,
			resource.DecimalSI)}
	}
}

// agent is a DaemonSet of 100m. With the affinity of docs/operate.md and a toleration of everything
// its pods come with the start; without them they come when the node opens.
func agent(withAffinity bool) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "agent"}}
	set.Spec.Template.Spec = cpuPod("x", "", milli(100)).Spec
	if withAffinity {
		s := &set.Spec.Template.Spec
		s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		s.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: v1alpha1.LabelState, Operator: corev1.NodeSelectorOpNotIn, Values: []string{string(v1alpha1.StateStandby)}},
				}}},
			}},
		}
	}
	return set
}

// agentOn is the agent's pod on the node.
func agentOn(node v1alpha1.NodeName) *corev1.Pod {
	set := agent(false)
	p := cpuPod("agent-"+string(node), string(node), milli(100))
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: new(true)}}
	return p
}

// startNode plays the start of a node as every watch shows it. agent is when the agent's pod comes.
func startNode(v *cluster.State, node v1alpha1.NodeName, withAffinity bool) {
	v.SetNode(poolNode(string(node), v1alpha1.StateStarting))
	if withAffinity {
		v.SetPod(agentOn(node))
	}
	v.SetNode(poolNode(string(node), v1alpha1.StateRunning))
	v.SetPod(agentOn(node))
}

// candidates are what kube-scheduler's own filters leave: it checks a node as it is.
func candidates(v *cluster.State, pod *corev1.Pod, names []string) Names {
	judge := v.PodFit(pod)
	var out []string
	for _, n := range lookUp(v, names...) {
		if !n.InService() || judge.Refusal(n) == nil {
			out = append(out, string(n.Name))
		}
	}
	return NamesOf(out)
}

// TestOnePodWakesNoMoreThanOneNode: six nodes of 4 cpu are standby, and an agent of 100m comes with
// each start.
func TestOnePodWakesNoMoreThanOneNode(t *testing.T) {
	for name, c := range map[string]struct {
		cpu    int64
		starts int
	}{
		"a pod that has room beside the agent": {3900, 1},
		"a pod that has none":                  {3950, 0},
	} {
		for when, withAffinity := range map[string]bool{"agent with the affinity": true, "agent without": false} {
			t.Run(name+", "+when, func(t *testing.T) {
				var nodes []*corev1.Node
				var names []string
				for i := range 6 {
					names = append(names, fmt.Sprint("node-", i))
					nodes = append(nodes, poolNode(names[i], v1alpha1.StateStandby))
				}
				r := newDecideRig(nodes...)
				r.state.SetDaemonSet(agent(withAffinity))
				p := cpuPod("x", "", milli(c.cpu))
				for range 2 * len(names) {
					before := len(r.starts)
					answer := r.Extender.Filter(p, candidates(r.state, p, names))
					for _, node := range r.starts[before:] {
						startNode(r.state, node, withAffinity)
					}
					if len(answer.Nodes) > 0 {
						break
					}
				}
				if len(r.starts) != c.starts {
					t.Errorf("%d nodes were started for one pod, want %d: %v", len(r.starts), c.starts, r.starts)
				}
				if on, _ := r.ledger.Of(p.UID); c.starts > 0 && string(on.Node) != string(r.starts[0]) {
					t.Errorf("the claim is on %q", on.Node)
				}
			})
		}
	}
}

// TestRoomOfAnAgentThatComesLate: the node runs, the pod with a claim is not bound yet, and the
// agent's pod has not come. A pod without a claim that took its room would have the agent push the
// claimed pod off.
func TestRoomOfAnAgentThatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		cpu   int64
		agent bool
		room  bool
	}{
		"room in addition to the agent": {900, false, true},
		"the agent's room":              {1000, false, false},
		"the agent has come":            {900, true, true},
		"the agent has come, and more is asked for than is left": {1000, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDecideRig(poolNode("node-0", v1alpha1.StateStandby))
			r.state.SetDaemonSet(agent(false))
			first, second := cpuPod("first", "", milli(3000)), cpuPod("second", "", milli(c.cpu))
			r.Extender.Filter(first, NamesOf([]string{"node-0"}))
			r.state.SetNode(poolNode("node-0", v1alpha1.StateStarting))
			r.state.SetNode(poolNode("node-0", v1alpha1.StateRunning))
			if c.agent {
				r.state.SetPod(agentOn("node-0"))
			}
			answer := r.Extender.Filter(second, NamesOf([]string{"node-0"}))
			if took := len(answer.Nodes) > 0; took != c.room {
				t.Errorf("the node takes the pod: %t, want %t (%v)", took, c.room, answer.FailedUnresolvable)
			}
			if answer := r.Extender.Filter(first, NamesOf([]string{"node-0"})); len(answer.Nodes) != 1 {
				t.Errorf("the claimed pod is not taken: %v", answer.FailedUnresolvable)
			}
		})
	}
}

// TestAPodThatIsPushedOffTwiceBacksOff: a kubelet reports a little less than at the stop, on each
// node alike. After two starts for nothing the owner backs off, with an event for each further one.
func TestAPodThatIsPushedOffTwiceBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		less := func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("3900m") }
		v, l := newTestView(time.Now)
		var names []string
		for i := range 6 {
			names = append(names, fmt.Sprint("node-", i))
			v.SetNode(poolNode(names[i], v1alpha1.StateStandby))
		}
		starts, recorder := recordedStarter{}, events.NewFakeRecorder(100)
		parts := Parts{
			State: v, Starter: &starts, Events: recorder, Now: time.Now, Log: logr.Discard(),
			Client: fake.NewClientBuilder().WithObjects(poolNode(names[0], v1alpha1.StateStandby)).Build(),
		}
		e, u := New(parts), NewUpkeep(parts)
		p := cpuPod("x", "", milli(3950))
		ask := func() {
			before := len(starts)
			e.Filter(p, candidates(v, p, names))
			for _, node := range starts[before:] {
				v.SetNode(poolNode(string(node), v1alpha1.StateStarting))
				v.SetNode(poolNode(string(node), v1alpha1.StateRunning, less))
			}
			u.Once(t.Context())
		}
		futile := func() (n int) {
			for len(recorder.Events) > 0 {
				if strings.Contains(<-recorder.Events, string(v1alpha1.ReasonFutileStart)) {
					n++
				}
			}
			return n
		}
		for range 6 {
			ask()
		}
		if n := futile(); len(starts) != 2 || n != 1 {
			t.Fatalf("%d starts and %d events FutileStart, want 2 and 1", len(starts), n)
		}
		<-time.After(time.Minute)
		for range 6 {
			ask()
		}
		if n := futile(); len(starts) != 3 || n != 1 {
			t.Errorf("%d starts and %d more events after the back-off, want 3 and 1", len(starts), n)
		}
		p.Spec.NodeName = "elsewhere"
		if v.SetPod(p); l.Missed(time.Now().Add(time.Second)) {
			t.Error("the pod is bound, and the ledger remembers it")
		}
	})
}
