package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AWSNodeClass is the EC2 configuration of a NodePool's instances. Spot is not supported.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=stratos
type AWSNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AWSNodeClassSpec   `json:"spec"`
	Status AWSNodeClassStatus `json:"status,omitempty"`
}

// AWSNodeClassList is a list of AWSNodeClasses.
// +kubebuilder:object:root=true
type AWSNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AWSNodeClass `json:"items"`
}

// SelectorTerm selects cloud resources: AND within a term, OR between terms.
type SelectorTerm struct {
	ID    string            `json:"id,omitempty"`
	Name  string            `json:"name,omitempty"`
	Owner string            `json:"owner,omitempty"`
	Alias string            `json:"alias,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
}

// AWSNodeClassSpec is the desired configuration.
type AWSNodeClassSpec struct {
	Region                string         `json:"region,omitempty"`
	InstanceType          string         `json:"instanceType"`
	AMI                   string         `json:"ami,omitempty"`
	AMISelector           []SelectorTerm `json:"amiSelector,omitempty"`
	SubnetIDs             []string       `json:"subnetIds,omitempty"`
	SubnetSelector        []SelectorTerm `json:"subnetSelector,omitempty"`
	SecurityGroupIDs      []string       `json:"securityGroupIds,omitempty"`
	SecurityGroupSelector []SelectorTerm `json:"securityGroupSelector,omitempty"`
	// IAMInstanceProfile is the profile's name or ARN.
	IAMInstanceProfile  string               `json:"iamInstanceProfile,omitempty"`
	UserData            string               `json:"userData,omitempty"`
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// +kubebuilder:default={}
	MetadataOptions MetadataOptions   `json:"metadataOptions,omitempty"`
	Hibernation     *Hibernation      `json:"hibernation,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
}

// BlockDeviceMapping is one EBS volume of the instance.
type BlockDeviceMapping struct {
	DeviceName string `json:"deviceName"`
	// VolumeSize in GiB.
	VolumeSize *int32 `json:"volumeSize,omitempty"`
	VolumeType string `json:"volumeType,omitempty"`
	Encrypted  *bool  `json:"encrypted,omitempty"`
	KMSKeyID   string `json:"kmsKeyId,omitempty"`
	IOPS       *int32 `json:"iops,omitempty"`
	// Throughput in MiB/s.
	Throughput          *int32 `json:"throughput,omitempty"`
	SnapshotID          string `json:"snapshotId,omitempty"`
	DeleteOnTermination *bool  `json:"deleteOnTermination,omitempty"`
}

// MetadataOptions configure the instance metadata service.
type MetadataOptions struct {
	// +kubebuilder:default=required
	HTTPTokens string `json:"httpTokens,omitempty"`
	// +kubebuilder:default=2
	HTTPPutResponseHopLimit *int32 `json:"httpPutResponseHopLimit,omitempty"`
	// +kubebuilder:default=enabled
	HTTPEndpoint string `json:"httpEndpoint,omitempty"`
}

// Hibernation configures suspend to disk.
type Hibernation struct {
	Enabled bool `json:"enabled"`
}

// ResolvedSubnet is a subnet and its zone.
type ResolvedSubnet struct {
	ID   string `json:"id"`
	Zone string `json:"zone"`
}

// AWSNodeClassStatus is what the cloud resolved the spec to.
type AWSNodeClassStatus struct {
	AMI                string              `json:"ami,omitempty"`
	Subnets            []ResolvedSubnet    `json:"subnets,omitempty"`
	SecurityGroups     []string            `json:"securityGroups,omitempty"`
	Capacity           corev1.ResourceList `json:"capacity,omitempty"`
	ObservedGeneration int64               `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
