package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePool is a pool of cloud instances that were warmed up once (joined the cluster, pulled their
// images) and then stopped. A stopped instance starts when a pod needs it, and is drained and
// stopped again when its node has been empty for a while. metadata.name becomes the value of the
// Node label stratos.sh/pool, so it has at most 63 characters.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=stratos,shortName=np;snp
// +kubebuilder:printcolumn:name="Standby",type=integer,JSONPath=`.status.standby`,description="Nodes that are stopped and can be started"
// +kubebuilder:printcolumn:name="Starting",type=integer,JSONPath=`.status.starting`,description="Nodes that are being started"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,description="Nodes that take pods"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the pool can do its work"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,description="Whether nothing new begins in the pool"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pool-Size",type=integer,priority=1,JSONPath=`.spec.poolSize`,description="Largest number of instances"
// +kubebuilder:printcolumn:name="Min-Standby",type=integer,priority=1,JSONPath=`.spec.minStandby`,description="Standby nodes kept ready"
// +kubebuilder:printcolumn:name="Warmup",type=integer,priority=1,JSONPath=`.status.warmup`,description="Nodes that are being initialised"
// +kubebuilder:printcolumn:name="Stopping",type=integer,priority=1,JSONPath=`.status.stopping`,description="Nodes that are drained or being stopped"
// +kubebuilder:printcolumn:name="Terminating",type=integer,priority=1,JSONPath=`.status.terminating`,description="Nodes that are being replaced or removed"
// +kubebuilder:printcolumn:name="Usual-Start",type=integer,priority=1,JSONPath=`.status.startSeconds.p50`,description="Seconds that half of the last starts took at most"
// +kubebuilder:printcolumn:name="Class",type=string,priority=1,JSONPath=`.spec.template.nodeClassRef.name`,description="Node class of the pool"
// +kubebuilder:printcolumn:name="Weight",type=integer,priority=1,JSONPath=`.spec.weight`,description="Pools with a higher weight are used first"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must have at most 63 characters, because it is the value of the Node label stratos.sh/pool"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.labels) || !('stratos.sh/pool' in self.spec.template.labels) || self.spec.template.labels['stratos.sh/pool'] == self.metadata.name",message="spec.template.labels[stratos.sh/pool] must equal metadata.name, or be left out"
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what you want.
	Spec NodePoolSpec `json:"spec"`
	// Status is what Stratos last observed.
	// +optional
	Status NodePoolStatus `json:"status,omitempty"`
}

// IsPaused reports whether nothing new is to begin in the pool: no start, launch, drain,
// termination or image refresh. What has begun ends as usual.
func (p *NodePool) IsPaused() bool {
	value, set := p.Annotations[AnnotationPaused]
	return set && value != "false"
}

