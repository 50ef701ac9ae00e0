package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindNodeClass is the configuration of nodes that are containers of a kind cluster
// (kind.sigs.k8s.io). docs/kind.md describes them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=stratos,shortName=kindnc
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`,description="Name of the kind cluster"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether Docker has everything the class names"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image`,description="Id of the image that new nodes are made from"
type KindNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what you want.
	Spec KindNodeClassSpec `json:"spec"`
	// Status is what Docker resolved the spec to.
	// +optional
	Status KindNodeClassStatus `json:"status,omitempty"`
}

// KindNodeClassList is a list of KindNodeClasses.
// +kubebuilder:object:root=true
type KindNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KindNodeClass `json:"items"`
}

// KindNodeClassSpec is the desired configuration. A change makes the nodes of the class drifted;
// what happens to them is each pool's disruption.drift.
type KindNodeClassSpec struct {
	// Cluster is the name of the kind cluster that nodes join, as `kind get clusters` prints it: that
	// of the cluster Stratos runs in. 1 to 40 lower-case letters, digits, '-' and '.'.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Cluster string `json:"cluster"`
	// Image is the node image, such as kindest/node:v1.36.1. Docker must have it: nothing is pulled.
	// Unset: the image of the cluster's control plane. At most 512 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +optional
	Image string `json:"image,omitempty"`
	// Reserved is the cpu and memory that pods do not get. Every node reports the whole machine that
	// Docker runs on, so classes that reserve different amounts make nodes of different size. Only cpu
	// and memory may be named. Unset: nothing.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="reserved must name cpu and memory only"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-'))",message="reserved must not be negative"
	// +optional
	Reserved Requests `json:"reserved,omitempty"`
	// ExtraMounts are folders and files of the machine that Docker runs on, mounted into the nodes; at
	// most 20, each containerPath once.
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=containerPath
	// +optional
	ExtraMounts []KindMount `json:"extraMounts,omitempty"`
	// BootScript is run by bash as root at the node's first boot, once it has joined the cluster, and
	// never again. At most 16384 characters. With preWarm.completionMode SelfStop it powers the node
	// off when it is warm; with ControllerStop it must not. Unset: nothing is run.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	BootScript string `json:"bootScript,omitempty"`
}

// KindMount is a folder or file that nodes see of the machine that Docker runs on.
type KindMount struct {
	// HostPath is its absolute path on that machine. A folder that does not exist is made. At most 512
	// characters, no colon and no comma.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/[^:,]*$`
	HostPath string `json:"hostPath"`
	// ContainerPath is its absolute path in the node, below the root. At most 512 characters, no colon
	// and no comma.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/[^:,/][^:,]*$`
	ContainerPath string `json:"containerPath"`
	// ReadOnly keeps the node from writing to it. Default false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// KindNodeClassStatus is what Docker resolved the spec to.
type KindNodeClassStatus struct {
	// Image is the id of the image that new nodes are made from.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Image string `json:"image,omitempty"`
	// ControlPlane is the container of the cluster's control plane that nodes get their credentials
	// from.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// Capacity of one node by resource name: cpu and memory of the machine less what the spec
	// reserves.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready says whether Docker has everything that the spec names, in Docker's words
	// where it has not; InUse, whether pools refer to the class.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
