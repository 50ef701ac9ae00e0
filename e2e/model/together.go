package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods that are checked together: a group belongs in one domain (required pod affinity), or is
// spread over domains (hard topology spread). All pods of a group are made at once and are alike.

// labelGroup names the group of a pod.
const labelGroup = "group"

func togetherOperations() map[string]kindOfOperation {
	return map[string]kindOfOperation{
		"friends": {3, [4]int{3, 3, 2, 3}, func(w *World, a [4]int) { w.createGroup(a, befriend) }},
		"spread":  {8, [4]int{3, 1, 2, 7}, func(w *World, a [4]int) { w.createGroup(a, keepApart) }},
	}
}

// createGroup makes pods: how many, their cores, the pool that they name, and bits: whose domain is
// the zone, whose scheduler has no extender, and what the kind of group makes of the third.
func (w *World) createGroup(a [4]int, relate func(p *corev1.Pod, key string, selector *metav1.LabelSelector,
	bit bool)) {
	w.serial++
	group, topology, scheduler := fmt.Sprintf("group-%d", w.serial), corev1.LabelHostname, ourScheduler
	if a[3]&1 != 0 {
		topology = corev1.LabelTopologyZone
	}
	if a[3]&2 != 0 && a[0] == 0 {
		scheduler = plainScheduler
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{labelGroup: group}}
	for range a[0] + 1 {
		p := w.newPod(a, scheduler)
		p.Labels = selector.MatchLabels
		relate(p, topology, selector, a[3]&4 != 0)
		w.api.put(kindPod, p)
	}
}

func befriend(p *corev1.Pod, key string, selector *metav1.LabelSelector, _ bool) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selector}},
	}}
}

func keepApart(p *corev1.Pod, key string, selector *metav1.LabelSelector, honor bool) {
	constraint := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
	}
	if honor {
		policy := corev1.NodeInclusionPolicyHonor
		constraint.NodeTaintsPolicy = &policy
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{constraint}
}

// ties are what a pod asks of the places of its group.
type ties struct {
	group, key string
	// together is required affinity, else it is spread; honor leaves out domains of tainted nodes.
	together, honor bool
}

// tiesOf returns the zero value for a pod without a group.
func tiesOf(p *corev1.Pod) ties {
	t := ties{group: p.Labels[labelGroup]}
	switch {
	case t.group == "":
	case p.Spec.Affinity != nil:
		t.key, t.together = p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey, true
	default:
		c := p.Spec.TopologySpreadConstraints[0]
		t.key, t.honor = c.TopologyKey, c.NodeTaintsPolicy != nil
	}
	return t
}

// census counts the pods of a group by domain.
type census struct {
	ties
	count map[string]int
}

// newCensus counts by the nodes and the places given; on is where a pod counts, "" for nowhere.
func newCensus(p *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod, on func(*corev1.Pod) string) census {
	c := census{ties: tiesOf(p), count: map[string]int{}}
	domains := map[string]string{}
	for _, n := range nodes {
		if c.together || selects(p, n) && (!c.honor || untainted(n)) {
			domains[n.Name] = n.Labels[c.key]
			c.count[n.Labels[c.key]] += 0
		}
	}
	for _, o := range pods {
		if domain, counted := domains[on(o)]; counted && o.UID != p.UID && o.Labels[labelGroup] == c.group && !finished(o) {
			c.count[domain]++
		}
	}
	return c
}

// takes reports whether one more pod of the group may go to the node.
func (c census) takes(n *corev1.Node) bool {
	domain := n.Labels[c.key]
	least, sum := math.MaxInt32, 0
	for _, count := range c.count {
		least, sum = min(least, count), sum+count
	}
	if c.together {
		return sum == 0 || c.count[domain] > 0
	}
	return c.count[domain]+1-least <= 1
}

// suits are the filters for affinity and spread: each node must pass with the pods that are
// nominated to it, and without.
func (s *scheduler) suits(p *corev1.Pod) func(*corev1.Node) bool {
	if p.Labels[labelGroup] == "" {
		return func(*corev1.Node) bool { return true }
	}
	nodes, pods := sorted[*corev1.Node](s.cache.objects, kindNode), sorted[*corev1.Pod](s.cache.objects, kindPod)
	place := func(o *corev1.Pod) string { return cmp.Or(o.Spec.NodeName, s.assumed[o.UID]) }
	bare := newCensus(p, nodes, pods, place)
	return func(n *corev1.Node) bool {
		return bare.takes(n) && newCensus(p, nodes, pods, func(o *corev1.Pod) string {
			if on := place(o); on != "" || o.Status.NominatedNodeName != n.Name {
				return on
			}
			return n.Name
		}).takes(n)
	}
}