// NodePoolList is a list of NodePools.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec is the desired state of a NodePool.
// +kubebuilder:validation:XValidation:rule="self.minStandby <= self.poolSize",message="minStandby must not exceed poolSize"
// +kubebuilder:validation:XValidation:rule="!has(self.disruption) || !has(self.disruption.expireAfter) || !has(self.preWarm) || !has(self.preWarm.timeout) || !self.disruption.expireAfter.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') || !self.preWarm.timeout.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') || duration(self.disruption.expireAfter) > duration(self.preWarm.timeout)",message="disruption.expireAfter must be longer than preWarm.timeout, else nodes would expire while they warm up"
type NodePoolSpec struct {
	// PoolSize is the largest number of instances the pool may have, counting every state: warming up,
	// standby, starting, running, stopping and terminating. 1 to 1000. When it is lowered, surplus
	// standby nodes are terminated at once; running nodes are never stopped for it, they go when they
	// are empty.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	PoolSize int32 `json:"poolSize"`
	// MinStandby is the number of standby nodes that are kept ready to start. 0 to poolSize. It is a
	// minimum that holds while poolSize allows: when poolSize nodes run, none is standby. 0 means that
	// no node is warmed up ahead of need. Standby nodes above this number are kept for
	// scaleDown.standbySurplusTTL.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinStandby int32 `json:"minStandby"`
	// Weight orders pools that could serve the same pod: the pool with the higher weight is used
	// first. 0 to 100, default 10. Pools of equal weight are chosen by the least waste.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// MaxNodeRuntime is how long a node may run since it last became running, for example 24h. Then it
	// is drained, terminated and replaced, within disruption.budget. 1m to 8760h; 0, "0", 0s or
	// leaving it out switches this off (the default). A number other than 0 is refused, because it has
	// no unit.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self == 0",message="maxNodeRuntime as a number may only be 0, which switches it off; write a duration with a unit, such as 24h"
	// +kubebuilder:validation:XValidation:rule="type(self) == int || (size(self) <= 32 && self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && (duration(self) == duration('0s') || (duration(self) >= duration('1m') && duration(self) <= duration('8760h'))))",message="maxNodeRuntime must be a duration from 1m to 8760h, such as 24h, or 0 to switch it off"
	// +optional
	MaxNodeRuntime *intstr.IntOrString `json:"maxNodeRuntime,omitempty"`
	// Template describes the nodes of the pool.
	Template NodeTemplate `json:"template"`
	// PreWarm controls warm-up, the one-time initialisation of an instance.
	// +kubebuilder:default={}
	// +optional
	PreWarm PreWarm `json:"preWarm,omitempty"`
	// ScaleUp controls how standby nodes are started.
	// +kubebuilder:default={}
	// +optional
	ScaleUp ScaleUp `json:"scaleUp,omitempty"`
	// ScaleDown controls how empty nodes return to standby.
	// +kubebuilder:default={}
	// +optional
	ScaleDown ScaleDown `json:"scaleDown,omitempty"`
	// Disruption controls how nodes are replaced.
	// +kubebuilder:default={}
	// +optional
	Disruption Disruption `json:"disruption,omitempty"`
}

