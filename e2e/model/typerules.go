package model

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

// typeRules observe as which types nodes start.
type typeRules struct {
	// crowded is when more than one process last ran.
	crowded time.Time
	// named is when the claims that a Node names last changed.
	named map[string]time.Time
}

// change is a call for a change of an instance's type that was answered.
type change struct {
	by *process
	at time.Time
	// kind is the type, changed says whether the instance was of another one before, again whether the
	// process knew that it had made it so. lost: it did not get the answer.
	kind                 string
	changed, again, lost bool
}

// typeRefusal is an answer that the type is none for an instance.
type typeRefusal struct {
	to *process
	at time.Time
}

// typeRefused notes that the cloud refuses the type for the instance.
func (r *rules) typeRefused(p *process, i *instance, kind string) {
	if r.w.trouble.lost == 0 {
		i.refusedTypes[kind] = typeRefusal{to: p, at: r.w.now}
	}
}

// knowsRefusal reports whether the cloud told the process that the type is none for the instance,
// and that has not run since.
func (r *rules) knowsRefusal(p *process, i *instance, kind string) bool {
	last := i.refusedTypes[kind]
	return last.to == p && i.started.Before(last.at) && i.meddled.Before(last.at) && r.crowded.Before(last.at)
}

// changesType checks a call for a change of the type: at most one in a start. A return to the first
// type may have been on its way when the start was asked for.
func (r *rules) changesType(p *process, i *instance, kind string) {
	r.destructive("start", i)
	n, last := r.w.api.node(i.node()), i.change
	if n == nil || stateOf(n) != v1alpha1.StateStarting ||
		kind == instanceType && r.w.now.Sub(r.entered[n.Name]) < time.Second &&
			n.Annotations[v1alpha1.AnnotationInstanceType] != kind {
		return
	}
	again := last.by == p && last.kind == kind && !last.lost && i.started.Before(last.at) &&
		!last.at.Before(r.entered[n.Name])
	now := change{by: p, again: again, at: r.w.now, kind: kind, changed: i.kind() != kind, lost: r.w.trouble.lost > 0}
	if i.state() == provider.InstanceStopped && !r.w.now.Before(r.w.trouble.denied) &&
		!r.w.types.refuses(i, kind, refusedAtChange) {
		i.change = now
	}
	r.changesOnce(p, i, last, now, n)
}

// changesOnce checks the change against the last one before, and against what the Node says.
func (r *rules) changesOnce(p *process, i *instance, last, now change, n *corev1.Node) {
	asked, kind := r.entered[n.Name], now.kind
	switch {
	case now.changed && n.Annotations[v1alpha1.AnnotationInstanceType] != kind && r.w.now.Sub(r.crowded) > 10*time.Second:
		r.w.breaks("types", "%s is made %s, and its Node does not say so", i.id, kind)
	case r.knowsRefusal(p, i, kind):
		r.w.breaks("types", "%s is made %s, which was refused since it last ran", i.id, kind)
	case last.at.Before(asked):
	case last.changed && now.changed:
		r.w.breaks("types", "%s is made %s and %s in one start", i.id, last.kind, kind)
	case now.again && last.again: // the first one may have been to return to the type
		r.w.breaks("types", "%s is made %s three times in one start", i.id, kind)
	}
}

// startsAsType checks a start call: not of an offering of which this process knows that the cloud
// has none. A start for a bound pod may try, also when the pod has gone since: it names no claims.
func (r *rules) startsAsType(p *process, i *instance) {
	n := r.w.api.node(i.node())
	if n == nil || stateOf(n) != v1alpha1.StateStarting || !r.w.types.played && !r.w.reservations.played {
		return
	}
	o, isAsNamed := r.offeringOf(p, i, n)
	if !isAsNamed {
		return // its class wants other reservations by now, or it was set to one by hand
	}
	told, asked := p.unavailable[o], r.entered[n.Name]
	// The answer to a start that was accepted just before the refusal may come after it.
	alone := r.crowded.Before(told) && p.born.Before(told) && r.saidBefore(n, told) && told.Sub(p.given[o]) > time.Second
	// An intent was decided a moment before it is written.
	if alone && told.Before(asked.Add(-time.Second)) && r.w.now.Sub(told) < 170*time.Second &&
		n.Annotations[v1alpha1.AnnotationClaims] != "" && !slices.ContainsFunc(r.w.api.on(n.Name), counts) {
		r.w.breaks("types", "%s is started as %s, of which the cloud had none %s ago", i.id, o, r.w.now.Sub(told))
	}
}

