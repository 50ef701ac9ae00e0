package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// nodeRules watch what stands on Nodes and pools: marks, cordons, counts.
type nodeRules struct {
	// used is when a workload pod last left the node, or the node came to run.
	used map[string]time.Time
	// marked is when a person put a cordon or a taint on the node, relenting while the person removes
	// them.
	marked    map[string]time.Time
	relenting bool
	// relented is when a person removed them from the node.
	relented map[string]time.Time
	// stoodBy is when nodes of a pool ceased to be standby.
	stoodBy map[string][]time.Time
}

func newNodeRules() nodeRules {
	return nodeRules{used: map[string]time.Time{}, marked: map[string]time.Time{}, relented: map[string]time.Time{},
		stoodBy: map[string][]time.Time{}}
}

// quiet reports whether nothing has been wrong for so long.
func (r *rules) quiet(d time.Duration) bool { return !r.troubled() && r.w.now.Sub(r.unrest) > d }

func (r *rules) nodeChanged(old, n *corev1.Node) {
	if old != nil && stateOf(old) == v1alpha1.StateStandby && (n == nil || stateOf(n) != v1alpha1.StateStandby) {
		r.stoodBy[poolNameOf(old)] = append(r.stoodBy[poolNameOf(old)], r.w.now)
	}
	if n == nil {
		delete(r.marked, old.Name)
		return
	}
	r.persons(old, n)
	if old != nil {
		r.lastStart(old, n)
	}
	if old == nil || stateOf(old) == stateOf(n) {
		return
	}
	r.closed(n)
	switch stateOf(n) {
	case v1alpha1.StateRunning:
		r.used[n.Name] = r.w.now
		r.opened(old, n)
		r.claimsFit(n)
	case v1alpha1.StateStopping:
		r.idle(old, n)
	case v1alpha1.StateTerminating:
		r.budget(n)
		r.endedForReservation(n)
	case v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting:
	}
}

// persons checks that what a person put on a Node stays until the person removes it.
func (r *rules) persons(old, n *corev1.Node) {
	if old == nil {
		return
	}
	cordon, taint := personCordoned(old), slices.ContainsFunc(old.Spec.Taints, isPersons)
	if !cordon && !taint && (personCordoned(n) || slices.ContainsFunc(n.Spec.Taints, isPersons)) {
		r.marked[n.Name] = r.w.now
	}
	switch {
	case r.relenting:
		delete(r.marked, n.Name)
		r.relented[n.Name] = r.w.now
	case cordon && !n.Spec.Unschedulable:
		r.w.breaks("person", "a person's cordon is taken from %s (%s)", n.Name, stateOf(n))
	case taint && !slices.ContainsFunc(n.Spec.Taints, isPersons):
		r.w.breaks("person", "a person's taint is taken from %s (%s)", n.Name, stateOf(n))
	}
}

func personCordoned(n *corev1.Node) bool {
	return n.Spec.Unschedulable && n.Annotations[v1alpha1.AnnotationCordoned] == ""
}

// closed checks that a node that leaves the pods' reach, or comes back, is shut in the same write,
// and that its startup taints are back. A process may not know yet that a person's cordon is gone.
func (r *rules) closed(n *corev1.Node) {
	switch stateOf(n) {
	case v1alpha1.StateWarmup, v1alpha1.StateStopping, v1alpha1.StateTerminating:
	case v1alpha1.StateStandby:
		r.startupTaints(n)
		return // a start that failed closes nothing: the node was not open
	default:
		return
	}
	isCordoned := n.Spec.Unschedulable || !r.relented[n.Name].Before(r.w.now.Add(-time.Second-r.w.trouble.watch))
	if !isCordoned || !hasTaint(n, v1alpha1.TaintStandby) || n.Labels[v1alpha1.LabelExcludeDisruption] == "" {
		r.w.breaks("closed", "%s is %s, cordoned: %v, taints %v, %s=%q", n.Name, stateOf(n), n.Spec.Unschedulable,
			n.Spec.Taints,
			v1alpha1.LabelExcludeDisruption, n.Labels[v1alpha1.LabelExcludeDisruption])
	}
}

