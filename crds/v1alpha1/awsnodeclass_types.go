package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AWSNodeClass is the EC2 configuration of the instances of NodePools. It names one instance type,
// and fallback types for times without capacity. For nodes of several sizes, use several pools with
// weights. Spot is not supported, because EC2 does not let a stopped spot instance be started at
// will.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=stratos,shortName=awsnc
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`,description="EC2 instance type"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the cloud has everything the class names"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="AMI",type=string,priority=1,JSONPath=`.status.ami`,description="Image that new instances are launched from"
// +kubebuilder:printcolumn:name="Region",type=string,priority=1,JSONPath=`.spec.region`,description="AWS region"
// +kubebuilder:printcolumn:name="Running/h",type=string,priority=1,JSONPath=`.status.price.runningPerHour`,description="What a running instance costs per hour"
// +kubebuilder:printcolumn:name="Stopped/h",type=string,priority=1,JSONPath=`.status.price.stoppedPerHour`,description="What a stopped instance costs per hour"
type AWSNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what you want.
	Spec AWSNodeClassSpec `json:"spec"`
	// Status is what the cloud resolved the spec to.
	// +optional
	Status AWSNodeClassStatus `json:"status,omitempty"`
}

// AWSNodeClassList is a list of AWSNodeClasses.
// +kubebuilder:object:root=true
type AWSNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AWSNodeClass `json:"items"`
}

// SelectorTerm selects cloud resources: all that it states must hold (AND); between the terms of a
// list one suffices (OR).
// +kubebuilder:validation:XValidation:rule="has(self.id) || has(self.name) || has(self.alias) || has(self.tags)",message="a term must have id, name, alias or tags"
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !(has(self.name) || has(self.owner) || has(self.alias) || has(self.tags))",message="id must stand alone in its term, without name, owner, alias or tags"
// +kubebuilder:validation:XValidation:rule="!has(self.alias) || !(has(self.id) || has(self.name) || has(self.owner) || has(self.tags))",message="alias must stand alone in its term, without id, name, owner or tags"
type SelectorTerm struct {
	// ID of the resource. It stands alone in its term.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ID string `json:"id,omitempty"`
	// Name of the resource: the name of an AMI or a security group, the Name tag of a subnet. 1 to 256
	// characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Name string `json:"name,omitempty"`
	// Owner of the resource: a 12-digit account, self, or for AMIs also amazon or aws-marketplace. It
	// narrows name or tags and does not suffice alone. A name of an AMI without owner finds those of
	// self and amazon.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{12}|self|amazon|aws-marketplace)$`
	// +optional
	Owner string `json:"owner,omitempty"`
	// Alias of a family of AMIs and its version, such as al2023@latest. Only in amiSelector, and alone
	// in its term.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+@[A-Za-z0-9._-]+$`
	// +optional
	Alias string `json:"alias,omitempty"`
	// Tags that the resource carries, all of them; 1 to 20. Keys have 1 to 127 characters. The value *
	// stands for any value.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 127)",message="tags: a key must have 1 to 127 characters"
	// +optional
	Tags map[string]TagValue `json:"tags,omitempty"`
}

