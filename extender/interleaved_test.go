package extender

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// interleaved plays a scheduler that assumes at once what it binds, and a watch that shows it
// later: between two questions, or while one is being answered.
type interleaved struct {
	*decideRig
	dice *rand.Rand
	// nodes are the states on the API server, assumed what the scheduler counts on each node in
	// milli-cpu.
	nodes   map[v1alpha1.NodeName]v1alpha1.NodeState
	assumed map[v1alpha1.NodeName]int64
	pods    []*corev1.Pod
	bound   map[types.UID]bool
	// coming are the events that the watches have not shown yet, one queue for pods and one for Nodes:
	// each keeps its order.
	coming   [2][]func()
	homeless []types.UID
	// named are the nodes that each pod was told to wait for.
	named map[types.UID]map[string]bool
	log   []string
}

const (
	ofPods = iota
	ofNodes
)

func newInterleaved(seed uint64) *interleaved {
	w := &interleaved{
		decideRig: newDecideRig(), dice: rand.New(rand.NewPCG(seed, 0)), nodes: map[v1alpha1.NodeName]v1alpha1.NodeState{},
		assumed: map[v1alpha1.NodeName]int64{}, bound: map[types.UID]bool{}, named: map[types.UID]map[string]bool{},
	}
	w.Extender.starter, w.Extender.events = w, unheard{}
	w.state.Listen(cluster.Listener{ClaimsLost: func(claims []decide.Claim) {
		for i := range claims {
			w.homeless = append(w.homeless, claims[i].Pod)
		}
	}})
	w.now = func() time.Time { // the candidates have been looked up, and nothing is decided yet
		for w.dice.IntN(2) == 0 && w.show() {
		}
		return epoch()
	}
	for i := range 8 {
		name := v1alpha1.NodeName(fmt.Sprintf("node-%d", i))
		w.nodes[name] = v1alpha1.StateStandby
		w.state.SetNode(poolNode(string(name), v1alpha1.StateStandby))
	}
	for i := range 14 {
		cpu, prio := []string{"1", "1500m", "2"}[w.dice.IntN(3)], int32(i%3/2)
		p := portless(fmt.Sprintf("pod-%02d", i), "", func(p *corev1.Pod) {
			p.Spec.Priority, p.Spec.Containers[0].Resources.Requests = &prio, corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		})
		w.pods = append(w.pods, p)
	}
	return w
}

// StartNode writes the intent, and then the node runs.
func (w *interleaved) StartNode(name v1alpha1.NodeName) {
	if w.nodes[name] != v1alpha1.StateStandby {
		return
	}
	for _, state := range []v1alpha1.NodeState{v1alpha1.StateStarting, v1alpha1.StateRunning} {
		w.coming[ofNodes] = append(w.coming[ofNodes], func() { w.state.SetNode(poolNode(string(name), state)) })
	}
	w.nodes[name] = v1alpha1.StateRunning
}

// show delivers one event, and is false where there is none.
func (w *interleaved) show() bool {
	kind := w.dice.IntN(2)
	if len(w.coming[kind]) == 0 {
		kind = 1 - kind
	}
	if len(w.coming[kind]) == 0 {
		return false
	}
	event := w.coming[kind][0]
	w.coming[kind] = w.coming[kind][1:]
	event()
	return true
}

func cpuOf(p *corev1.Pod) int64 { return p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }

// schedule asks about one pod as kube-scheduler does.
func (w *interleaved) schedule(p *corev1.Pod) {
	var candidates []string
	for name := range w.nodes {
		if w.assumed[name]+cpuOf(p) <= 4000 {
			candidates = append(candidates, string(name))
		}
	}
	slices.Sort(candidates)
	answer := w.Filter(p, candidates)
	w.log = append(w.log, fmt.Sprintf("%s: %s %v %v", p.Name, answer.Decision, answer.Nodes, answer.FailedUnresolvable))
	for _, message := range answer.FailedUnresolvable {
		if m := regexp.MustCompile(`starting standby node (\S+) of pool`).FindStringSubmatch(message); m != nil {
			if w.named[p.UID] == nil {
				w.named[p.UID] = map[string]bool{}
			}
			w.named[p.UID][m[1]] = true
		}
	}
	if len(answer.Nodes) == 0 {
		return
	}
	on := answer.Nodes[w.dice.IntN(len(answer.Nodes))]
	w.assumed[on] += cpuOf(p)
	w.bound[p.UID] = true
	is := p.DeepCopy()
	is.Spec.NodeName = string(on)
	w.coming[ofPods] = append(w.coming[ofPods], func() {
		w.state.SetPod(is)
		w.log = append(w.log, p.Name+" is seen on "+string(on))
	})
}

// place claims room for a pod that has lost its claim, as package start does.
func (w *interleaved) place() {
	uid := w.homeless[0]
	w.homeless = w.homeless[1:]
	pod := w.state.PendingPod(uid)
	if pod == nil {
		return
	}
	d := w.state.Place(pod, w.now())
	w.log = append(w.log, fmt.Sprintf("%s is placed anew: %s %+v", pod.Name, d.Kind, d.Claim))
	if d.Claim != nil {
		w.StartNode(d.Claim.Node)
	}
}

func (w *interleaved) step() {
	switch w.dice.IntN(6) {
	case 0, 1, 2:
		p := w.pods[w.dice.IntN(len(w.pods))]
		if !w.bound[p.UID] {
			if w.state.PendingPod(p.UID) == nil && w.dice.IntN(2) == 0 {
				w.state.SetPod(p) // the scheduler may have seen the pod before we do
			}
			w.schedule(p)
		}
	case 3, 4:
		w.show()
	case 5:
		if len(w.homeless) > 0 {
			w.place()
		}
	}
}

// Only the scheduler binds, so no claim is ever lost, except to make room for a higher priority. A
// pod of the highest priority is told to wait for one node only, however the events of the watches
// interleave.
func TestNoPromiseIsBrokenHoweverEventsInterleave(t *testing.T) {
	for seed := range uint64(500) {
		w := newInterleaved(seed)
		for range 150 {
			w.step()
		}
		for _, p := range w.pods {
			if *p.Spec.Priority > 0 && len(w.named[p.UID]) > 1 {
				t.Errorf("seed %d: %s of the highest priority was told to wait for %v", seed, p.Name, w.named[p.UID])
			}
		}
		if t.Failed() {
			for _, line := range w.log {
				t.Log(line)
			}
			return
		}
	}
}
