package v1alpha1

// The condition types of a NodePool; a node class has ConditionReady and ConditionInUse. Each can
// turn both ways.
const (
	// ConditionReady: the pool can do its work, or the cloud has everything that the class names.
	ConditionReady = "Ready"
	// ConditionDegraded: something needs a person's attention although the pool still works. False is
	// good.
	ConditionDegraded = "Degraded"
	// ConditionNodeClassReady: the node class exists and is ready itself.
	ConditionNodeClassReady = "NodeClassReady"
	// ConditionImagesPulled: the images of warm-up can be pulled.
	ConditionImagesPulled = "ImagesPulled"
	// ConditionInUse: NodePools refer to the class, which keeps it from being deleted; the message
	// names them.
	ConditionInUse = "InUse"
	// ConditionStartsLimited: the start budget is used up and pods wait for it. False is good.
	ConditionStartsLimited = "StartsLimited"
	// ConditionPaused: the pool is paused (AnnotationPaused), and nothing new begins in it. False is
	// good.
	ConditionPaused = "Paused"
)

// Reason is the one word that a condition or an event gives for itself. Users filter and alert on
// it, so a change is a breaking change. Reasons for which a node or a pool cannot take a pod stand
// in extender/fit.
type Reason string

// The reasons of events on Pods.
const (
	// ReasonStandbyStarting: a standby node starts for the pod.
	ReasonStandbyStarting Reason = "StandbyStarting"
	// ReasonStandbyUnavailable: no standby node can serve the pod; the message says why.
	ReasonStandbyUnavailable Reason = "StandbyUnavailable"
	// ReasonColdLaunch: a new instance is launched for the pod, because no standby node is left.
	ReasonColdLaunch Reason = "ColdLaunch"
	// ReasonFutileStart: a node was started and the scheduler then bound the pod elsewhere or nowhere;
	// the pod backs off.
	ReasonFutileStart Reason = "FutileStart"
	// ReasonSpreadCountsStandby: the pod's topology spread counts standby nodes as empty domains.
	ReasonSpreadCountsStandby Reason = "SpreadCountsStandby"
)

// The reasons of events on Nodes and NodePools.
const (
	ReasonWarmupStarted        Reason = "WarmupStarted"
	ReasonWarmupCompleted      Reason = "WarmupCompleted"
	ReasonWarmupFailed         Reason = "WarmupFailed"
	ReasonImagePullFailed      Reason = "ImagePullFailed"
	ReasonScaleUp              Reason = "ScaleUp"
	ReasonStartFailed          Reason = "StartFailed"
	ReasonNodeRunning          Reason = "NodeRunning"
	ReasonScaleDown            Reason = "ScaleDown"
	ReasonDrainFailed          Reason = "DrainFailed"
	ReasonReplenishing         Reason = "Replenishing"
	ReasonRecycled             Reason = "Recycled"
	ReasonDrifted              Reason = "Drifted"
	ReasonOrphanRemoved        Reason = "OrphanRemoved"
	ReasonInsufficientCapacity Reason = "InsufficientCapacity"
	// ReasonStopRefused and ReasonTerminationRefused, also of Degraded: the cloud refuses to stop
	// or terminate an instance, for example because it is protected; the message holds its words.
	ReasonStopRefused        Reason = "StopRefused"
	ReasonTerminationRefused Reason = "TerminationRefused"
	// ReasonNodeFenced: the machine of a running node died, and its instance is stopped by force.
	ReasonNodeFenced Reason = "NodeFenced"
	// ReasonInstancesNotFound, also of Degraded: the cloud does not know the instances of many Nodes,
	// and Stratos keeps those Nodes.
	ReasonInstancesNotFound Reason = "InstancesNotFound"
	// ReasonClusterNameConflict: instances carry this cluster's name and the UID of another cluster.
	ReasonClusterNameConflict Reason = "ClusterNameConflict"
	// ReasonTagsMissing: an instance has lost tags of Stratos that cannot be written again.
	ReasonTagsMissing Reason = "TagsMissing"
	// ReasonStartupTaintsForced: startup taints were removed although the network agent had not
	// reported.
	ReasonStartupTaintsForced Reason = "StartupTaintsForced"
	// ReasonNetworkNotReported: a node without startup taints was opened although its network agents
	// were not Ready.
	ReasonNetworkNotReported Reason = "NetworkNotReported"
	// ReasonDaemonSetCountsStandby, on a DaemonSet: it has pods on stopped nodes, which count as
	// unavailable.
	ReasonDaemonSetCountsStandby Reason = "DaemonSetCountsStandby"
)

