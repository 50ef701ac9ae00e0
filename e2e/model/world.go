package model

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// World is one run: the parts that are played, the real processes among them, and the time.
type World struct {
	now    time.Time
	tasks  tasks
	serial int
	dice   *rand.Rand
	// field are the dice of what the cloud and the machines do of themselves.
	field *rand.Rand
	// depth counts calls under way, one within the other.
	depth int

	api        *server
	cloud      *cloud
	schedulers []*scheduler
	processes  []*process
	rules      *rules
	trouble    trouble

	// network is the CNI of the cluster; graceful: its kubelets have graceful node shutdown; slow: its
	// machines take minutes to boot, as bare metal does.
	network  network
	graceful bool
	slow     bool
	// types is how instance types are played.
	types typePlay
	// reservations are how capacity reservations are played.
	reservations reservationPlay
	// nominations are those of pods to the nodes of their claims.
	nominations nominations
	// defect keeps every instance of the class from ever becoming a standby node.
	defect defect
	// skew is how far the clock of the next process's machine is off.
	skew time.Duration
	// logger: a DaemonSet's pods come with each start, from loggerAt on.
	logger   bool
	loggerAt time.Time
	// controlled are the ReplicaSets that their controller looks at in a moment.
	controlled map[key]bool
	// tidying are the Nodes whose taints the node controller is about to correct.
	tidying map[string]bool
	// refusedLaunches counts the calls that a refused class has cost.
	refusedLaunches int

	// broken is the first invariant that did not hold.
	broken error
	// journal takes what happens, where it is wanted.
	journal func(string)
}

// trouble are the faults that are on now.
type trouble struct {
	// outage and apiDown end at these times.
	outage, apiDown time.Time
	// throttled is the share of cloud calls in percent that are refused until throttledUntil.
	throttled      int
	throttledUntil time.Time
	// scarce are the zones without capacity, and until when.
	scarce map[string]time.Time
	// regions are those that do not answer, and until when.
	regions map[string]time.Time
	// dry are the offerings, and quotas the families of types, of which the cloud gives none until
	// then.
	dry    map[offering]time.Time
	quotas map[string]time.Time
	// denied is until when Stratos lacks the permission to change types.
	denied time.Time
	// full are the reservations that others have filled, and until when; barred is until when Stratos
	// lacks the permission to say which reservations instances use.
	full   map[string]time.Time
	barred time.Time
	// lag is how far the cloud's reads are behind at most, watch how far watches are.
	lag, watch time.Duration
	watchUntil time.Time
	// These many of the next starts fall back to stopped, boots stay mute, first boots end early,
	// stops hang, answers are lost.
	fallbacks, mutes, shorts, hangs, lost int
}

// noTrouble has reads of the cloud lag.
func noTrouble(lag time.Duration) trouble {
	return trouble{scarce: map[string]time.Time{}, regions: map[string]time.Time{}, dry: map[offering]time.Time{},
		quotas: map[string]time.Time{}, full: map[string]time.Time{}, lag: lag}
}

type task struct {
	at     time.Time
	serial int
	do     func()
}

// tasks is a heap by time, and by age among those of one time.
type tasks []task

func (t tasks) Len() int { return len(t) }
func (t tasks) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].serial < t[j].serial
	}
	return t[i].at.Before(t[j].at)
}
func (t tasks) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push implements heap.Interface.
func (t *tasks) Push(x any) {
	if task, ok := x.(task); ok {
		*t = append(*t, task)
	}
}

// Pop implements heap.Interface.
func (t *tasks) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = task{}
	*t = old[:len(old)-1]
	return last
}

func epoch() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// NewWorld returns a world with one process of Stratos and nothing to do. journal may be nil.
func NewWorld(seed uint64, journal func(string)) *World {
	w := &World{now: epoch(), dice: rand.New(rand.NewPCG(seed, 0x5f3759df)),
		journal: journal, controlled: map[key]bool{}, tidying: map[string]bool{}} //nolint:gosec // dice, not secrets
	w.trouble = noTrouble(time.Second)
	// Dice of their own, so that a stored trace draws what it drew before there were networks.
	w.field = rand.New(rand.NewPCG(seed, 0x7fb5d329)) //nolint:gosec // dice, not secrets
	w.network, w.graceful = networks()[w.field.IntN(len(networks()))], w.field.IntN(2) == 0
	w.rules = newRules(w)
	w.api = newServer(w)
	w.cloud = newCloud(w)
	w.schedulers = []*scheduler{newScheduler(w, ourScheduler), newScheduler(w, plainScheduler)}
	w.api.put(kindClass, resolvedClass("class"))
	far := resolvedClass("far")
	far.Spec.Region = "far"
	w.api.put(kindClass, far)
	w.begin(true)
	return w
}

// resolvedClass is a class that is ready: nothing runs the loop that asks the cloud for it.
func resolvedClass(name string) *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.InstanceType = instanceType
	c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: string(v1alpha1.ReasonResolved)}}
	return c
}

// after has something done a while from now.
func (w *World) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.tasks, task{at: w.now.Add(d), serial: w.serial, do: do})
}

// runUntil lets the world go on until the given time, or until an invariant is broken.
func (w *World) runUntil(until time.Time) {
	for w.broken == nil && len(w.tasks) > 0 && !w.tasks[0].at.After(until) {
		next, _ := heap.Pop(&w.tasks).(task)
		if next.at.After(w.now) {
			w.now = next.at
		}
		next.do()
		w.rules.afterStep()
	}
	if until.After(w.now) {
		w.now = until
	}
}

// pass is the time that a call takes: everybody else goes on meanwhile.
func (w *World) pass(d time.Duration) {
	const deepest = 6 // beyond that calls take no time; more workers than this are rarely at work at once
	if w.depth >= deepest {
		return
	}
	w.depth++
	w.runUntil(w.now.Add(d))
	w.depth--
}

// between draws a duration.
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.dice.Int64N(int64(most-least)+1))
}

// chance is true in so many of a hundred cases.
func (w *World) chance(percent int) bool { return w.dice.IntN(100) < percent }

// Break records that an invariant does not hold. The first one counts.
func (w *World) breaks(rule, format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("%s %s: %s", w.stamp(), rule, fmt.Sprintf(format, args...))
		w.note("BROKEN %v", w.broken)
	}
}

func (w *World) note(format string, args ...any) {
	if w.journal != nil {
		w.journal(w.stamp() + " " + fmt.Sprintf(format, args...))
	}
}

func (w *World) stamp() string { return fmt.Sprintf("%9.3f", w.now.Sub(epoch()).Seconds()) }