// NodeClassRef names the cloud-specific configuration of a pool.
type NodeClassRef struct {
	// Kind of the node class: AWSNodeClass or KindNodeClass, as the cloud provider that Stratos runs
	// with.
	// +kubebuilder:validation:Enum=AWSNodeClass;KindNodeClass
	Kind string `json:"kind"`
	// Name of the node class, which is cluster-scoped. It need not exist yet: until it does, the
	// condition NodeClassReady is False.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// StartupTaintRemoval says who removes startup taints.
type StartupTaintRemoval string

// The ways startup taints are removed.
const (
	// RemoveWhenNetworkReady: Stratos removes them when the network of the node is up.
	RemoveWhenNetworkReady StartupTaintRemoval = "WhenNetworkReady"
	// RemoveExternal: the CNI removes them itself.
	RemoveExternal StartupTaintRemoval = "External"
)

// NodeTemplate describes the nodes of a pool.
// +kubebuilder:validation:XValidation:rule="!has(self.taints) || !has(self.startupTaints) || self.startupTaints.all(s, !self.taints.exists(t, t.key == s.key && t.effect == s.effect))",message="startupTaints must not repeat a key and effect of taints: a startup taint is removed, a taint stays"
type NodeTemplate struct {
	// NodeClassRef names the cloud-specific configuration. It may be changed: nodes of the old class
	// then count as drifted and are replaced as disruption.drift and disruption.budget say.
	NodeClassRef NodeClassRef `json:"nodeClassRef"`
	// Labels are put on every Node of the pool; at most 50. Of the keys under stratos.sh/ only
	// stratos.sh/pool is allowed, with metadata.name as value; Stratos sets it anyway.
	// kubernetes.io/hostname, node.kubernetes.io/exclude-disruption and node-role.kubernetes.io/ with
	// a state of a node are refused, because the kubelet and Stratos set them.
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 317)",message="labels: a key must have 1 to 317 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('stratos.sh/') || k == 'stratos.sh/pool')",message="labels: keys under stratos.sh/ are reserved; only stratos.sh/pool is allowed"
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/hostname' in self) && !('node.kubernetes.io/exclude-disruption' in self)",message="labels: kubernetes.io/hostname and node.kubernetes.io/exclude-disruption must not be set: the kubelet and Stratos set them"
	// +kubebuilder:validation:XValidation:rule="!['warmup', 'standby', 'starting', 'stopping', 'terminating'].exists(s, ('node-role.kubernetes.io/' + s) in self)",message="labels: node-role.kubernetes.io/ with warmup, standby, starting, stopping or terminating must not be set: Stratos does, by the node's state"
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Taints are put on every Node of the pool and stay; at most 50, each key and effect once. A node
	// is only started for a pod that tolerates them. stratos.sh/dedicated with effect NoSchedule keeps
	// pods away that did not opt in to Stratos.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.all(t, !t.key.startsWith('stratos.sh/') || t.key == 'stratos.sh/dedicated')",message="taints: keys under stratos.sh/ are reserved; only stratos.sh/dedicated is allowed"
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +optional
	Taints []Taint `json:"taints,omitempty"`
	// StartupTaints stand on a Node from each start until it is ready for pods; at most 50, each key
	// and effect once. They match the kubelet's --register-with-taints, which acts at the first
	// registration only: Stratos puts them back when it stops the node. Pods need not tolerate them to
	// have a node started.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.all(t, !t.key.startsWith('stratos.sh/'))",message="startupTaints: keys under stratos.sh/ are reserved"
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`
	// StartupTaintRemoval says who removes startupTaints. WhenNetworkReady (default): Stratos does,
	// when the network of the node is up, or 2 minutes after its kubelet is Ready. External: another
	// controller does, and Stratos waits for it. Without startupTaints it has no effect.
	// +kubebuilder:default=WhenNetworkReady
	// +kubebuilder:validation:Enum=WhenNetworkReady;External
	// +optional
	StartupTaintRemoval StartupTaintRemoval `json:"startupTaintRemoval,omitempty"`
	// NetworkAgents are the DaemonSets whose pods must be Ready before the network of a node counts as
	// up: these and no others; at least one, at most 10. Where it is not set, Stratos recognises them:
	// DaemonSets that run on the node and mount a folder of the host whose path ends in cni/net.d or
	// cni/bin.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +optional
	NetworkAgents []NetworkAgent `json:"networkAgents,omitempty"`
}

// NetworkAgent names a DaemonSet that makes the network of a node usable.
type NetworkAgent struct {
	// Namespace of the DaemonSet: a DNS label, at most 63 characters.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name of the DaemonSet: a DNS subdomain, at most 253 characters.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// TimeoutAction says what becomes of an instance that is not warm in time.
type TimeoutAction string

// The actions on a warm-up timeout.
const (
	TimeoutStop      TimeoutAction = "stop"
	TimeoutTerminate TimeoutAction = "terminate"
)

// CompletionMode says who stops an instance at the end of warm-up.
type CompletionMode string

// The completion modes.
const (
	// SelfStop: the instance's user data powers off.
	SelfStop CompletionMode = "SelfStop"
	// ControllerStop: Stratos stops the instance.
	ControllerStop CompletionMode = "ControllerStop"
)

// ImagePullPolicy says whether an image that cannot be pulled keeps a node from standby.
type ImagePullPolicy string

// The image pull policies of warm-up.
const (
	ImagesRequired   ImagePullPolicy = "Required"
	ImagesBestEffort ImagePullPolicy = "BestEffort"
)

// PreWarm controls warm-up.
type PreWarm struct {
	// Timeout is how long a warm-up may take, from launch to stopped. 1s to 24h, default 10m. Then
	// timeoutAction applies.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be a duration from 1s to 24h, such as 10m"
	// +optional
	Timeout *Duration `json:"timeout,omitempty"`
	// TimeoutAction says what becomes of an instance that is not warm in time. stop (default): it is
	// force-stopped; it becomes standby if it is complete (was Ready, network ready, images present),
	// is warmed up once more if it was Ready but is not complete, and is terminated if it was never
	// Ready. terminate: it is terminated. In every case a replacement is launched as needed.
	// +kubebuilder:default=stop
	// +kubebuilder:validation:Enum=stop;terminate
	// +optional
	TimeoutAction TimeoutAction `json:"timeoutAction,omitempty"`
	// CompletionMode says who stops the instance at the end of warm-up. SelfStop: its user data powers
	// it off. ControllerStop: Stratos stops it when it is complete, and its user data must not power
	// off; needed for systems without a shell, such as Bottlerocket. Only with ControllerStop may a
	// warming node go straight to running when pods wait for it. Unset: ControllerStop where the node
	// class has bootstrap, else SelfStop; status.completionMode shows it.
	// +kubebuilder:validation:Enum=SelfStop;ControllerStop
	// +optional
	CompletionMode CompletionMode `json:"completionMode,omitempty"`
	// ImagesToPull are container images pulled during warm-up, in addition to those of every
	// DaemonSet that runs on the pool's nodes. At most 100, each once, each at most 512 characters:
	// a reference as in a pod, such as docker.io/library/nginx:latest. The node's own kubelet pulls
	// them, so mirrors and credentials work as for pods.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9]([a-zA-Z0-9._:/@-]*[a-zA-Z0-9_])?$`
	// +listType=set
	// +optional
	ImagesToPull []string `json:"imagesToPull,omitempty"`
	// ImagePullPolicy says what an image of imagesToPull that cannot be pulled means. Required
	// (default): the node does not become standby without it, and the condition ImagesPulled says
	// why. BestEffort: the node becomes standby, and the image is pulled when a pod needs it.
	// Images of DaemonSets are best effort, except in the namespaces that Stratos's flag named
	// required-daemonset-namespaces lists.
	// +kubebuilder:default=Required
	// +kubebuilder:validation:Enum=Required;BestEffort
	// +optional
	ImagePullPolicy ImagePullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets are Secrets in the namespace Stratos runs in, used to pull during warm-up. At
	// most 20, each name once.
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=name
	// +optional
	ImagePullSecrets []ImagePullSecret `json:"imagePullSecrets,omitempty"`
}

