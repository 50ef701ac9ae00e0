package extender

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
)

// Starter starts standby nodes. It returns at once; the start itself happens elsewhere.
type Starter interface {
	// StartNode makes sure that the node is being started and that the claims on it are published.
	StartNode(node v1alpha1.NodeName)
}

// Extender answers kube-scheduler from the cluster state. It is a Decider: nothing in it
// blocks on I/O.
type Extender struct {
	state   *cluster.State
	starter Starter
	events  events.EventRecorder
	now     func() time.Time
	nodes   lookedPool
}

// lookedPool reuses the memory of looks at candidates. No decision keeps it.
type lookedPool struct{ pool sync.Pool }

func (p *lookedPool) get() *cluster.Candidates {
	if looked, ok := p.pool.Get().(*cluster.Candidates); ok {
		return looked
	}
	return &cluster.Candidates{}
}

func (p *lookedPool) put(looked *cluster.Candidates) {
	if cap(*looked) > maxPooledNames {
		return
	}
	clear((*looked)[:cap(*looked)]) // or it would keep old nodes alive
	p.pool.Put(looked)
}

// Ready is nil once the caches are synced.
func (e *Extender) Ready() error { return e.state.Ready() }

// Filter decides which candidates take the pod now and has a standby node started where none does.
func (e *Extender) Filter(pod *corev1.Pod, candidates Names) FilterAnswer {
	looked := e.nodes.get()
	defer e.nodes.put(looked)
	d := e.state.Decide(pod, candidates, looked, e.now())
	cluster.Act(pod, d, func(node v1alpha1.NodeName) { e.starter.StartNode(node) }, e.events)
	answer := FilterAnswer{Decision: string(d.Kind), Nodes: d.Nodes,
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
	own, claimed := e.state.ClaimOf(pod.UID)
	e.state.Lookup(candidates, looked)
	scores := make([]int64, len(candidates))
	for i, n := range *looked {
		switch {
		case n == nil:
		case claimed && n.Name == own.Node:
			scores[i] = extenderv1.MaxExtenderPriority
		case !n.InPool() || n.Used.Pods > 0:
			scores[i] = extenderv1.MaxExtenderPriority / 2
		}
	}
	return scores
}

// Preempt drops the nodes that may not lose a pod for this one, and echoes the victims of the
// others. A pod that has a claim evicts no pod: its node is coming.
func (e *Extender) Preempt(pod *corev1.Pod,
	victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
	kept := map[string]*extenderv1.MetaVictims{}
	if _, claimed := e.state.ClaimOf(pod.UID); claimed {
		return kept
	}
	for name, v := range victims {
		if v == nil || len(v.Pods) == 0 {
			continue // an entry without victims is an error to the scheduler
		}
		if e.state.Preemptable(pod, v1alpha1.NodeName(name), v.Pods) {
			kept[name] = v
		}
	}
	return kept
}
