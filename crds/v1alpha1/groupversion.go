// Package v1alpha1 is the API of Stratos: NodePool, the node classes, and the names that users see.
// +kubebuilder:object:generate=true
// +groupName=stratos.sh
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group and Version of the API.
const (
	Group   = "stratos.sh"
	Version = "v1alpha1"
)

// GroupVersion returns stratos.sh/v1alpha1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// AddToScheme registers the API's types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &NodePool{}, &NodePoolList{}, &AWSNodeClass{}, &AWSNodeClassList{}, &KindNodeClass{},
		&KindNodeClassList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