// The reasons of events on node classes. Reasons of the condition Ready are events too.
const (
	// ReasonBootstrapChanged: EKS says something else of the cluster that new instances join. Nodes
	// are not replaced for it.
	ReasonBootstrapChanged Reason = "BootstrapChanged"
)

// The reasons of conditions. Conditions also use those of events.
const (
	// ReasonPoolReady: Ready is True.
	ReasonPoolReady Reason = "PoolReady"
	// ReasonWarmingUp: Ready is False, because fewer standby nodes than minStandby are warm yet.
	ReasonWarmingUp Reason = "WarmingUp"
	// ReasonDeleting: Ready is False, because the pool is being deleted.
	ReasonDeleting Reason = "Deleting"
	// ReasonWarmupFailing, of Degraded and Ready: warm-ups fail one after another, and launches back
	// off.
	ReasonWarmupFailing Reason = "WarmupFailing"
	// ReasonHealthy: Degraded is False.
	ReasonHealthy Reason = "Healthy"
	// ReasonNodeClassFound: NodeClassReady is True.
	ReasonNodeClassFound Reason = "NodeClassFound"
	// ReasonNodeClassNotFound: NodeClassReady is False, because no node class of that kind and name
	// exists.
	ReasonNodeClassNotFound Reason = "NodeClassNotFound"
	// ReasonNodeClassNotServed: NodeClassReady is False, because the running cloud provider launches
	// nothing from classes of that kind.
	ReasonNodeClassNotServed Reason = "NodeClassNotServed"
	// ReasonNodeClassNotResolved: NodeClassReady is Unknown, because the class does not say yet
	// whether it is ready.
	ReasonNodeClassNotResolved Reason = "NodeClassNotResolved"
	// ReasonNodeClassNotReady: NodeClassReady is False; the message is that of the class.
	ReasonNodeClassNotReady Reason = "NodeClassNotReady"
	// ReasonImagesPresent: ImagesPulled is True.
	ReasonImagesPresent Reason = "ImagesPresent"
	// ReasonImagesPending: ImagesPulled is Unknown, because no node has tried yet.
	ReasonImagesPending Reason = "ImagesPending"
	// ReasonStartBudgetUsedUp: StartsLimited is True.
	ReasonStartBudgetUsedUp Reason = "StartBudgetUsedUp"
	// ReasonStartBudgetLeft: StartsLimited is False.
	ReasonStartBudgetLeft Reason = "StartBudgetLeft"
	// ReasonPaused: Paused is True.
	ReasonPaused Reason = "Paused"
	// ReasonNotPaused: Paused is False.
	ReasonNotPaused Reason = "NotPaused"
	// ReasonResolved: Ready of a node class is True.
	ReasonResolved Reason = "Resolved"
	// ReasonResolveFailed: Ready of a node class is False; the message holds the cloud's words.
	ReasonResolveFailed Reason = "ResolveFailed"
	// ReasonNodeImageLabelMissing, as the next four of Ready of a node class with spec.nodeImage: no
	// control-plane Node names the cluster's node image. In each case the last image stands.
	ReasonNodeImageLabelMissing Reason = "NodeImageLabelMissing"
	// ReasonNodeImageLabelsDiffer: the control-plane Nodes name different node images.
	ReasonNodeImageLabelsDiffer Reason = "NodeImageLabelsDiffer"
	// ReasonNodeImageLabelInvalid: what they name is no <base>-<kubernetes>-<version>.
	ReasonNodeImageLabelInvalid Reason = "NodeImageLabelInvalid"
	// ReasonNodeImageTooNew: the image has a newer Kubernetes minor than the API server.
	ReasonNodeImageTooNew Reason = "NodeImageTooNew"
	// ReasonNodeImageNotFound: the owner has no usable image of that name in the region.
	ReasonNodeImageNotFound Reason = "NodeImageNotFound"
	// ReasonRegionUnavailable: the region does not answer. What was known of its instances stands.
	ReasonRegionUnavailable Reason = "RegionUnavailable"
	// ReasonReferred: InUse of a node class is True.
	ReasonReferred Reason = "Referred"
	// ReasonNotReferred: InUse of a node class is False.
	ReasonNotReferred Reason = "NotReferred"
)
