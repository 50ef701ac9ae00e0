package v1alpha1

import corev1 "k8s.io/api/core/v1"

// The label, annotation, taint, tag and finalizer keys that users see. They are part of the API:
// docs/names.md lists them, and a change is a breaking change.
const (
	// LabelPool is the NodePool's name, on Nodes (label) and instances (tag).
	LabelPool = "stratos.sh/pool"
	// LabelState is the NodeState, on Nodes (label) and instances (tag).
	LabelState = "stratos.sh/state"
	// TagCluster is the instance tag that carries the cluster's name.
	TagCluster = "stratos.sh/cluster"
	// TagClusterUID is the instance tag that carries the UID of the cluster's namespace kube-system:
	// two clusters may have one name.
	TagClusterUID = "stratos.sh/cluster-uid"
	// TagManagedBy is the instance tag whose value is ManagedByStratos.
	TagManagedBy = "managed-by"
	// ManagedByStratos is the value of TagManagedBy on every instance of ours.
	ManagedByStratos = "stratos"
	// LabelScheduler on a Namespace opts its pods in when it is SchedulerEnabled.
	LabelScheduler = "stratos.sh/scheduler"
	// SchedulerEnabled is the value of LabelScheduler that opts in.
	SchedulerEnabled = "enabled"
	// LabelExcludeDisruption takes a node out of the count by which kube-controller-manager decides
	// about a zone's health.
	LabelExcludeDisruption = "node.kubernetes.io/exclude-disruption"
	// LabelNodeImage on control-plane Nodes is the node image of the cluster, without architecture.
	// Cluster API copies labels of this domain from Machines to their Nodes.
	LabelNodeImage = "node.cluster.x-k8s.io/stratos-node-image"
	// LabelControlPlane marks control-plane Nodes. A kubelet cannot set it on its own Node.
	LabelControlPlane = "node-role.kubernetes.io/control-plane"

	// LabelPull on a Pod of Stratos's own: it makes a node's kubelet pull images. The value tells
	// which set.
	LabelPull = "stratos.sh/pull"
	// NoSuchCommand is the command of those pods. It exists in no image, so nothing of an image ever
	// runs.
	NoSuchCommand = "/stratos-no-such-command"

	// AnnotationInstanceID is the cloud's id, for people. It is never authority.
	AnnotationInstanceID = "stratos.sh/instance-id"
	// AnnotationScaleUpStarted is the RFC 3339 time of the start intent.
	AnnotationScaleUpStarted = "stratos.sh/scale-up-started"
	// AnnotationScaleDownCandidateSince is the RFC 3339 time since which the node is empty.
	AnnotationScaleDownCandidateSince = "stratos.sh/scale-down-candidate-since"
	// AnnotationClaims holds the UIDs of the pods that have claims on the node.
	AnnotationClaims = "stratos.sh/claims"
	// AnnotationStopReason is why the node is being stopped: a StopReason.
	AnnotationStopReason = "stratos.sh/stop-reason"
	// AnnotationStopIntent is the RFC 3339 time from which the stop is not cancelled.
	AnnotationStopIntent = "stratos.sh/stop-intent"
	// AnnotationStopAsked is the RFC 3339 time at which the cloud was last about to be asked again for
	// a stop whose intent stands.
	AnnotationStopAsked = "stratos.sh/stop-asked"
	// AnnotationStoppingSince is the RFC 3339 time at which draining began.
	AnnotationStoppingSince = "stratos.sh/stopping-since"
	// AnnotationDrainFailedAt is the RFC 3339 time at which the drain of a node that was to be
	// replaced was given up.
	AnnotationDrainFailedAt = "stratos.sh/drain-failed-at"
	// AnnotationDrainFailures counts the drains of a node in a row that did not end.
	AnnotationDrainFailures = "stratos.sh/drain-failures"
	// AnnotationLastStart is a LastStart: how long each phase of the node's last start took.
	AnnotationLastStart = "stratos.sh/last-start"
	// AnnotationRunningSince is the RFC 3339 time at which the node last became running;
	// maxNodeRuntime counts from it.
	AnnotationRunningSince = "stratos.sh/running-since"
	// AnnotationCordoned marks a cordon as ours.
	AnnotationCordoned = "stratos.sh/cordoned"
	// AnnotationWarmedAt is the RFC 3339 time at which warm-up was seen complete.
	AnnotationWarmedAt = "stratos.sh/warmed-at"
	// AnnotationWarmupStarted is the RFC 3339 time at which Stratos started an instance to warm it up
	// once more and stop it itself.
	AnnotationWarmupStarted = "stratos.sh/warmup-started"
	// AnnotationImagesHash tells which set of images was last seen on the node.
	AnnotationImagesHash = "stratos.sh/images-hash"
	// AnnotationRequiredImagesHash tells which set of required images was last seen on the node.
	AnnotationRequiredImagesHash = "stratos.sh/required-images-hash"
	// AnnotationImagesChecked is the RFC 3339 time at which the images were looked at before this
	// stop.
	AnnotationImagesChecked = "stratos.sh/images-checked"
	// AnnotationImagePullFailed is an RFC 3339 time, a space, an image, a colon, and the kubelet's
	// words on why it cannot be pulled.
	AnnotationImagePullFailed = "stratos.sh/image-pull-failed"
	// AnnotationHeartbeatAtStop holds the kubelet's heartbeats when the cloud said stopped; a start
	// must surpass them.
	AnnotationHeartbeatAtStop = "stratos.sh/heartbeat-at-stop"
	// AnnotationAllocatableAtStop holds the allocatable resources that a start must reach again.
	AnnotationAllocatableAtStop = "stratos.sh/allocatable-at-stop"
	// AnnotationAgentsAtStop holds the newest container start of each network agent when the cloud
	// said stopped.
	AnnotationAgentsAtStop = "stratos.sh/agents-at-stop"
	// AnnotationReadySeen is the RFC 3339 time at which the node was first seen Ready in this warm-up.
	AnnotationReadySeen = "stratos.sh/ready-seen"
	// AnnotationNetworkSeen is the RFC 3339 time at which the network was first seen up in this
	// warm-up.
	AnnotationNetworkSeen = "stratos.sh/network-seen"
	// AnnotationStartupTaintsSeen on a Node, "true": a startup taint stood on it when it was adopted.
	AnnotationStartupTaintsSeen = "stratos.sh/startup-taints-seen"
	// AnnotationStartFailures counts failed starts in a row; three replace the node.
	AnnotationStartFailures = "stratos.sh/start-failures"
	// AnnotationUnavailableUntil is the RFC 3339 time until which the node is not started again.
	AnnotationUnavailableUntil = "stratos.sh/unavailable-until"
	// AnnotationNodeClassHash is the hash of the node class that launched the instance. It and the
	// next two are also tags of the instance, which win over the Node's.
	AnnotationNodeClassHash = "stratos.sh/nodeclass-hash"
	// AnnotationTemplateHash is the hash of the pool template that launched the instance.
	AnnotationTemplateHash = "stratos.sh/template-hash"
	// AnnotationAMI is the image that the instance was launched from, where the node class had
	// resolved it by then.
	AnnotationAMI = "stratos.sh/ami"
	// AnnotationInstanceType is the instance type that the stopped instance is changed to, written
	// before the cloud is asked. It stands until the cloud shows the type or the node runs.
	AnnotationInstanceType = "stratos.sh/instance-type"
	// AnnotationSurplusSince is the RFC 3339 time since which the standby node is above the pool's
	// minStandby.
	AnnotationSurplusSince = "stratos.sh/surplus-since"
	// AnnotationNudgedAt is written to make the scheduler look at the node's pending pods again.
	AnnotationNudgedAt = "stratos.sh/nudged-at"
	// AnnotationIgnore on a Pod, "true": never start a node for it.
	AnnotationIgnore = "stratos.sh/ignore"
	// AnnotationDoNotDisrupt on a Pod or Node, "true": keep the node running.
	AnnotationDoNotDisrupt = "stratos.sh/do-not-disrupt"
	// AnnotationKarpenterDoNotDisrupt is Karpenter's annotation of the same meaning.
	AnnotationKarpenterDoNotDisrupt = "karpenter.sh/do-not-disrupt"
	// AnnotationSafeToEvict is Cluster Autoscaler's annotation; "false" has the same meaning.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationDoNotStart on a Node, "true": keep the node standby.
	AnnotationDoNotStart = "stratos.sh/do-not-start"
	// AnnotationReplace on a Node, "true": replace the node, whatever disruption.drift says. Pods that
	// use it are evicted.
	AnnotationReplace = "stratos.sh/replace"
	// AnnotationLaunches on a NodePool holds the launch slots that were used and those whose instance
	// has not been known for long.
	AnnotationLaunches = "stratos.sh/launches"
	// AnnotationPaused on a NodePool, any value but "false": nothing new begins in the pool.
	AnnotationPaused = "stratos.sh/paused"

	// TaintStandby (NoSchedule) stands on a node of ours while it is not running.
	TaintStandby = "stratos.sh/standby"
	// TaintDedicated (NoSchedule) is the optional taint of pools for opted-in pods only.
	TaintDedicated = "stratos.sh/dedicated"

	// ConditionStandby is the Node condition that says: instance stopped, can be started.
	ConditionStandby = "stratos.sh/Standby"

	// FinalizerNodePool keeps a NodePool until no instance of it is left.
	FinalizerNodePool = "stratos.sh/nodepool"
	// FinalizerInUse keeps a node class while a NodePool refers to it.
	FinalizerInUse = "stratos.sh/in-use"

	// FieldManagerNomination is the field manager under which Stratos nominates pods to their claimed
	// nodes. It tells such a nomination from one by the scheduler.
	FieldManagerNomination = "stratos-nomination"
	// LeaseName is the leader's lease, in the namespace of Stratos. It is as short as that of the
	// scheduler in the same pod.
	LeaseName = "stratos"
	// SchedulerName is the default schedulerName of the profile that calls the extender.
	SchedulerName = "stratos-scheduler"
)

