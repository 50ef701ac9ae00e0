// Package lifecycle is the state machine of a node: a function of what is observed, the pool's
// policy and the time. docs/lifecycle.md is its transition table, and a test walks every row of it.
// It is pure: no client, logger or clock.
package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// Observation is all that a decision about one instance and its Node may depend on.
type Observation struct {
	Instance Instance
	// Node is nil while no Node carries the instance's provider id.
	Node *Node
	// WorkloadPods is the number of pods that keep the node running, those nominated to it included.
	WorkloadPods int
	// Claims is the number of pending pods that have claims on the node.
	Claims int
	// Attached is the number of volumes of pods that have left the node and that are still attached to
	// it. Of a running node it is known where a drain has failed.
	Attached int
	// DeletingPods is the number of pods that do not count and are being deleted: on a stopped node no
	// kubelet is there to end them.
	DeletingPods int
	// Wanted: pods wait for a new instance of the pool, and need this one.
	Wanted bool
	// Serving is how many of the workload pods run.
	Serving int
	// OtherStartsFail: the last starts of other nodes of the pool failed too.
	OtherStartsFail bool
	// EndUnexplained: the instance ended before a Node registered, this process did not end it, and no
	// event reports it.
	EndUnexplained bool
	// TerminationRequested: this process has asked the cloud to terminate the instance. Where its Node
	// is gone it had one, whatever an older answer of the cloud looks like.
	TerminationRequested bool
	// OverduePods is how many of the counting pods are being deleted and have outstayed the grace that
	// they were given for it.
	OverduePods int
	// Recycle is why it is the node's turn to go, as the pool decided within its budget; empty when it
	// is not. Why are the words for it.
	Recycle v1alpha1.StopReason
	Why     string
	// ReturnTo is the first type of the class, where the stopped instance is of another one and may
	// become that; empty where it may not.
	ReturnTo string
	// Reservation is what capacity reservations the stopped instance is to use, where it is set to
	// others; nil where it is not.
	Reservation *v1alpha1.CapacityReservation
	// Fallback is the type of a starting instance that is of one of its class's fallback types; empty
	// for any other.
	Fallback string
	// Refresh: the pool decided, within the same budget, that the standby node's images are to be
	// pulled now.
	Refresh bool
	Policy  Policy
	// ProcessStart is when this process began. Calls that follow from older intents were another's to
	// make.
	ProcessStart time.Time
	// Unreported is since when this process has seen that Ready is Unknown and its heartbeat stays as
	// it is, by the same clock as `StepObservedAt`; zero where the kubelet reports.
	Unreported time.Time
	// StepObservedAt is since when this process has seen the instance in its present step, by a
	// clock that is never stepped. Deadlines count from then; where it is zero they count from what
	// is written.
	StepObservedAt time.Time
}

// Instance is the cloud's side.
type Instance struct {
	// State is provider.InstanceTerminated also when the cloud no longer knows the instance.
	State    provider.InstanceState
	Launched time.Time
	// Seen is when the call that told the state was made. Anything we did since may not show in it.
	Seen time.Time
	// Since is when a sweep first showed the state; zero where none did.
	Since time.Time
	// Up is when a sweep last showed the instance pending or running; zero where none did.
	Up time.Time
	// Accepted is when the cloud last accepted a start that this process asked for; zero for never.
	Accepted time.Time
	// Reason holds the cloud's words for the last change of the state. May be empty.
	Reason string
	// Absent: the cloud does not know the instance. It has not said that it is terminated.
	Absent bool
}

// Node is the cluster's side.
type Node struct {
	// State is empty on a Node that Stratos has not adopted yet.
	State v1alpha1.NodeState
	// Ready, NetworkReady: the kubelet's and the CNI's own reports, made after the last stop.
	Ready, NetworkReady bool
	// NetworkReported: that the network is up was reported after the last stop. NetworkReady may also
	// be true where nothing reports on it, and when the wait for it is over.
	NetworkReported bool
	// Complete: allocatable is back to what was recorded at the last stop.
	Complete bool
	// Images is what is known of the images that the pool wants on the node.
	Images ImageState
	// ImagesOptional: all required images are there. One that is missing at preWarm.timeout does
	// not keep the node from standby.
	ImagesOptional bool
	// Silent: the kubelet has not reported since the last stop, or does not report any more. One that
	// reports that it is not Ready is there.
	Silent bool
	// Reports: the Node's Ready is True or False. Unlike `Silent` it does not depend on since when.
	Reports bool
	// EverReady: some Ready report was true in the life of the Node, also one left over from before a
	// stop.
	EverReady bool
	// ReadySeen, NetworkSeen: it was Ready, and its network was up, at some look in this warm-up.
	ReadySeen, NetworkSeen bool
	// AgentTaint is the key of a taint by which an agent says that it is down on the node; empty for
	// none.
	AgentTaint string
	// Devices says which devices are not back, for people; empty where Complete is true.
	Devices string

	// WarmupStarted is the intent of a start to warm up once more, of which we end the warm-up; zero
	// in the one that follows the launch. ImagesChecked is when its images were looked at before the
	// stop that is under way.
	WarmupStarted, ImagesChecked time.Time

	Warmed, Started, Running, EmptySince, StoppingSince time.Time
	// Stop is what the Node says of its stop.
	Stop     v1alpha1.StopIntent
	Failures int
	// UnavailableUntil is when the backoff after a failed start ends; zero for none.
	UnavailableUntil time.Time
	// DrainFailed is when the last drain was given up, DrainFailures how many in a row were.
	DrainFailed   time.Time
	DrainFailures int
	// DoNotDisrupt: a person wants the node, or a workload pod on it, to stay.
	DoNotDisrupt bool
}