// ScaleUp controls starts.
type ScaleUp struct {
	// DefaultPodResources is what a pod without requests of its own claims on a node. Unset by
	// default: such a pod claims nothing but its place among the node's pods, exactly as the scheduler
	// counts it. Set it to start more nodes than the scheduler would need.
	// +optional
	DefaultPodResources *PodResources `json:"defaultPodResources,omitempty"`
	// ReadyTimeout is how long a start may take, from the start call to a node that takes pods. 1s to
	// 1h, default 5m. Then the instance is force-stopped, its pods move to another node, and it is
	// left alone for a while; after the third time it is replaced.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="readyTimeout must be a duration from 1s to 1h, such as 5m"
	// +optional
	ReadyTimeout *Duration `json:"readyTimeout,omitempty"`
	// StartBudget is the largest number of starts of this pool in 5 minutes, without those that the
	// cloud refuses. 1 to 10000; unset: poolSize. It bounds what pods can cost that wake nodes in
	// vain. While it is used up the condition StartsLimited is True.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	StartBudget *int32 `json:"startBudget,omitempty"`
	// Anticipate says for which pods room is claimed before their scheduler asks. Pods: when a pod
	// gets a claim, pending pods of the same shape get theirs at once. Replicas: so do the replicas
	// that its ReplicaSet, parallel StatefulSet or Job is still to create. "Off" (with quotes, YAML
	// takes the bare word for a boolean): each pod waits for its own question, as where filter plugins
	// of others read more of a pod than Kubernetes' own do. Default Replicas.
	// +kubebuilder:validation:Enum=Off;Pods;Replicas
	// +kubebuilder:default=Replicas
	// +optional
	Anticipate Anticipate `json:"anticipate,omitempty"`
}

// Anticipate says for which pods room is claimed before their scheduler asks.
type Anticipate string

