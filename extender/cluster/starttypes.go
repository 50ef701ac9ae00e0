package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// startTypes is what is known of the instance types that standby nodes may start as.
type startTypes struct {
	classes map[string]*v1alpha1.AWSNodeClass
	// refused are the types that the cloud has refused for an instance, until its next stop.
	refused map[v1alpha1.NodeName]map[string]bool
	// heldUntil is when types may be changed again: the cloud did not allow Stratos to; zero where
	// nothing is known against it.
	heldUntil time.Time
	// records are of fallback types whose starts failed. Each replica counts the refusals of the
	// starts that it asked for, and goes by its own count and by the status, which the leader
	// writes by its own. So what one replica has counted holds for its starts at once, for the
	// others and for launches once it leads, and is counted anew after its end: at most
	// mostRefusals more calls for each process. To share the count would take a write to the API
	// server for each refusal.
	records map[classType]*typeRecord
	// least is the smallest allocatable that a node of a class and type is known to have. It is empty
	// where a Node has changed since.
	least map[classType]corev1.ResourceList
}

type classType struct{ class, kind string }

const (
	// mostRefusals is how often in a row the cloud may refuse starts as a fallback type, and
	// mostSilent how often no kubelet may report after them, until the class leaves the type out.
	mostRefusals = 3
	mostSilent   = 2
)

// typeRecord counts failed starts as a fallback type of a class, as long as its spec stands.
type typeRecord struct {
	generation       int64
	refusals, silent int
	// failed is why the type is left out, "" where it is not.
	failed string
}

// record is that of the class and type, which begins anew when the spec changes.
func (t *startTypes) record(class *v1alpha1.AWSNodeClass, kind string) *typeRecord {
	key := classType{class.Name, kind}
	if r := t.records[key]; r != nil && r.generation == class.Generation {
		return r
	}
	r := &typeRecord{generation: class.Generation}
	t.records[key] = r
	return r
}

// failedOf are the fallback types of the class that are left out since they failed, with the
// reasons: those that failed here, and those of which the status says so.
func (t *startTypes) failedOf(class *v1alpha1.AWSNodeClass) map[string]string {
	var failed map[string]string
	add := func(kind, why string) {
		if failed == nil {
			failed = map[string]string{}
		}
		failed[kind] = why
	}
	if class.Status.ObservedGeneration == class.Generation {
		for _, known := range class.Status.InstanceTypes {
			if known.Failed {
				add(known.Type, known.Reason)
			}
		}
	}
	for key, r := range t.records {
		if key.class == class.Name && r.generation == class.Generation && r.failed != "" {
			add(key.kind, r.failed)
		}
	}
	return failed
}

func newStartTypes() startTypes {
	return startTypes{
		classes: map[string]*v1alpha1.AWSNodeClass{}, refused: map[v1alpha1.NodeName]map[string]bool{},
		records: map[classType]*typeRecord{}, least: map[classType]corev1.ResourceList{},
	}
}

// nodeChanged takes in a Node as it was, nil for a new one, and as it is. The types that the cloud
// refused are tried again after the next stop: what was attached to the instance may be gone then.
func (t *startTypes) nodeChanged(was, is *corev1.Node) {
	clear(t.least)
	state := v1alpha1.NodeState(is.Labels[v1alpha1.LabelState])
	if was != nil && was.UID != is.UID || state == v1alpha1.StateStopping || state == v1alpha1.StateRunning {
		delete(t.refused, v1alpha1.NodeName(is.Name))
	}
}

func (t *startTypes) nodeGone(name v1alpha1.NodeName) {
	clear(t.least)
	delete(t.refused, name)
}

// classOf is the pool's class where its nodes have types; nil where they have none.
func (t *startTypes) classOf(pool *v1alpha1.NodePool) *v1alpha1.AWSNodeClass {
	if pool == nil || pool.Spec.Template.NodeClassRef.Kind != v1alpha1.KindAWSNodeClass {
		return nil
	}
	return t.classes[pool.Spec.Template.NodeClassRef.Name]
}

