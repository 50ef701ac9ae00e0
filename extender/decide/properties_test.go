package decide

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// world plays a cluster beside claims: it applies what is decided and checks the
// invariants after each step.
type world struct {
	t      testing.TB
	ledger *Claims
	now    time.Time
	nodes  []*Node
	bound  map[v1alpha1.NodeName][]*corev1.Pod
	pods   []*corev1.Pod
	log    []string
	// starts are when each pool's nodes were started, unmade those of nodes that may not have been.
	starts map[v1alpha1.PoolName][]time.Time
	unmade map[v1alpha1.NodeName]time.Time
}

const (
	worldNodes = 5
	worldPods  = 12
	// worldBudget bounds each pool's starts, and is used up now and then.
	worldBudget = 2
)

func newWorld(t testing.TB) *world {
	w := &world{t: t, ledger: NewClaims(), now: epoch(), bound: map[v1alpha1.NodeName][]*corev1.Pod{},
		starts: map[v1alpha1.PoolName][]time.Time{}, unmade: map[v1alpha1.NodeName]time.Time{}}
	for i := range worldNodes {
		w.nodes = append(w.nodes, standby(fmt.Sprintf("n%d", i), inPool(v1alpha1.PoolName(fmt.Sprintf("p%d", i%2)),
			int32(i%3)), budgetOf(worldBudget)))
	}
	for i := range worldPods {
		p := pod(fmt.Sprintf("pod%d", i), asking("cpu", fmt.Sprintf("%dm", 500+700*(i%5))), withPriority(int32(i%2)))
		if i%4 == 0 {
			onPort(8080)(p)
		}
		if i%4 == 1 {
			labelled("apart")(p)
			apartFrom("apart", corev1.LabelHostname)(p)
		}
		w.pods = append(w.pods, p)
	}
	return w
}

// step takes one byte of fate. It returns the world's own view of what happened, for the failure's
// message.
func (w *world) step(fate byte) {
	n := w.nodes[int(fate>>4)%len(w.nodes)]
	p := w.pods[int(fate>>4)%len(w.pods)]
	switch fate & 0x0f {
	case 0, 1, 2, 3, 4, 5:
		p = w.pods[(int(fate>>4)+int(fate&0x0f)*3)%len(w.pods)]
		w.ask(p)
	case 6:
		w.bind(p)
	case 7:
		w.turn(n, v1alpha1.StateStandby, v1alpha1.StateStarting)
	case 8:
		w.intrude(n)
	case 9:
		w.turn(n, v1alpha1.StateStarting, v1alpha1.StateRunning)
	case 10:
		w.nominate(p)
	case 11:
		w.turn(n, v1alpha1.StateStarting, v1alpha1.StateStandby)
	case 12:
		switch {
		case n.State == v1alpha1.StateStopping:
			w.turn(n, v1alpha1.StateStopping, v1alpha1.StateStandby)
		case len(w.bound[n.Name]) == 0 && len(w.ledger.On(n.Name)) == 0:
			w.turn(n, v1alpha1.StateRunning, v1alpha1.StateStopping)
		}
	case 13:
		w.now = w.now.Add(11 * time.Second)
		w.logf("overdue %v, expired %v", podsOf(w.ledger.Overdue(w.now)), w.ledger.ExpireBackoffs(w.now))
	case 14:
		if int(fate>>4)%2 == 0 {
			w.ledger.ReleaseNode(n.Name)
			w.logf("failed %s", n.Name)
			if n.State == v1alpha1.StateStandby {
				w.notMade(n)
			}
		} else {
			w.adopt(p, n)
		}
	case 15:
		w.ledger.Release(p.UID, "", w.now)
		w.unbind(p)
		w.bound[n.Name] = slices.DeleteFunc(w.bound[n.Name], func(o *corev1.Pod) bool {
			return strings.HasPrefix(o.Name,
				"thief")
		})
		w.recount(n.Name)
		w.logf("deleted %s", p.Name)
	}
	w.check()
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) turn(n *Node, from, to v1alpha1.NodeState) {
	if n.State != from {
		return
	}
	is := *n
	is.State, is.StoppingEmpty = to, to == v1alpha1.StateStopping
	w.replace(&is)
	w.ledger.ObserveNode(n.Name, from, to, w.now)
	w.logf("%s %s -> %s", n.Name, from, to)
	switch {
	case from == v1alpha1.StateStarting && to == v1alpha1.StateStandby:
		w.notMade(n)
	case to != v1alpha1.StateStarting:
		delete(w.unmade, n.Name)
	}
}

