// Package nominate writes status.nominatedNodeName of pods that have claims, so that a scheduler
// without the extender sees the claims: it tries the nominated node first, and counts the pod there
// against pods of equal or lower priority.
//
// Who is nominated when:
//
//	| pod                             | when                                                 |
//	|---------------------------------|------------------------------------------------------|
//	| preemptionPolicy: Never         | once its claim is on a Node that starts, at once     |
//	|                                 | where the node runs: the scheduler keeps the field   |
//	| any other, where others wait    | right before its node opens (openings), because      |
//	| that may take its node's room   | a failed attempt clears the field and has all        |
//	| and cost one more               | pending pods tried again. Where it is cleared by     |
//	|                                 | then, once more when the node runs                   |
//	| any other                       | never: it would be lost to the nodes that open       |
//	|                                 | before, and clearing it costs the scheduler a write  |
//	| of a scheduler with the         | never: /filter returns its claimed node alone        |
//	| extender                        |                                                      |
//	| nominated by others, bound,     | never                                                |
//	| being deleted                   |                                                      |
//
// A nomination is ours if the field manager stratos-nomination owns the field in the managed fields
// of the API server's object. The caches keep that entry alone (cmd/stratos/slim). One whose claim
// is gone or on another node is cleared or moved, by whichever process leads. One of others is
// never touched. Each write names UID and resource version of the pod that it was decided by.
package nominate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// Result is what came of a nomination that was due; the metric label of stratos_nominations_total.
type Result string

// The results.
const (
	// Written: the pod was nominated to its claimed node.
	Written Result = "written"
	// Cleared: a nomination of ours without its claim was taken away.
	Cleared Result = "cleared"
	// Refused: the API server or a policy does not want the write.
	Refused Result = "refused"
	// Slow: no answer came within WriteTime.
	Slow Result = "slow"
	// Failed: any other error.
	Failed Result = "failed"
	// Skipped: the node was opened without it, because a write was slow lately.
	Skipped Result = "skipped"
)

const (
	// WriteTime bounds a nomination.
	WriteTime = 5 * time.Second
	// slowFor is for how long nodes open without nominations after one that had no answer.
	slowFor = 5 * time.Second
	// quickTime is how long the caller of BeforeOpening is held up for answers, which come sooner but
	// in a burst.
	quickTime = 25 * time.Millisecond
	// answerTime bounds for how long a node stays closed for answers. In a burst of 200 writes an API
	// server on two cores took up to 0.6 s for one.
	answerTime = time.Second
	// workers write what no opening waits for. With writes of 5 ms they nominate 1600 pods per second.
	workers = 8
	// retryFirst and retryMost bound the pause before a failed write is tried again; retries bounds
	// how often that is.
	retryFirst, retryMost = 50 * time.Millisecond, 5 * time.Second
	retries               = 5
	// moveTime is how long a nomination may stay behind a claim that has moved. Until then the start
	// intent of the new node moves it, or the scheduler clears it, without a write more.
	moveTime = time.Second
	// seenEvery is the time between two looks whether the nominations on a node are written and seen.
	seenEvery = 25 * time.Millisecond
	// settleTime is how much later than ours the scheduler may see them, at least. Without it, 200
	// pods on 50 nodes that open at once took two nodes more.
	settleTime = 100 * time.Millisecond
	// mostClosed bounds for how long a node stays closed once its group has begun.
	mostClosed = 2 * time.Second
	// gatherTime is how long nodes are gathered after the last that was ready, or was opened. Where 50
	// are ready at once the time between two is shorter. With 75 ms, and 300 for mostHeld, up to 57 of
	// 200 nominations were lost and up to 3 nodes more started; with these at most 4, and none.
	gatherTime = 250 * time.Millisecond
	// mostHeld bounds for how long a node waits for its group to begin.
	mostHeld = time.Second
	// lostTime is how soon a pod is checked again whose nomination does not show: our watch may be
	// behind, or its node is not open yet.
	lostTime = 10 * time.Millisecond
)

// Nominator nominates pods to their claimed nodes. It runs on every replica, because each starts
// the nodes of its own claims.
type Nominator struct {
	state  *cluster.State
	live   client.Reader
	writer client.StatusClient
	// enabled: nominations are written; otherwise ours are only cleared.
	enabled bool
	// schedulers are those with the extender.
	schedulers []string
	count      func(Result)
	now        func() time.Time
	queue      workqueue.TypedRateLimitingInterface[Task]
	oneByOne   bool
	failures   failures
	openings   openings
}

// Task is a pod whose nomination is to be written or checked.
type Task struct {
	pod types.UID
	// node is where the pod is to be nominated to; "" to check a nomination of ours.
	node v1alpha1.NodeName
	// late: moveTime has passed since the claim was seen to have moved, or lostTime since the
	// nomination was seen to be lost.
	late bool
}

