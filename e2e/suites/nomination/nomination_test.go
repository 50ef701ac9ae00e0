package nomination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestNominations runs its parts on one rig, one after another.
func TestNominations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := assert.OpenJournal(t, r)
	for name, class := range map[string]string{"never": patient, "default": ""} {
		t.Run("the younger gets its node/"+name, func(t *testing.T) { youngerGetsItsNode(t, r, j, name, class) })
	}
	t.Run("a burst with Never is exact", func(t *testing.T) { exactBurst(t, r) })
	t.Run("any other burst is bound", func(t *testing.T) { otherBursts(t, r) })
	t.Run("a nomination by the scheduler is left alone", func(t *testing.T) { preemptionIsLeftAlone(t, r, j) })
	t.Run("a scheduler with the extender", func(t *testing.T) { extenderNeedsNone(t, r, j) })
	t.Run("the next process clears what is stale", func(t *testing.T) { nextProcessClears(t, r) })
}

// youngerGetsItsNode has an older pod wait without a claim. When the node of the younger opens, the
// scheduler tries the older one first. With Never the younger is nominated long before. Otherwise
// it is nominated right before its node opens, and the scheduler's watches of pods and of nodes
// keep no order between them: that is no guarantee, and the other node is for when the older takes
// the first.
func youngerGetsItsNode(t *testing.T, r *framework.Rig, j *assert.Journal, policy, class string) {
	for round := range assert.Flag[int](t, "rounds") {
		pool := inRound("one-"+policy, round)
		warm(t, r, pool, 2)
		older := stock(inRound("older-"+policy, round), pool, "3", ofClass(class), startsNothing)
		younger := stock(inRound("younger-"+policy, round), pool, "3", ofClass(class))
		assert.Create(t, r, older)
		assert.AwaitPending(t, r, older, corev1.PodReasonUnschedulable)
		assert.Create(t, r, younger)
		assert.AwaitRunning(t, r, younger)
		took := assert.Now(t, r, older).Spec.NodeName
		nominated := nominations(j, younger.UID, v1alpha1.FieldManagerNomination)
		if len(nominated) == 0 {
			t.Errorf("round %d: the younger was never nominated", round)
		}
		t.Logf("round %d: the younger was nominated to %v, the older pod is on %q", round, nominated, took)
		if class == patient {
			if took != "" || len(nominated) != 1 {
				t.Errorf("round %d: the older pod is on node %q, and the younger was nominated to %v, want its node once", round,
					took, nominated)
			}
			if writes := awaitWrites(t, r, 1, younger); writes[younger.Name] != 1 || writes[older.Name] != 0 {
				t.Errorf("round %d: writes to the statuses of pods: %v, want one to the younger's", round, writes)
			}
		}
		remove(t, r, pool, older, younger)
	}
}

// exactBurst: each pod gets its claimed node, and as many nodes start as the pods fill. A node with
// room to spare would break that: it takes pods whose own nodes are not open yet.
func exactBurst(t *testing.T, r *framework.Rig) {
	for round := range assert.Flag[int](t, "rounds") {
		b := play(t, r, inRound("exact", round), ofClass(patient))
		for i, p := range b.pods {
			if b.bound[i] != b.claimed[i] {
				t.Errorf("pod %s is on node %s, want its claimed node %s: %q", p.Name, b.bound[i], b.claimed[i], b.history[i])
			}
			if b.writes[p.Name] != 1 {
				t.Errorf("%d writes to the status of pod %s, want 1", b.writes[p.Name], p.Name)
			}
		}
		if nodes := distinct(b.claimed); b.starts != len(b.pods)/4 || nodes != b.starts {
			t.Errorf("%d starts for claims on %d nodes, want %d of each", b.starts, nodes, len(b.pods)/4)
		}
	}
}