func (r *rules) startupTaints(n *corev1.Node) {
	pool, i := r.w.api.pool(poolNameOf(n)), r.w.machineOf(n)
	if pool == nil || i == nil || pool.CreationTimestamp.After(i.launched) {
		return
	}
	for _, t := range pool.Spec.Template.StartupTaints {
		if !hasTaint(n, t.Key) {
			r.w.breaks("closed", "%s is standby without the startup taint %s", n.Name, t.Key)
		}
	}
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// opened checks that a start is not over before the network is up, where an agent or startup taints
// tell of it. The last resort is two minutes from when the kubelet is Ready, and the end of the
// start. Stamps are cut to the second.
func (r *rules) opened(old, n *corev1.Node) {
	pool, i := r.w.api.pool(poolNameOf(n)), r.w.machineOf(n)
	if pool == nil || i == nil || stateOf(old) != v1alpha1.StateStarting || pool.CreationTimestamp.After(i.launched) {
		return
	}
	late := r.w.now.Sub(r.entered[n.Name]) >= pool.Spec.ScaleUp.ReadyTimeoutOrDefault()
	if hasTaint(n, ciliumTaint) && !late {
		r.w.breaks("running", "%s is opened with the taint of an agent that is down", n.Name)
	}
	if !r.w.network.agent && len(pool.Spec.Template.StartupTaints) == 0 {
		return
	}
	if late && slices.ContainsFunc(r.w.api.on(n.Name), counts) { // a node that lacks something opens under its pods then
		return
	}
	if waited, known := r.waitedForNetwork(old, i, late); known && !i.network && waited < 2*time.Minute {
		r.w.breaks("running", "%s is opened %s after its start, or after its kubelet was Ready, and its network is not up",
			n.Name, waited)
	}
}

// waitedForNetwork is how long a node that starts has waited for it: since its kubelet is Ready, or
// where its start is late since that was asked for.
func (r *rules) waitedForNetwork(n *corev1.Node, i *instance, late bool) (waited time.Duration, known bool) {
	begun, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.AnnotationScaleUpStarted])
	if i.readyAt.After(begun) && !late {
		begun = i.readyAt.Truncate(time.Second)
	}
	return r.w.now.Sub(begun), err == nil
}

// idle checks that a node that is stopped for being empty was empty for as long as its pool says.
// Marks are cut to the second.
func (r *rules) idle(old, n *corev1.Node) {
	pool, used := r.w.api.pool(poolNameOf(n)), r.used[n.Name]
	if pool == nil || stateOf(old) != v1alpha1.StateRunning ||
		v1alpha1.StopReason(n.Annotations[v1alpha1.AnnotationStopReason]) != v1alpha1.StopEmpty {
		return
	}
	if age := r.w.now.Sub(used); r.quiet(age+10*time.Second) &&
		age < pool.Spec.ScaleDown.EmptyNodeTTLOrDefault()-3*time.Second {
		r.w.breaks("empty", "%s is stopped %s after it was last in use or opened", n.Name, age)
	}
}

func (r *rules) podGone(old, p *corev1.Pod) {
	if old != nil && old.Spec.NodeName != "" && counts(old) && (p == nil || finished(p)) {
		r.used[old.Spec.NodeName] = r.w.now
	}
}

// budget checks that no more nodes are being replaced at once than the pool allows: its default is
// one for pools as small as here.
func (r *rules) budget(n *corev1.Node) {
	if !replaced(n) || !r.quiet(time.Minute) {
		return
	}
	for _, o := range r.w.api.nodes() {
		i := r.w.machineOf(o)
		if o.Name == n.Name || poolNameOf(o) != poolNameOf(n) || stateOf(o) != v1alpha1.StateTerminating || !replaced(o) ||
			i == nil || i.gone() {
			continue
		}
		r.w.breaks("budget", "%s and %s are replaced at once", o.Name, n.Name)
	}
}

