package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// nodesInAPI are the Nodes as the API server has them, the versions of each in their order.
type nodesInAPI struct {
	versions map[v1alpha1.NodeName][]*corev1.Node
	names    [][]byte
}

// newNodesInAPI makes so many standby nodes.
func newNodesInAPI(count int) *nodesInAPI {
	api := &nodesInAPI{versions: map[v1alpha1.NodeName][]*corev1.Node{}}
	for i := range count {
		name := fmt.Sprintf("node-%02d", i)
		api.write(poolNode(name, v1alpha1.StateStandby))
		api.names = append(api.names, []byte(name))
	}
	return api
}

func (a *nodesInAPI) write(n *corev1.Node) {
	name := v1alpha1.NodeName(n.Name)
	a.versions[name] = append(a.versions[name], n)
}

func (a *nodesInAPI) latest(name v1alpha1.NodeName) *corev1.Node {
	return a.versions[name][len(a.versions[name])-1]
}

func isStarting(n *corev1.Node) bool {
	return n.Labels[v1alpha1.LabelState] == string(v1alpha1.StateStarting)
}

// namedOn are the pods that the Node names.
func namedOn(n *corev1.Node) []types.UID {
	var pods []types.UID
	for uid := range strings.SplitSeq(n.Annotations[v1alpha1.AnnotationClaims], ",") {
		if uid != "" {
			pods = append(pods, types.UID(uid))
		}
	}
	return pods
}

// process is one that serves: a cluster state that is behind the API server, and what it has still
// to do.
type process struct {
	*State
	api *nodesInAPI
	// seen is how many versions of each Node were delivered, unseen are the pods that are still to be.
	seen   map[v1alpha1.NodeName]int
	unseen []*corev1.Pod
	// toWrite are the nodes whose claims are to be written, toCall those that it is to start, and
	// started those that it did.
	toWrite, toCall, started map[v1alpha1.NodeName]bool
	siblings                 []*Siblings
	lost                     []types.UID
}

func newProcess(api *nodesInAPI, pods []*corev1.Pod) *process {
	p := &process{api: api, unseen: pods, seen: map[v1alpha1.NodeName]int{}, toWrite: map[v1alpha1.NodeName]bool{},
		toCall: map[v1alpha1.NodeName]bool{}, started: map[v1alpha1.NodeName]bool{}}
	p.State, _ = newTestView()
	p.Listen(Listener{
		SiblingsWait: func(s *Siblings) { p.siblings = append(p.siblings, s) },
		ClaimsLost: func(claims []decide.Claim) {
			for i := range claims {
				p.lost = append(p.lost, claims[i].Pod)
			}
		},
	})
	for name := range api.versions {
		p.deliver(name)
	}
	return p
}

// deliver shows the next version of the Node.
func (p *process) deliver(name v1alpha1.NodeName) {
	p.SetNode(p.api.versions[name][p.seen[name]])
	p.seen[name]++
}

func (p *process) ask(pod *corev1.Pod) { p.act(question(p.State, pod, p.api.names)) }

func (p *process) act(d decide.Decision) {
	if d.Kind.IsNewClaim() {
		p.toWrite[d.Claim.Node] = true
	}
}

// place makes claims for the next siblings, or for a pod that has lost its own.
func (p *process) place() {
	if len(p.lost) > 0 {
		uid := p.lost[0]
		p.lost = p.lost[1:]
		if pod := p.PendingPod(uid); pod != nil {
			p.act(p.Place(pod, epoch()))
		}
		return
	}
	placed, more := p.PlaceSiblings(p.siblings[0], epoch())
	for i := range placed {
		p.act(placed[i].Decision)
	}
	if !more {
		p.siblings = p.siblings[1:]
	}
}

// write writes the claims on the node to it, as scaler/start does: an intent to one that is
// standby. It is tried again where the Node or the pods that it names are not as this process sees
// them.
func (p *process) write(name v1alpha1.NodeName) {
	n := p.api.latest(name)
	behind := func(uid types.UID) bool { return p.IsBehind(name, uid) }
	if p.seen[name] < len(p.api.versions[name]) || slices.ContainsFunc(namedOn(n), behind) {
		return
	}
	delete(p.toWrite, name)
	claims := p.ClaimsOn(name)
	if len(claims) == 0 {
		return
	}
	pods := make([]string, len(claims))
	for i := range claims {
		pods[i] = string(claims[i].PublishedAs())
	}
	for _, uid := range namedOn(n) {
		if !slices.Contains(pods, string(uid)) && p.IsUnknownPod(uid) {
			pods = append(pods, string(uid))
		}
	}
	slices.Sort(pods)
	if !isStarting(n) {
		p.toCall[name] = true
	}
	if names := strings.Join(pods, ","); names != n.Annotations[v1alpha1.AnnotationClaims] {
		p.api.write(poolNode(n.Name, v1alpha1.StateStarting, naming(names)))
	}
}

// call starts the node, or returns it to standby where no claim is left on it.
func (p *process) call(name v1alpha1.NodeName) {
	delete(p.toCall, name)
	n := p.api.latest(name)
	if len(p.ClaimsOn(name)) > 0 || !isStarting(n) || slices.ContainsFunc(namedOn(n), p.IsUnknownPod) {
		p.started[name] = true
		return
	}
	p.api.write(poolNode(n.Name, v1alpha1.StateStandby))
}