// Options are what a Nominator needs.
type Options struct {
	State *cluster.State
	// Live is the API server itself.
	Live   client.Reader
	Writer client.StatusClient
	// Enabled is the flag --nominate. Without it no pod is nominated, and nominations of ours are
	// cleared.
	Enabled bool
	// ExtenderSchedulers are the schedulerNames whose pods are never nominated.
	ExtenderSchedulers []string
	// Count is called once for each nomination that was due.
	Count func(Result)
	// Queue is what the workers take from; nil for one that waits by the clock of the machine.
	Queue workqueue.TypedRateLimitingInterface[Task]
	// OneByOne has nominations written one after the other before a node opens, for a test that plays
	// the time itself: else their order would be the Go scheduler's.
	OneByOne bool
	Now      func() time.Time
	Log      logr.Logger
}

// New returns a Nominator. What no opening waits for is written once its Start runs.
func New(o Options) *Nominator {
	if o.Queue == nil {
		o.Queue = workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[Task](retryFirst, retryMost))
	}
	return &Nominator{
		state: o.State, live: o.Live, writer: o.Writer, enabled: o.Enabled, schedulers: o.ExtenderSchedulers,
		count: o.Count, now: o.Now, queue: o.Queue, oneByOne: o.OneByOne,
		failures: failures{log: o.Log, now: o.Now, logged: map[string]time.Time{}},
		openings: openings{of: map[v1alpha1.NodeName]*opening{}},
	}
}

// NeedLeaderElection is false: see Nominator.
func (n *Nominator) NeedLeaderElection() bool { return false }

// Start works until ctx ends. What is queued then is lost: the next process looks at each pending
// pod.
func (n *Nominator) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n.Step(ctx) {
			}
		})
	}
	<-ctx.Done()
	n.queue.ShutDown()
	group.Wait()
	return nil
}

// ClaimsWritten has the pods nominated whose claims the Node shows now, or that have claims on a
// running node, and that keep the nomination while nodes are closed. It returns at once.
func (n *Nominator) ClaimsWritten(node v1alpha1.NodeName) {
	if !n.enabled {
		return
	}
	for _, c := range n.state.ClaimsOn(node) {
		if pod := n.state.PendingPod(c.Pod); pod != nil && keepsNomination(pod) && n.mayNominate(pod) {
			n.queue.Add(Task{pod: c.Pod, node: node})
		}
	}
}

// BeforeOpening nominates the pods with claims on a node that is about to be opened, where other
// pods wait that may take its room. It returns within quickTime, and says for how long the node is
// to stay closed until the caller asks again: 0 to open it now. After its first answer it keeps no
// node closed for longer than mostHeld and mostClosed.
func (n *Nominator) BeforeOpening(ctx context.Context, node v1alpha1.NodeName) (wait time.Duration) {
	return n.opens(ctx, node, true)
}

// AtOpening is BeforeOpening where the node cannot stay closed.
func (n *Nominator) AtOpening(ctx context.Context, node v1alpha1.NodeName) {
	_ = n.opens(ctx, node, false)
	n.openings.opened(node, n.now())
}

// opens is both of them. mayWait: the node may stay closed.
func (n *Nominator) opens(ctx context.Context, node v1alpha1.NodeName, mayWait bool) (wait time.Duration) {
	if !n.enabled {
		return 0
	}
	if !n.state.TakersPending(node, n.schedulers) {
		n.openings.opened(node, n.now())
		return 0
	}
	var due []*corev1.Pod
	for _, c := range n.state.ClaimsOn(node) {
		pod := n.state.PendingPod(c.Pod)
		switch {
		case pod == nil || !n.mayNominate(pod) || !n.isDue(pod, node):
		case n.failures.slowLately():
			n.count(Skipped)
		default:
			due = append(due, pod)
		}
	}
	if wait := n.openings.mayBegin(node, len(due) > 0, mayWait, n.now()); wait > 0 {
		return wait
	}
	unsent := slices.DeleteFunc(due, func(pod *corev1.Pod) bool { return !n.openings.sends(node, pod.UID) })
	n.nominateAll(ctx, unsent, node)
	return n.openings.wait(node, n.hasSeen, mayWait, n.now())
}

// nominateAll has the pods nominated to the node, and returns when that is done or has failed, or
// after quickTime.
func (n *Nominator) nominateAll(ctx context.Context, pods []*corev1.Pod, node v1alpha1.NodeName) {
	if len(pods) == 0 {
		return
	}
	// The caller's step ends before an answer that comes late.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), WriteTime)
	var writes sync.WaitGroup
	for _, pod := range pods {
		write := func() {
			version, _ := n.nominate(ctx, pod, node) // counted; the node opens all the same
			n.openings.answered(node, pod.UID, version)
		}
		if n.oneByOne {
			write()
			continue
		}
		writes.Go(write)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		writes.Wait()
	}()
	select {
	case <-done:
	case <-time.After(quickTime):
	}
}