// SetNodeClass takes in an added or changed AWSNodeClass.
func (s *State) SetNodeClass(c *v1alpha1.AWSNodeClass) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	was := s.types.classes[c.Name]
	s.types.classes[c.Name] = c
	known := len(s.types.records)
	maps.DeleteFunc(s.types.records, func(of classType, r *typeRecord) bool {
		return of.class == c.Name && r.generation != c.Generation
	})
	reserves := was == nil || reservesOtherwise(was, c)
	if reserves {
		s.rebuildOf(c)
	}
	if reserves || !slices.Equal(was.UsableTypes(), c.UsableTypes()) || len(s.types.records) < known {
		s.retype(now)
	}
}

// DeleteNodeClass takes in that an AWSNodeClass is gone.
func (s *State) DeleteNodeClass(name string) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	delete(s.types.classes, name)
	maps.DeleteFunc(s.types.records, func(of classType, _ *typeRecord) bool { return of.class == name })
	s.retype(now)
}

// RefuseType takes in that the cloud refuses the type for the node's instance. It counts against
// the type once until the node's next stop: a call may be made again before its refusal is written
// down.
func (s *State) RefuseType(node v1alpha1.NodeName, kind string) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	if s.types.refused[node] == nil {
		s.types.refused[node] = map[string]bool{}
	}
	known := s.types.refused[node][kind]
	s.types.refused[node][kind] = true
	if class := s.classWithFallback(node, kind); class != nil && !known {
		r := s.types.record(class, kind)
		if r.refusals++; r.refusals == mostRefusals {
			r.failed = fmt.Sprintf("the cloud refused %d starts as it in a row; a change of the spec has it tried again", r.refusals)
		}
	}
	s.retype(now)
}

// StartsDespiteBackoff reports whether the standby node starts as another type than the one that it
// is, and backs off for no more than that the cloud refuses to start it as that.
func (s *State) StartsDespiteBackoff(name v1alpha1.NodeName) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.nodes[name]
	return e != nil && e.object != nil && s.refusedAsItIs(e)
}

// refusedAsItIs is StartsDespiteBackoff. The caller holds mu.
func (s *State) refusedAsItIs(e *nodeInfo) bool {
	return e.base.ChangesType &&
		s.types.refused[v1alpha1.NodeName(e.object.Name)][e.object.Labels[corev1.LabelInstanceTypeStable]]
}

// endBackoffAsItIs lets a node get claims that starts as another type, and was refused as what it
// is. The caller holds mu.
func (s *State) endBackoffAsItIs(e *nodeInfo) {
	if s.refusedAsItIs(e) {
		e.base.UnavailableUntil = time.Time{}
		s.claims.EndBackoff(e.base.Name)
	}
}

// BlameType takes in that the node's kubelet never reported after a start as the fallback type.
func (s *State) BlameType(node v1alpha1.NodeName, kind string) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	if class := s.classWithFallback(node, kind); class != nil {
		r := s.types.record(class, kind)
		if r.silent++; r.silent == mostSilent {
			r.failed = fmt.Sprintf("no kubelet reported after the last %d starts as it; a change of the spec has it tried "+
				"again", r.silent)
		}
	}
	s.retype(now)
}

// typeServes takes in that the node opened after a start: failures of its type before count no
// more.
func (s *State) typeServes(was, is *corev1.Node) {
	state := func(n *corev1.Node) v1alpha1.NodeState { return v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) }
	if was == nil || state(was) != v1alpha1.StateStarting || state(is) != v1alpha1.StateRunning {
		return
	}
	if class := s.types.classOf(s.poolOf(is)); class != nil {
		key := classType{class.Name, is.Labels[corev1.LabelInstanceTypeStable]}
		if r := s.types.records[key]; r != nil && r.failed == "" {
			delete(s.types.records, key)
		}
	}
}

// classWithFallback is the node's class where it names the type as a fallback type, else nil.
func (s *State) classWithFallback(node v1alpha1.NodeName, kind string) *v1alpha1.AWSNodeClass {
	e := s.nodes[node]
	if e == nil || e.object == nil {
		return nil
	}
	if c := s.types.classOf(s.poolOf(e.object)); c != nil && slices.Contains(c.Spec.FallbackInstanceTypes, kind) {
		return c
	}
	return nil
}

// FailedTypes are the fallback types that the class of that generation is to leave out because
// starts as them failed, with the reasons; none while another generation is known here.
func (s *State) FailedTypes(class string, generation int64) map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.types.classes[class]; c != nil && c.Generation == generation {
		return s.types.failedOf(c)
	}
	return nil
}