// notMade: the last start of the node was not made.
func (w *world) notMade(n *Node) {
	at, ok := w.unmade[n.Name]
	if !ok {
		return
	}
	delete(w.unmade, n.Name)
	if i := slices.Index(w.starts[n.Pool], at); i >= 0 {
		w.starts[n.Pool] = slices.Delete(w.starts[n.Pool], i, i+1)
	}
}

func (w *world) replace(n *Node) {
	i := slices.IndexFunc(w.nodes, func(o *Node) bool { return o.Name == n.Name })
	w.nodes[i] = n
}

// takes reports whether the pod fits the node as it will run.
func (w *world) takes(n *Node, p *corev1.Pod) bool {
	all := worldOf(w.nodes...)()
	all.Nodes[slices.Index(w.nodes, n)] = &n.Node
	return all.View(fit.NewPod(p, n.Defaults)).Fits(&n.Node) == nil
}

// candidates are the nodes that the pod fits in-tree, as kube-scheduler would find them: it knows
// of no claims.
func (w *world) candidates(p *corev1.Pod) []*Node {
	var out []*Node
	for _, n := range w.nodes {
		if w.takes(n, p) {
			out = append(out, n)
		}
	}
	return out
}

// ask asks twice: the second time nothing may change. A pod that passes is bound.
func (w *world) ask(p *corev1.Pod) {
	if w.isBound(p) {
		return
	}
	before, had := w.ledger.Of(p.UID)
	candidates := w.candidates(p)
	question := func() Ask {
		return Ask{Pod: p, Nodes: candidates, World: worldOf(w.nodes...)}
	}
	first := w.ledger.Decide(question(), w.now)
	w.logf("ask %s: %s nodes %v start %q refused %q displaced %v",
		p.Name, first.Kind, first.Nodes, startedBy(first), first.Refused, podsOf(first.Displaced))
	if len(candidates) > 0 && len(first.Nodes) == 0 && first.Claim == nil && len(first.Refused) == 0 {
		w.fail("pod %s neither passed nor promised nor given a reason", p.Name)
	}
	if had && (first.Claim != nil && first.Claim.Node != before.Node || startedBy(first) != "") {
		w.fail("claim of %s moved from %s by asking", p.Name, before.Node)
	}
	w.gaveWay(p, first)
	w.spent(first)
	if first.Kind == Reclaimed {
		w.turn(w.node(first.Claim.Node), v1alpha1.StateStopping, v1alpha1.StateRunning)
		w.place(p, first.Claim.Node)
		return
	}
	again := w.ledger.Decide(question(), w.now)
	if startedBy(again) != "" || len(again.Displaced) > 0 {
		w.fail("pod %s starts a second node, %q, and displaces %v", p.Name, startedBy(again), podsOf(again.Displaced))
	}
	wantDiff(w.t, "told the second time", again.Refused, first.Refused)
	wantDiff(w.t, "nodes the second time", again.Nodes, first.Nodes)
	slices.Reverse(candidates)
	reversed := w.ledger.Decide(question(), w.now)
	slices.Reverse(reversed.Nodes)
	wantDiff(w.t, "asked with the candidates in another order", reversed, again)
	if len(first.Nodes) > 0 {
		w.place(p, first.Nodes[0])
	}
}

func (w *world) bind(p *corev1.Pod) {
	if c, ok := w.ledger.Of(p.UID); ok && !w.isBound(p) {
		if w.node(c.Node).State == v1alpha1.StateRunning {
			w.place(p, c.Node)
		}
	}
}

func (w *world) node(name v1alpha1.NodeName) *Node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *Node) bool { return n.Name == name })]
}

// gaveWay: only lower priorities do, and none of them keeps its claim.
func (w *world) gaveWay(p *corev1.Pod, d Decision) {
	for i := range d.Displaced {
		c := &d.Displaced[i]
		if c.Priority >= corev1helpers.PodPriority(p) || w.ledger.HasClaim(c.Pod) {
			w.fail("pod %s of priority %d displaced %s of %d, whose claim stands: %v",
				p.Name, corev1helpers.PodPriority(p), c.Pod, c.Priority, w.ledger.HasClaim(c.Pod))
		}
	}
}

