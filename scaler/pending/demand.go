package pending

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// Demand are the pods that wait for an instance to be launched, by the pool that is to launch it.
type Demand struct {
	// mu guards the fields below.
	mu   sync.Mutex
	pods map[podKey]wanted
	// waited are the pods that have been in demand and are not bound yet, those that are nominated by
	// now included.
	waited map[podKey]wanted
	// opened are the nodes that opened at the end of their warm-up recently.
	opened map[v1alpha1.NodeName]opened
	// failing is until when each pool is expected to launch nothing.
	failing map[v1alpha1.PoolName]time.Time
}

// opened is when a node opened, and when its instance was launched.
type opened struct{ at, launched time.Time }

// openedFor is how long after its opening a node is remembered, for the pods that are bound to it
// then.
const openedFor = 10 * time.Minute

type wanted struct {
	pod  *corev1.Pod
	pool v1alpha1.PoolName
	// zones are those in which an instance would help; none means any.
	zones []string
}

// NewDemand returns a demand of no pods.
func NewDemand() *Demand {
	return &Demand{pods: map[podKey]wanted{}, waited: map[podKey]wanted{}, opened: map[v1alpha1.NodeName]opened{},
		failing: map[v1alpha1.PoolName]time.Time{}}
}

// Open remembers that the node opens at the end of its warm-up.
func (d *Demand) Open(node v1alpha1.NodeName, launched, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	d.opened[node] = opened{at: now, launched: launched}
}

// expire forgets nodes that opened long ago. The caller holds mu.
func (d *Demand) expire(now time.Time) {
	maps.DeleteFunc(d.opened, func(_ v1alpha1.NodeName, o opened) bool { return now.Sub(o.at) > openedFor })
}

// settle forgets a pod that is not pending any more. For one that was in demand and is bound to a
// node that opened for it, it returns the pool and the path on which the pod came there.
func (d *Demand) settle(pod *corev1.Pod, now time.Time) (v1alpha1.PoolName, decide.Path, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	key := client.ObjectKeyFromObject(pod)
	w, was := d.waited[key]
	delete(d.waited, key)
	node, open := d.opened[v1alpha1.NodeName(pod.Spec.NodeName)]
	if !was || !open || w.pod.UID != pod.UID {
		return "", "", false
	}
	if node.launched.Before(pod.CreationTimestamp.Time) {
		return w.pool, decide.PathPromoted, true
	}
	return w.pool, decide.PathCold, true
}

// leave forgets a pod that is gone or has a claim, by whose path it is measured then.
func (d *Demand) leave(pod podKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waited, pod)
}

// Add takes a pod in, and reports whether it is new or wants another pool, or other zones, than
// before.
func (d *Demand) Add(pod *corev1.Pod, pool v1alpha1.PoolName, zones ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	was, known := d.pods[key]
	d.pods[key] = wanted{pod: pod, pool: pool, zones: zones}
	d.waited[key] = d.pods[key]
	return !known || was.pool != pool || was.pod.UID != pod.UID || !slices.Equal(was.zones, zones)
}

// poolOf is the pool that is to launch for the pod; empty where none is.
func (d *Demand) poolOf(pod *corev1.Pod) v1alpha1.PoolName {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.pods[client.ObjectKeyFromObject(pod)]
	if w.pod == nil || w.pod.UID != pod.UID {
		return ""
	}
	return w.pool
}

// LaunchesFail takes in that the pool launches nothing, which is expected to last until then. Other
// pools that could serve its pods are asked first meanwhile. It returns these pods where that is
// news.
func (d *Demand) LaunchesFail(pool v1alpha1.PoolName, until, now time.Time) []podKey {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.failing, func(_ v1alpha1.PoolName, until time.Time) bool { return !now.Before(until) })
	_, known := d.failing[pool]
	d.failing[pool] = until
	if known {
		return nil
	}
	var pods []podKey
	for key, w := range d.pods {
		if w.pool == pool {
			pods = append(pods, key)
		}
	}
	slices.SortFunc(pods, func(a, b podKey) int { return strings.Compare(a.String(), b.String()) })
	return pods
}

// LaunchesSucceed takes in that the pool launches again.
func (d *Demand) LaunchesSucceed(pool v1alpha1.PoolName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.failing, pool)
}

// mayLaunch reports whether nothing is known against launches of the pool.
func (d *Demand) mayLaunch(pool v1alpha1.PoolName, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !now.Before(d.failing[pool])
}

