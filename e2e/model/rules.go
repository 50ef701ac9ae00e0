package model

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

// rules observes the run and reports a broken invariant, of the invariants 1 to 6 of the project.
type rules struct {
	w *World
	// bound is when a pod was bound, intent when the last stop intent was written on a node.
	bound  map[types.UID]time.Time
	intent map[string]time.Time
	// boundTo is the instance type of the node that a pod was bound to.
	boundTo map[types.UID]string
	// entered is when a node came into the state that it is in.
	entered map[string]time.Time
	// sizes are the sizes of a pool that a process may still have in its cache.
	sizes map[string][]sized
	// unrest is when a fault was last on, or a process ended.
	unrest time.Time
	// silent is when the cloud, or a region of it, last did not answer.
	silent time.Time
	// waited are the times at which pods ceased to wait.
	waited  []time.Time
	checked time.Time
	nodeRules
	groupRules
	ownerRules
	pauseRules
	typeRules
	reservationRules
}

type sized struct {
	size  int32
	until time.Time
}

func newRules(w *World) *rules {
	return &rules{w: w, bound: map[types.UID]time.Time{}, boundTo: map[types.UID]string{},
		intent: map[string]time.Time{}, entered: map[string]time.Time{}, sizes: map[string][]sized{},
		nodeRules: newNodeRules(), groupRules: groupRules{upset: map[string]bool{}},
		ownerRules: newOwnerRules(), pauseRules: pauseRules{paused: map[string]time.Time{}},
		typeRules:        typeRules{named: map[string]time.Time{}},
		reservationRules: reservationRules{said: map[string]time.Time{}}}
}

// afterStep is called after each step of the world.
func (r *rules) afterStep() {
	for _, p := range r.w.processes {
		p.settle()
	}
	if len(r.w.processes) > 1 {
		r.crowded = r.w.now
	}
	if r.w.now.Sub(r.checked) < 5*time.Second {
		return
	}
	r.checked = r.w.now
	if r.troubled() {
		r.disturb()
	}
	r.listen()
	r.deadlines()
	r.namedTwice()
}

// listen notes whether the cloud answers.
func (r *rules) listen() {
	if r.w.now.Before(r.w.trouble.outage) || r.w.trouble.anyRegionDown(r.w.now) {
		r.silent = r.w.now
	}
}

func (r *rules) disturb() { r.unrest = r.w.now }

func (r *rules) troubled() bool {
	t, now := &r.w.trouble, r.w.now
	if now.Before(t.outage) || now.Before(t.apiDown) || now.Before(t.throttledUntil) || now.Before(t.watchUntil) ||
		t.anyRegionDown(now) || len(r.w.processes) != 1 {
		return true
	}
	return t.fallbacks+t.mutes+t.shorts+t.hangs+t.lost > 0 || t.isShort(now)
}

// changed is called for each write to the API server.
func (r *rules) changed(k kind, before, after client.Object) {
	switch k {
	case kindNode:
		n, _ := after.(*corev1.Node)
		old, _ := before.(*corev1.Node)
		r.nodeChanged(old, n)
		r.struck(old, n)
		r.noteNode(old, n)
	case kindPod:
		p, _ := after.(*corev1.Pod)
		old, _ := before.(*corev1.Pod)
		r.podGone(old, p)
		r.groupChanged(old, p)
		r.notePod(old, p)
	case kindPool:
		r.resized(before, after)
	case kindReplicaSet:
		r.ownerChanged(before, after)
	case kindClass:
		r.classChanged(before, after)
	case kindQuota:
	}
}

// noteNode records when a Node entered its state and when its stop intent was written.
func (r *rules) noteNode(old, n *corev1.Node) {
	if n == nil {
		delete(r.entered, old.Name)
		delete(r.named, old.Name)
		return
	}
	r.begins(old, n)
	if old == nil || old.Annotations[v1alpha1.AnnotationClaims] != n.Annotations[v1alpha1.AnnotationClaims] {
		r.named[n.Name] = r.w.now
	}
	if old == nil || stateOf(old) != stateOf(n) {
		r.entered[n.Name] = r.w.now
		r.w.note("%s: %s", n.Name, stateOf(n))
		r.enters(n)
	}
	if n.Annotations[v1alpha1.AnnotationStopIntent] != "" && (old == nil ||
		old.Annotations[v1alpha1.AnnotationStopIntent] == "") {
		r.intent[n.Name] = r.w.now
	}
}