// FallbackOf is the node's type where that is a fallback type of its class, else "". It is "" too
// where the type is left out and the instance was not made it for this start: the node would be
// started as the type without end if starts that fail did not count against it.
func (s *State) FallbackOf(node v1alpha1.NodeName) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.nodes[node]
	if e == nil || e.object == nil {
		return ""
	}
	kind := e.object.Labels[corev1.LabelInstanceTypeStable]
	class := s.classWithFallback(node, kind)
	if class == nil {
		return ""
	}
	_, failed := s.types.failedOf(class)[kind]
	if failed && e.object.Annotations[v1alpha1.AnnotationInstanceType] == "" {
		return ""
	}
	return kind
}

// Launched takes in that the cloud launched an instance of the pool as the type in the zone: it had
// none of the types that the class names before it.
func (s *State) Launched(pool *v1alpha1.NodePool, zone, kind string) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	class := s.types.classOf(pool)
	if class == nil || class.IsBoundToReservation() {
		return
	}
	kinds := class.NamedTypes() // which of them are usable may not have been seen here yet
	at := slices.Index(kinds, kind)
	if at <= 0 || zone == "" {
		return
	}
	for _, out := range kinds[:at] {
		s.claims.MarkOfferingUnavailable(decide.Offering{Zone: zone, Type: out}, now)
	}
	s.retype(now)
}

// LaunchesFirstType reports whether an instance that is launched for the pool is of the first type
// of its class, as far as is known: in none of the zones did the cloud lately lack it.
func (s *State) LaunchesFirstType(pool *v1alpha1.NodePool, zones []string) bool {
	now := s.now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	class := s.types.classOf(pool)
	if class == nil || class.IsBoundToReservation() {
		return false
	}
	return !slices.ContainsFunc(zones, func(zone string) bool {
		o := decide.Offering{Zone: zone, Type: class.Spec.InstanceType}
		want, _ := class.ReservationOf(o.Type, zone)
		return !s.claims.OfferingUnavailableUntil(s.claims.StartOffering(o, want, now), now).IsZero()
	})
}

// HoldTypeChanges takes in that the cloud lets Stratos change no type, until the given time.
func (s *State) HoldTypeChanges(until time.Time) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	s.types.heldUntil = until
	s.retype(now)
}

// StartType is the type that the standby node's instance is to be made at its start, "" where it
// stays what it is.
func (s *State) StartType(name v1alpha1.NodeName) string {
	s.mu.Lock() // what is known of types is kept
	defer s.mu.Unlock()
	e := s.nodes[name]
	if e == nil || e.object == nil {
		return ""
	}
	is, changes := s.asStarted(e.object, s.poolOf(e.object)) // anew: a pod may have been bound since
	if !changes {
		return ""
	}
	return is.Labels[corev1.LabelInstanceTypeStable]
}

// TypesOf are the types that the node's instance may be of, the class's first type first; none
// where its class has no types.
func (s *State) TypesOf(name v1alpha1.NodeName) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.nodes[name]
	if e == nil || e.object == nil {
		return nil
	}
	if class := s.types.classOf(s.poolOf(e.object)); class != nil {
		return class.UsableTypes()
	}
	return nil
}

// MayStartAgain reports whether the cloud may have what it just refused a start of the node as
// another type.
func (s *State) MayStartAgain(name v1alpha1.NodeName) bool {
	now := s.now()
	s.mu.Lock() // what is known of types is kept
	defer s.mu.Unlock()
	e := s.nodes[name]
	return e != nil && e.object != nil && s.typeToStart(e.object, s.poolOf(e.object), now) != ""
}