// Remove forgets a pod, and returns the pool that it wanted.
func (d *Demand) Remove(pod podKey) (v1alpha1.PoolName, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.pods[pod]
	delete(d.pods, pod)
	return w.pool, ok
}

// Of returns the pods that wait for the pool, sorted by name.
func (d *Demand) Of(pool v1alpha1.PoolName) []*corev1.Pod {
	var out []*corev1.Pod
	for _, w := range d.waiting(pool) {
		out = append(out, w.Pod)
	}
	return out
}

// waiting is the same with their zones.
func (d *Demand) waiting(pool v1alpha1.PoolName) []plan.Waiting {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []plan.Waiting
	for _, w := range d.pods {
		if w.pool == pool {
			out = append(out, plan.Waiting{Pod: w.pod, Zones: w.zones})
		}
	}
	slices.SortFunc(out, func(a, b plan.Waiting) int {
		return strings.Compare(a.Pod.Namespace+"/"+a.Pod.Name, b.Pod.Namespace+"/"+b.Pod.Name)
	})
	return out
}

// Need is what the pool's pending pods need, placed on empty nodes like one that the pool has.
// While it has none to take as a pattern, they are placed on a node with the capacity in the
// class's status. Where the status has none, one node is asked for, which then serves as the
// pattern. Whether a pod fits a standby node, the state says.
func (d *Demand) Need(pool *v1alpha1.NodePool, nodes []corev1.Node, o Offer, supply plan.Supply,
	state *cluster.State) plan.Need {
	pods := d.waiting(v1alpha1.PoolName(pool.Name))
	if len(pods) == 0 {
		return plan.Need{}
	}
	markUnfit(pods, standbyOf(pool, nodes, state), state)
	n, whole := newNode(pool, o.patternOf(reported(pool, nodes)), o)
	if !whole && o.Promised == nil {
		return plan.NeedOf(pods, nil, supply, inZoneOf)
	}
	if !whole && len(o.zones) > 0 { // a kubelet reserves some of the capacity for itself: this is never too much
		n.Labels = inZoneOf(n.Labels, o.zones[0])
	}
	return plan.NeedOf(pods, decide.NodeOf(n, pool, o.Daemons...), supply, inZoneOf)
}

// standbyOf are the pool's standby nodes that may be started; none where the state has not seen yet
// that one of them is standby, which may serve any pod.
func standbyOf(pool *v1alpha1.NodePool, nodes []corev1.Node, state *cluster.State) []*decide.Node {
	known, out := map[v1alpha1.NodeName]bool{}, []*decide.Node{}
	for _, p := range state.Pools() {
		if p.Pool.Name != pool.Name {
			continue
		}
		for _, n := range p.Nodes {
			known[n.Name] = n.State == v1alpha1.StateStandby
			if known[n.Name] && n.NotStartable == "" {
				out = append(out, n)
			}
		}
	}
	for i := range nodes {
		if v1alpha1.NodeState(nodes[i].Labels[v1alpha1.LabelState]) == v1alpha1.StateStandby &&
			!known[v1alpha1.NodeName(nodes[i].Name)] {
			return nil
		}
	}
	return out
}

// markUnfit marks the pods that fit none of the standby nodes, though they are empty. Pods of one
// shape are checked once. Without standby nodes it makes no difference.
func markUnfit(pods []plan.Waiting, standby []*decide.Node, state *cluster.State) {
	if len(standby) == 0 {
		return
	}
	checked := map[fit.Shape]bool{}
	for i := range pods {
		shape := fit.ShapeOf(pods[i].Pod)
		unfit, known := checked[shape]
		if !known || shape == (fit.Shape{}) {
			judge := state.PodFit(pods[i].Pod)
			unfit = !slices.ContainsFunc(standby, func(n *decide.Node) bool {
				return refusesEmpty(judge, n, true) == nil
			})
			checked[shape] = unfit
		}
		pods[i].Unfit = unfit
	}
}

// reported are the pool's nodes whose kubelet has reported what it offers.
func reported(pool *v1alpha1.NodePool, nodes []corev1.Node) []*corev1.Node {
	var out []*corev1.Node
	for i := range nodes {
		if n := &nodes[i]; n.Labels[v1alpha1.LabelPool] == pool.Name && len(n.Status.Allocatable) > 0 {
			out = append(out, n)
		}
	}
	return out
}
