package decide

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// A stopped instance may be started as another type of its class where the cloud has none of its
// own now. Decisions see a standby node as the type that it would start as.

// trunk is the resource of a node whose interface is a trunk of the VPC CNI's security groups for
// pods. How many branches it has depends on the type, and what the CNI attached stays attached.
const trunk corev1.ResourceName = "vpc.amazonaws.com/pod-eni"

// MayChangeType reports whether the Node's instance may become another type.
func MayChangeType(node *corev1.Node) bool {
	_, hasTrunk := allocatable(node)[trunk]
	return !hasTrunk && node.Labels[corev1.LabelInstanceTypeStable] != ""
}

// StartsAs is the first of the types that the node may start as: the one that its labels show where
// the offering is available, else the first of the others. "" where none is. Refused are types that
// the cloud has refused for this instance, and reserves says what reservations it uses as a type.
func (l *Claims) StartsAs(node *corev1.Node, types []string, refused map[string]bool,
	reserves func(kind string) v1alpha1.CapacityReservation, now time.Time) string {
	own := OfferingOf(node.Labels)
	isOpen := func(kind string) bool {
		o := l.StartOffering(Offering{Zone: own.Zone, Type: kind}, reserves(kind), now)
		return !refused[kind] && l.unavailable.until(o, now).IsZero()
	}
	if own == (Offering{}) || isOpen(own.Type) {
		return own.Type
	}
	for _, kind := range types {
		if isOpen(kind) {
			return kind
		}
	}
	return ""
}

// OfType is the Node as it will be when its instance has started as another type. Least is the
// smallest allocatable that a node of that type is known to have; what is missing there is as the
// Node reports it.
func OfType(node *corev1.Node, kind string, least corev1.ResourceList) *corev1.Node {
	is := *node
	is.Labels, is.Annotations = maps.Clone(node.Labels), maps.Clone(node.Annotations)
	v1alpha1.SetInstanceType(is.Labels, kind)
	is.Status.Allocatable = allocatable(node).DeepCopy()
	delete(is.Annotations, v1alpha1.AnnotationAllocatableAtStop) // it is in what is allocatable now
	for name, quantity := range least {
		if has, ok := is.Status.Allocatable[name]; ok && quantity.Cmp(has) < 0 {
			is.Status.Allocatable[name] = quantity
		}
	}
	return &is
}

// ReleaseMisfits ends the claims on a node that does not run for which it is the wrong type by now:
// their pods select another one, or the room does not do for all. It returns them sorted, for their
// pods to be placed anew.
func (l *Claims) ReleaseMisfits(n *Node) []Claim {
	var out []Claim
	for _, c := range l.claimsOn(n.Name) {
		if c.digest.Selects(string(n.Name), n.Labels) != nil {
			l.drop(l.byPod[c.Pod])
			out = append(out, c)
		}
	}
	for {
		c, over := l.overflow(n)
		if !over {
			break
		}
		l.drop(l.byPod[c.Pod])
		out = append(out, c)
	}
	if len(out) > 0 && len(l.on(n.Name)) == 0 {
		l.neverRequested(n.Name) // none is left to start it for
	}
	sortClaims(out)
	return out
}

// ReportsItsType reports whether what the Node says that it offers is of the type that it is: no
// longer where its instance became another type and has not run since. What was recorded at its
// stop is of devices alone then.
func ReportsItsType(node *corev1.Node) bool {
	recorded, isRecorded := recordedAtStop(node)
	_, isWhole := recorded[corev1.ResourceCPU]
	return !isRecorded || isWhole
}

// Least lowers what is known to be allocatable on nodes of one type to what the Node has. A Node
// that becomes another type still reports what the type before had.
func Least(least corev1.ResourceList, node *corev1.Node) corev1.ResourceList {
	if len(node.Status.Allocatable) == 0 || node.Annotations[v1alpha1.AnnotationInstanceType] != "" ||
		!ReportsItsType(node) {
		return least
	}
	return Lower(least, allocatable(node))
}

// Lower lowers what is known to be allocatable to what a node has; nil is nothing known.
func Lower(least, has corev1.ResourceList) corev1.ResourceList {
	if least == nil {
		least = corev1.ResourceList{}
	}
	for name, quantity := range has {
		if has, ok := least[name]; !ok || quantity.Cmp(has) < 0 {
			least[name] = quantity
		}
	}
	return least
}