// notePod records when a pod stopped waiting and when it was bound.
func (r *rules) notePod(old, p *corev1.Pod) {
	if p == nil && counts(old) && old.Spec.NodeName != "" { // a node may have started to end it
		if n := r.w.api.node(old.Spec.NodeName); n != nil && stateOf(n) != v1alpha1.StateRunning {
			r.waited = append(r.waited, r.w.now)
		}
	}
	switch {
	case old != nil && old.Spec.NodeName == "" && (p == nil || p.Spec.NodeName != ""):
		r.waited = append(r.waited, r.w.now)
		fallthrough
	case old == nil:
		if p != nil && p.Spec.NodeName != "" {
			r.bound[p.UID], r.boundTo[p.UID] = r.w.now, r.typeOf(p)
		}
	}
}

func (r *rules) resized(before, after client.Object) {
	p, _ := after.(*v1alpha1.NodePool)
	old, _ := before.(*v1alpha1.NodePool)
	r.pauses(old, p)
	if old != nil && (p == nil || p.Spec.PoolSize != old.Spec.PoolSize) {
		r.sizes[old.Name] = append(r.sizes[old.Name], sized{size: old.Spec.PoolSize, until: r.w.now.Add(20 * time.Second)})
	}
	if p == nil {
		r.emptied(old)
	} else {
		r.status(old, p)
		r.regionCounted(p)
	}
}

// enters checks what a state says of the instance when a node comes into it (invariant 6, and
// "never opened before it runs").
func (r *rules) enters(n *corev1.Node) {
	i := r.w.machineOf(n)
	if i == nil {
		return
	}
	lately := r.lately(i)
	switch stateOf(n) {
	case v1alpha1.StateStandby:
		switch {
		case !i.everReady:
			r.w.breaks("standby", "%s was never Ready", n.Name)
		case i.hangs && !i.meddled.IsZero(): // a start was given back, and the stop that was asked for will be forced
		case i.state() != provider.InstanceStopped && !lately:
			r.w.breaks("standby", "%s while its instance is %s", n.Name, i.state())
		}
	case v1alpha1.StateRunning:
		if (i.state() != provider.InstanceRunning || !i.up && i.died != i.boot) && !lately {
			r.w.breaks("running", "%s is opened while its instance is %s, kubelet up: %v", n.Name, i.state(), i.up)
		}
	case v1alpha1.StateWarmup, v1alpha1.StateStarting, v1alpha1.StateStopping, v1alpha1.StateTerminating:
	}
}

// lately reports whether Stratos cannot know yet that another client changed the instance: that was
// a moment ago, or the cloud did not answer a moment ago.
func (r *rules) lately(i *instance) bool {
	known := later(i.meddled, r.silent)
	return !i.meddled.IsZero() && r.w.now.Sub(known) < time.Minute
}

// launched checks invariants 1 and 3 at a launch.
func (r *rules) launched(i *instance) {
	r.whilePaused(i.pool(), "%s is launched", i.id)
	for _, tag := range []string{v1alpha1.TagManagedBy, v1alpha1.TagCluster, v1alpha1.TagClusterUID, v1alpha1.LabelPool,
		v1alpha1.LabelState} {
		if i.tags()[tag] == "" {
			r.w.breaks("tags", "%s is launched without the tag %s", i.id, tag)
		}
	}
	most := int32(0)
	if pool := r.w.api.pool(i.pool()); pool != nil {
		most = pool.Spec.PoolSize
	}
	for _, s := range r.sizes[i.pool()] {
		if r.w.now.Before(s.until.Add(r.w.trouble.watch)) {
			most = max(most, s.size)
		}
	}
	// An instance whose tags were taken and written again counts once the cloud's reads show them. One
	// that no read shows, and whose machine died, gives no sign at all.
	mine := slices.DeleteFunc(r.w.cloud.of(i.pool()), func(o *instance) bool {
		hidden := r.w.now.Add(-20*time.Second).Before(o.unseenUntil) && o.died == o.boot
		return hidden || !o.meddled.IsZero() && r.w.now.Sub(o.meddled) < time.Minute
	})
	if have := len(mine); have > int(most) {
		r.w.breaks("poolSize", "pool %s has %d instances, poolSize is %d", i.pool(), have, most)
	}
}