// AWSNodeClassSpec is the desired configuration. A change makes the instances of the class drifted;
// a change of fallbackInstanceTypes only those of a type that is no longer named. What happens to
// them is each pool's disruption.drift.
// +kubebuilder:validation:XValidation:rule="(has(self.ami) ? 1 : 0) + (has(self.amiSelector) ? 1 : 0) + (has(self.nodeImage) ? 1 : 0) == 1",message="exactly one of ami, amiSelector and nodeImage must be set"
// +kubebuilder:validation:XValidation:rule="has(self.subnetIds) != has(self.subnetSelector)",message="exactly one of subnetIds and subnetSelector must be set"
// +kubebuilder:validation:XValidation:rule="has(self.securityGroupIds) != has(self.securityGroupSelector)",message="exactly one of securityGroupIds and securityGroupSelector must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.hibernation) || !self.hibernation.enabled || (has(self.blockDeviceMappings) && self.blockDeviceMappings.exists(m, m.deviceName in ['/dev/xvda', '/dev/sda1', '/dev/sda'] && has(m.encrypted) && m.encrypted))",message="hibernation.enabled needs a mapping of the root device in blockDeviceMappings (deviceName /dev/xvda, /dev/sda1 or /dev/sda) with encrypted: true"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || has(self.bootstrap.family) || (has(self.amiSelector) && self.amiSelector.exists(t, has(t.alias) && (t.alias.startsWith('al2023@') || t.alias.startsWith('bottlerocket@'))))",message="bootstrap.family must be set: amiSelector has no alias of al2023 or bottlerocket that says it"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.family) || !has(self.amiSelector) || self.amiSelector.all(t, !has(t.alias) || (self.bootstrap.family != 'Kubeadm' && t.alias.startsWith(self.bootstrap.family == 'AL2023' ? 'al2023@' : 'bottlerocket@')))",message="bootstrap.family must be the family of every alias in amiSelector: AL2023 of al2023, Bottlerocket of bottlerocket, Kubeadm of none"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || has(self.bootstrap.family) || !has(self.amiSelector) || self.amiSelector.all(t, !has(t.alias) || t.alias.startsWith('al2023@')) || self.amiSelector.all(t, !has(t.alias) || t.alias.startsWith('bottlerocket@'))",message="with bootstrap all aliases in amiSelector must be of one family, al2023 or bottlerocket"
// +kubebuilder:validation:XValidation:rule="!has(self.fallbackInstanceTypes) || !(self.instanceType in self.fallbackInstanceTypes)",message="fallbackInstanceTypes must not have instanceType, which is the first choice anyway"
// +kubebuilder:validation:XValidation:rule="!has(self.fallbackInstanceTypes) || size(self.fallbackInstanceTypes) == 0 || !has(self.hibernation) || !self.hibernation.enabled",message="fallbackInstanceTypes must be empty with hibernation.enabled: EC2 does not change the type of an instance that may hibernate"
type AWSNodeClassSpec struct {
	// Region of the instances, such as us-east-1. Unset: the region of Stratos's own AWS
	// configuration.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]+(-[a-z]+)*-[0-9]+$`
	// +optional
	Region string `json:"region,omitempty"`
	// InstanceType of the instances, such as m5.large. Its root volume must be EBS: an instance-store
	// root cannot be stopped.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+\.[a-z0-9-]+$`
	InstanceType string `json:"instanceType"`
	// FallbackInstanceTypes are what instances are launched as while EC2 has no capacity for
	// instanceType, the first of them that it has; at most 10, each once, without instanceType. List
	// types of the same size first. One that is no match for instanceType is left out:
	// status.instanceTypes says why. Not with hibernation.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9-]+\.[a-z0-9-]+$`
	// +listType=set
	// +optional
	FallbackInstanceTypes []string `json:"fallbackInstanceTypes,omitempty"`
	// AMI is the id of the image that instances are launched from. Exactly one of ami, amiSelector and
	// nodeImage must be set.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^ami-[0-9a-z]+$`
	// +optional
	AMI string `json:"ami,omitempty"`
	// AMISelector finds the image by its properties; of several matches the newest is taken. 1 to 20
	// terms. Exactly one of ami, amiSelector and nodeImage must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:XValidation:rule="!has(self.id) || self.id.matches('^ami-[0-9a-z]+$')",message="id must be the id of an AMI, such as ami-0123456789abcdef0"
	// +listType=atomic
	// +optional
	AMISelector []SelectorTerm `json:"amiSelector,omitempty"`
	// NodeImage takes the node image of the cluster's own control plane. Exactly one of ami,
	// amiSelector and nodeImage must be set.
	// +optional
	NodeImage *NodeImage `json:"nodeImage,omitempty"`
	// SubnetIDs are the subnets that instances are spread over; 1 to 50, each once. Exactly one of
	// subnetIds and subnetSelector must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^subnet-[0-9a-z]+$`
	// +listType=set
	// +optional
	SubnetIDs []string `json:"subnetIds,omitempty"`
	// SubnetSelector finds the subnets by their properties; all matches are used. 1 to 20 terms.
	// Exactly one of subnetIds and subnetSelector must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:XValidation:rule="!has(self.id) || self.id.matches('^subnet-[0-9a-z]+$')",message="id must be the id of a subnet, such as subnet-12345678"
	// +kubebuilder:validation:items:XValidation:rule="!has(self.alias)",message="alias is only allowed in amiSelector"
	// +listType=atomic
	// +optional
	SubnetSelector []SelectorTerm `json:"subnetSelector,omitempty"`
	// SecurityGroupIDs are the security groups of the instances' network interface; 1 to 16, each
	// once. Exactly one of securityGroupIds and securityGroupSelector must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^sg-[0-9a-z]+$`
	// +listType=set
	// +optional
	SecurityGroupIDs []string `json:"securityGroupIds,omitempty"`
	// SecurityGroupSelector finds the security groups by their properties; all matches are used. 1 to
	// 20 terms. Exactly one of securityGroupIds and securityGroupSelector must be set.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:XValidation:rule="!has(self.id) || self.id.matches('^sg-[0-9a-z]+$')",message="id must be the id of a security group, such as sg-12345678"
	// +kubebuilder:validation:items:XValidation:rule="!has(self.alias)",message="alias is only allowed in amiSelector"
	// +listType=atomic
	// +optional
	SecurityGroupSelector []SelectorTerm `json:"securityGroupSelector,omitempty"`
	// IAMInstanceProfile is the name or the ARN of the instance profile that instances run with.
	// Unset: none.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(arn:aws[a-z-]*:iam::[0-9]+:instance-profile/[\w+=,.@/-]+|[\w+=,.@-]{1,128})$`
	// +optional
	IAMInstanceProfile string `json:"iamInstanceProfile,omitempty"`
	// Bootstrap makes Stratos write the user data by which instances join the cluster. userData, where
	// it is set too, is merged with it, and what Stratos sets wins. Unset: userData has to make
	// instances join.
	// +optional
	Bootstrap *Bootstrap `json:"bootstrap,omitempty"`
	// UserData is handed to the instance at launch, as plain text: Stratos encodes it. At most
	// 16384 characters (EC2 allows 16 KiB, with what bootstrap adds). With preWarm.completionMode
	// SelfStop it powers the instance off when it is warm; with ControllerStop it must not. With
	// bootstrap it is an addition, and must not join the cluster by itself.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	UserData string `json:"userData,omitempty"`
	// BlockDeviceMappings are the EBS volumes of the instance, in addition to or in place of those of
	// the AMI; at most 20, each deviceName once.
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=deviceName
	// +optional
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// MetadataOptions configure the instance metadata service.
	// +kubebuilder:default={}
	// +optional
	MetadataOptions MetadataOptions `json:"metadataOptions,omitempty"`
	// Hibernation makes a stop write the memory to the root volume. Unset: a plain stop.
	// +optional
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// Tags are put on instances, volumes and network interfaces; at most 40. Keys have 1 to 127
	// characters, values at most 256. The keys that Stratos and AWS use are refused: managed-by, and
	// all under stratos.sh/ and aws:.
	// +kubebuilder:validation:MaxProperties=40
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 127)",message="tags: a key must have 1 to 127 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('stratos.sh/'))",message="tags: keys under stratos.sh/ are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('aws:'))",message="tags: keys that begin with aws: are reserved by AWS"
	// +kubebuilder:validation:XValidation:rule="!('managed-by' in self)",message="tags: managed-by is reserved"
	// +optional
	Tags map[string]TagValue `json:"tags,omitempty"`
}