// selects reports whether the pod's selector lets it on the node.
func selects(p *corev1.Pod, n *corev1.Node) bool {
	pool := p.Spec.NodeSelector["pool"]
	return pool == "" || n.Labels["pool"] == pool
}

// suitsAtRest reports whether the node suits the pod by the pods that are bound.
func (w *World) suitsAtRest(p *corev1.Pod, n *corev1.Node) bool {
	if p.Labels[labelGroup] == "" {
		return true
	}
	return newCensus(p, w.api.nodes(), w.api.pods(), func(o *corev1.Pod) string { return o.Spec.NodeName }).takes(n)
}

// launchServes reports whether a new instance, of whatever zone, suits the pod.
func (w *World) launchServes(p *corev1.Pod) bool {
	t := tiesOf(p)
	switch {
	case t.group == "":
		return true
	case !t.together:
		return t.key == corev1.LabelHostname
	}
	for _, o := range w.api.pods() {
		if o.Labels[labelGroup] == t.group && o.Spec.NodeName != "" && !finished(o) {
			return false
		}
	}
	return true
}

// groupRules watch that starts suit the groups that they are for.
type groupRules struct {
	// upset are the groups of which a pod has gone, been evicted or finished: no controller puts
	// the others right.
	upset map[string]bool
}

func (r *rules) groupChanged(old, p *corev1.Pod) {
	if old != nil && old.Labels[labelGroup] != "" && (p == nil || p.DeletionTimestamp != nil || finished(p) ||
		p.UID != old.UID) {
		r.upset[old.Labels[labelGroup]] = true
	}
}

// grouped checks, while nothing is wrong, that the node that starts suits the pods that have claims
// on it together with all others of their groups that are bound or have claims.
func (r *rules) grouped(n *corev1.Node) {
	if !r.quiet(2*time.Minute) || r.overtaken(n) {
		return
	}
	place := r.places()
	for _, p := range r.w.api.pods() {
		if place[p.UID] != n.Name || p.Labels[labelGroup] == "" || r.upset[p.Labels[labelGroup]] {
			continue
		}
		c := newCensus(p, r.domainsSince(p, n), r.w.api.pods(), func(o *corev1.Pod) string { return place[o.UID] })
		if !c.takes(n) {
			r.w.breaks("starts", "%s starts for %s of %s, and the others are elsewhere: %v by %s", n.Name, p.Name, c.group,
				c.count, c.key)
		}
	}
}

// places are the nodes that pods are bound to, or have claims on. A claim counts before its Node
// names it: the write of another start's intent may have met a conflict.
func (r *rules) places() map[types.UID]string {
	out := map[types.UID]string{}
	for _, p := range r.w.api.pods() {
		for _, o := range r.w.processes {
			if c, ok := o.state.ClaimOf(p.UID); ok {
				out[p.UID] = string(c.Node)
			}
		}
	}
	for _, n := range r.w.api.nodes() {
		for _, uid := range claimsOn(n) {
			out[types.UID(uid)] = n.Name
		}
	}
	for _, p := range r.w.api.pods() {
		if p.Spec.NodeName != "" {
			out[p.UID] = p.Spec.NodeName
		}
	}
	return out
}

// domainsSince are the nodes that have been as they are since before the pod was made, the one that
// starts, as it will be once it runs, and all others of their domains. What became a domain in
// between may have come after the claims.
func (r *rules) domainsSince(p *corev1.Pod, starts *corev1.Node) []*corev1.Node {
	runs := starts.DeepCopy()
	runs.Spec.Taints, runs.Spec.Unschedulable = nil, false
	t, out := tiesOf(p), []*corev1.Node{runs}
	var later []*corev1.Node
	for _, n := range r.w.api.nodes() {
		since := n.CreationTimestamp.Time
		if t.honor {
			since = r.entered[n.Name]
		}
		switch {
		case n.Name == starts.Name:
		case since.Before(p.CreationTimestamp.Time):
			out = append(out, n)
		default:
			later = append(later, n)
		}
	}
	domains := map[string]bool{}
	for _, n := range out {
		domains[n.Labels[t.key]] = true
	}
	return append(out, slices.DeleteFunc(later, func(n *corev1.Node) bool { return !domains[n.Labels[t.key]] })...)
}