// The values of scaleUp.anticipate.
const (
	AnticipateOff      Anticipate = "Off"
	AnticipatePods     Anticipate = "Pods"
	AnticipateReplicas Anticipate = "Replicas"
)

// PodResources are requests that stand in for a pod's own.
type PodResources struct {
	// Requests by resource name, as in a container: cpu, memory, ephemeral-storage, or an extended
	// resource. At most 32, none negative.
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-'))",message="requests must not be negative"
	// +optional
	Requests Requests `json:"requests,omitempty"`
}

// ScaleDown controls how empty nodes return to standby.
type ScaleDown struct {
	// Enabled says whether empty nodes return to standby. Default true. With false a node runs until
	// maxNodeRuntime, drift or the deletion of the pool.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// EmptyNodeTTL is how long a node must have been empty before it is drained and stopped. 0s to
	// 168h, default 5m; 0s stops it as soon as it is seen empty. Empty means: no pods except those of
	// DaemonSets, mirror pods and finished ones.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) <= duration('168h')",message="emptyNodeTTL must be a duration from 0s to 168h, such as 5m"
	// +optional
	EmptyNodeTTL *Duration `json:"emptyNodeTTL,omitempty"`
	// DrainTimeout is how long an empty node may be drained. 1s to 24h, default 5m. A node that is not
	// drained by then returns to running with an event; it is never stopped under its pods.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="drainTimeout must be a duration from 1s to 24h, such as 5m"
	// +optional
	DrainTimeout *Duration `json:"drainTimeout,omitempty"`
	// StandbySurplusTTL is how long standby nodes above minStandby are kept before they are
	// terminated, drifted and oldest ones first. 0s to 8760h, default 24h; 0s keeps them forever.
	// Standby nodes above poolSize go at once.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) <= duration('8760h')",message="standbySurplusTTL must be a duration from 0s (keep forever) to 8760h, such as 24h"
	// +optional
	StandbySurplusTTL *Duration `json:"standbySurplusTTL,omitempty"`
}

// DriftPolicy says what becomes of nodes whose configuration is no longer that of the pool.
type DriftPolicy string

// The drift policies.
const (
	DriftRecycle DriftPolicy = "Recycle"
	DriftIgnore  DriftPolicy = "Ignore"
)

// Disruption controls the replacement of nodes.
type Disruption struct {
	// ExpireAfter is the age, since launch, at which a standby node is replaced by a fresh one. 10m to
	// 8760h, and longer than preWarm.timeout; unset: never. Set it below the life of the kubelet's
	// client certificate where nodes cannot join anew.
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) >= duration('10m') && duration(self) <= duration('8760h')",message="expireAfter must be a duration from 10m to 8760h, such as 720h; leave it out to let standby nodes live forever"
	// +optional
	ExpireAfter *Duration `json:"expireAfter,omitempty"`
	// Budget is how many nodes may be under replacement at once, for expiry, runtime, drift and stale
	// images together: a number from 1 to 1000, or a percentage of poolSize from 1% to 100%, rounded
	// up and at least 1. Default 10%.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 1 && self <= 1000) : (size(self) <= 4 && self.matches('^([1-9][0-9]?|100)%$'))",message="budget must be a number from 1 to 1000 or a percentage from 1% to 100%"
	// +optional
	Budget *intstr.IntOrString `json:"budget,omitempty"`
	// Drift says what becomes of nodes that were launched from another template or node class than the
	// present one. Recycle (default): standby ones are replaced within budget, running ones when they
	// are empty. Ignore: they stay.
	// +kubebuilder:default=Recycle
	// +kubebuilder:validation:Enum=Recycle;Ignore
	// +optional
	Drift DriftPolicy `json:"drift,omitempty"`
	// TerminationGracePeriod bounds the drain of a node that is to be replaced or removed: after it
	// the node is terminated with the pods that are left. 0s to 168h; unset (default): nothing is
	// forced, and a node that has not drained within scaleDown.drainTimeout goes back to running and
	// is tried again. It does not apply to empty nodes on their way to standby; those are never
	// stopped under a pod.
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,5}([.][0-9]+)?h|[0-9]{1,7}([.][0-9]+)?(m|s|ms)){1,4})$') && duration(self) <= duration('168h')",message="terminationGracePeriod must be a duration from 0s to 168h, such as 1h; leave it out to wait for the pods"
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
}