// NodeImage is the node image that the cluster stack names: the label
// node.cluster.x-k8s.io/stratos-node-image of the control-plane Nodes has
// <base>-<kubernetes>-<version>, and the image is named stratos-node-<label>-<architecture>.
type NodeImage struct {
	// FromCluster must be true: the image follows the label of the control-plane Nodes. A fixed image
	// is ami, or amiSelector with name and owner.
	// +kubebuilder:validation:XValidation:rule="self",message="fromCluster must be true: a fixed image is ami, or amiSelector with name and owner"
	FromCluster bool `json:"fromCluster"`
	// Owner of the image: self (default) or a 12-digit account.
	// +kubebuilder:default=self
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^([0-9]{12}|self)$`
	// +optional
	Owner string `json:"owner,omitempty"`
}

// BlockDeviceMapping is one EBS volume of the instance.
// +kubebuilder:validation:XValidation:rule="has(self.volumeSize) || has(self.snapshotId)",message="volumeSize must be set unless snapshotId is"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeSize) || !has(self.volumeType) || (self.volumeType in ['gp2', 'io1'] ? self.volumeSize <= 16384 : self.volumeType in ['st1', 'sc1'] ? self.volumeSize >= 125 && self.volumeSize <= 16384 : self.volumeType == 'standard' ? self.volumeSize <= 1024 : true)",message="volumeSize must be at most 16384 for gp2 and io1, 125 to 16384 for st1 and sc1, at most 1024 for standard"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeSize) || !has(self.volumeType) || !(self.volumeType in ['io1', 'io2']) || self.volumeSize >= 4",message="volumeSize must be at least 4 for io1 and io2"
// +kubebuilder:validation:XValidation:rule="!has(self.iops) || !has(self.volumeType) || self.volumeType in ['gp3', 'io1', 'io2']",message="iops must only be set with volumeType gp3, io1 or io2"
// +kubebuilder:validation:XValidation:rule="!has(self.volumeType) || !(self.volumeType in ['io1', 'io2']) || has(self.iops)",message="iops must be set with volumeType io1 or io2"
// +kubebuilder:validation:XValidation:rule="!has(self.iops) || !has(self.volumeType) || (self.volumeType == 'gp3' ? self.iops >= 3000 && self.iops <= 80000 : self.volumeType == 'io1' ? self.iops <= 64000 : true)",message="iops must be 3000 to 80000 for gp3, 100 to 64000 for io1, 100 to 256000 for io2"
// +kubebuilder:validation:XValidation:rule="!has(self.iops) || !has(self.volumeSize) || !has(self.volumeType) || (self.volumeType == 'gp3' ? self.iops <= 3000 || self.iops <= self.volumeSize * 500 : self.volumeType == 'io1' ? self.iops <= self.volumeSize * 50 : self.volumeType == 'io2' ? self.iops <= self.volumeSize * 1000 : true)",message="iops must be at most 500 per GiB of volumeSize for gp3, 50 for io1, 1000 for io2"
// +kubebuilder:validation:XValidation:rule="!has(self.throughput) || !has(self.volumeType) || self.volumeType == 'gp3'",message="throughput must only be set with volumeType gp3"
// +kubebuilder:validation:XValidation:rule="!has(self.throughput) || self.throughput <= 750 || (has(self.iops) && self.throughput * 4 <= self.iops)",message="throughput must be at most a quarter of iops (3000 where iops is unset)"
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKeyId) || (has(self.encrypted) && self.encrypted)",message="kmsKeyId needs encrypted: true"
type BlockDeviceMapping struct {
	// DeviceName of the volume, such as /dev/xvda. The root volume is the one with the AMI's root
	// device name.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(/dev/)?(sd|xvd|hd|nvme)[a-z0-9]+$`
	DeviceName string `json:"deviceName"`
	// VolumeSize in GiB. 1 to 65536; at most 16384 for gp2 and io1, 4 or more for io1 and io2, 125 to
	// 16384 for st1 and sc1, at most 1024 for standard. Required unless snapshotId is set; then the
	// snapshot's size is the default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +optional
	VolumeSize *int32 `json:"volumeSize,omitempty"`
	// VolumeType of the volume: gp3 (default), gp2, io1, io2, st1, sc1 or standard. A root volume
	// cannot be st1 or sc1.
	// +kubebuilder:default=gp3
	// +kubebuilder:validation:Enum=gp3;gp2;io1;io2;st1;sc1;standard
	// +optional
	VolumeType string `json:"volumeType,omitempty"`
	// Encrypted says whether the volume is encrypted. Unset: as the snapshot and the account's default
	// say.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
	// KMSKeyID is the id, alias or ARN of the key that encrypts the volume. Needs encrypted: true.
	// Unset: the account's default key.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]+:(key|alias)/.+|alias/.+|(mrk-)?[0-9a-f-]+)$`
	// +optional
	KMSKeyID string `json:"kmsKeyId,omitempty"`
	// IOPS is the provisioned number of operations per second. gp3: 3000 to 80000 and at most 500 per
	// GiB (unset: 3000). io1: 100 to 64000, at most 50 per GiB; io2: 100 to 256000, at most 1000 per
	// GiB; required for both. Refused for the other types.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=256000
	// +optional
	IOPS *int32 `json:"iops,omitempty"`
	// Throughput in MiB/s, for gp3 only: 125 to 2000 and at most a quarter of iops. Unset: 125.
	// +kubebuilder:validation:Minimum=125
	// +kubebuilder:validation:Maximum=2000
	// +optional
	Throughput *int32 `json:"throughput,omitempty"`
	// SnapshotID is the snapshot that the volume is made from, such as snap-0123456789abcdef0. Unset:
	// that of the AMI, or an empty volume.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^snap-[0-9a-z]+$`
	// +optional
	SnapshotID string `json:"snapshotId,omitempty"`
	// DeleteOnTermination says whether the volume is deleted with the instance. Default true. With
	// false each replaced node leaves a volume behind that is not deleted and that AWS bills.
	// +kubebuilder:default=true
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
}