// ReturnsTo is the first type of the class, where the standby node's instance is of another one and
// may become that; else "". shows is the type that the cloud shows of it.
func (s *State) ReturnsTo(n *corev1.Node, shows string) string {
	now := s.now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	class := s.types.classOf(s.poolOf(n))
	if class == nil || !slices.Contains(class.Spec.FallbackInstanceTypes, shows) || now.Before(s.types.heldUntil) ||
		!decide.MayChangeType(n) || s.types.refused[v1alpha1.NodeName(n.Name)][class.Spec.InstanceType] {
		return ""
	}
	if r := class.Status.CapacityReservation; r != nil && r.InstanceType == shows && !class.ReservationEnded() {
		return "" // it has a reservation as what it is
	}
	o := decide.Offering{Zone: n.Labels[corev1.LabelTopologyZone], Type: class.Spec.InstanceType}
	want, _ := class.ReservationOf(o.Type, o.Zone)
	o = s.claims.StartOffering(o, want, now)
	if !s.claims.OfferingUnavailableUntil(o, now).IsZero() {
		return ""
	}
	return class.Spec.InstanceType
}

// CannotReturn is why the standby node's instance stays of a fallback type; "" where that is not
// known. Interfaces that were attached to a larger type stay attached, for example.
func (s *State) CannotReturn(n *corev1.Node) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	class := s.types.classOf(s.poolOf(n))
	if class == nil || v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) != v1alpha1.StateStandby ||
		!s.types.refused[v1alpha1.NodeName(n.Name)][class.Spec.InstanceType] {
		return ""
	}
	return "drifted: the cloud does not make its instance " + class.Spec.InstanceType + " again"
}

func (s *State) poolOf(n *corev1.Node) *v1alpha1.NodePool {
	return s.pools[v1alpha1.PoolName(n.Labels[v1alpha1.LabelPool])]
}

// typeToStart is the type that the Node's instance can start as, where its class has several; ""
// where it has not, or where there is none. The caller holds mu.
func (s *State) typeToStart(n *corev1.Node, pool *v1alpha1.NodePool, now time.Time) string {
	class := s.types.classOf(pool)
	if class == nil || len(class.Spec.FallbackInstanceTypes) == 0 || now.Before(s.types.heldUntil) ||
		s.keepsReservation(class, now) || !decide.MayChangeType(n) {
		return ""
	}
	reserves := func(kind string) v1alpha1.CapacityReservation {
		r, _ := class.ReservationOf(kind, n.Labels[corev1.LabelTopologyZone])
		return r
	}
	usable, refused := class.UsableTypes(), map[string]bool{}
	maps.Copy(refused, s.types.refused[v1alpha1.NodeName(n.Name)])
	for kind := range s.types.failedOf(class) {
		refused[kind] = true
	}
	if e := s.nodes[v1alpha1.NodeName(n.Name)]; e != nil && e.hasWorkload() {
		for _, kind := range slices.Concat(usable, []string{n.Labels[corev1.LabelInstanceTypeStable]}) {
			refused[kind] = refused[kind] || !s.holds(n, pool, kind, e.used)
		}
	}
	return s.claims.StartsAs(n, usable, refused, reserves, now)
}

// holds reports whether the pods that are bound to the Node have room on it as an instance of the
// type, as far as is known of that: its kubelet would reject them permanently, and no other node
// can take them. The caller holds mu.
func (s *State) holds(n *corev1.Node, pool *v1alpha1.NodePool, kind string, bound fit.Resources) bool {
	if kind == n.Labels[corev1.LabelInstanceTypeStable] && decide.ReportsItsType(n) {
		return true
	}
	return fit.FromList(decide.OfType(n, kind, s.leastOf(pool, kind)).Status.Allocatable).Short(bound) == ""
}

// asStarted is the Node as it is when its instance has started: as another type than it was when it
// last ran, where changes says so or where that was written already. The caller holds mu.
func (s *State) asStarted(n *corev1.Node, pool *v1alpha1.NodePool) (is *corev1.Node, changes bool) {
	own, kind := n.Labels[corev1.LabelInstanceTypeStable], ""
	switch v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) {
	case v1alpha1.StateStarting:
		kind = cmp.Or(n.Annotations[v1alpha1.AnnotationInstanceType], own)
	case v1alpha1.StateStandby:
		kind = cmp.Or(s.typeToStart(n, pool, s.now()), own)
		changes = kind != own
	default:
		return n, false
	}
	if kind == "" || kind == own && decide.ReportsItsType(n) {
		return n, false
	}
	return decide.OfType(n, kind, s.leastOf(pool, kind)), changes
}

