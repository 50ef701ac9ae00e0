package cluster

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// startTypes is what is known of the instance types that standby nodes may start as.
type startTypes struct {
	classes map[string]*v1alpha1.AWSNodeClass
	// refused are the types that the cloud has refused for an instance, until its next stop.
	refused map[v1alpha1.NodeName]map[string]bool
	// heldUntil is when types may be changed again: the cloud did not allow Stratos to; zero where
	// nothing is known against it.
	heldUntil time.Time
	// least is the smallest allocatable that a node of a class and type is known to have. It is empty
	// where a Node has changed since.
	least map[classType]corev1.ResourceList
}

type classType struct{ class, kind string }

func newStartTypes() startTypes {
	return startTypes{
		classes: map[string]*v1alpha1.AWSNodeClass{}, refused: map[v1alpha1.NodeName]map[string]bool{},
		least: map[classType]corev1.ResourceList{},
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
	if was == nil || !slices.Equal(was.UsableTypes(), c.UsableTypes()) {
		s.retype(now)
	}
}

// DeleteNodeClass takes in that an AWSNodeClass is gone.
func (s *State) DeleteNodeClass(name string) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	delete(s.types.classes, name)
	s.retype(now)
}

// RefuseType takes in that the cloud refuses the type for the node's instance.
func (s *State) RefuseType(node v1alpha1.NodeName, kind string) {
	now := s.now()
	s.mu.Lock()
	defer s.unlock()
	if s.types.refused[node] == nil {
		s.types.refused[node] = map[string]bool{}
	}
	s.types.refused[node][kind] = true
	s.retype(now)
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
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.nodeOf(name); n != nil && n.ChangesType {
		return n.Labels[corev1.LabelInstanceTypeStable]
	}
	return ""
}

// TypesOf are the types that the node's instance may be of, the class's first type first; none where
// its class has no types.
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
	s.mu.RLock()
	defer s.mu.RUnlock()
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
	o := decide.Offering{Zone: n.Labels[corev1.LabelTopologyZone], Type: class.Spec.InstanceType}
	if !s.claims.OfferingUnavailableUntil(o, now).IsZero() {
		return ""
	}
	return class.Spec.InstanceType
}

func (s *State) poolOf(n *corev1.Node) *v1alpha1.NodePool {
	return s.pools[v1alpha1.PoolName(n.Labels[v1alpha1.LabelPool])]
}

// typeToStart is the type that the Node's instance can start as, where its class has several; ""
// where it has not, or where there is none. The caller holds mu.
func (s *State) typeToStart(n *corev1.Node, pool *v1alpha1.NodePool, now time.Time) string {
	class := s.types.classOf(pool)
	if class == nil || len(class.Spec.FallbackInstanceTypes) == 0 || now.Before(s.types.heldUntil) ||
		!decide.MayChangeType(n) {
		return ""
	}
	return s.claims.StartsAs(n, class.UsableTypes(), s.types.refused[v1alpha1.NodeName(n.Name)], now)
}

// asStarted is the Node as it is when its instance has started: as another type than it was when it
// last ran, where changes says so or where that was written already. The caller holds mu.
func (s *State) asStarted(n *corev1.Node, pool *v1alpha1.NodePool) (is *corev1.Node, changes bool) {
	own := n.Labels[corev1.LabelInstanceTypeStable]
	kind := own
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

// leastOf is the smallest allocatable that a Node of the pool's class and of the type reports; where
// there is none that of the class's first type. The caller holds mu.
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
		// While a node warms up or starts, devices may be missing.
		whole := e.node != nil && (e.node.State == v1alpha1.StateRunning || e.node.State == v1alpha1.StateStandby)
		if whole && e.object != nil && e.object.Labels[corev1.LabelInstanceTypeStable] == kind &&
			s.types.classOf(s.poolOf(e.object)) == class {
			least = decide.Least(least, e.object)
		}
	}
	s.types.least[key] = least
	return least
}

// retype makes the standby nodes anew whose type at the next start is another one now, and ends the
// claims that do not fit it. The caller holds mu.
func (s *State) retype(now time.Time) {
	for _, e := range s.nodes {
		if e.object == nil || e.node == nil || e.node.State != v1alpha1.StateStandby || !e.node.InPool() {
			continue
		}
		own := e.object.Labels[corev1.LabelInstanceTypeStable]
		kind := s.typeToStart(e.object, s.poolOf(e.object), now)
		if kind == "" {
			kind = own
		}
		if kind == e.node.Labels[corev1.LabelInstanceTypeStable] {
			continue
		}
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
	isStartable := n.State == v1alpha1.StateStandby || n.State == v1alpha1.StateStarting
	isSmaller := isStartable && (is.MilliCPU < was.MilliCPU || is.Memory < was.Memory)
	if !isSmaller && old.Labels[corev1.LabelInstanceTypeStable] == n.Labels[corev1.LabelInstanceTypeStable] {
		return
	}
	s.claimsEnded(s.claims.ReleaseMisfits(n), now)
}
