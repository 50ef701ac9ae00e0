package v1alpha1

// The condition types of a NodePool; a node class has ConditionReady, ConditionInUse and
// ConditionInstanceTypesUsable. Each can turn both ways.
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
	// ConditionInstanceTypesUsable: instances may be of all types that the class names; the message
	// says which are left out, and why. Only of classes with fallback types.
	ConditionInstanceTypesUsable = "InstanceTypesUsable"
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

// The reasons of events, with type and objects. docs/names.md has a table of these comments.
const (
	// ReasonStandbyStarting (Normal, on Pods and controllers): a standby node starts for the pod, or
	// for replicas that the controller is still to create.
	ReasonStandbyStarting Reason = "StandbyStarting"
	// ReasonStandbyUnavailable (Warning, on Pods): no standby node can serve the pod; the message says
	// why.
	ReasonStandbyUnavailable Reason = "StandbyUnavailable"
	// ReasonColdLaunch (Normal, on Pods): a new instance is launched for the pod, because no standby
	// node is left.
	ReasonColdLaunch Reason = "ColdLaunch"
	// ReasonFutileStart (Warning, on Pods and controllers): a node was started and the scheduler then
	// bound the pod elsewhere or nowhere, or the replicas did not come; what asked for it backs off.
	ReasonFutileStart Reason = "FutileStart"
	// ReasonSpreadCountsStandby (Warning, on Pods): the pod's topology spread counts standby nodes as
	// empty domains, and so wakes them one by one.
	ReasonSpreadCountsStandby Reason = "SpreadCountsStandby"
	// ReasonDaemonSetCountsStandby (Warning, on DaemonSets): it has pods on stopped nodes, which count
	// as unavailable, so its rolling updates will hang.
	ReasonDaemonSetCountsStandby Reason = "DaemonSetCountsStandby"
	// ReasonWarmupStarted (Normal, on Nodes): the node has registered, or is warmed up once more.
	ReasonWarmupStarted Reason = "WarmupStarted"
	// ReasonWarmupCompleted (Normal, on Nodes): the node was Ready and has its images.
	ReasonWarmupCompleted Reason = "WarmupCompleted"
	// ReasonWarmupFailed (Warning, on Nodes and NodePools): a warm-up has failed; the message says
	// what was missing.
	ReasonWarmupFailed Reason = "WarmupFailed"
	// ReasonImagePullFailed (Warning, on Nodes and NodePools): an image of warm-up cannot be pulled;
	// the message has the kubelet's words.
	ReasonImagePullFailed Reason = "ImagePullFailed"
	// ReasonScaleUp (Normal, on Nodes): the cloud has accepted the start of a standby node.
	ReasonScaleUp Reason = "ScaleUp"
	// ReasonStartFailed (Warning, on Nodes and Pods): a start was refused, or the node did not take
	// pods within scaleUp.readyTimeout. On a Pod: the start of its node cannot be written.
	ReasonStartFailed Reason = "StartFailed"
	// ReasonInstanceTypeChanged (Normal, on Nodes): the stopped instance was made another type of its
	// class, or the first one again.
	ReasonInstanceTypeChanged Reason = "InstanceTypeChanged"
	// ReasonInstanceTypeRefused (Warning, on Nodes): the cloud does not make the instance that type,
	// or does not allow Stratos to.
	ReasonInstanceTypeRefused Reason = "InstanceTypeRefused"
	// ReasonReservationChanged (Normal, on Nodes): the stopped instance was set to use another
	// capacity reservation at its next start, or none.
	ReasonReservationChanged Reason = "ReservationChanged"
	// ReasonReservationRefused (Warning, on Nodes): the cloud does not set the capacity reservation of
	// the instance, or does not allow Stratos to.
	ReasonReservationRefused Reason = "ReservationRefused"
	// ReasonNodeRunning (Normal, on Nodes): the node takes pods, after a start or a cancelled stop.
	ReasonNodeRunning Reason = "NodeRunning"
	// ReasonScaleDown (Normal, on Nodes): the node was empty for scaleDown.emptyNodeTTL and is
	// stopped.
	ReasonScaleDown Reason = "ScaleDown"
	// ReasonDrainFailed (Warning, on Nodes): a drain was given up, an eviction is refused, or a pod is
	// deleted because disruption.terminationGracePeriod has passed.
	ReasonDrainFailed Reason = "DrainFailed"
	// ReasonReplenishing (Normal, on NodePools): instances are launched.
	ReasonReplenishing Reason = "Replenishing"
	// ReasonRecycled (Normal, on Nodes and NodePools): an instance is terminated; the message says
	// why.
	ReasonRecycled Reason = "Recycled"
	// ReasonDrifted (Normal, on Nodes): the node was launched from another template or node class than
	// the present one.
	ReasonDrifted Reason = "Drifted"
	// ReasonOrphanRemoved (Warning, on NodePools and Nodes): an instance without a Node, or a Node
	// without an instance, was removed.
	ReasonOrphanRemoved Reason = "OrphanRemoved"
	// ReasonInsufficientCapacity (Warning, on Nodes and NodePools): the cloud has no capacity for a
	// start or a launch.
	ReasonInsufficientCapacity Reason = "InsufficientCapacity"
	// ReasonLaunchFailed (Warning, on NodePools): a launch is refused; the message has the cloud's
	// words. Also of Degraded, as the next two.
	ReasonLaunchFailed Reason = "LaunchFailed"
	// ReasonLaunchTimeout (Warning, on NodePools): the cloud does not answer a launch.
	ReasonLaunchTimeout Reason = "LaunchTimeout"
	// ReasonNodeClassNotFound (Warning, on NodePools): no node class of that kind and name exists, so
	// that nothing is launched. Also of NodeClassReady, which is False.
	ReasonNodeClassNotFound Reason = "NodeClassNotFound"
	// ReasonStopRefused (Warning, on Nodes and NodePools): the cloud refuses to stop an instance, for
	// example because it is protected. Once per reason, with the cloud's words; also of Degraded.
	ReasonStopRefused Reason = "StopRefused"
	// ReasonTerminationRefused (Warning, on Nodes and NodePools): the same of a termination.
	ReasonTerminationRefused Reason = "TerminationRefused"
	// ReasonNodeFenced (Warning, on Nodes): the machine of a running node died, and its instance is
	// stopped by force.
	ReasonNodeFenced Reason = "NodeFenced"
	// ReasonInstancesNotFound (Warning, on NodePools): the cloud does not know the instances of many
	// Nodes, and Stratos keeps those Nodes. Also of Degraded.
	ReasonInstancesNotFound Reason = "InstancesNotFound"
	// ReasonStartupTaintsForced (Warning, on Nodes): startup taints were removed although the network
	// agent had not reported.
	ReasonStartupTaintsForced Reason = "StartupTaintsForced"
	// ReasonNetworkNotReported (Warning, on Nodes): a node without startup taints was opened although
	// its network agents were not Ready.
	ReasonNetworkNotReported Reason = "NetworkNotReported"
	// ReasonBootstrapChanged (Warning, on node classes): EKS says something else of the cluster that
	// new instances join. Nodes are not replaced for it.
	ReasonBootstrapChanged Reason = "BootstrapChanged"
	// ReasonResolveFailed (Warning, on node classes): Ready is False; the message holds the cloud's
	// words.
	ReasonResolveFailed Reason = "ResolveFailed"
	// ReasonNodeImageLabelMissing (Warning, on node classes): Ready of a class with spec.nodeImage is
	// False, as with the next four: no control-plane Node names the cluster's node image. In each case
	// the last image stands.
	ReasonNodeImageLabelMissing Reason = "NodeImageLabelMissing"
	// ReasonNodeImageLabelsDiffer (Warning, on node classes): the control-plane Nodes name different
	// node images.
	ReasonNodeImageLabelsDiffer Reason = "NodeImageLabelsDiffer"
	// ReasonNodeImageLabelInvalid (Warning, on node classes): what they name is not a base, a
	// Kubernetes version and a version with hyphens between.
	ReasonNodeImageLabelInvalid Reason = "NodeImageLabelInvalid"
	// ReasonNodeImageTooNew (Warning, on node classes): the image has a newer Kubernetes minor than
	// the API server.
	ReasonNodeImageTooNew Reason = "NodeImageTooNew"
	// ReasonNodeImageNotFound (Warning, on node classes): the owner has no usable image of that
	// name in the region.
	ReasonNodeImageNotFound Reason = "NodeImageNotFound"
	// ReasonInstanceTypesLeftOut (Warning, on node classes): fallback types are no match for
	// instanceType, or for the image. Also of InstanceTypesUsable, which is False.
	ReasonInstanceTypesLeftOut Reason = "InstanceTypesLeftOut"
	// ReasonRegionUnavailable (Warning, on node classes): the region does not answer. What was
	// known of its instances stands. Also of Degraded of a NodePool, without an event.
	ReasonRegionUnavailable Reason = "RegionUnavailable"
)

// The reasons of conditions that no event has. Conditions also use those of events.
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
	// ReasonClusterNameConflict, of Degraded: instances carry this cluster's name and the UID of
	// another cluster.
	ReasonClusterNameConflict Reason = "ClusterNameConflict"
	// ReasonReservationEnded, of Degraded: the capacity reservation of the node class has ended, and
	// its nodes may use nothing else.
	ReasonReservationEnded Reason = "ReservationEnded"
	// ReasonTagsMissing, of Degraded: an instance has lost tags of Stratos that cannot be written
	// again.
	ReasonTagsMissing Reason = "TagsMissing"
	// ReasonHealthy: Degraded is False.
	ReasonHealthy Reason = "Healthy"
	// ReasonNodeClassFound: NodeClassReady is True.
	ReasonNodeClassFound Reason = "NodeClassFound"
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
	// ReasonInstanceTypesMatch: InstanceTypesUsable is True.
	ReasonInstanceTypesMatch Reason = "InstanceTypesMatch"
	// ReasonReferred: InUse of a node class is True.
	ReasonReferred Reason = "Referred"
	// ReasonNotReferred: InUse of a node class is False.
	ReasonNotReferred Reason = "NotReferred"
)