// steps are what the process could do now.
func (p *process) steps() []func() {
	var can []func()
	for _, name := range slices.Sorted(maps.Keys(p.api.versions)) {
		if p.seen[name] < len(p.api.versions[name]) {
			can = append(can, func() { p.deliver(name) })
		}
	}
	if len(p.unseen) > 0 {
		can = append(can, func() {
			p.SetPod(p.unseen[0])
			p.unseen = p.unseen[1:]
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.toCall)) {
		can = append(can, func() { p.call(name) })
	}
	for _, name := range slices.Sorted(maps.Keys(p.toWrite)) {
		can = append(can, func() { p.write(name) })
	}
	if len(p.lost)+len(p.siblings) > 0 {
		can = append(can, p.place)
	}
	return can
}

// TestTwoProcessesServeOneBurst: the scheduler asks one or the other process about the pods of one
// shape, in their order. Both make claims for all of them, and learn late what the other has
// written. Whatever comes first, there is an end to it, no more nodes start than the pods need, and
// both know the same claim of each pod.
func TestTwoProcessesServeOneBurst(t *testing.T) {
	const rounds = 500
	for seed := range uint64(rounds) {
		all := servedByTwo(t, seed, burstOfTwo, false, func(*process) {})
		for _, pod := range all.pods {
			one, _ := all.both[0].ClaimOf(pod.UID)
			other, _ := all.both[1].ClaimOf(pod.UID)
			if one.Node == "" || one.Node != other.Node {
				t.Errorf("seed %d: the claim of %s is on %q and on %q", seed, pod.Name, one.Node, other.Node)
			}
		}
		if all.nodes != nodesForTwo {
			t.Errorf("seed %d: %d nodes start, the pods need %d", seed, all.nodes, nodesForTwo)
		}
	}
}

// TestTwoProcessesServeReplicasToCome: the same with pods that are created one after the other.
// Which pod of the owner has which claim is each process's own affair until one is bound. No node
// too many starts, unless the scheduler asks about pods in turn that a process does not know yet:
// then it is two at most.
func TestTwoProcessesServeReplicasToCome(t *testing.T) {
	const rounds, existAtFirst = 500, 2
	for name, c := range map[string]struct {
		shown bool
		more  int
	}{"both know the pods": {true, 0}, "one may not know the pod yet": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			more := 0
			for seed := range uint64(rounds) {
				all := servedByTwo(t, seed, existAtFirst, c.shown, func(p *process) {
					p.SetPool(poolObject("p", 2, func(p *v1alpha1.NodePool) {
						p.Spec.ScaleUp.Anticipate = v1alpha1.AnticipateReplicas
					}))
					p.SetOwner(replicaSet("set", burstOfTwo))
				})
				for _, pod := range all.pods {
					if !all.both[0].claims.HasClaim(pod.UID) && !all.both[1].claims.HasClaim(pod.UID) {
						t.Errorf("seed %d: %s has no claim", seed, pod.Name)
					}
				}
				for _, p := range all.both {
					if n := p.claims.CountToCome("set"); n > 0 {
						t.Errorf("seed %d: %d claims for replicas to come are left", seed, n)
					}
				}
				more += all.nodes - nodesForTwo
				if all.nodes < nodesForTwo || all.nodes > nodesForTwo+c.more {
					t.Errorf("seed %d: %d nodes start, the pods need %d", seed, all.nodes, nodesForTwo)
				}
			}
			t.Logf("%d nodes too many in %d bursts", more, rounds)
		})
	}
}

// burstOfTwo is how many pods two processes serve, of which two fill a node.
const burstOfTwo, nodesForTwo = 12, 6

// served is a burst that two processes have served.
type served struct {
	both []*process
	pods []*corev1.Pod
	// nodes is how many nodes start.
	nodes int
}

// servedByTwo has a burst served of which some pods exist at first. shown: see serve.
func servedByTwo(t *testing.T, seed uint64, exist int, shown bool, change func(*process)) served {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // dice, no secrets
	api := newNodesInAPI(8)
	s := served{pods: alike(burstOfTwo, ownedBy("ReplicaSet", "set"), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1500m")
	})}
	s.both = []*process{newProcess(api, s.pods[:exist]), newProcess(api, s.pods[:exist])}
	for _, p := range s.both {
		change(p)
	}
	if steps := serve(s.both, s.pods, exist, shown, dice); steps == mostSteps {
		t.Errorf("seed %d: after %d steps both are still at it", seed, steps)
	}
	started := maps.Clone(s.both[0].started)
	maps.Copy(started, s.both[1].started)
	s.nodes = len(started)
	return s
}

const (
	// mostSteps is more than twenty times what a burst takes.
	mostSteps = 5000
	// moreAsked is by how much more often than any other step a question comes.
	moreAsked = 6
)

// serve asks about the pods in turn, and plays steps of both processes in any order. So many exist
// at first, the others are created one by one. Where nothing is left to do and a pod has no claim,
// its Nodes are touched, so that the scheduler asks about all again. shown: it asks about a pod
// once both processes know it. It returns how many steps that took, mostSteps where there is no
// end.
func serve(both []*process, pods []*corev1.Pod, exist int, shown bool, dice *rand.Rand) int {
	toAsk := pods[:exist]
	for step := range mostSteps {
		can := append(both[0].steps(), both[1].steps()...)
		if exist < len(pods) {
			can = append(can, func() {
				for _, p := range both {
					p.unseen = append(slices.Clone(p.unseen), pods[exist])
				}
				toAsk = append(slices.Clone(toAsk), pods[exist])
				exist++
			})
		}
		if len(can) == 0 && len(toAsk) == 0 {
			if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !both[0].claims.HasClaim(p.UID) }) {
				return step
			}
			toAsk = pods
		}
		if i := dice.IntN(len(can) + moreAsked); i < len(can) {
			can[i]()
		} else if len(toAsk) > 0 && !(shown && slices.ContainsFunc(both, func(p *process) bool {
			return p.PendingPod(toAsk[0].UID) == nil
		})) {
			both[dice.IntN(len(both))].ask(toAsk[0])
			toAsk = toAsk[1:]
		}
	}
	return mostSteps
}