// The clouds, as --cloud-provider names them.
const (
	CloudAWS  = "aws"
	CloudFake = "fake"
	CloudKind = "kind"
)

// NodeState is the state of a pool's node, as docs/lifecycle.md defines it.
type NodeState string

// The states of a node, the values of LabelState.
const (
	StateWarmup      NodeState = "warmup"
	StateStandby     NodeState = "standby"
	StateStarting    NodeState = "starting"
	StateRunning     NodeState = "running"
	StateStopping    NodeState = "stopping"
	StateTerminating NodeState = "terminating"
)

// labelRole begins the labels of which kubectl shows the rest under ROLES
// (k8s.io/kubernetes/pkg/printers/internalversion).
const labelRole = "node-role.kubernetes.io/"

// SetState writes the state into the labels of a Node. kubectl shows it as the node's role, but for
// a running node, which is as any other.
func SetState(labels map[string]string, s NodeState) {
	for _, other := range []NodeState{StateWarmup, StateStandby, StateStarting, StateStopping, StateTerminating} {
		delete(labels, labelRole+string(other))
	}
	labels[LabelState] = string(s)
	if s != StateRunning {
		labels[labelRole+string(s)] = ""
	}
}

// SetInstanceType writes the instance type into the labels of a Node. Cloud controllers copy the
// old label over the stable one, so both are written.
func SetInstanceType(labels map[string]string, kind string) {
	labels[corev1.LabelInstanceType], labels[corev1.LabelInstanceTypeStable] = kind, kind
}