// tagging checks that tags are written on nothing of another owner.
func (r *rules) tagging(i *instance, tags map[string]string) {
	if c := i.tags()[v1alpha1.TagCluster]; i.token == "" || c != "" && c != clusterName {
		r.w.breaks("strangers", "%s is tagged %v and is not ours: %v", i.id, tags, i.tags())
	}
	if p := i.moments[0].tags[v1alpha1.LabelPool]; tags[v1alpha1.LabelPool] != "" && p != tags[v1alpha1.LabelPool] {
		r.w.breaks("strangers", "%s of pool %s is taken for pool %s", i.id, p, tags[v1alpha1.LabelPool])
	}
}

// destructive checks invariants 2 and 3 at each call that starts, stops or terminates.
func (r *rules) destructive(what string, i *instance) {
	r.ownership(what, i)
	n := r.w.api.node(i.node())
	if what == "terminate" && (n == nil || stateOf(n) != v1alpha1.StateTerminating) &&
		!i.condemned.Before(r.paused[i.pool()]) {
		r.whilePaused(i.pool(), "%s is terminated", i.id)
	}
	if what == "start" || n == nil || i.state() == provider.InstanceStopped || i.state() == provider.InstanceStopping {
		return
	}
	if what == "stop" {
		r.unannounced(what, i, n, n.Annotations[v1alpha1.AnnotationStopIntent] != "" || stateOf(n) == v1alpha1.StateStandby)
	}
	r.podsKept(what, i, n)
}

// ownership checks that the instance is ours.
func (r *rules) ownership(what string, i *instance) {
	lately := r.lately(i)
	mine := ours(i.tags())
	// a start needs only the cluster's tag: the pool's tag may be missing, and it cannot be restored
	// while the cloud does not answer
	if what == "start" {
		mine = ofThisCluster(i.tags())
	}
	if i.token == "" || !mine && !lately {
		r.w.breaks("strangers", "%s of %s, which is not ours: %v", what, i.id, i.tags())
	}
}

// podsKept checks that no pod that runs, or could be known of, is on the node.
func (r *rules) podsKept(what string, i *instance, n *corev1.Node) {
	for _, p := range r.w.api.on(n.Name) {
		if !counts(p) || p.DeletionTimestamp != nil && r.w.now.Sub(p.DeletionTimestamp.Time) > 5*time.Second {
			continue
		}
		early := r.bound[p.UID].Before(r.since(n))
		if i.up && (p.Status.Phase == corev1.PodRunning || early) {
			r.w.breaks("pods", "%s of %s, whose node (%s) holds %s (%s), bound at %s", what, i.id, stateOf(n), p.Name,
				p.Status.Phase, r.bound[p.UID].Sub(epoch()))
		}
	}
}

// unannounced breaks where the cloud is called though the Node has no intent. One that was there a
// moment ago may have been cancelled while the call was on its way.
func (r *rules) unannounced(what string, i *instance, n *corev1.Node, intended bool) {
	if n != nil && !intended && r.w.now.Sub(r.entered[n.Name]) > 2*time.Second {
		r.w.breaks("intent", "%s of %s, whose node is %s without an intent", what, i.id, stateOf(n))
	}
}

// since is the moment after which a bind comes too late for the process that stops or
// terminates the node: its intent, or what it last read.
func (r *rules) since(n *corev1.Node) time.Time {
	if n.Annotations[v1alpha1.AnnotationStopIntent] != "" {
		return r.intent[n.Name].Add(-100 * time.Millisecond) // the list was read that much before at most
	}
	return r.w.now.Add(-time.Second - r.w.trouble.watch)
}

// refused reports whether the start that the Node's annotations record was refused, which is about
// to be written: its claims have moved.
func (r *rules) refused(n *corev1.Node) bool {
	i := r.w.machineOf(n)
	return i != nil && i.refused.After(r.entered[n.Name]) && i.refused.After(i.started)
}

