package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// The longest that the world may take until nothing changes once all faults have ended. A backoff
// lasts up to half an hour, and one may follow another.
const (
	patience = 3 * time.Hour
	look     = 20 * time.Second
)

// calm ends all faults. What they have left behind stays.
func (w *World) calm() {
	w.rules.listen()
	w.trouble = noTrouble(2 * time.Second)
	w.note("all faults end")
	for _, p := range w.processes {
		p.crashIn = 0
	}
	for _, i := range w.cloud.instances {
		if i.unseenUntil.After(w.now) {
			i.unseenUntil = w.now
		}
	}
	w.skew = 0
	for _, p := range slices.Clone(w.processes) {
		if p.skew != 0 || len(w.processes) > 1 {
			p.end()
		}
	}
	w.revive()
	w.relent()
	w.resumeAll()
	w.honor()
	w.rules.disturb()
}

// finish runs the world until nothing changes and checks what holds then: every pod that fits is
// served; without pods all pools have the standby nodes that they ask for; without pools nothing is
// left.
func (w *World) finish() {
	w.calm()
	w.until("served", w.unserved)
	for _, set := range w.api.replicaSets() {
		w.dropReplicaSet(set)
	}
	for _, p := range w.api.pods() {
		if counts(p) || finished(p) {
			w.api.remove(kindPod, client.ObjectKeyFromObject(p))
		}
	}
	w.until("rest", func() string { w.forceStranded(); return w.restless() })
	for _, p := range w.api.pools() {
		w.api.remove(kindPool, client.ObjectKeyFromObject(p))
	}
	w.until("gone", w.left)
}

// until runs the world until nothing is wrong, twice in a row.
func (w *World) until(what string, wrong func() string) {
	deadline, good := w.now.Add(patience), 0
	for w.broken == nil && good < 2 {
		w.runUntil(w.now.Add(look))
		why := wrong()
		if why == "" {
			good++
			continue
		}
		good = 0
		if w.now.After(deadline) {
			w.breaks(what, "%s", why)
		}
	}
	w.note("%s", what)
}

// unserved names a pod that is pending though a node could take it, or that is on a node and does
// not run.
func (w *World) unserved() string {
	for _, p := range w.api.pods() {
		if !counts(p) {
			continue
		}
		if p.Spec.NodeName != "" {
			if w.isStranded(p) {
				continue
			}
			if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("%s is bound to %s and does not run or end (%s)", p.Name, p.Spec.NodeName, p.Status.Phase)
			}
			continue
		}
		if where := w.couldServe(p); where != "" {
			return fmt.Sprintf("%s waits, and %s could serve it", p.Name, where)
		}
		if n := w.staleNomination(p); n != "" {
			return fmt.Sprintf("%s is nominated to %s, where it has no claim", p.Name, n)
		}
	}
	return ""
}

func (w *World) couldServe(p *corev1.Pod) string {
	for _, pool := range w.api.pools() {
		if want := p.Spec.NodeSelector["pool"]; want != "" && want != pool.Name || pool.DeletionTimestamp != nil ||
			cpuOf(p)+w.beside() > nodeCPU {
			continue
		}
		nodes := 0
		for _, n := range w.api.nodes() {
			if poolNameOf(n) != pool.Name {
				continue
			}
			nodes++
			if selects(p, n) && w.suitsAtRest(p, n) && w.hasRoom(n, p) && w.mayRun(n) { // some were made of another template
				return n.Name + ", " + string(stateOf(n))
			}
		}
		if nodes < int(pool.Spec.PoolSize) && w.launchServes(p) && w.mayLaunch(pool) {
			return "pool " + pool.Name + ", which is not full,"
		}
	}
	return ""
}

// hasRoom reports whether the node has room for the pod, or will have once it runs.
func (w *World) hasRoom(n *corev1.Node, p *corev1.Pod) bool {
	if stateOf(n) == v1alpha1.StateRunning {
		return w.used(n.Name, p)+cpuOf(p) <= w.coresOn(n)
	}
	return !w.showsLess(n) || cpuOf(p)+w.beside() <= n.Status.Allocatable.Cpu().Value()
}

// restless says what is not as it is to be when no pod wants anything.
func (w *World) restless() string {
	for _, p := range w.api.pods() {
		if p.Spec.NodeName != "" && counts(p) {
			return fmt.Sprintf("%s is bound to %s and has not ended", p.Name, p.Spec.NodeName)
		}
	}
	for _, pool := range w.api.pools() {
		if why := w.poolRestless(pool); why != "" {
			return "pool " + pool.Name + ": " + why
		}
	}
	for _, p := range w.processes {
		if n := p.state.ClaimCount(); n > 0 {
			return fmt.Sprintf("%d claims stand though no pod waits", n)
		}
	}
	if why := cmp.Or(w.typesAtRest(), w.reservationsAtRest()); why != "" {
		return why
	}
	return w.halves()
}

func (w *World) poolRestless(pool *v1alpha1.NodePool) string {
	standby := int32(0)
	for _, i := range w.cloud.of(pool.Name) {
		n := w.api.node(i.node())
		switch {
		case n == nil:
			return string(i.id) + " has no Node"
		case stateOf(n) != v1alpha1.StateStandby || i.state() != provider.InstanceStopped:
			return fmt.Sprintf("%s is %s, its instance %s", n.Name, stateOf(n), i.state())
		case n.Spec.Unschedulable && n.Annotations[v1alpha1.AnnotationCordoned] == "":
			return n.Name + " has a cordon that is nobody's"
		}
		standby++
	}
	s, least := pool.Status, min(pool.Spec.MinStandby, pool.Spec.PoolSize)
	switch {
	case standby < least && w.mayLaunch(pool):
		return fmt.Sprintf("%d stand by, minStandby is %d", standby, least)
	case standby > pool.Spec.PoolSize, standby > least && pool.Spec.ScaleDown.StandbySurplusTTLOrDefault() > 0:
		return fmt.Sprintf("%d stand by, minStandby is %d, poolSize %d", standby, least, pool.Spec.PoolSize)
	case s.Standby != standby || s.Total != standby || s.Warmup+s.Starting+s.Running+s.Stopping+s.Terminating != 0:
		return fmt.Sprintf("status says %+v, %d stand by", s, standby)
	}
	return ""
}

// halves names a Node without an instance, or an instance without a pool.
func (w *World) halves() string {
	for _, n := range w.api.nodes() {
		if i := w.machineOf(n); i == nil || i.gone() {
			return n.Name + " has no instance"
		}
	}
	for _, i := range w.cloud.instances {
		if i.token == "" || i.gone() {
			continue
		}
		if !ours(i.tags()) {
			return fmt.Sprintf("%s has lost its tags: %v", i.id, slices.Sorted(maps.Keys(i.tags())))
		}
		if w.api.pool(i.pool()) == nil {
			return string(i.id) + " belongs to a pool that is gone"
		}
	}
	return ""
}

// left names what is left of pools that are gone.
func (w *World) left() string {
	for _, p := range w.api.pools() {
		return "pool " + p.Name
	}
	for _, i := range w.cloud.instances {
		if i.token != "" && !i.gone() {
			return string(i.id)
		}
	}
	for _, n := range w.api.nodes() {
		return n.Name
	}
	return ""
}