// MetadataOptions configure the instance metadata service.
type MetadataOptions struct {
	// HTTPTokens says whether a session token (IMDSv2) is needed: required (default) or optional.
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens string `json:"httpTokens,omitempty"`
	// HTTPPutResponseHopLimit is the number of network hops a token may travel. 1 to 64, default 2; 1
	// keeps pods without host network from the instance's credentials.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int32 `json:"httpPutResponseHopLimit,omitempty"`
	// HTTPEndpoint switches the service: enabled (default) or disabled. Most bootstrap scripts need
	// it.
	// +kubebuilder:default=enabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint string `json:"httpEndpoint,omitempty"`
}

// Hibernation configures suspend to disk.
type Hibernation struct {
	// Enabled makes instances hibernate in place of a plain stop. EC2 allows it at launch only, for
	// memory up to 150 GB, with an encrypted root volume large enough for the memory:
	// blockDeviceMappings must map the root device with encrypted: true. Where EC2 fails to hibernate,
	// it stops the instance plainly.
	Enabled bool `json:"enabled"`
}

// ResolvedSubnet is a subnet and its zone.
type ResolvedSubnet struct {
	// ID of the subnet.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// Zone of the subnet, such as us-east-1a.
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone"`
}

// InstanceTypeStatus is one instance type that the class names.
type InstanceTypeStatus struct {
	// Type is the name of the instance type, such as m5.large.
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type"`
	// Usable says whether instances may be of the type.
	Usable bool `json:"usable"`
	// Reason why the type is not usable.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
	// Failed says that the type is left out because starts as it failed: the cloud refused three in a
	// row, or no kubelet reported after two. It stands until the spec changes.
	// +optional
	Failed bool `json:"failed,omitempty"`
	// Price of one instance of the type, where Stratos was given the prices of the type and of all
	// volumes.
	// +optional
	Price *Price `json:"price,omitempty"`
}

