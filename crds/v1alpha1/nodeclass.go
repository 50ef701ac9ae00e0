package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// NodeClass is what the node classes of every cloud have in common.
// +kubebuilder:object:generate=false
type NodeClass interface {
	metav1.Object
	runtime.Object
	// SpecHash is the hash of what an instance is launched from. A default that is written out changes nothing.
	SpecHash() string
	// ResolvedImage is what the cloud found for the image of new instances; empty while it has not been asked.
	ResolvedImage() string
	// StatusParts are the parts of the status that mean the same in every class, to be read and written in place.
	StatusParts() (observedGeneration *int64, conditions *[]metav1.Condition)
}

// KindAWSNodeClass is the kind of AWSNodeClass, as NodePools refer to it.
const KindAWSNodeClass = "AWSNodeClass"

var _ NodeClass = (*AWSNodeClass)(nil)

// SpecHash implements NodeClass.
func (c *AWSNodeClass) SpecHash() string { return c.Spec.Hash() }

// ResolvedImage implements NodeClass.
func (c *AWSNodeClass) ResolvedImage() string { return c.Status.AMI }

// StatusParts implements NodeClass.
func (c *AWSNodeClass) StatusParts() (observedGeneration *int64, conditions *[]metav1.Condition) {
	return &c.Status.ObservedGeneration, &c.Status.Conditions
}