// otherBursts: the scheduler takes nominations away when nodes open one after another, so this is
// no guarantee. Every pod is bound. A nomination is written at most twice under one claim, and a
// claim that moved away and back costs two writes more: no pod is written again and again. Of many
// pods few find no room: with nominations at most two nodes more are started in a burst, and in all
// at most a third of those without.
func otherBursts(t *testing.T, r *framework.Rig) {
	const enough = 5 // rounds that tell how often that happens
	rounds := assert.Flag[int](t, "rounds")
	nominated, plain := 0, 0
	for round := range rounds {
		b := play(t, r, inRound("other", round))
		for i, p := range b.pods {
			if b.bound[i] == b.claimed[i] && b.writes[p.Name] > 6 {
				t.Errorf("%d writes to the status of pod %s, which is on its claimed node; want at most 6: %q", b.writes[p.Name],
					p.Name, b.history[i])
			}
		}
		further := b.starts - len(b.pods)/4
		if rounds >= enough && further > 2 {
			t.Errorf("round %d: %d starts more than the pods fill nodes, want at most 2", round, further)
		}
		nominated += further
	}
	if rounds < enough {
		return
	}
	if err := r.Stratos.Stop(); err != nil {
		t.Fatal(err)
	}
	off, metrics := assert.StartStratos(t, r, "off", "--nominate=false"), r.Metrics
	r.Metrics = off.Metrics
	for round := range rounds {
		b := play(t, r, inRound("plain", round))
		plain += b.starts - len(b.pods)/4
	}
	if err := errors.Join(off.Process.Stop(), r.Stratos.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.Metrics = metrics
	t.Logf("%d further starts with nominations, %d without", nominated, plain)
	if 3*nominated > plain {
		t.Errorf("%d further starts with nominations, %d without; want at most a third", nominated, plain)
	}
}

// burst is what came of the pods of one burst.
type burst struct {
	pods []*corev1.Pod
	// bound and claimed are the nodes of the pods: the last, and the first that had a claim.
	bound, claimed []string
	starts         int
	// writes are those of Stratos to the pods' statuses.
	writes map[string]int
	// history is what the pods' nominations were.
	history [][]string
}

// play creates pods of three shapes, whose requests divide each other and a node of 4 cpu: claims
// that take the fullest node with room fill all nodes but the last, in whatever order the pods are
// placed. A scheduler that spreads them leaves gaps in which the largest find no room, and one more
// node is started. The nodes open at once when all pods have claims, and their nominations where
// they keep them. It returns when all are bound.
func play(t *testing.T, r *framework.Rig, pool string, change ...func(*corev1.Pod)) burst {
	t.Helper()
	b := burst{pods: make([]*corev1.Pod, assert.Flag[int](t, "pods"))}
	warm(t, r, pool, int32(len(b.pods)/2))
	// From here on: a watch that has to deliver the warm-ups of many nodes as well is cut off.
	j := assert.OpenJournal(t, r)
	defer j.Close()
	before := len(assert.Starts(t, r))
	for i := range b.pods {
		b.pods[i] = stock(fmt.Sprintf("%s-%03d", pool, i), pool, []string{"2", "1", "500m", "500m"}[i%4], change...)
	}
	assert.HoldStarts(t, r, fourCPU, 0)
	assert.Create(t, r, assert.Objects(b.pods)...)
	assert.Release(t, r, awaitClaims(t, r, pool, b.pods)...)
	b.bound = assert.AwaitBound(t, r, b.pods...)
	awaitJournal(t, j, b.pods, b.bound)
	b.starts = len(assert.Starts(t, r)) - before
	b.writes = statusWrites(t, r)
	lost, moved := 0, 0
	for i, p := range b.pods {
		// A node that runs names no claims, so of a claim there only the nomination tells.
		nodes := append(claimedNodes(j, p.UID), nominations(j, p.UID, v1alpha1.FieldManagerNomination)...)
		b.history = append(b.history, history(j, p.UID))
		b.claimed = append(b.claimed, append(nodes, b.bound[i])[0])
		if losesNomination(j, p.UID) {
			lost++
		}
		if b.claimed[i] != b.bound[i] {
			moved++
		}
	}
	t.Logf("%d pods, claims on %d nodes, %d starts, %d nominations lost, %d pods elsewhere than claimed, so far %s",
		len(b.pods), distinct(b.claimed), b.starts, lost, moved, results(t, r))
	remove(t, r, pool, b.pods...)
	return b
}

// awaitClaims waits until each of the pods has a claim on a starting node, and is nominated to it
// where its policy is Never. It returns the instances of these nodes.
func awaitClaims(t *testing.T, r *framework.Rig, pool string, pods []*corev1.Pod) []v1alpha1.InstanceID {
	t.Helper()
	var starting []v1alpha1.InstanceID
	assert.AwaitNodes(t, r, pool, "claims of all pods", func(nodes map[string]*corev1.Node) bool {
		claimed := ""
		starting = nil
		for _, n := range nodes {
			claimed += n.Annotations[v1alpha1.AnnotationClaims] + ","
			if assert.StateOf(n) == v1alpha1.StateStarting {
				starting = append(starting, assert.InstanceOf(n))
			}
		}
		return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !strings.Contains(claimed, string(p.UID)) })
	})
	for _, p := range pods {
		if p.Spec.PriorityClassName == patient {
			assert.AwaitObject(t, r, p, "nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" })
		}
	}
	return starting
}

