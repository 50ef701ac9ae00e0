package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/extender"
)

const (
	ourScheduler   = "stratos-scheduler"
	plainScheduler = "default-scheduler"
	// annotationSlow marks a pod that is bound a while after it was nominated, as one whose volume is
	// made first.
	annotationSlow    = "model/slow"
	annotationGuarded = "model/guarded"
)

// scheduler plays kube-scheduler: it looks at its own cache, asks the extender where it has one,
// assumes, and binds in its own time.
type scheduler struct {
	w     *World
	name  string
	cache *watcher
	// moved counts the events that bring pending pods back; tried is its value at each pod's last
	// attempt, and when that was.
	moved   int
	tried   map[types.UID]attempt
	assumed map[types.UID]string
	awake   bool
}

type attempt struct {
	moved int
	at    time.Time
}

// flushAfter is when a pod is tried again though nothing has happened.
const flushAfter = 5 * time.Minute

func newScheduler(w *World, name string) *scheduler {
	s := &scheduler{w: w, name: name, tried: map[types.UID]attempt{}, assumed: map[types.UID]string{}}
	s.cache = newWatcher(false, s.hear)
	w.api.watch(s.cache)
	var flush func()
	flush = func() { s.kick(); w.after(time.Minute, flush) }
	w.after(time.Minute, flush)
	return s
}

func (s *scheduler) hear(k kind, before, after client.Object) {
	switch k {
	case kindNode:
		if after != nil {
			s.moved++
		}
	case kindPod:
		p, _ := after.(*corev1.Pod)
		old, _ := before.(*corev1.Pod)
		if p != nil && p.Spec.NodeName != "" {
			delete(s.assumed, p.UID)
		}
		if p == nil && old.Spec.NodeName != "" || p != nil && (finished(p) || losesNomination(old, p)) {
			s.moved++
		}
	case kindPool, kindClass, kindReplicaSet, kindQuota:
	}
	s.kick()
}

// kick has the scheduler look for work in a moment.
func (s *scheduler) kick() {
	if s.awake {
		return
	}
	s.awake = true
	s.w.after(s.w.between(time.Millisecond, 5*time.Millisecond), func() {
		s.awake = false
		if p := s.next(); p != nil {
			s.schedule(p)
			s.kick()
		}
	})
}

