package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NodeClass is what the node classes of every cloud have in common.
// +kubebuilder:object:generate=false
type NodeClass interface {
	metav1.Object
	runtime.Object
	// SpecHash is the hash of what an instance is launched from. A default that is written out changes
	// nothing.
	SpecHash() string
	// ResolvedImage is what the cloud found for the image of new instances; empty while it has not
	// been asked.
	ResolvedImage() string
	// StatusParts are the parts of the status that mean the same in every class, to be read and
	// written in place.
	StatusParts() (observedGeneration *int64, conditions *[]metav1.Condition)
}

// The kinds of the node classes, as NodePools refer to them.
const (
	KindAWSNodeClass  = "AWSNodeClass"
	KindKindNodeClass = "KindNodeClass"
)

var (
	_ NodeClass = (*AWSNodeClass)(nil)
	_ NodeClass = (*KindNodeClass)(nil)
)

// SpecHash implements NodeClass.
func (c *AWSNodeClass) SpecHash() string { return c.Spec.Hash() }

// ResolvedImage implements NodeClass.
func (c *AWSNodeClass) ResolvedImage() string { return c.Status.AMI }

// StatusParts implements NodeClass.
func (c *AWSNodeClass) StatusParts() (observedGeneration *int64, conditions *[]metav1.Condition) {
	return &c.Status.ObservedGeneration, &c.Status.Conditions
}

// NamedTypes are the instance types that the class names, instanceType first.
func (c *AWSNodeClass) NamedTypes() []string { return c.Spec.NamedTypes() }

// ResolvedTypes are what the cloud found of the types that the class names; none without fallback
// types.
func (c *AWSNodeClass) ResolvedTypes() []InstanceTypeStatus { return c.Status.InstanceTypes }

// Promised is what the cloud says that one instance has, nil while it has not been asked, and the
// well-known labels that follow from the class.
func (c *AWSNodeClass) Promised() (capacity corev1.ResourceList, labels map[string]string) {
	labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: c.Spec.InstanceType}
	if c.Status.Architecture != "" {
		labels[corev1.LabelArchStable] = c.Status.Architecture
	}
	return c.Status.Capacity, labels
}

// Zones are those of the class's subnets, sorted; none while they have not been resolved.
func (c *AWSNodeClass) Zones() []string {
	var zones []string
	for _, s := range c.Status.Subnets {
		zones = append(zones, s.Zone)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// SpecHash implements NodeClass.
func (c *KindNodeClass) SpecHash() string { return c.Spec.Hash() }

// ResolvedImage implements NodeClass.
func (c *KindNodeClass) ResolvedImage() string { return c.Status.Image }

// StatusParts implements NodeClass.
func (c *KindNodeClass) StatusParts() (observedGeneration *int64, conditions *[]metav1.Condition) {
	return &c.Status.ObservedGeneration, &c.Status.Conditions
}

// JoinedCluster is the cluster that new instances join; nil where Stratos does not write their user
// data, or has not resolved it.
func (c *AWSNodeClass) JoinedCluster() *BootstrapCluster {
	if c.Status.Bootstrap == nil {
		return nil
	}
	return &c.Status.Bootstrap.Cluster
}

// RegionName is the region that the class names; empty: that of Stratos's own configuration.
func (c *AWSNodeClass) RegionName() string { return c.Spec.Region }

// FollowsControlPlane reports whether the image is the one that control-plane Nodes name.
func (c *AWSNodeClass) FollowsControlPlane() bool { return c.Spec.NodeImage != nil }

// NamedTypes are instanceType and the fallback types in their order, each once.
func (s *AWSNodeClassSpec) NamedTypes() []string {
	types := []string{s.InstanceType}
	for _, t := range s.FallbackInstanceTypes {
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// UsableTypes are the instance types that instances may be of, instanceType first and then the
// fallback types in their order. Fallback types are usable once the cloud has found so.
func (c *AWSNodeClass) UsableTypes() []string {
	return slices.DeleteFunc(c.Spec.NamedTypes(), func(t string) bool {
		return t != c.Spec.InstanceType && !slices.ContainsFunc(c.Status.InstanceTypes,
			func(s InstanceTypeStatus) bool { return s.Type == t && s.Usable })
	})
}
