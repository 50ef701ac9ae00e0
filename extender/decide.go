package extender

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/view"
)

// Starter starts standby nodes. It returns at once; the start itself happens elsewhere.
type Starter interface {
	// StartNode makes sure that the node is being started and that the claims on it are published.
	StartNode(node v1alpha1.NodeName)
}

// Extender answers kube-scheduler from the view. It is a Decider: nothing in it
// blocks on I/O.
type Extender struct {
	view    *view.View
	starter Starter
	events  events.EventRecorder
	now     func() time.Time
	nodes   lookedPool
}

// lookedPool reuses the memory of looks at candidates. No decision keeps it.
type lookedPool struct{ pool sync.Pool }

func (p *lookedPool) get() *view.Looked {
	if looked, ok := p.pool.Get().(*view.Looked); ok {
		return looked
	}
	return &view.Looked{}
}

func (p *lookedPool) put(looked *view.Looked) {
	if cap(*looked) > maxPooledNames {
		return
	}
	clear((*looked)[:cap(*looked)]) // or it would keep old nodes alive
	p.pool.Put(looked)
}

// Ready is nil once the caches are synced.
func (e *Extender) Ready() error { return e.view.Ready() }

// Filter decides which candidates take the pod now and has a standby node started where none does.
func (e *Extender) Filter(pod *corev1.Pod, candidates Names) FilterAnswer {
	looked := e.nodes.get()
	defer e.nodes.put(looked)
	d := e.view.Decide(pod, candidates, looked, e.now())
	view.Act(pod, d, func(node v1alpha1.NodeName) { e.starter.StartNode(node) }, e.events)
	answer := FilterAnswer{Decision: string(d.Verdict), Nodes: d.Nodes,
		FailedUnresolvable: make(map[string]string, len(d.Refused))}
	for n, why := range d.Refused {
		answer.FailedUnresolvable[string(n)] = why
	}
	return answer
}

// Prioritize prefers the pod's claimed node, then nodes that are in use: an empty node of a pool
// had better stay empty and stop. The weight is too small to overrule kube-scheduler's own scores
// by much.
func (e *Extender) Prioritize(pod *corev1.Pod, candidates Names) []int64 {
	looked := e.nodes.get()
	defer e.nodes.put(looked)
	own, claimed := e.view.ClaimOf(pod.UID)
	e.view.Look(candidates, looked)
	scores := make([]int64, len(candidates))
	for i, n := range *looked {
		switch {
		case n == nil:
		case claimed && n.Name == own.Node:
			scores[i] = extenderv1.MaxExtenderPriority
		case !n.Ours() || n.Used.Pods > 0:
			scores[i] = extenderv1.MaxExtenderPriority / 2
		}
	}
	return scores
}

// Preempt drops the nodes that may not lose a pod for this one, and echoes the victims of the
// others. A pod that has a claim evicts nobody: its node is coming.
func (e *Extender) Preempt(pod *corev1.Pod,
	victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
	kept := map[string]*extenderv1.MetaVictims{}
	if _, claimed := e.view.ClaimOf(pod.UID); claimed {
		return kept
	}
	for name, v := range victims {
		if v == nil || len(v.Pods) == 0 {
			continue // an entry without victims is an error to the scheduler
		}
		if e.view.Preemptable(pod, v1alpha1.NodeName(name), v.Pods) {
			kept[name] = v
		}
	}
	return kept
}
