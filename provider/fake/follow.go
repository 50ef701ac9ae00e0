package fake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// usableTypes are those that the class's status says, or the cloud where the status says nothing of
// this spec.
func (c *Cloud) usableTypes(class *v1alpha1.AWSNodeClass) []string {
	if len(class.Status.InstanceTypes) > 0 && class.Status.ObservedGeneration == class.Generation {
		return class.UsableTypes()
	}
	resolved := *class
	resolved.Status.InstanceTypes = c.instanceTypes(&class.Spec)
	return resolved.UsableTypes()
}

// instanceTypes says of each type that the class names whether instances may be of it. It is empty
// for a class without fallback types.
func (c *Cloud) instanceTypes(spec *v1alpha1.AWSNodeClassSpec) []v1alpha1.InstanceTypeStatus {
	names := spec.NamedTypes()
	if len(names) == 1 {
		return nil
	}
	first, _ := c.InstanceType(spec.InstanceType)
	var out []v1alpha1.InstanceTypeStatus
	for _, name := range names {
		s := v1alpha1.InstanceTypeStatus{Type: name}
		switch other, known := c.InstanceType(name); {
		case name == spec.InstanceType:
		case !known:
			s.Reason = "the fake cloud knows no such type"
		default:
			s.Reason = cannotFollow(first, other, spec)
		}
		s.Usable = s.Reason == ""
		out = append(out, s)
	}
	return out
}

// cannotFollow is why an instance of the class cannot be of the other type, "" where it can: it has
// at least what the first type has, and the same devices.
func cannotFollow(first, other simcloud.InstanceType, spec *v1alpha1.AWSNodeClassSpec) string {
	switch {
	case spec.HibernationEnabled():
		return "the type of an instance with hibernation does not change"
	case userdata.HasStaticMemory(spec.UserData):
		return "memory-manager-policy is Static"
	case archOf(first) != archOf(other):
		return fmt.Sprintf("architecture: %s has %s, %s has %s, and both must be equal", other.Name, archOf(other),
			first.Name, archOf(first))
	}
	all := maps.Clone(first.Capacity)
	maps.Copy(all, other.Capacity)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, b := first.Capacity[name], other.Capacity[name]
		switch order := b.Cmp(a); {
		case order != 0 && simcloud.IsExtended(name):
			return fmt.Sprintf("%s: %s has %s, %s has %s, and both must be equal", name, other.Name, &b, first.Name, &a)
		case order < 0:
			return fmt.Sprintf("%s: %s has %s, less than %s with %s", name, other.Name, &b, first.Name, &a)
		}
	}
	return ""
}

// archOf is the value of the label kubernetes.io/arch.
func archOf(t simcloud.InstanceType) string { return cmp.Or(t.Arch, "amd64") }