// overtaken reports whether the pods that the node's start was for may be gone: the start was asked
// for long ago, while the cloud did not answer, or is repeated because a person stopped the
// instance. A start that was asked for is carried out; the node stops again when it has been empty
// for a while.
func (r *rules) overtaken(n *corev1.Node) bool {
	asked, i := r.entered[n.Name], r.w.machineOf(n)
	return r.w.now.Sub(asked) > time.Minute || i != nil && i.meddled.After(asked)
}

// started checks invariant 4 when a start is accepted.
func (r *rules) started(i *instance) {
	n := r.w.api.node(i.node())
	if n == nil || stateOf(n) != v1alpha1.StateStarting {
		r.unannounced("start", i, n, n != nil && stateOf(n) == v1alpha1.StateWarmup)
		return
	}
	if r.w.logger && r.w.now.Sub(r.w.loggerAt) < time.Minute {
		return // a claim from before the DaemonSet came may not fit any more, and another node is started for it
	}
	r.claimsByType(i, n)
	starting := 0
	for _, o := range r.w.api.nodes() {
		if stateOf(o) != v1alpha1.StateStarting || r.refused(o) || r.overtaken(o) {
			continue
		}
		starting++
		r.startsTwice(n, o)
	}
	r.unwanted(n)
	r.grouped(n)
	if need := min(r.waiting(), r.crowdOf()); starting > need {
		r.w.breaks("starts", "%d nodes are starting, and %d pods wait or waited a moment ago", starting, need)
	}
}

// startsTwice checks that no pod is what both nodes start for.
func (r *rules) startsTwice(n, other *corev1.Node) {
	if other.Name == n.Name || r.moved(other, n) {
		return
	}
	claims := claimsOn(n)
	for _, uid := range claimsOn(other) {
		// A slot is a place in the line of its owner, and is taken again as soon as it is free.
		if _, _, isSlot := decide.OwnerOfSlot(types.UID(uid)); !isSlot && slices.Contains(claims, uid) {
			r.w.breaks("starts", "pod %s starts both %s and %s", uid, other.Name, n.Name)
		}
	}
}

func claimsOn(n *corev1.Node) []string {
	return slices.DeleteFunc(strings.Split(n.Annotations[v1alpha1.AnnotationClaims], ","),
		func(s string) bool { return s == "" })
}

// waiting counts the pods that nodes may be started for: those that wait, those on nodes that do
// not run, those that waited a moment ago, and replicas that are still to come.
func (r *rules) waiting() int {
	count := 0
	for _, p := range r.w.api.pods() {
		n := r.w.api.node(p.Spec.NodeName)
		if counts(p) && (p.Spec.NodeName == "" || n == nil || stateOf(n) != v1alpha1.StateRunning) {
			count++
		}
	}
	r.waited = slices.DeleteFunc(r.waited, func(t time.Time) bool { return r.w.now.Sub(t) > 2*time.Minute })
	for _, more := range r.toCome() {
		count += more
	}
	return count + len(r.waited)
}

// typeOf is the instance type of the pod's node, "" where that is not known.
func (r *rules) typeOf(p *corev1.Pod) string {
	if n := r.w.api.node(p.Spec.NodeName); n != nil {
		return n.Labels[corev1.LabelInstanceTypeStable]
	}
	return ""
}

// rejected: a kubelet had no room for a pod. That must not happen where one scheduler owns the
// nodes, unless the node has become a type whose room nothing had shown.
func (r *rules) rejected(p *corev1.Pod) {
	if r.boundTo[p.UID] != r.typeOf(p) {
		return
	}
	for _, o := range r.w.api.on(p.Spec.NodeName) {
		if o.Spec.SchedulerName != ourScheduler && counts(o) {
			return
		}
	}
	if p.Spec.SchedulerName == ourScheduler {
		r.w.breaks("room", "%s is rejected by the kubelet of %s", p.Name, p.Spec.NodeName)
	}
}