func labelledOffering(n *corev1.Node) offering {
	return offering{zone: n.Labels[corev1.LabelTopologyZone], kind: n.Labels[corev1.LabelInstanceTypeStable]}
}

// answeredStart notes what the process learns of an offering.
func (r *rules) answeredStart(p *process, i *instance, err error) {
	n := r.w.api.node(i.node())
	if n == nil {
		return
	}
	if provider.IsReservation(err) {
		i.refusedSeat = r.w.now
	}
	o, isAsNamed := r.offeringOf(p, i, n)
	switch {
	case provider.IsInsufficientCapacity(err):
		if isAsNamed {
			r.learns(p, o)
		}
		if !provider.IsReservation(err) {
			r.learns(p, labelledOffering(n)) // it was no matter of a reservation
		}
	case err == nil:
		for _, o := range []offering{labelledOffering(n), o, r.w.namedOffering(n)} { // for which the process may take it
			delete(p.unavailable, o)
			delete(p.backoffs, o)
			p.given[o] = r.w.now
		}
	}
}

// learns: what is refused while the backoff lasts, to starts for bound pods, does not prolong it.
// It doubles with each that is refused after its end.
func (r *rules) learns(p *process, o offering) {
	const first, most = 3 * time.Minute, 30 * time.Minute
	if r.w.now.Sub(p.unavailable[o]) >= p.backoffs[o] {
		p.unavailable[o], p.backoffs[o] = r.w.now, min(max(first, 2*p.backoffs[o]), most)
	}
}

// claimsByType checks, when a start is accepted, that the claims fit the type as what it starts,
// where nodes of the class and type have shown for a while what that offers.
func (r *rules) claimsByType(i *instance, n *corev1.Node) {
	if !r.w.types.played || len(r.w.processes) != 1 || r.w.now.Sub(r.crowded) < time.Minute {
		return
	}
	known := r.entered[n.Name].Add(-10*time.Second - r.w.trouble.watch)
	least, which := int64(0), ""
	for _, o := range r.w.api.nodes() {
		if stateOf(o) == v1alpha1.StateRunning && r.entered[o.Name].Before(known) && r.sameClass(o, n) &&
			o.Labels[corev1.LabelInstanceTypeStable] == i.kind() && o.Annotations[v1alpha1.AnnotationInstanceType] == "" {
			if cores := o.Status.Allocatable.Cpu().Value(); which == "" || cores < least {
				least, which = cores, o.Name
			}
		}
	}
	if sum := r.claimed(claimsOn(n)); which != "" && sum > least {
		r.w.breaks("claims", "%s starts as %s for %d cores, and %s shows that it has %d", n.Name, i.kind(), sum, which,
			least)
	}
}

func (r *rules) sameClass(a, b *corev1.Node) bool {
	return classOf(poolNameOf(a)) == classOf(poolNameOf(b))
}

// claimed are the cores that the pods and replicas to come ask for.
func (r *rules) claimed(uids []string) int64 {
	sum := int64(0)
	for _, uid := range uids {
		if owner, _, isSlot := decide.OwnerOfSlot(types.UID(uid)); isSlot {
			if template := r.templates[string(owner)]; template != nil {
				sum += cpuOf(template)
			}
			continue
		}
		for _, p := range r.w.api.pods() {
			if string(p.UID) == uid {
				sum += cpuOf(p)
			}
		}
	}
	return sum
}

