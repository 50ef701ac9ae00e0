package fit

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/resource"
)

// Resources is an amount of what nodes offer and pods ask for, as plain integers so that sums cost
// nothing.
type Resources struct {
	// MilliCPU is in thousandths of a core.
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
	// EphemeralStorage is in bytes.
	EphemeralStorage int64
	// Pods is a count.
	Pods int64
	// Scalar holds extended resources (count) and huge pages (bytes); nil when there are none.
	Scalar map[corev1.ResourceName]int64
}

// FromList converts a node's allocatable or a pod's requests. Names that the scheduler does not
// count (an unprefixed name other than the native four, for example) are left out, fractions are
// rounded up, both as the scheduler does.
func FromList(list corev1.ResourceList) Resources {
	var r Resources
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = quantity.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = quantity.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = quantity.Value()
		case corev1.ResourcePods:
			r.Pods = quantity.Value()
		default:
			if isScalar(name) {
				r.addScalar(name, quantity.Value())
			}
		}
	}
	return r
}

// Add adds o to r.
func (r *Resources) Add(o Resources) {
	r.MilliCPU += o.MilliCPU
	r.Memory += o.Memory
	r.EphemeralStorage += o.EphemeralStorage
	r.Pods += o.Pods
	for name, quantity := range o.Scalar {
		r.addScalar(name, quantity)
	}
}

// Sub subtracts o from r. The result may be negative: a node can hold more than it offers (after
// its allocatable shrank), and that debt must not be forgotten.
func (r *Resources) Sub(o Resources) {
	r.MilliCPU -= o.MilliCPU
	r.Memory -= o.Memory
	r.EphemeralStorage -= o.EphemeralStorage
	r.Pods -= o.Pods
	for name, quantity := range o.Scalar {
		r.addScalar(name, -quantity)
	}
}

// Equal reports whether both are the same amounts.
func (r Resources) Equal(o Resources) bool {
	return r.MilliCPU == o.MilliCPU && r.Memory == o.Memory && r.EphemeralStorage == o.EphemeralStorage &&
		r.Pods == o.Pods && maps.Equal(r.Scalar, o.Scalar)
}

// Clone returns a copy that shares nothing with r.
func (r Resources) Clone() Resources {
	r.Scalar = maps.Clone(r.Scalar)
	return r
}

// Short returns the first resource of which need exceeds r, in the fixed order pods, cpu, memory,
// ephemeral-storage, then scalars by name; "" if need fits. A resource that need does not ask for
// is never short, even where r is negative: NodeResourcesFit puts a pod without requests onto an
// overcommitted node too.
func (r Resources) Short(need Resources) corev1.ResourceName {
	return Shortage(&need, &r, &Resources{})
}

// Shortage is Short for r = offered - used, without making that difference: it would cost a map per
// node.
func Shortage(need, offered, used *Resources) corev1.ResourceName {
	switch {
	case exceeds(need.Pods, offered.Pods-used.Pods):
		return corev1.ResourcePods
	case exceeds(need.MilliCPU, offered.MilliCPU-used.MilliCPU):
		return corev1.ResourceCPU
	case exceeds(need.Memory, offered.Memory-used.Memory):
		return corev1.ResourceMemory
	case exceeds(need.EphemeralStorage, offered.EphemeralStorage-used.EphemeralStorage):
		return corev1.ResourceEphemeralStorage
	}
	// The least name is kept while iterating, so the map's order does not decide and nothing is
	// allocated.
	var short corev1.ResourceName
	for name, quantity := range need.Scalar {
		if exceeds(quantity, offered.Scalar[name]-used.Scalar[name]) && (short == "" || name < short) {
			short = name
		}
	}
	return short
}

// Of returns the amount of one resource, in the units of the fields.
func (r Resources) Of(name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourcePods:
		return r.Pods
	case corev1.ResourceCPU:
		return r.MilliCPU
	case corev1.ResourceMemory:
		return r.Memory
	case corev1.ResourceEphemeralStorage:
		return r.EphemeralStorage
	default:
		return r.Scalar[name]
	}
}

// DevicesBeyond is how many kinds of devices (extended resources) r has of which need asks for
// none.
func (r Resources) DevicesBeyond(need Resources) int {
	n := 0
	for name, quantity := range r.Scalar {
		if quantity > 0 && need.Scalar[name] == 0 && isDevice(name) {
			n++
		}
	}
	return n
}

// isDevice tells the extended resources among the scalars, by what the others begin with or
// contain.
func isDevice(name corev1.ResourceName) bool {
	s := string(name)
	return !strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) && !strings.HasPrefix(s,
		corev1.ResourceAttachableVolumesPrefix) &&
		!strings.Contains(s, corev1.ResourceDefaultNamespacePrefix)
}

func (r *Resources) addScalar(name corev1.ResourceName, quantity int64) {
	if r.Scalar == nil {
		r.Scalar = make(map[corev1.ResourceName]int64, 1)
	}
	r.Scalar[name] += quantity
}

func exceeds(need, have int64) bool { return need > 0 && need > have }

// Requests is what the scheduler counts for a pending pod: the larger of its init containers and
// the sum of its containers and sidecars, pod-level requests where set, plus overhead, and one pod.
// defaults stand in for a pod that requests nothing at all (NodePool scaleUp.defaultPodResources);
// nil means that such a pod needs its place only.
func Requests(pod *corev1.Pod, defaults corev1.ResourceList) Resources {
	need := FromList(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	// The pod count is ours to say: requests for "pods" are not valid, and the scheduler does not look
	// at them.
	need.Pods = 0
	if need.isZero() {
		need = FromList(defaults)
	}
	need.Pods = 1
	return need
}

// Occupied is what the scheduler counts for a pod that is bound. It differs from Requests while an
// in-place resize is under way: then what the kubelet has granted and what is asked for count,
// whichever is larger.
func Occupied(pod *corev1.Pod) Resources {
	taken := FromList(resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	taken.Pods = 1
	return taken
}

func (r Resources) isZero() bool {
	for _, quantity := range r.Scalar {
		if quantity != 0 {
			return false
		}
	}
	return r.MilliCPU == 0 && r.Memory == 0 && r.EphemeralStorage == 0 && r.Pods == 0
}

// isScalar tells which names beyond the native four the scheduler counts: extended resources, huge
// pages, other kubernetes.io names and attachable volumes.
func isScalar(name corev1.ResourceName) bool {
	s := string(name)
	return strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(s, corev1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) ||
		isExtended(s)
}

func isExtended(name string) bool {
	if !strings.Contains(name, "/") || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	// The quota of an extended resource is named requests.<name>, and that must be a valid name too.
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}