// spent counts the starts that are made: no pool has more within the window than its budget.
func (w *world) spent(d Decision) {
	if d.Kind != Started {
		return
	}
	recent := slices.DeleteFunc(w.starts[d.Claim.Pool], func(at time.Time) bool { return w.now.Sub(at) >= BudgetWindow })
	w.starts[d.Claim.Pool] = append(recent, w.now)
	w.unmade[d.Claim.Node] = w.now
	if n := len(w.starts[d.Claim.Pool]); n > worldBudget {
		w.fail("%d starts of pool %s within %s", n, d.Claim.Pool, BudgetWindow)
	}
}

// intrude binds a pod that no scheduler of ours has asked about.
func (w *world) intrude(n *Node) {
	if n.State != v1alpha1.StateRunning {
		return
	}
	thief := pod(fmt.Sprintf("thief%d", len(w.log)), asking("cpu", "700m"))
	if left := n.Allocatable.MilliCPU - n.Used.MilliCPU; left < 700 {
		return
	}
	w.place(thief, n.Name)
}

// nominate sends a claimed pod on its way to its running node: it counts as Used there, and later
// arrives or not.
func (w *world) nominate(p *corev1.Pod) {
	c, ok := w.ledger.Of(p.UID)
	if !ok || w.node(c.Node).State != v1alpha1.StateRunning {
		return
	}
	w.ledger.SetNominated(p.UID, c.Node)
	w.ledger.SetNominated(p.UID, "")
	w.logf("nominated %s to %s and back", p.Name, c.Node)
}

// adopt reads a claim from an annotation, which may be older than everything else. One whose pods
// keep apart is none that claims would have published.
func (w *world) adopt(p *corev1.Pod, n *Node) {
	if w.isBound(p) || p.Spec.Affinity != nil {
		return
	}
	adopted, released := w.ledger.Adopt(p, p.UID, n, w.now)
	w.logf("adopt %s on %s: %v, %d released", p.Name, n.Name, adopted, len(released))
}

// place binds the pod. Claims that then have no room end, as they do when the cluster state sees
// the binding.
func (w *world) place(p *corev1.Pod, name v1alpha1.NodeName) {
	w.ledger.Release(p.UID, name, w.now)
	w.bound[name] = append(w.bound[name], p)
	w.recount(name)
	w.logf("bound %s to %s, squeezed out %v", p.Name, name, podsOf(w.ledger.ReleaseOverflow(w.node(name), w.now)))
}

func (w *world) unbind(p *corev1.Pod) {
	for name, pods := range w.bound {
		w.bound[name] = slices.DeleteFunc(pods, func(o *corev1.Pod) bool { return o == p })
		w.recount(name)
	}
}

func (w *world) recount(name v1alpha1.NodeName) {
	i := slices.IndexFunc(w.nodes, func(n *Node) bool { return n.Name == name })
	is := *w.nodes[i]
	is.Used, is.Ports, is.Pods = fit.Resources{}, nil, nil
	for _, p := range w.bound[name] {
		is.Used.Add(fit.Requests(p, nil))
		is.Ports = append(is.Ports, fit.HostPorts(p)...)
		is.Pods = append(is.Pods, fit.NewPlaced(p))
	}
	w.nodes[i] = &is
}

func (w *world) isBound(p *corev1.Pod) bool {
	for _, pods := range w.bound {
		if slices.Contains(pods, p) {
			return true
		}
	}
	return false
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+"\nafter: %v", append(args, w.log)...)
}

