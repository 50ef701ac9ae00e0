package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePool is a pool of cloud instances that were warmed up once and then stopped, and that are started when pods need them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=stratos
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NodePoolSpec   `json:"spec"`
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePools.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec is the desired state of a NodePool.
type NodePoolSpec struct {
	// PoolSize is the largest number of instances, counting every state. 1 to 1000.
	PoolSize int32 `json:"poolSize"`
	// MinStandby is the number of standby nodes kept ready, while poolSize allows. 0 to poolSize.
	MinStandby int32 `json:"minStandby"`
	// Weight orders pools that could serve the same pod; the higher one is used first. 0 to 100.
	// +kubebuilder:default=10
	Weight *int32 `json:"weight,omitempty"`
	// MaxNodeRuntime is how long a node may run since it last became running; then it is drained, terminated and replaced. Off when 0 or unset.
	MaxNodeRuntime *intstr.IntOrString `json:"maxNodeRuntime,omitempty"`
	// Template describes the nodes of the pool.
	Template NodeTemplate `json:"template"`
	// PreWarm controls the one-time initialisation of an instance.
	// +kubebuilder:default={}
	PreWarm PreWarm `json:"preWarm,omitempty"`
	// ScaleUp controls starts.
	// +kubebuilder:default={}
	ScaleUp ScaleUp `json:"scaleUp,omitempty"`
	// ScaleDown controls how empty nodes return to standby.
	// +kubebuilder:default={}
	ScaleDown ScaleDown `json:"scaleDown,omitempty"`
	// Disruption controls the replacement of nodes.
	// +kubebuilder:default={}
	Disruption Disruption `json:"disruption,omitempty"`
}

// NodeClassRef names the cloud-specific configuration of a pool.
type NodeClassRef struct {
	// Kind of the node class, for example AWSNodeClass.
	Kind string `json:"kind"`
	// Name of the node class.
	Name string `json:"name"`
}

// StartupTaintRemoval says who removes startup taints.
type StartupTaintRemoval string

// The ways startup taints are removed.
const (
	// RemoveWhenNetworkReady: Stratos removes them when the CNI's own condition is fresh and true.
	RemoveWhenNetworkReady StartupTaintRemoval = "WhenNetworkReady"
	// RemoveExternal: the CNI removes them itself.
	RemoveExternal StartupTaintRemoval = "External"
)

// NodeTemplate describes the nodes of a pool.
type NodeTemplate struct {
	NodeClassRef NodeClassRef `json:"nodeClassRef"`
	// Labels are put on every node of the pool.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are put on every node of the pool.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// StartupTaints stand on a node from each start until it is ready for pods. They match the kubelet's --register-with-taints.
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`
	// +kubebuilder:default=WhenNetworkReady
	// +kubebuilder:validation:Enum=WhenNetworkReady;External
	StartupTaintRemoval StartupTaintRemoval `json:"startupTaintRemoval,omitempty"`
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
	// +kubebuilder:default="10m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// +kubebuilder:default=stop
	// +kubebuilder:validation:Enum=stop;terminate
	TimeoutAction TimeoutAction `json:"timeoutAction,omitempty"`
	// +kubebuilder:default=SelfStop
	// +kubebuilder:validation:Enum=SelfStop;ControllerStop
	CompletionMode CompletionMode `json:"completionMode,omitempty"`
	ImagesToPull   []string       `json:"imagesToPull,omitempty"`
	// +kubebuilder:default=Required
	// +kubebuilder:validation:Enum=Required;BestEffort
	ImagePullPolicy  ImagePullPolicy               `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// ScaleUp controls starts.
type ScaleUp struct {
	// DefaultPodResources is what a pod without requests claims.
	DefaultPodResources *PodResources `json:"defaultPodResources,omitempty"`
	// +kubebuilder:default="5m"
	ReadyTimeout *metav1.Duration `json:"readyTimeout,omitempty"`
	// StartBudget bounds starts per 5 minutes. Unset: poolSize.
	StartBudget *int32 `json:"startBudget,omitempty"`
}

// PodResources are requests that stand in for a pod's own.
type PodResources struct {
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// ScaleDown controls how empty nodes return to standby.
type ScaleDown struct {
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// +kubebuilder:default="5m"
	EmptyNodeTTL *metav1.Duration `json:"emptyNodeTTL,omitempty"`
	// +kubebuilder:default="5m"
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// +kubebuilder:default="24h"
	StandbySurplusTTL *metav1.Duration `json:"standbySurplusTTL,omitempty"`
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
	ExpireAfter *metav1.Duration `json:"expireAfter,omitempty"`
	// +kubebuilder:default="10%"
	Budget *intstr.IntOrString `json:"budget,omitempty"`
	// +kubebuilder:default=Recycle
	// +kubebuilder:validation:Enum=Recycle;Ignore
	Drift DriftPolicy `json:"drift,omitempty"`
	// TerminationGracePeriod bounds the drain before a replacement. Unset: wait for ever.
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`
}

// NodePoolStatus is the observed state of a NodePool.
type NodePoolStatus struct {
	Standby            int32 `json:"standby"`
	Warmup             int32 `json:"warmup"`
	Starting           int32 `json:"starting"`
	Running            int32 `json:"running"`
	Stopping           int32 `json:"stopping"`
	Terminating        int32 `json:"terminating"`
	Total              int32 `json:"total"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