// AWSNodeClassStatus is what the cloud resolved the spec to.
type AWSNodeClassStatus struct {
	// AMI is the image that new instances are launched from.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AMI string `json:"ami,omitempty"`
	// NodeImage is the label's value that the image was found by, where spec.nodeImage is set, such as
	// ubuntu-24.04-1.37.2-v2.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	NodeImage string `json:"nodeImage,omitempty"`
	// Subnets that new instances are launched into, with their zones.
	// +kubebuilder:validation:MaxItems=200
	// +listType=map
	// +listMapKey=id
	// +optional
	Subnets []ResolvedSubnet `json:"subnets,omitempty"`
	// SecurityGroups of new instances.
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	SecurityGroups []string `json:"securityGroups,omitempty"`
	// Bootstrap is what new instances are told to join the cluster, where spec.bootstrap is set.
	// +optional
	Bootstrap *BootstrapStatus `json:"bootstrap,omitempty"`
	// Architecture of the image, as in the label kubernetes.io/arch, such as amd64.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// Capacity of one instance by resource name, as the instance type has it. A kubelet reports
	// somewhat less.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Price of one instance, where Stratos was given the prices of its type and of all its volumes.
	// +optional
	Price *Price `json:"price,omitempty"`
	// InstanceTypes are instanceType and fallbackInstanceTypes, in this order, where there are
	// fallback types.
	// +kubebuilder:validation:MaxItems=11
	// +listType=map
	// +listMapKey=type
	// +optional
	InstanceTypes []InstanceTypeStatus `json:"instanceTypes,omitempty"`
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready says whether the cloud has everything that the spec names, in the cloud's
	// words where it has not. InstanceTypesUsable says which fallback types are left out, and why.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