// check holds the invariants of docs: claims never exceed the room, no pod has two, no bound pod
// has one, and the two indexes of the claims tell the same.
func (w *world) check() {
	w.t.Helper()
	seen := map[types.UID]v1alpha1.NodeName{}
	for _, n := range w.nodes {
		left := n.Allocatable.Clone()
		left.Sub(n.Used)
		ports, apart := slices.Clone(n.Ports), 0
		for _, c := range w.ledger.On(n.Name) {
			if other, twice := seen[c.Pod]; twice {
				w.fail("pod %s has claims on %s and %s", c.Pod, other, n.Name)
			}
			seen[c.Pod] = n.Name
			if of, ok := w.ledger.Of(c.Pod); !ok || of.Node != n.Name {
				w.fail("pod %s: its claim is on %s by node, on %q by pod", c.Pod, n.Name, of.Node)
			}
			if left.Short(c.digest.Requests) != "" {
				w.fail("claims on %s exceed its room: short of %s", n.Name, left.Short(c.digest.Requests))
			}
			left.Sub(c.digest.Requests)
			if fit.PortsConflict(c.digest.Ports, ports) {
				w.fail("claims on %s share a host port", n.Name)
			}
			ports = append(ports, c.digest.Ports...)
			if apart += len(c.digest.AntiAffinity); apart > 1 {
				w.fail("pods that keep apart wait together on %s", n.Name)
			}
		}
	}
	if len(seen) != w.ledger.Count() {
		w.fail("%d claims by node, %d by pod", len(seen), w.ledger.Count())
	}
	for _, p := range w.pods {
		if _, has := seen[p.UID]; has && w.isBound(p) {
			w.fail("pod %s is bound and has a claim", p.Name)
		}
	}
}

func TestInvariantsHoldOverRandomLives(t *testing.T) {
	lived := ""
	for seed := range int64(40) {
		w := newWorld(t)
		random := rand.New(rand.NewSource(seed))
		for range 400 {
			w.step(byte(random.Intn(256)))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		lived += strings.Join(w.log, "\n")
	}
	// A life in which these never happen would prove nothing of them.
	for _, what := range []string{
		": pass ", "pass-claimed", ": joined", ": started", ": reclaimed", ": waiting", "squeezed out [pod", "overdue [pod",
		"expired true", ": false",
		": true", "nominated", "start budget of", "among the pending pods", "displaced [pod",
	} {
		if !strings.Contains(lived, what) {
			t.Errorf("no life had %q in it", what)
		}
	}
}

func FuzzInvariants(f *testing.F) {
	f.Add([]byte{0x00, 0x07, 0x09, 0x06})             // a claim, start, run, bind
	f.Add([]byte{0x00, 0x07, 0x0b, 0x00, 0x0e, 0x00}) // a claim, a failed start, again, lost, again
	f.Add([]byte{0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x07, 0x09, 0x0d, 0x0d, 0x0d, 0x0c, 0x0c})
	f.Fuzz(func(t *testing.T, fates []byte) {
		w := newWorld(t)
		for _, fate := range fates[:min(len(fates), 200)] {
			w.step(fate)
		}
	})
}

// However the candidates are ordered, the decision is the same: the claims are looked up at maps
// and slices, and neither decides.
func TestDecideDoesNotDependOnTheOrderOfCandidates(t *testing.T) {
	nodes := func() []*Node {
		return []*Node{
			standby("a", keptBackFor("x")), standby("b", unavailableUntil(epoch().Add(time.Hour))), standby("c"), standby("d"),
			standby("e", inPool("q", 10)),
			starting("f", using("cpu", "4")), ours("g", v1alpha1.StateStopping), foreign("h", cordoned),
			foreign("i", tainted("gpu", corev1.TaintEffectNoSchedule)), running("j", cordoned),
		}
	}
	want := NewClaims().Decide(ask(pod("p"), nodes()...), epoch())
	random := rand.New(rand.NewSource(1))
	for range 200 {
		shuffled := nodes()
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		wantDiff(t, "decision", NewClaims().Decide(ask(pod("p"), shuffled...), epoch()), want)
		if t.Failed() {
			return
		}
	}
}

// Five pods of 2.5 cpu need five nodes of 4 cpu, although their sum would fit four; and no node is
// started twice.
func TestABurstStartsAsManyNodesAsItNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		pods, want int
		cpu        string
	}{
		"pods that do not share":  {5, 5, "2500m"},
		"two to a node":           {6, 3, "2"},
		"three to a node, odd":    {10, 4, "1300m"},
		"more than there is room": {30, 10, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			var nodes []*Node
			for i := range 10 {
				nodes = append(nodes, standby(fmt.Sprintf("n%d", i)))
			}
			started := map[v1alpha1.NodeName]bool{}
			for i := range c.pods {
				d := l.Decide(ask(pod(fmt.Sprint(i), asking("cpu", c.cpu)), nodes...), epoch())
				node := startedBy(d)
				if node != "" && started[node] {
					t.Errorf("node %s started twice", node)
				}
				if node != "" {
					started[node] = true
				}
			}
			if len(started) != c.want {
				t.Errorf("%d nodes started, want %d", len(started), c.want)
			}
		})
	}
}