// ImageState is what is known of a node's images.
type ImageState string

// The states of images.
const (
	// ImagesPresent: recorded for the set that the pool wants now, in the stopping state since the
	// drain began; or none is wanted.
	ImagesPresent ImageState = ""
	// ImagesUnknown: the kubelet has not been asked.
	ImagesUnknown ImageState = "unknown"
	// ImagesPulling: the kubelet is at it.
	ImagesPulling ImageState = "pulling"
	// ImagesFailing: some cannot be pulled, and no event says so. ImagesFailureReported: it was
	// told, and the kubelet goes on trying.
	ImagesFailing         ImageState = "failing"
	ImagesFailureReported ImageState = "failing, told"
	// ImagesSettled: the kubelet has tried them all, and the required ones are there, or none
	// is waited for before a stop. It is to be recorded.
	ImagesSettled ImageState = "settled"
)

// Policy is what the NodePool asks for.
type Policy struct {
	// Exists is false when the pool is gone, Deleting true while it goes. Either way its nodes go too.
	Exists, Deleting bool
	// Paused: nothing new begins, the end of a deleted pool's nodes neither.
	Paused   bool
	SelfStop bool
	// TerminateOnTimeout: an instance that is not warm in time is terminated even if it could be
	// rescued.
	TerminateOnTimeout bool
	WarmupTimeout      time.Duration
	ReadyTimeout       time.Duration
	ScaleDown          bool
	EmptyTTL           time.Duration
	DrainTimeout       time.Duration
	// TerminationGrace bounds the drain before a termination where Bounded is true; else the pods are
	// waited for.
	TerminationGrace time.Duration
	Bounded          bool
}

// Action is the one operation to carry out now. Each is safe to repeat.
type Action string