// next is the pod to try now: the highest priority and the oldest first.
func (s *scheduler) next() *corev1.Pod {
	var due []*corev1.Pod
	for _, p := range sorted[*corev1.Pod](s.cache.objects, kindPod) {
		last, tried := s.tried[p.UID]
		switch {
		case p.Spec.NodeName != "" || p.DeletionTimestamp != nil || p.Spec.SchedulerName != s.name || s.assumed[p.UID] != "":
		case !tried, last.moved < s.moved, s.w.now.Sub(last.at) >= flushAfter:
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return nil
	}
	return slices.MinFunc(due, func(a, b *corev1.Pod) int {
		return cmp.Or(s.tried[a.UID].at.Compare(s.tried[b.UID].at), strings.Compare(a.Name, b.Name))
	})
}

func (s *scheduler) schedule(p *corev1.Pod) {
	s.tried[p.UID] = attempt{moved: s.moved, at: s.w.now}
	candidates := s.feasible(p)
	reason, message := corev1.PodReasonUnschedulable, "no node takes it"
	if len(candidates) > 0 && s.name == ourScheduler {
		asked := s.w.asked()
		if asked == nil {
			reason, message, candidates = corev1.PodReasonSchedulerError, "the extender does not answer", nil
			at := p.UID
			s.w.after(2*time.Second, func() { delete(s.tried, at); s.kick() })
		} else {
			answer := asked.extender.Filter(p.DeepCopy(), extender.NamesOf(candidates))
			candidates = nil
			for _, n := range answer.Nodes {
				candidates = append(candidates, string(n))
			}
			for _, n := range slices.Sorted(func(yield func(string) bool) {
				for k := range answer.FailedUnresolvable {
					if !yield(k) {
						return
					}
				}
			}) {
				message = answer.FailedUnresolvable[n]
			}
			s.w.note("filter %s: %s, nodes %v, %s", p.Name, answer.Decision, answer.Nodes, message)
			s.w.rules.filtered(p, candidates)
			candidates = s.fullest(candidates)
		}
	}
	if len(candidates) == 0 {
		s.refuse(p, reason, message)
		return
	}
	node := candidates[s.w.dice.IntN(len(candidates))]
	if n := p.Status.NominatedNodeName; slices.Contains(candidates, n) {
		node = n // kube-scheduler tries it first
	}
	s.assign(p, node)
}

// fullest are the candidates that the generated profile scores highest: those of which the pods
// there request the most (MostAllocated). All nodes of the model are of one size.
func (s *scheduler) fullest(candidates []string) []string {
	requested := s.requested("")
	most := int64(-1)
	var out []string
	for _, n := range candidates {
		switch cpu := requested[n]; {
		case cpu > most:
			most, out = cpu, []string{n}
		case cpu == most:
			out = append(out, n)
		}
	}
	return out
}

// requested is the cpu that the pods on each node request, without the pod of the UID.
func (s *scheduler) requested(without types.UID) map[string]int64 {
	requested := map[string]int64{}
	for _, o := range sorted[*corev1.Pod](s.cache.objects, kindPod) {
		on := cmp.Or(o.Spec.NodeName, s.assumed[o.UID], o.Status.NominatedNodeName)
		if on != "" && !finished(o) && o.UID != without {
			requested[on] += cpuOf(o)
		}
	}
	return requested
}

// feasible are the nodes that pass the filters that stay in the scheduler: with the extender taints
// and cordon are not among them.
func (s *scheduler) feasible(p *corev1.Pod) []string {
	used := s.requested(p.UID)
	var out []string
	suits := s.suits(p)
	for _, n := range sorted[*corev1.Node](s.cache.objects, kindNode) {
		full := used[n.Name]+cpuOf(p) > n.Status.Allocatable.Cpu().Value()
		shut := s.name == plainScheduler && !untainted(n)
		if !full && !shut && selects(p, n) && suits(n) {
			out = append(out, n.Name)
		}
	}
	return out
}

func untainted(n *corev1.Node) bool { return len(n.Spec.Taints) == 0 && !n.Spec.Unschedulable }

func (s *scheduler) refuse(p *corev1.Pod, reason, message string) {
	s.w.after(time.Millisecond, func() {
		now := s.w.api.pod(client.ObjectKeyFromObject(p))
		if now == nil || now.UID != p.UID || now.Spec.NodeName != "" {
			return
		}
		if len(now.Status.Conditions) > 0 && now.Status.Conditions[0].Reason == reason &&
			now.Status.Conditions[0].Message == message && (now.Status.NominatedNodeName == "" || keepsNomination(now)) {
			return
		}
		s.w.api.editPod(client.ObjectKeyFromObject(p), func(p *corev1.Pod) {
			if !keepsNomination(p) {
				setNomination(p, "", schedulerManager)
			}
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
				LastTransitionTime: s.w.second(),
			}}
		})
	})
}

// assign assumes the pod on the node and binds it in a moment; a slow pod is nominated first.
func (s *scheduler) assign(p *corev1.Pod, node string) {
	s.assumed[p.UID] = node
	w, at, uid := s.w, client.ObjectKeyFromObject(p), p.UID
	flight := w.between(time.Millisecond, 30*time.Millisecond)
	switch {
	case p.Annotations[annotationSlow] != "":
		flight = w.between(2*time.Second, 40*time.Second)
		w.api.editPod(at, func(p *corev1.Pod) {
			if p.UID == uid && p.Spec.NodeName == "" {
				setNomination(p, node, schedulerManager)
			}
		})
	case w.chance(5):
		flight = w.between(100*time.Millisecond, 500*time.Millisecond)
	}
	w.after(flight, func() {
		now := w.api.pod(at)
		if now == nil || now.UID != uid || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
			delete(s.assumed, uid)
			return
		}
		w.note("%s is bound to %s", at.Name, node)
		w.rules.binding(now, node)
		w.api.editPod(at, func(p *corev1.Pod) {
			p.Spec.NodeName = node
			if w.nominations.clearedAtBinding {
				setNomination(p, "", schedulerManager)
			}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
				LastTransitionTime: w.second()}}
		})
	})
}