// hasSeen reports whether our watch has shown the pod in the version, or a newer one, or that it is
// pending no more.
func (n *Nominator) hasSeen(pod types.UID, version string) bool {
	is := n.state.PendingPod(pod)
	if is == nil {
		return true
	}
	newer, err := resourceversion.CompareResourceVersion(is.ResourceVersion, version)
	return newer >= 0 || err != nil // of what cannot be compared nothing can be awaited
}

// Check has a nomination of ours cleared or moved that has lost its claim, or written again that
// the scheduler cleared before the node was open. It returns at once.
func (n *Nominator) Check(pod types.UID) { n.queue.Add(Task{pod: pod}) }

// Step does one task of the queue, and is false when the queue has ended.
func (n *Nominator) Step(ctx context.Context) bool {
	t, shutdown := n.queue.Get()
	if shutdown || ctx.Err() != nil {
		return false
	}
	defer n.queue.Done(t)
	ctx, cancel := context.WithTimeout(ctx, WriteTime)
	defer cancel()
	if err := n.do(ctx, t); err != nil && !isRefusal(err) && n.queue.NumRequeues(t) < retries {
		n.queue.AddRateLimited(t)
		return true
	}
	n.queue.Forget(t)
	return true
}

func (n *Nominator) do(ctx context.Context, t Task) error {
	pod := n.state.PendingPod(t.pod)
	if pod == nil {
		return nil
	}
	if t.node != "" {
		_, err := n.nominate(ctx, pod, t.node)
		return err
	}
	own := decide.OwnNomination(pod)
	claim, claimed := n.state.ClaimOf(pod.UID)
	switch {
	case own == "":
		return n.restore(ctx, pod, t)
	case own == n.wanted(pod, claim.Node):
		return nil
	case claimed && n.mayNominate(pod) && !t.late:
		n.queue.AddAfter(Task{pod: t.pod, late: true}, moveTime)
		return nil
	}
	return n.clear(ctx, pod)
}

// restore nominates a pod again that lost its nomination before its node was open.
func (n *Nominator) restore(ctx context.Context, pod *corev1.Pod, t Task) error {
	claim, _ := n.state.ClaimOf(pod.UID)
	switch {
	case !n.mayNominate(pod) || !mayHaveLost(pod, claim):
		return nil
	case !t.late || claim.RunningSince.IsZero():
		n.queue.AddAfter(Task{pod: t.pod, late: true}, lostTime)
		return nil
	}
	_, err := n.nominate(ctx, pod, claim.Node)
	return err
}

// mayHaveLost reports whether the pod may have lost a nomination under the claim that is to
// be written again: none shows, and none was written since the node runs.
func mayHaveLost(pod *corev1.Pod, claim decide.Claim) bool {
	return isPending(pod) && pod.Status.NominatedNodeName == "" && !claim.NominatedAt.IsZero() &&
		(claim.RunningSince.IsZero() || claim.NominatedAt.Before(claim.RunningSince))
}

// mayNominate reports whether pods like this one are nominated at all.
func (n *Nominator) mayNominate(pod *corev1.Pod) bool {
	return n.enabled && !slices.Contains(n.schedulers, pod.Spec.SchedulerName)
}

// wanted is where a nomination of ours may stay: on the claimed node.
func (n *Nominator) wanted(pod *corev1.Pod, claimed v1alpha1.NodeName) v1alpha1.NodeName {
	if !n.mayNominate(pod) {
		return ""
	}
	return claimed
}

// isDue reports whether the pod is to be nominated to the node: it has its claim there, is pending,
// and neither others have nominated it, nor we under this claim and since the node runs.
func (n *Nominator) isDue(pod *corev1.Pod, node v1alpha1.NodeName) bool {
	claim, _ := n.state.ClaimOf(pod.UID)
	return isPending(pod) && claim.Node == node && decide.NominatedNode(pod) == "" && decide.OwnNomination(pod) != node &&
		(claim.NominatedAt.IsZero() || claim.NominatedAt.Before(claim.RunningSince))
}

// isStale reports whether the pod has a nomination of ours without the claim.
func (n *Nominator) isStale(pod *corev1.Pod) bool {
	claim, _ := n.state.ClaimOf(pod.UID)
	own := decide.OwnNomination(pod)
	return isPending(pod) && own != "" && own != n.wanted(pod, claim.Node)
}

// isPending reports whether the pod is still to be bound. In Kubernetes 1.34 a bound pod keeps its
// nomination, which means nothing then.
func isPending(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil }

// keepsNomination reports whether the scheduler keeps the pod's nomination when it fails to place
// the pod.
func keepsNomination(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
}