// The actions.
const (
	// Wait: nothing to do.
	Wait Action = "Wait"
	// Adopt the Node: pool labels and taints, cordon, state warmup.
	Adopt Action = "Adopt"
	// RecordSeen: write down that a warming node was Ready, or that its network was up.
	RecordSeen Action = "RecordSeen"
	// RecordWarmed: write down that warm-up was seen complete.
	RecordWarmed Action = "RecordWarmed"
	// PullImages: have the node's kubelet pull what the pool wants.
	PullImages Action = "PullImages"
	// TellImages: report which image cannot be pulled.
	TellImages Action = "TellImages"
	// RecordImages: write down what is there, and stop pulling.
	RecordImages Action = "RecordImages"
	// WarmAgain: have a stopped instance started for a warm-up that we end: one that ended incomplete,
	// or a standby node without its images.
	WarmAgain Action = "WarmAgain"
	// Fence: stop by force the instance of a running node whose machine died.
	Fence Action = "Fence"
	// StopWarmed: ask the cloud to stop a warm node.
	StopWarmed Action = "StopWarmed"
	// ForceStop: ask the cloud to stop without the guest's own shutdown.
	ForceStop Action = "ForceStop"
	// ToStandby: record the stop and mark the node standby.
	ToStandby Action = "ToStandby"
	// RecordReports: record the stop of a standby node once more, where the cloud still shows it.
	RecordReports Action = "RecordReports"
	// ReturnType: have the stopped instance made the first type of its class again.
	ReturnType Action = "ReturnType"
	// SetReservation: have the stopped instance use the capacity reservations that its class names.
	SetReservation Action = "SetReservation"
	// RequestStart: have a standby node started because a pod is bound to it.
	RequestStart Action = "RequestStart"
	// ResumeStart: ask the cloud again for a start whose intent stands.
	ResumeStart Action = "ResumeStart"
	// FailStart: give the start up; claims move.
	FailStart Action = "FailStart"
	// ReturnStart: give the start of a node up that is none the worse for it; claims move.
	ReturnStart Action = "ReturnStart"
	// BlameType: give the start of a node up whose kubelet never reported as a fallback type; claims
	// move, and it counts against the type.
	BlameType Action = "BlameType"
	// DeclineStart: cancel a start that the cloud never accepted. The node is standby again and backs
	// off; claims move.
	DeclineStart Action = "DeclineStart"
	// ToRunning: open the node to pods.
	ToRunning Action = "ToRunning"
	// MarkEmpty, MarkInUse: write or remove the time since which the node is empty.
	MarkEmpty Action = "MarkEmpty"
	MarkInUse Action = "MarkInUse"
	// LimitBackoff: let the backoff end MaxBackoff from now.
	LimitBackoff Action = "LimitBackoff"
	// BeginStop: close the node to pods.
	BeginStop Action = "BeginStop"
	// CancelStop: open it again.
	CancelStop Action = "CancelStop"
	// AbandonDrain: open it again, because the drain does not end; an event says what holds it up.
	AbandonDrain Action = "AbandonDrain"
	// VerifyAndStop: look at the pods on the API server, write the stop intent, stop the instance.
	VerifyAndStop Action = "VerifyAndStop"
	// StopAgain: ask the cloud again for a stop whose intent stands.
	StopAgain Action = "StopAgain"
	// TakeBackStop: remove a stop intent of which nothing came and nothing can come any more.
	TakeBackStop Action = "TakeBackStop"
	// BeginTerminate: close the node to pods and mark it terminating.
	BeginTerminate Action = "BeginTerminate"
	// Drain: evict the workload pods.
	Drain Action = "Drain"
	// DeletePods that count: the time in which they could be evicted is over.
	DeletePods Action = "DeletePods"
	// DeleteLeft: delete without grace the pods that were being deleted when their kubelet went down.
	DeleteLeft Action = "DeleteLeft"
	// Terminate the instance.
	Terminate Action = "Terminate"
	// RecordFailure: the instance ended before it had a Node. Its warm-up has failed.
	RecordFailure Action = "RecordFailure"
	// DeleteNode: the instance is gone, the Node goes too.
	DeleteNode Action = "DeleteNode"
)

// Decision is what to do and why; Reason is what the user reads.
type Decision struct {
	Action Action
	Reason string
	// StopReason goes with BeginStop and BeginTerminate.
	StopReason v1alpha1.StopReason
	// Failure goes with each decision about a warm-up that failed.
	Failure WarmupFailure
	// After is when to reconcile again even if nothing changes; 0 means the next event or sweep.
	After time.Duration
}

// WarmupFailure is why a warm-up failed, in one word.
type WarmupFailure string

// The failures of a warm-up.
const (
	NeverRegistered WarmupFailure = "never_registered"
	NeverReady      WarmupFailure = "never_ready"
	// Incomplete: it was Ready, and stopped before all of it was there.
	Incomplete WarmupFailure = "incomplete"
	// WarmupTimeout: it was Ready, and not complete in time.
	WarmupTimeout WarmupFailure = "timeout"
	// Vanished: the instance was terminated by others, or by the cloud.
	Vanished WarmupFailure = "vanished"
)

// Times that are the same for every pool.
const (
	// ConsistencyWait is how long the cloud's reads may lag behind what we did: a state older than
	// that says nothing.
	ConsistencyWait = 10 * time.Second
	// CallTime is how long after its mark on the Node a call that stops an instance may reach the
	// cloud.
	CallTime = 10 * time.Second
	// AbsentAgain is when a Node that is kept although the cloud does not know its instance is
	// reconciled again.
	AbsentAgain = 30 * time.Second
	// LaunchUnseen is how long a launch that no list shows counts as pending at most: descriptions lag
	// for minutes.
	LaunchUnseen = 5 * time.Minute
	// UnknownGrace is for how long an instance without a Node and a pool is left alone after this
	// process first saw it.
	UnknownGrace = 10 * time.Minute
	// CordonTime lets the scheduler's binds in flight show up after the cordon and before the pods are
	// counted.
	CordonTime = time.Second
	// ForceStopAfter is how long a stop may take before it is forced.
	ForceStopAfter = 5 * time.Minute
	// ForceAgain is how long a forced stop has until it is asked for once more.
	ForceAgain = 30 * time.Second
	// MaxStartFailures in a row replace the node.
	MaxStartFailures = 3
	// MaxBackoff is the longest backoff after a failed start.
	MaxBackoff = 30 * time.Minute
)