// leastOf is the smallest allocatable that a Node of the pool's class and of the type reports;
// where there is none that of the class's first type. The caller holds mu.
func (s *State) leastOf(pool *v1alpha1.NodePool, kind string) corev1.ResourceList {
	class := s.types.classOf(pool)
	if class == nil {
		return nil
	}
	if least := s.leastKnown(class, kind); least != nil {
		return least
	}
	return s.leastKnown(class, class.Spec.InstanceType)
}

func (s *State) leastKnown(class *v1alpha1.AWSNodeClass, kind string) corev1.ResourceList {
	key := classType{class.Name, kind}
	least, known := s.types.least[key]
	if known {
		return least
	}
	for _, e := range s.nodes {
		if e.node == nil || e.object == nil || e.object.Labels[corev1.LabelInstanceTypeStable] != kind ||
			s.types.classOf(s.poolOf(e.object)) != class {
			continue
		}
		if e.report != nil {
			least = decide.Lower(least, e.report)
		} else if showsType(e.node.State) {
			least = decide.Least(least, e.object)
		}
	}
	s.types.least[key] = least
	return least
}

// retype makes the standby nodes anew whose type at the next start is another one now, and ends the
// claims that do not fit it. The caller holds mu.
func (s *State) retype(now time.Time) {
	s.remake(now, func(e *nodeInfo) bool {
		if e.node.State != v1alpha1.StateStandby {
			return false
		}
		kind := cmp.Or(s.typeToStart(e.object, s.poolOf(e.object), now), e.object.Labels[corev1.LabelInstanceTypeStable])
		return kind != e.node.Labels[corev1.LabelInstanceTypeStable]
	})
}

// typeShown takes in that the node is the first one, or one more, to show what its type offers.
// Nodes that are to run as the type, and have not yet, are made anew, and the claims that do not
// fit end. The caller holds mu.
func (s *State) typeShown(shows *nodeInfo, now time.Time) {
	class := s.types.classOf(s.poolOf(shows.object))
	if class == nil || len(class.Spec.FallbackInstanceTypes) == 0 {
		return
	}
	kind := shows.object.Labels[corev1.LabelInstanceTypeStable]
	clear(s.types.least)
	s.remake(now, func(e *nodeInfo) bool {
		return e.isForeseen && e.node.Labels[corev1.LabelInstanceTypeStable] == kind &&
			s.types.classOf(s.poolOf(e.object)) == class
	})
}

// showsType reports whether a node in the state shows what its type offers. While a node warms up
// or starts, devices may be missing.
func showsType(state v1alpha1.NodeState) bool {
	return state == v1alpha1.StateRunning || state == v1alpha1.StateStandby
}

// remake makes the nodes of pools anew that are concerned, and ends the claims that do not fit them
// any more. The caller holds mu.
func (s *State) remake(now time.Time, isConcerned func(*nodeInfo) bool) {
	var concerned []v1alpha1.NodeName
	for name, e := range s.nodes {
		if e.object != nil && e.node != nil && e.node.InPool() && isConcerned(e) {
			concerned = append(concerned, name)
		}
	}
	slices.Sort(concerned)
	for _, name := range concerned {
		e := s.nodes[name]
		old := e.node
		s.rebuildFromNode(e)
		s.releaseMisfits(old, e.node, now)
	}
}

// releaseMisfits ends the claims on a node that is another type now, or will be, or that turns out
// smaller while it starts, for which it is the wrong one. The caller holds mu.
func (s *State) releaseMisfits(old, n *decide.Node, now time.Time) {
	if old == nil || n.InService() {
		return
	}
	is, was := n.Allocatable, old.Allocatable
	is.Scalar, was.Scalar = nil, nil // while it starts, devices may be missing
	isStartable := n.State == v1alpha1.StateStandby || n.State == v1alpha1.StateStarting
	isSmaller := isStartable && is.Short(was) != ""
	if !isSmaller && old.Labels[corev1.LabelInstanceTypeStable] == n.Labels[corev1.LabelInstanceTypeStable] {
		return
	}
	ended := s.claims.ReleaseMisfits(n)
	s.claimsEnded(ended, now)
	for _, l := range s.listeners {
		if l.NamesOutdated != nil && len(ended) > 0 && n.State == v1alpha1.StateStarting {
			s.notifications.add(func() { l.NamesOutdated(n.Name) })
		}
	}
}