// binding checks that the scheduler was not sent to a node that has not been open for a while.
func (r *rules) binding(p *corev1.Pod, node string) {
	n := r.w.api.node(node)
	if n == nil || poolNameOf(n) == "" || stateOf(n) == v1alpha1.StateRunning || p.Annotations[annotationSlow] != "" {
		return
	}
	if age := r.w.now.Sub(r.entered[node]); age > 2*time.Second+r.w.trouble.watch {
		r.w.breaks("running", "%s is bound to %s, which has been %s for %s", p.Name, node, stateOf(n), age)
	}
}

// filtered checks an answer: a pod goes to no node of ours that was never opened.
func (r *rules) filtered(p *corev1.Pod, nodes []string) {
	for _, name := range nodes {
		n := r.w.api.node(name)
		if n == nil || poolNameOf(n) == "" || stateOf(n) == v1alpha1.StateRunning {
			continue
		}
		if age := r.w.now.Sub(r.entered[name]); age > 2*time.Second+r.w.trouble.watch {
			r.w.breaks("running", "%s is offered %s, which has been %s for %s", p.Name, name, stateOf(n), age)
		}
	}
}

// deadlines checks invariant 5: no node stays on its way for longer than its pool allows while
// nothing is wrong.
func (r *rules) deadlines() {
	for _, n := range r.w.api.nodes() {
		pool := r.w.api.pool(poolNameOf(n))
		if pool == nil {
			continue
		}
		most := time.Duration(0)
		switch stateOf(n) {
		case v1alpha1.StateWarmup:
			if pool.IsPaused() {
				continue // one that failed is not replaced
			}
			most = 2*pool.Spec.PreWarm.TimeoutOrDefault() + 7*time.Minute
		case v1alpha1.StateStarting:
			most = pool.Spec.ScaleUp.ReadyTimeoutOrDefault() + time.Minute
		case v1alpha1.StateStopping:
			most = pool.Spec.ScaleDown.DrainTimeoutOrDefault() + 7*time.Minute
		case v1alpha1.StateTerminating:
			most = pool.Spec.ScaleDown.DrainTimeoutOrDefault() + 7*time.Minute
			r.drains(n)
			if r.guarded(n.Name) {
				continue
			}
		default:
			continue
		}
		from := r.entered[n.Name]
		if from.Before(r.unrest) {
			from = r.unrest
		}
		if age := r.w.now.Sub(from); age > most {
			r.w.breaks("deadline", "%s has been %s for %s", n.Name, stateOf(n), age)
		}
	}
}

// drains checks, while the machine runs, that a pod whose eviction is refused keeps no other pod on
// a node that is drained.
func (r *rules) drains(n *corev1.Node) {
	from := r.entered[n.Name]
	if from.Before(r.unrest) {
		from = r.unrest
	}
	const most = 45 * time.Second // refusals are asked about again every 2 s, errors after 30 s at most
	i := r.w.machineOf(n)
	if r.w.now.Sub(from) < most || i == nil || i.state() != provider.InstanceRunning ||
		r.w.now.Before(i.unseenUntil.Add(most)) {
		return // the guest of an instance that shuts down ends the pods, and one that no read shows is left as it is
	}
	for _, p := range r.w.api.on(n.Name) {
		if counts(p) && p.DeletionTimestamp == nil && p.Annotations[annotationGuarded] == "" &&
			r.w.now.Sub(r.bound[p.UID]) > most {
			r.w.breaks("deadline", "%s is being drained for %s, and %s was not evicted", n.Name, r.w.now.Sub(from), p.Name)
		}
	}
}

func (r *rules) guarded(node string) bool {
	return slices.ContainsFunc(r.w.api.on(node),
		func(p *corev1.Pod) bool { return p.Annotations[annotationGuarded] != "" })
}

// forsaken: what lost the tags that say whose it is, and no process has seen before, is left alone.
// That is a documented limit, so a person cleans up.
func (r *rules) forsaken() {
	for _, i := range r.w.cloud.instances {
		known := slices.ContainsFunc(r.w.processes, func(p *process) bool { return p.seen[i.id] })
		if i.token != "" && !i.gone() && !ours(i.tags()) && !known {
			i.meddled = r.w.now
			r.w.cloud.become(i, provider.InstanceTerminated)
		}
	}
}