// StopReason is why a running node is taken down; the value of AnnotationStopReason.
type StopReason string

// The reasons to stop a node. Only StopEmpty can be cancelled.
const (
	StopEmpty   StopReason = "empty"
	StopRuntime StopReason = "runtime"
	StopDrift   StopReason = "drift"
	StopDeleted StopReason = "deleted"
	// StopExpired: a standby node was launched disruption.expireAfter ago. StopSurplus: there are more
	// nodes than the pool asks for.
	StopExpired StopReason = "expired"
	StopSurplus StopReason = "surplus"
	StopFailed  StopReason = "failed"
	// StopTerminated: the instance is being terminated, and Stratos did not ask for it.
	StopTerminated StopReason = "terminated"
	// StopRequested: a person asked for the node to be replaced (AnnotationReplace).
	StopRequested StopReason = "requested"
)

// TakesInUse reports whether a running node goes for the reason although pods use it: they are
// evicted. For other reasons it goes when it is empty.
func (r StopReason) TakesInUse() bool { return r == StopRuntime || r == StopRequested }

// PoolName, NodeName and InstanceID are named so that they cannot be swapped.
type (
	// PoolName is metadata.name of a NodePool.
	PoolName string
	// NodeName is metadata.name of a Node.
	NodeName string
	// InstanceID is the cloud's id of an instance, the last part of its provider id.
	InstanceID string
)
