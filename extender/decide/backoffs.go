package decide

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// BackOffNode lets no claim be made before the given time on a node whose start failed.
func (l *Claims) BackOffNode(node v1alpha1.NodeName, until time.Time) {
	l.backingOff[node] = until
}

// EndBackoff ends what BackOffNode began.
func (l *Claims) EndBackoff(node v1alpha1.NodeName) { delete(l.backingOff, node) }

// OwnerBackoff returns why no node may be started for the pod, and until when; "" where one may.
// Unlike a node that backs off, this holds the pod itself back: an instance launched for it would
// be another start for nothing.
func (l *Claims) OwnerBackoff(pod *corev1.Pod, now time.Time) (why string, until time.Time) {
	owner := ownerOf(pod)
	until = l.futileOwners.until(owner, now)
	if until.IsZero() {
		return "", until
	}
	step := l.futileOwners.After(l.futileOwners.byKey[owner].failures)
	return "the last node started for this pod did not take it; not starting another for " + step.String(), until
}

// BudgetExhausted returns why the node may not be started because its pool's start budget is used
// up, and until when; "" where it may.
func (l *Claims) BudgetExhausted(n *Node, now time.Time) (why string, until time.Time) {
	until, left := l.budgetLeft(n, now)
	if left {
		return "", until
	}
	return reason{pool: n.Pool, text: budgetMessage(n)}.String(), until
}

// budgetMessage says, once for each pool, that its start budget is used up.
func (j *attempt) usedUp(n *Node) string {
	if j.budgetMessages[n.Pool] == "" {
		j.budgetMessages[n.Pool] = budgetMessage(n)
	}
	return j.budgetMessages[n.Pool]
}

func budgetMessage(n *Node) string {
	return fmt.Sprintf("start budget of %d in %s is used up", n.StartBudget, BudgetWindow)
}

func (j *attempt) withinBudget(n *Node) bool {
	left, known := j.hasBudget[n.Pool]
	if !known {
		var until time.Time
		if until, left = j.budgetLeft(n, j.now); !left {
			j.limited[n.Pool] = until
		}
		j.hasBudget[n.Pool] = left
	}
	return left
}

// Missed reports whether some pod, claimed or not, was refused shortly before the given moment and
// has not been asked about since. A claimed one counts from when its node runs: before, the refusal
// was right. If that is the moment at which our view of the cluster opened up, the scheduler's view
// may have opened before: then it has asked already, was refused, and in a quiet cluster never asks
// again.
func (l *Claims) Missed(opened time.Time) bool {
	for _, asked := range l.rejected {
		if missedAt(asked, opened) {
			return true
		}
	}
	for _, c := range l.byPod {
		if c.refusedWhileRunning() && missedAt(c.LastAsked, opened) {
			return true
		}
	}
	return false
}

func missedAt(asked, opened time.Time) bool {
	return asked.Before(opened) && opened.Sub(asked) < missedWindow
}

// refusedWhileRunning reports whether the pod was last refused although its node ran: a taint or a
// cordon kept it closed. Unasked knows of pods that were not asked about since their node runs.
func (c *Claim) refusedWhileRunning() bool {
	return !c.RunningSince.IsZero() && c.LastAsked.After(c.RunningSince) && !c.passed
}

// ForgetAnswers forgets the pods that were last refused or passed before the given time: no Missed
// asks about them any more, and a pod that our watch never showed has no event by which it would be
// forgotten.
func (l *Claims) ForgetAnswers(before time.Time) {
	maps.DeleteFunc(l.passing, func(_ types.UID, asked time.Time) bool { return asked.Before(before) })
	for pod, asked := range l.rejected {
		if asked.Before(before) {
			delete(l.rejected, pod)
		}
	}
}

// ExpireBackoffs reports whether a backoff (of a pod, a node or an offering) or a used-up budget
// has ended since it was last asked. Pods that it kept waiting are tried again only if something
// happens in the cluster.
func (l *Claims) ExpireBackoffs(now time.Time) bool {
	ended := l.expireNodeBackoffs(now)
	ended = l.unavailable.ended(now) || ended
	if !l.reservationsHeld.IsZero() && !now.Before(l.reservationsHeld) {
		l.reservationsHeld, ended = time.Time{}, true
	}
	ended = l.futileOwners.ended(now) || ended
	l.futileReplicas.ended(now) // no pod waits for it
	maps.DeleteFunc(l.counted, func(_ v1alpha1.NodeName, c countedStart) bool { return now.Sub(c.at) >= BudgetWindow })
	for pool, until := range l.limited {
		if !now.Before(until) {
			delete(l.limited, pool)
			ended = true
		}
	}
	return ended
}

// StartsLimited reports whether the pool's start budget keeps pods waiting, and until when.
func (l *Claims) StartsLimited(pool v1alpha1.PoolName, now time.Time) (time.Time, bool) {
	until, ok := l.limited[pool]
	return until, ok && now.Before(until)
}

// ForgetPool drops what is remembered of a pool that is gone: a new one of its name starts afresh.
func (l *Claims) ForgetPool(pool v1alpha1.PoolName) {
	delete(l.starts, pool)
	delete(l.limited, pool)
	delete(l.readyIn, pool)
}

// Rebudget tells the claims that the pool was changed, maybe its start budget: pods that the old
// one kept waiting are to be tried again.
func (l *Claims) Rebudget(pool v1alpha1.PoolName, now time.Time) {
	if until, ok := l.limited[pool]; ok && now.Before(until) {
		l.Retry(pool, now) // where the budget is still used up, the next ask limits the pool again
	}
}

// Retry has pods tried again that the pool refused until now: ExpireBackoffs reports it once.
func (l *Claims) Retry(pool v1alpha1.PoolName, now time.Time) { l.limited[pool] = now }

// budgetLeft reports whether the pool may start one more node, and until when it may not.
func (l *Claims) budgetLeft(n *Node, now time.Time) (time.Time, bool) {
	recent := recentStarts(l.starts[n.Pool], now)
	if n.StartBudget <= 0 || len(recent) < int(n.StartBudget) {
		return time.Time{}, true
	}
	return recent[0].Add(BudgetWindow), false
}

// countedStart is a start that counts towards the budget of its pool.
type countedStart struct {
	pool v1alpha1.PoolName
	at   time.Time
}

// recordStart takes in a start of the pool.
func (l *Claims) recordStart(node v1alpha1.NodeName, pool v1alpha1.PoolName, now time.Time) {
	l.starts[pool] = append(slices.Clone(recentStarts(l.starts[pool], now)), now)
	l.counted[node] = countedStart{pool, now}
}

// uncountStart takes in that the last start of the node was not made: it has cost nothing. Where
// the cloud has no capacity for a whole burst, each node is asked for and then started as another
// type, or another node in its place, and the budget is to last for those.
func (l *Claims) uncountStart(node v1alpha1.NodeName) {
	c, ok := l.counted[node]
	if !ok {
		return
	}
	delete(l.counted, node)
	if i := slices.Index(l.starts[c.pool], c.at); i >= 0 {
		l.starts[c.pool] = slices.Delete(slices.Clone(l.starts[c.pool]), i, i+1)
	}
	if _, waits := l.limited[c.pool]; waits {
		l.Retry(c.pool, time.Time{})
	}
}

// recentStarts are the starts within BudgetWindow.
func recentStarts(starts []time.Time, now time.Time) []time.Time {
	for len(starts) > 0 && now.Sub(starts[0]) >= BudgetWindow {
		starts = starts[1:]
	}
	return starts
}