// preemptionIsLeftAlone: the scheduler nominates a pod to the node on which it evicts another.
func preemptionIsLeftAlone(t *testing.T, r *framework.Rig, j *assert.Journal) {
	const pool = "full"
	warm(t, r, pool, 1)
	victim := stock("victim", pool, "3", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3)) })
	assert.Create(t, r, victim)
	assert.AwaitRunning(t, r, victim)
	preemptor := stock("preemptor", pool, "3", ofClass(important))
	assert.Create(t, r, preemptor)
	assert.AwaitRunning(t, r, preemptor)
	if got := nominations(j, preemptor.UID, "kube-scheduler"); len(got) != 1 {
		t.Fatalf("set-up: the scheduler nominated the pod to %v, want the node once", got)
	}
	if writes := statusWrites(t, r); writes[preemptor.Name] != 0 {
		t.Errorf("%d writes to the status of a pod that the scheduler nominated", writes[preemptor.Name])
	}
	remove(t, r, pool, preemptor)
}

// extenderNeedsNone: /filter returns the claimed node alone.
func extenderNeedsNone(t *testing.T, r *framework.Rig, j *assert.Journal) {
	const pool = "extender"
	warm(t, r, pool, 2)
	pods := framework.PoolPods(4, "asked", pool, "cpu", "2")
	ofClass(patient)(pods[0])
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitRunning(t, r, pods...)
	writes := statusWrites(t, r)
	for _, p := range pods {
		if got := nominations(j, p.UID, v1alpha1.FieldManagerNomination); len(got) > 0 || writes[p.Name] > 0 {
			t.Errorf("pod %s of the scheduler with the extender was nominated to %v, with %d writes", p.Name, got,
				writes[p.Name])
		}
	}
	remove(t, r, pool, pods...)
}

// nextProcessClears: a process ended, and left a nomination without a claim. The other pod is
// nominated by another program. There is a node: without any the scheduler clears all nominations.
func nextProcessClears(t *testing.T, r *framework.Rig) {
	const pool = "idle"
	warm(t, r, pool, 1)
	ours := stock("stale", "no-such-pool", "1", ofClass(patient))
	theirs := stock("others", "no-such-pool", "1", ofClass(patient))
	assert.Create(t, r, ours, theirs)
	assert.AwaitPending(t, r, ours, corev1.PodReasonUnschedulable)
	assert.AwaitPending(t, r, theirs, corev1.PodReasonUnschedulable)
	if err := r.Stratos.Stop(); err != nil {
		t.Fatal(err)
	}
	nominate(t, r, ours, v1alpha1.FieldManagerNomination)
	nominate(t, r, theirs, "another-program")
	if err := r.Stratos.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	assert.AwaitObject(t, r, ours, "not nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == "" })
	if got := assert.Now(t, r, theirs).Status.NominatedNodeName; got != "gone" {
		t.Errorf("the pod that another program nominated is nominated to %q, want \"gone\"", got)
	}
	// With the process at work, too.
	nominate(t, r, ours, v1alpha1.FieldManagerNomination)
	assert.AwaitObject(t, r, ours, "not nominated", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == "" })
	remove(t, r, pool, ours, theirs)
}

// nominate nominates the pod to a node that does not exist.
func nominate(t *testing.T, r *framework.Rig, pod *corev1.Pod, manager string) {
	t.Helper()
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":"gone"}}`))
	if err := r.Client.Status().Patch(t.Context(), o, patch, client.FieldOwner(manager)); err != nil {
		t.Fatal(err)
	}
	if got := ownerOfNomination(o); got != manager {
		t.Fatalf("set-up: the nomination belongs to %q, want %q", got, manager)
	}
}

// TestNominationsAreOff: with --nominate=false no status of a pod is written.
func TestNominationsAreOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--nominate=false")
	warm(t, r, "off", 2)
	pods := []*corev1.Pod{stock("off-0", "off", "3", ofClass(patient)), stock("off-1", "off", "3")}
	assert.Create(t, r, assert.Objects(pods)...)
	assert.AwaitRunning(t, r, pods...)
	if writes := statusWrites(t, r); slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return writes[p.Name] > 0 }) {
		t.Errorf("writes to the statuses of pods %v, want none", names(writes))
	}
	assert.Await(t, "the metric", func(ctx context.Context) (bool, error) {
		n, err := framework.Metric(ctx, r.Metrics, "stratos_nominations_total", "")
		return n == 0, err
	})
}