func replaced(n *corev1.Node) bool {
	why := v1alpha1.StopReason(n.Annotations[v1alpha1.AnnotationStopReason])
	return why == v1alpha1.StopDrift || why.TakesInUse()
}

// status checks that a pool's status has no more standby nodes than there were a moment ago
// (invariant 6).
func (r *rules) status(old, p *v1alpha1.NodePool) {
	if old == nil || old.Status.Standby == p.Status.Standby {
		return
	}
	lately := r.stoodBy[p.Name]
	lately = slices.DeleteFunc(lately, func(t time.Time) bool { return r.w.now.Sub(t) > 30*time.Second })
	r.stoodBy[p.Name] = lately
	most := len(lately)
	for _, n := range r.w.api.nodes() {
		if poolNameOf(n) == p.Name && stateOf(n) == v1alpha1.StateStandby {
			most++
		}
	}
	if int(p.Status.Standby) > most {
		r.w.breaks("status", "pool %s tells of %d standby nodes, there are or were %d", p.Name, p.Status.Standby, most)
	}
}

// emptied checks invariant 8 when a pool goes: nothing tagged with it is left.
func (r *rules) emptied(p *v1alpha1.NodePool) {
	for _, i := range r.w.cloud.of(p.Name) {
		if r.quiet(30*time.Second) && r.w.now.Sub(i.meddled) > time.Minute {
			r.w.breaks("gone", "pool %s is gone, and %s is %s", p.Name, i.id, i.state())
		}
	}
}

// deletes checks that pods which count leave by eviction, where no time is set for them.
func (r *rules) deletes(p *corev1.Pod) {
	n := r.w.api.node(p.Spec.NodeName)
	if !counts(p) || n == nil {
		return
	}
	if pool := r.w.api.pool(poolNameOf(n)); pool != nil && pool.Spec.Disruption.TerminationGracePeriod == nil {
		r.w.breaks("pods", "%s is deleted, not evicted, from %s", p.Name, n.Name)
	}
}

// unwanted checks that a node with a person's cordon or taint is not started but for a pod that is
// bound to it.
func (r *rules) unwanted(n *corev1.Node) {
	since, marked := r.marked[n.Name]
	if !marked || !personCordoned(n) && !slices.ContainsFunc(n.Spec.Taints, isPersons) ||
		slices.ContainsFunc(r.w.api.on(n.Name), counts) {
		return
	}
	if age := r.w.now.Sub(since); r.quiet(age) && r.entered[n.Name].Sub(since) > 5*time.Second {
		r.w.breaks("person", "%s starts, which a person closed %s ago", n.Name, age)
	}
}

// crowdOf is how many nodes may be starting for the pending pods while nothing is wrong, or was:
// pods join nodes that start already, so of two nodes that were opened for pods of one kind both
// cannot be half empty. Where that says nothing it is many.
func (r *rules) crowdOf() int {
	if !r.quiet(2 * time.Minute) {
		return len(r.w.cloud.instances)
	}
	cpu, kinds, apart := int64(0), map[string]bool{}, len(r.waited)
	for _, p := range r.w.api.pods() {
		switch {
		case !counts(p):
		case p.Spec.NodeName == "" && p.Labels[labelGroup] != "":
			apart++
		case p.Spec.NodeName == "":
			cpu += cpuOf(p)
			kinds[p.Spec.NodeSelector["pool"]] = true
		default:
			if n := r.w.api.node(p.Spec.NodeName); n == nil || stateOf(n) != v1alpha1.StateRunning {
				apart++
			}
		}
	}
	for uid, more := range r.toCome() {
		cpu += int64(more) * cpuOf(r.templates[uid])
		kinds[r.templates[uid].Spec.NodeSelector["pool"]] = true
	}
	return int((cpu+1)/2) + max(len(kinds)-1, 0) + apart // nodes of four cores
}