// WarmupFailure is a warm-up that did not end in a standby node.
type WarmupFailure struct {
	// Time is when it was found to have failed.
	Time metav1.Time `json:"time"`
	// InstanceID of the instance, which is terminated.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	InstanceID InstanceID `json:"instanceID,omitempty"`
	// Zone of the instance.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Zone string `json:"zone,omitempty"`
	// Reason is one word: never_registered, never_ready, incomplete, timeout or vanished.
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`
	// Message says what was missing, with the cloud's words where it gave any.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// Count is how many warm-ups have failed one after another. Instances that were launched together
	// and fail together count once.
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// Hash names the node class and the template that the instance was launched from. Launches of
	// others do not back off.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Hash string `json:"hash,omitempty"`
}

// StartSeconds is how long the last 50 starts of a pool took, from the start intent until the node
// was opened to pods, in seconds.
type StartSeconds struct {
	// P50 is what half of the starts took at most.
	// +kubebuilder:validation:Minimum=0
	P50 int32 `json:"p50"`
	// P95 is what 95 % of the starts took at most.
	// +kubebuilder:validation:Minimum=0
	P95 int32 `json:"p95"`
	// Count is how many starts these are, 50 at most.
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`
	// Phases are how long each phase of these starts took, in the order of the phases. Starts that a
	// new leader took over are left out; unset before another one has ended.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Phases []StartPhaseSeconds `json:"phases,omitempty"`
}

// StartPhaseSeconds is how long one phase of the last starts of a pool took, in seconds, rounded to
// the nearest.
type StartPhaseSeconds struct {
	// Name of the phase.
	Name StartPhase `json:"name"`
	// P50 is what the phase took at most in half of the starts.
	// +kubebuilder:validation:Minimum=0
	P50 int32 `json:"p50"`
	// P95 is what the phase took at most in 95 % of the starts.
	// +kubebuilder:validation:Minimum=0
	P95 int32 `json:"p95"`
}

// NodePoolStatus is the observed state of a NodePool.
type NodePoolStatus struct {
	// Standby counts nodes that are stopped, were Ready once, have their images, and can be started.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Standby int32 `json:"standby"`
	// Warmup counts nodes that are being initialised.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Warmup int32 `json:"warmup"`
	// Starting counts nodes that are on their way from standby to running.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Starting int32 `json:"starting"`
	// Running counts nodes that take pods.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Running int32 `json:"running"`
	// Stopping counts nodes that are being drained because they are empty, or being stopped.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Stopping int32 `json:"stopping"`
	// Terminating counts nodes that are being drained for replacement or removal, or being terminated.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Terminating int32 `json:"terminating"`
	// Total counts the nodes of all states. It never exceeds poolSize, except after poolSize was
	// lowered.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Total int32 `json:"total"`
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Initialized: minStandby was reached once. From then on Ready stays True while the pool refills.
	// +optional
	Initialized bool `json:"initialized,omitempty"`
	// CompletionMode is who stops instances at the end of warm-up: preWarm.completionMode, or what it
	// means where it is unset. Empty while the node class is not known.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	CompletionMode CompletionMode `json:"completionMode,omitempty"`
	// LastWarmupFailure is the last warm-up that failed; unset where the last one was complete.
	// +optional
	LastWarmupFailure *WarmupFailure `json:"lastWarmupFailure,omitempty"`
	// StartSeconds is how long the last starts took; unset before the first one. It follows them
	// within about a minute.
	// +optional
	StartSeconds *StartSeconds `json:"startSeconds,omitempty"`
	// Conditions: Ready, Degraded, NodeClassReady, ImagesPulled, StartsLimited and Paused. Each can
	// turn both ways.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