// moved reports whether the claims that both nodes name may have moved a moment ago, from one that
// turned out too small for all while it starts. A process that began meanwhile does not know which
// of them have ended.
func (r *rules) moved(from, to *corev1.Node) bool {
	if r.claimed(claimsOn(from)) <= min(r.w.coresOn(from), from.Status.Allocatable.Cpu().Value()) {
		return false
	}
	begun := r.entered[from.Name]
	isAlone := len(r.w.processes) == 1 && r.w.processes[0].born.Before(begun) && r.crowded.Before(begun)
	return !isAlone || !r.quiet(15*time.Second) || r.w.now.Sub(r.named[to.Name]) < 2*time.Second
}

// namedTwice checks, while nothing is wrong, that no pending pod is named by two nodes that start:
// another replica, or a new process, would not know which of them it is to have.
func (r *rules) namedTwice() {
	if len(r.w.processes) != 1 || !r.quiet(15*time.Second) {
		return
	}
	at, born := map[string]string{}, later(r.w.processes[0].born, r.crowded)
	for _, n := range r.w.api.nodes() {
		if stateOf(n) != v1alpha1.StateStarting || r.entered[n.Name].Before(born) {
			continue
		}
		for _, uid := range claimsOn(n) {
			other := at[uid]
			at[uid] = n.Name
			if other != "" && r.w.now.Sub(later(r.named[n.Name], r.named[other])) > 5*time.Second && r.waits(uid) {
				r.w.breaks("starts", "%s and %s name %s", other, n.Name, uid)
			}
		}
	}
}

// waits reports whether the pod of the UID is bound nowhere.
func (r *rules) waits(uid string) bool {
	return slices.ContainsFunc(r.w.api.pods(), func(p *corev1.Pod) bool {
		return string(p.UID) == uid && counts(p) && p.Spec.NodeName == ""
	})
}

// claimsFit checks that the claims on a node that opens fit what it reports.
func (r *rules) claimsFit(n *corev1.Node) {
	if len(r.w.processes) != 1 || !r.w.types.played {
		return
	}
	var uids []string
	for _, c := range r.w.processes[0].state.ClaimsOn(v1alpha1.NodeName(n.Name)) {
		if at := r.w.assumedOn(c.Pod); at == "" || at == n.Name { // else its pod is being bound elsewhere
			uids = append(uids, string(c.Pod))
		}
	}
	if sum, has := r.claimed(uids), n.Status.Allocatable.Cpu().Value(); sum > has {
		r.w.breaks("claims", "%s opens with %d cores for claims of %d", n.Name, has, sum)
	}
}

// showsLess reports whether the node was a smaller type when it last ran. It shows the room of that
// until it runs again, and kube-scheduler goes by what it shows.
func (w *World) showsLess(n *corev1.Node) bool {
	return n.Status.Allocatable.Cpu().Value() < w.coresOn(n)
}

// assumedOn is the node that a scheduler has given the pod, or "".
func (w *World) assumedOn(pod types.UID) string {
	for _, s := range w.schedulers {
		if at := s.assumed[pod]; at != "" {
			return at
		}
	}
	for _, p := range w.api.pods() {
		if p.UID == pod {
			return p.Spec.NodeName
		}
	}
	return ""
}

// typesAtRest says which node is of another type than it shows, or has not returned to the first
// one.
func (w *World) typesAtRest() string {
	if !w.types.played {
		return ""
	}
	for _, n := range w.poolNodes() {
		i := w.machineOf(n)
		if i == nil || i.gone() {
			continue
		}
		old, stable := n.Labels[corev1.LabelInstanceType], n.Labels[corev1.LabelInstanceTypeStable]
		switch {
		case old != i.kind() || stable != i.kind():
			return fmt.Sprintf("%s is %s, and its labels say %q and %q", n.Name, i.kind(), old, stable)
		case i.kind() != instanceType && !w.isReservedFor(n, i.kind()): // one with a reservation as what it is stays
			return fmt.Sprintf("%s is still %s", n.Name, i.kind())
		}
	}
	return ""
}
