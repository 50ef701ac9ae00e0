package lifecycle

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const document = "../../docs/lifecycle.md"

// epoch is now in every row; the pool of the rows has the API's default times.
func epoch() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) time.Time { return epoch().Add(-d) }

func policy() Policy {
	return Policy{
		Exists: true, SelfStop: true, WarmupTimeout: 10 * time.Minute, ReadyTimeout: 5 * time.Minute,
		ScaleDown: true, EmptyTTL: 5 * time.Minute, DrainTimeout: 5 * time.Minute,
	}
}

// row is one line of the transition table. The base of its observation is an instance in the given
// state, launched an hour ago and looked at just now, whose Node is in the row's state.
type row struct {
	state    v1alpha1.NodeState
	instance provider.InstanceState
	when     string
	with     func(*Observation)
	action   Action
	to       string
}

const (
	noNode = v1alpha1.NodeState("no Node")
	new_   = v1alpha1.NodeState("not adopted")
)

// bornNow: whatever was intended before was another process's to carry out.
func bornNow(o *Observation) { o.ProcessStart = epoch() }

func (r row) observation() Observation {
	o := Observation{
		Instance: Instance{State: r.instance, Launched: ago(time.Hour), Seen: epoch()},
		Node:     &Node{State: r.state},
		Policy:   policy(),
	}
	if r.instance == provider.InstancePending || r.instance == provider.InstanceRunning {
		o.Instance.Up = epoch()
	}
	switch r.state {
	case noNode:
		o.Node = nil
		o.Instance.Launched = ago(time.Minute)
	case new_:
		o.Node.State = ""
	case v1alpha1.StateWarmup:
		o.Instance.Launched = ago(time.Minute)
	case v1alpha1.StateStarting:
		o.Node.Started = ago(time.Minute)
	case v1alpha1.StateRunning:
		ready(&o)
		o.Node.Running = ago(time.Hour)
	case v1alpha1.StateStopping:
		ready(&o)
		o.Node.Stop.Reason, o.Node.StoppingSince = v1alpha1.StopEmpty, ago(10*time.Second)
	case v1alpha1.StateStandby, v1alpha1.StateTerminating:
	}
	if r.with != nil {
		r.with(&o)
	}
	return o
}

func ready(o *Observation) {
	o.Node.Ready, o.Node.EverReady, o.Node.NetworkReady, o.Node.Complete = true, true, true, true
	o.Node.ReadySeen, o.Node.NetworkSeen = true, true
}

// unseen: that the node was Ready, or its network up, is not written down yet.
func unseen(o *Observation) { o.Node.ReadySeen, o.Node.NetworkSeen = false, false }

// shutDown: its kubelet ended with NotReady, and what was seen before is written down.
func shutDown(o *Observation) {
	ready(o)
	o.Node.Ready, o.Node.NetworkReady = false, false
}

// startedFor: its start was asked so long ago.
func startedFor(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.Started = ago(d) }
}

// accepted: the cloud accepted this process's call to start the instance so long ago.
func accepted(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Instance.Accepted = ago(d) }
}

// acceptedSince: the cloud accepted a start after it was last looked at.
func acceptedSince(o *Observation) {
	o.Instance.Seen, o.Instance.Accepted = ago(30*time.Second), ago(20*time.Second)
}

// foundStopped: the instance was stopped when this process first saw it. selfStopped: it was seen
// to run before.
func foundStopped(o *Observation) {
	o.Instance.Launched, o.StepObservedAt = ago(2*time.Minute), ago(time.Minute)
}

func selfStopped(o *Observation) {
	foundStopped(o)
	o.Instance.Up = ago(time.Minute)
}

// orphaned: no pool is known for the instance, which was first seen that long ago.
func orphaned(firstSeen time.Duration) func(*Observation) {
	return func(o *Observation) { o.Policy, o.StepObservedAt = Policy{}, ago(firstSeen) }
}

// wasUp: a sweep since the start intent showed the instance pending or running.
func wasUp(o *Observation) { o.Instance.Up = ago(4 * time.Minute) }

func wasUpAgo(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Instance.Up = ago(d) }
}

// paused: nothing new begins in the pool.
func paused(o *Observation) { o.Policy.Paused = true }

// failedTwice: two starts in a row have failed before.
func failedTwice(o *Observation) { o.Node.Failures = 2 }

// unexplained: the instance ended, and no event reports it.
func unexplained(o *Observation) { o.EndUnexplained = true }

// endAsked: this process has asked the cloud to terminate the instance.
func endAsked(o *Observation) { o.TerminationRequested = true }

// othersFail: the last starts of other nodes of the pool failed too.
func othersFail(o *Observation) { o.OtherStartsFail = true }

// withoutDevices: one of two devices is back.
func withoutDevices(o *Observation) {
	o.Node.Complete, o.Node.Devices = false, "1 of 2 example.com/gpu"
}

// agentDown: an agent says by its taint that it is not ready.
func agentDown(o *Observation) { o.Node.AgentTaint = "node.cilium.io/agent-not-ready" }

// serving: a workload pod runs on the node.
func serving(o *Observation) { o.WorkloadPods, o.Serving = 1, 1 }

func all(steps ...func(*Observation)) func(*Observation) {
	return func(o *Observation) {
		for _, s := range steps {
			s(o)
		}
	}
}

// onceReady: the kubelet said Ready, and the network never came up.
func onceReady(o *Observation) { o.Node.Ready, o.Node.EverReady, o.Node.ReadySeen = true, true, true }

// secondTry: launched an hour ago, stopped incomplete, and started again so long ago.
func secondTry(d time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Instance.Launched, o.Node.EverReady = ago(time.Hour), true
		o.Node.WarmupStarted = ago(d)
	}
}

// turn: the pool says that it is the node's turn to go.
func turn(reason v1alpha1.StopReason) func(*Observation) {
	return func(o *Observation) { o.Recycle, o.Why = reason, "its turn" }
}

// bounded: the drain may take half an hour, and began so long ago.
func bounded(d time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Policy.Bounded, o.Policy.TerminationGrace, o.Node.StoppingSince = true, 30*time.Minute, ago(d)
	}
}

func deleting(o *Observation)       { o.Policy.Deleting = true }
func controllerStop(o *Observation) { o.Policy.SelfStop = false }
func warmed(o *Observation)         { o.Node.Warmed = ago(30 * time.Second) }
func late(o *Observation)           { o.Instance.Launched = ago(11 * time.Minute) }
func inUse(o *Observation)          { o.WorkloadPods = 1 }
func wanted(o *Observation)         { o.Wanted = true }
func claimed(o *Observation)        { o.Claims = 1 }
func intent(o *Observation)         { o.Node.Stop.At = ago(20 * time.Second) }
func freshIntent(o *Observation)    { o.Node.Stop.At = ago(time.Second) }
func intended(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.Stop.At = ago(d) }
}
func askedAgain(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.Stop.LastAsked = ago(d) }
}

// witnessed: this process first saw the node in its step so long ago.
func witnessed(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.StepObservedAt = ago(d) }
}
func startFailed(o *Observation) {
	o.Node.Stop.Reason, o.Node.Ready = v1alpha1.StopFailed, false
}
func unheard(o *Observation) { o.Node.Silent = true }

// died: nothing was reported for so long, and so many of two pods have outstayed their grace.
func died(d time.Duration, overdue int) func(*Observation) {
	return func(o *Observation) {
		o.Node.Ready, o.Node.Silent, o.WorkloadPods, o.OverduePods, o.Unreported = false, true, 2, overdue, ago(d)
	}
}

func reporting(o *Observation) { o.Node.Reports = true }
func absent(o *Observation)    { o.Instance.Absent = true }
func attached(o *Observation)  { o.Attached = 1 }
func leaving(o *Observation)   { o.DeletingPods = 1 }
func drainingFor(d time.Duration, reason v1alpha1.StopReason) func(*Observation) {
	return func(o *Observation) { o.Node.StoppingSince, o.Node.Stop.Reason = ago(d), reason }
}

func since(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Instance.Since = ago(d) }
}

func stale(o *Observation)      { o.Refresh, o.Why = true, "images have changed or are missing" }
func optional(o *Observation)   { o.Node.ImagesOptional = true }
func asFallback(o *Observation) { o.Fallback = "m5a.large" }
func fallenBack(o *Observation) { o.ReturnTo = "m5.large" }
func otherwise(o *Observation)  { o.Reservation = &v1alpha1.CapacityReservation{ID: "cr-1"} }
func otherwiseOnly(o *Observation) {
	o.Reservation = &v1alpha1.CapacityReservation{ID: "cr-1", Preference: v1alpha1.ReservationOnly}
}
func imagesAre(s ImageState) func(*Observation) {
	return func(o *Observation) { o.Node.Images = s }
}

// refreshed: standby before, and started to pull what has changed so long ago.
func refreshed(d time.Duration, s ImageState) func(*Observation) {
	return func(o *Observation) {
		o.Instance.Launched, o.Node.Warmed, o.Node.WarmupStarted, o.Node.Images = ago(time.Hour), ago(time.Hour), ago(d), s
	}
}

func emptySince(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.EmptySince = ago(d) }
}

// backsOff: its backoff after a failed start goes on for so long.
func backsOff(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.UnavailableUntil = epoch().Add(d) }
}

// drainFailed: a drain was given up so long ago, for the first time.
func drainFailed(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.DrainFailed, o.Node.DrainFailures = ago(d), 1 }
}

const (
	shutting = provider.InstanceShuttingDown

	pending, running_, stopping_, stopped, terminated, unknown = provider.InstancePending, provider.InstanceRunning,
		provider.InstanceStopping, provider.InstanceStopped, provider.InstanceTerminated, provider.InstanceUnknown
	stay = "stays"
)

// table is docs/lifecycle.md, row by row.
func table() []row {
	warmup, standby, starting := v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting
	running, stopping, terminating := v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateTerminating
	return []row{
		{noNode, pending, "no Node yet, within preWarm.timeout", nil, Wait, stay},
		{noNode, running_, "no Node yet, within preWarm.timeout", nil, Wait, stay},
		{noNode, running_, "no Node within preWarm.timeout", late, Terminate, "gone"},
		{noNode, stopped, "stopped before a Node registered", selfStopped, Terminate, "gone"},
		{noNode, stopped, "Stratos has asked for its end, and the Node has gone before the cloud shows it",
			all(selfStopped, endAsked), Terminate, "gone"},
		{noNode, stopped, "stopped when this process first saw it, within preWarm.timeout", foundStopped, Wait, stay},
		{noNode, stopped, "stopped, seen too soon after the launch to be sure",
			func(o *Observation) { o.Instance.Launched = ago(time.Second) }, Wait, stay},
		{noNode, running_, "the pool is being deleted", deleting, Terminate, "gone"},
		{noNode, stopped, "the pool is gone, and the instance was first seen 10 minutes ago", orphaned(UnknownGrace),
			Terminate, "gone"},
		{noNode, stopped, "the pool is gone, and the instance was first seen since", orphaned(UnknownGrace - time.Second),
			Wait, stay},
		{noNode, terminated, "nothing left", nil, Wait, "gone"},
		{noNode, terminated, "ended before its Node registered, and Stratos did not end it", unexplained, RecordFailure,
			"gone"},
		{noNode, unknown, "the cloud does not say", nil, Wait, stay},
		{noNode, shutting, "shutting down", nil, Wait, stay},

		{warmup, shutting, "shutting down, its kubelet reports", reporting, BeginTerminate, "terminating"},
		{standby, shutting, "shutting down, its kubelet reports", reporting, BeginTerminate, "terminating"},
		{standby, shutting, "shutting down, its kubelet does not report", nil, DeleteNode, "gone"},
		{starting, shutting, "shutting down, its kubelet reports", reporting, BeginTerminate, "terminating"},
		{running, shutting, "shutting down, its kubelet reports", all(reporting, inUse), BeginTerminate, "terminating"},
		{running, shutting, "shutting down, its kubelet does not report", inUse, DeleteNode, "gone"},
		{terminating, shutting, "shutting down, its kubelet reports", all(reporting, inUse), Wait, stay},
		{terminating, shutting, "shutting down, its kubelet does not report", nil, DeleteNode, "gone"},
		{running, terminated, "the cloud does not know it, its kubelet reports", all(absent, reporting, inUse), Wait, stay},
		{running, terminated, "the same, and it has been empty before", all(absent, reporting, inUse,
			emptySince(time.Minute)), MarkInUse, stay},
		{running, unknown, "the cloud does not say, and a pod is on a node that has been empty",
			all(inUse, emptySince(time.Minute)), MarkInUse, stay},
		{running, terminated, "the cloud does not know it, its kubelet does not report", absent, DeleteNode, "gone"},
		{standby, terminated, "the cloud does not know it", absent, DeleteNode, "gone"},

		{new_, running_, "a Node registered", nil, Adopt, "warmup"},
		{new_, stopped, "a Node registered and the instance has stopped since", nil, Adopt, "warmup"},
		{"nonsense", running_, "the label names a state that does not exist", nil, Adopt, "warmup"},
		{new_, running_, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{warmup, pending, "booting", nil, Wait, stay},
		{warmup, running_, "not Ready yet", nil, Wait, stay},
		{warmup, running_, "Ready, network not up", onceReady, Wait, stay},
		{warmup, running_, "Ready for the first time", all(onceReady, unseen), RecordSeen, stay},
		{warmup, running_, "network up for the first time, images not there", all(ready, unseen, imagesAre(ImagesUnknown)),
			RecordSeen, stay},
		{warmup, stopped, "its kubelet ended with NotReady, and it was seen Ready with its network up", shutDown, ToStandby,
			"standby"},
		{warmup, stopped, "the same, and its network was never seen up", all(shutDown,
			func(o *Observation) { o.Node.NetworkSeen = false }), WarmAgain, stay},
		{warmup, stopped, "its kubelet ended with NotReady, and was Ready once",
			func(o *Observation) { o.Node.EverReady = true }, WarmAgain, stay},
		{warmup, running_, "Ready and network up", ready, RecordWarmed, stay},
		{warmup, running_, "complete, SelfStop: the instance will stop itself", all(ready, warmed), Wait, stay},
		{warmup, running_, "complete, ControllerStop", all(ready, warmed, controllerStop), StopWarmed, stay},
		{warmup, running_, "complete, SelfStop, but still running at preWarm.timeout", all(ready, warmed, late), ForceStop,
			stay},
		{warmup, running_, "complete at preWarm.timeout with timeoutAction terminate",
			all(ready, warmed, late, func(o *Observation) { o.Policy.TerminateOnTimeout = true }), BeginTerminate,
			"terminating"},
		{warmup, running_, "never Ready at preWarm.timeout", late, BeginTerminate, "terminating"},
		{warmup, running_, "Ready and incomplete at preWarm.timeout", all(onceReady, late), ForceStop, stay},
		{warmup, running_, "Ready and incomplete at preWarm.timeout with timeoutAction terminate",
			all(onceReady, late, func(o *Observation) { o.Policy.TerminateOnTimeout = true }), BeginTerminate, "terminating"},
		{warmup, running_, "complete, SelfStop, a pod was bound in spite of the cordon", all(ready, warmed, inUse), Wait,
			stay},
		{warmup, running_, "complete, SelfStop, a pod was bound, still running at preWarm.timeout",
			all(ready, warmed, inUse, late), ToRunning, "running"},
		{warmup, running_, "complete, ControllerStop, a pod was bound in spite of the cordon",
			all(ready, warmed, inUse, controllerStop), ToRunning, "running"},
		{warmup, running_, "complete, ControllerStop, pods wait for a new instance",
			all(ready, warmed, controllerStop, wanted), ToRunning, "running"},
		{warmup, running_, "complete, SelfStop, pods wait for a new instance: it will stop itself and be started",
			all(ready, warmed, wanted), Wait, stay},
		{warmup, running_, "Ready, devices not back, ControllerStop, pods wait for a new instance",
			all(ready, warmed, controllerStop, wanted, func(o *Observation) { o.Node.Complete = false }), StopWarmed, stay},
		{warmup, running_, "not Ready yet, ControllerStop, pods wait for a new instance", all(controllerStop, wanted), Wait,
			stay},
		{warmup, running_, "stop just asked, and pods wait for a new instance: the cloud's reads lag",
			all(ready, warmed, controllerStop, wanted, freshIntent), Wait, stay},
		{warmup, running_, "stop asked and not carried out", all(ready, warmed, controllerStop, intent), StopAgain, stay},
		{warmup, running_, "stop asked a moment ago, by a process that is gone",
			all(ready, warmed, controllerStop, freshIntent, bornNow), StopAgain, stay},
		{warmup, running_, "stop asked long ago", all(ready, warmed, controllerStop, intended(6*time.Minute)), ForceStop,
			stay},
		{warmup, running_, "stop asked and not carried out, a pod has landed since",
			all(ready, warmed, controllerStop, intended(20*time.Second), inUse), Wait, stay},
		{warmup, running_, "the same, and no call of it can be under way any more",
			all(ready, warmed, controllerStop, intended(21*time.Second), inUse), TakeBackStop, stay},
		{warmup, running_, "Ready and network up, images not asked for", all(ready, imagesAre(ImagesUnknown)), PullImages,
			stay},
		{warmup, running_, "Ready, network not up, images not asked for", all(imagesAre(ImagesUnknown), onceReady), Wait,
			stay},
		{warmup, running_, "images are being pulled", all(ready, imagesAre(ImagesPulling)), Wait, stay},
		{warmup, running_, "an image cannot be pulled", all(ready, imagesAre(ImagesFailing)), TellImages, stay},
		{warmup, running_, "an image cannot be pulled, which was told", all(ready, imagesAre(ImagesFailureReported),
			controllerStop), Wait, stay},
		{warmup, running_, "all images were pulled, or are best effort and were tried", all(ready, imagesAre(ImagesSettled)),
			RecordImages, stay},
		{warmup, running_, "complete, and other images are wanted since",
			all(ready, warmed, controllerStop, imagesAre(ImagesUnknown)), PullImages, stay},
		{warmup, running_, "images not pulled at preWarm.timeout", all(ready, late, imagesAre(ImagesFailureReported)), ForceStop,
			stay},
		{warmup, running_, "best-effort images not pulled at preWarm.timeout",
			all(ready, late, imagesAre(ImagesPulling), optional), RecordImages, stay},
		{warmup, running_, "images not pulled at preWarm.timeout, timeoutAction terminate",
			all(ready, late, imagesAre(ImagesPulling), func(o *Observation) { o.Policy.TerminateOnTimeout = true }),
			BeginTerminate, "terminating"},
		{warmup, running_, "images not pulled at preWarm.timeout, a pod was bound in spite of the cordon",
			all(ready, late, inUse, imagesAre(ImagesPulling)), BeginTerminate, "terminating"},
		{warmup, running_, "second try: images not pulled at preWarm.timeout",
			all(ready, secondTry(11*time.Minute), imagesAre(ImagesFailureReported)), BeginTerminate, "terminating"},
		{warmup, running_, "refreshed: not Ready anew", refreshed(time.Minute, ImagesUnknown), Wait, stay},
		{warmup, running_, "refreshed: Ready anew, images not asked for", all(ready, refreshed(time.Minute, ImagesUnknown)),
			PullImages, stay},
		{warmup, running_, "refreshed: images are there", all(ready, refreshed(time.Minute, ImagesPresent)), StopWarmed,
			stay},
		{warmup, running_, "refreshed: images being pulled, pods wait for a new instance",
			all(ready, wanted, refreshed(time.Minute, ImagesPulling)), ToRunning, "running"},
		{warmup, running_, "refreshed: images not pulled at preWarm.timeout",
			all(ready, refreshed(11*time.Minute, ImagesFailureReported)), ForceStop, stay},
		{warmup, running_, "refreshed: not Ready at preWarm.timeout", refreshed(11*time.Minute, ImagesUnknown), ForceStop,
			stay},
		{warmup, stopped, "was Ready and its network up, and stopped itself before its images were there",
			all(ready, imagesAre(ImagesPulling)), WarmAgain, stay},
		{warmup, stopped, "was complete, and other images are wanted since", all(warmed, imagesAre(ImagesUnknown)), WarmAgain,
			stay},
		{warmup, stopped, "was never Ready, so without images", imagesAre(ImagesUnknown), BeginTerminate, "terminating"},
		{warmup, stopped, "second try, was Ready anew, images not there",
			all(secondTry(time.Minute), ready, imagesAre(ImagesPulling)), BeginTerminate, "terminating"},
		{warmup, stopped, "refreshed: asked a moment ago", refreshed(time.Second, ImagesUnknown), Wait, stay},
		{warmup, stopped, "refreshed: asked a moment ago, and the set is as it was again",
			refreshed(time.Second, ImagesPresent), Wait, stay},
		{warmup, stopped, "refreshed: the start was not carried out", refreshed(time.Minute, ImagesUnknown), WarmAgain, stay},
		{warmup, stopped, "refreshed: asked a moment ago, by a process that is gone",
			all(refreshed(time.Second, ImagesUnknown), bornNow), WarmAgain, stay},
		{warmup, stopped, "refreshed: images are there", refreshed(time.Minute, ImagesPresent), ToStandby, "standby"},
		{warmup, stopped, "refreshed: images not pulled within preWarm.timeout: as good as before",
			refreshed(11*time.Minute, ImagesPulling), ToStandby, "standby"},
		{warmup, stopping_, "refreshed: the launch is long ago, the start is not", refreshed(time.Minute, ImagesPresent),
			Wait, stay},
		{warmup, stopping_, "stopping", all(ready, warmed), Wait, stay},
		{warmup, stopping_, "the stop hangs, a pod was bound in spite of the cordon",
			all(ready, warmed, inUse, func(o *Observation) { o.Instance.Launched = ago(16 * time.Minute) }), ForceStop, stay},
		{warmup, stopping_, "the stop hangs",
			all(ready, warmed, func(o *Observation) { o.Instance.Launched = ago(16 * time.Minute) }), ForceStop, stay},
		{warmup, stopped, "stopped and was complete", warmed, ToStandby, "standby"},
		{warmup, stopped, "stopped and was complete, which was not recorded", ready, ToStandby, "standby"},
		{warmup, stopped, "was complete, its kubelet reports, and the cloud was last asked before the Node registered",
			all(warmed, reporting, witnessed(-time.Second)), Wait, stay},
		{warmup, stopped, "was never Ready, and the cloud was last asked before the Node registered",
			witnessed(-time.Second), Wait, stay},
		{warmup, stopped, "was complete, its kubelet reports, and the cloud was asked since it registered", all(warmed, reporting, witnessed(time.Second)),
			ToStandby, "standby"},
		{warmup, stopped, "stopped, was Ready and not complete: once more under our control", onceReady, WarmAgain, stay},
		{warmup, stopped, "second try, asked a moment ago", secondTry(time.Second), Wait, stay},
		{warmup, stopped, "second try, the start was not carried out", secondTry(20 * time.Second), WarmAgain, stay},
		{warmup, stopped, "second try, asked a moment ago, by a process that is gone", all(secondTry(time.Second), bornNow),
			WarmAgain, stay},
		{warmup, running_, "second try, not Ready anew", secondTry(time.Minute), Wait, stay},
		{warmup, running_, "second try, complete", all(secondTry(time.Minute), ready), RecordWarmed, stay},
		{warmup, running_, "second try, complete and written down, SelfStop: user data does not run again",
			all(secondTry(time.Minute), ready, warmed), StopWarmed, stay},
		{warmup, running_, "second try, complete, SelfStop, pods wait for a new instance",
			all(secondTry(time.Minute), ready, warmed, wanted), ToRunning, "running"},
		{warmup, running_, "second try, incomplete at preWarm.timeout", secondTry(11 * time.Minute), BeginTerminate,
			"terminating"},
		{warmup, stopping_, "second try, stopping", all(secondTry(11*time.Minute), ready, warmed), Wait, stay},
		{warmup, stopping_, "the same, and the stop was asked for again a moment ago",
			all(ready, warmed, intended(15*time.Minute), askedAgain(29*time.Second),
				func(o *Observation) { o.Instance.Launched = ago(16 * time.Minute) }), Wait, stay},
		{warmup, stopping_, "second try, the stop hangs", all(secondTry(16*time.Minute), ready, warmed), ForceStop, stay},
		{warmup, stopped, "second try, stopped and was complete", all(secondTry(time.Minute), ready, warmed), ToStandby,
			"standby"},
		{warmup, stopped, "second try, was Ready anew and not complete", all(secondTry(time.Minute),
			func(o *Observation) { o.Node.Ready = true }), BeginTerminate, "terminating"},
		{warmup, stopped, "second try, never started within preWarm.timeout", secondTry(11 * time.Minute), BeginTerminate,
			"terminating"},
		{warmup, stopped, "stopped and was never Ready", nil, BeginTerminate, "terminating"},
		{warmup, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{warmup, running_, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{standby, stopped, "nothing to do", nil, Wait, stay},
		{standby, stopped, "its kubelet has reported since: another client started and stopped it", ready,
			RecordReports, stay},
		{standby, stopped, "the same, and claimed by a pending pod", all(claimed, ready), RecordReports, stay},
		{standby, stopped, "a workload pod is bound to it", inUse, RequestStart, "starting"},
		{standby, stopped, "backs off for 30 minutes", backsOff(MaxBackoff), Wait, stay},
		{standby, stopped, "backs off for longer: another clock wrote it, or ours was set back",
			backsOff(MaxBackoff + time.Second), LimitBackoff, stay},
		{standby, stopped, "the same, and a workload pod is bound to it", all(backsOff(time.Hour), inUse), LimitBackoff,
			stay},
		{standby, stopped, "backs off, and a workload pod is bound to it: the cloud would refuse again",
			all(backsOff(time.Minute), inUse), Wait, stay},
		{standby, stopped, "the backoff is over, and a workload pod is bound to it", all(backsOff(0), inUse),
			RequestStart, "starting"},
		{standby, stopped, "a DaemonSet's pod on it is being deleted: no kubelet is there to end it", leaving, DeleteLeft,
			stay},
		{standby, stopped, "the same, and a workload pod is bound to it", all(leaving, inUse), RequestStart, "starting"},
		{standby, running_, "the same, and another client has started it", leaving, Wait, stay},
		{standby, stopping_, "a forced stop is not over", nil, Wait, stay},
		{standby, stopping_, "a stop that another client asked for is not over", since(ForceStopAfter - time.Second), Wait,
			stay},
		{standby, stopping_, "a stop that another client asked for hangs", since(ForceStopAfter), ForceStop, "stopping"},
		{standby, pending, "another client starts it", nil, Wait, stay},
		{standby, running_, "another client started it and it is Ready anew", ready, ToRunning, "running"},
		{standby, running_, "another client started it and it does not report", since(time.Minute), Wait, stay},
		{standby, running_, "another client started it and it did not report within scaleUp.readyTimeout",
			since(6 * time.Minute), ForceStop, "stopping"},
		{standby, running_, "the same, and a workload pod is bound to it", all(since(6*time.Minute), inUse), RequestStart,
			"starting"},
		{standby, running_, "the same, and claimed by a pending pod", all(since(6*time.Minute), claimed), Wait, stay},
		{standby, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{standby, unknown, "the cloud does not say", nil, Wait, stay},
		{standby, stopped, "disruption: drift, expiry or surplus", turn(v1alpha1.StopDrift), BeginTerminate, "terminating"},
		{standby, stopped, "disruption: a person wants it replaced", turn(v1alpha1.StopRequested), BeginTerminate,
			"terminating"},
		{standby, stopped, "disruption, and claimed by a pending pod", all(turn(v1alpha1.StopExpired), claimed), Wait, stay},
		{standby, stopped, "disruption, and a workload pod is bound to it", all(turn(v1alpha1.StopSurplus), inUse),
			RequestStart, "starting"},
		{standby, running_, "disruption, and another client has started it", turn(v1alpha1.StopDrift), Wait, stay},
		{standby, stopped, "disruption: images are stale or missing", stale, WarmAgain, "warmup"},
		{standby, stopped, "disruption: images are stale or missing, and claimed by a pending pod", all(claimed, stale), Wait,
			stay},
		{standby, running_, "disruption: images are stale or missing, and another client has started it", stale, Wait, stay},
		{standby, stopped, "of a fallback type, and the first may be had", fallenBack, ReturnType, stay},
		{standby, stopped, "of a fallback type, and claimed by a pending pod", all(claimed, fallenBack), Wait, stay},
		{standby, stopped, "of a fallback type, and a pod is bound to it", all(inUse, fallenBack), RequestStart, "starting"},
		{standby, stopped, "of a fallback type, and its images are to be pulled", all(stale, fallenBack), WarmAgain, "warmup"},
		{standby, running_, "of a fallback type, and another client has started it", fallenBack, Wait, stay},
		{standby, stopped, "set to other capacity reservations than its class names", otherwise, SetReservation, stay},
		{standby, stopped, "set to other capacity reservations, and claimed by a pending pod", all(claimed, otherwise), Wait,
			stay},
		{standby, stopped, "set to other capacity reservations, and a pod is bound to it", all(inUse, otherwise),
			RequestStart, "starting"},
		{standby, stopped, "set to other capacity reservations than the only ones it may use, and a pod is bound to it",
			all(inUse, otherwiseOnly), SetReservation, stay},
		{standby, stopped, "set to other capacity reservations, and of a fallback type", all(fallenBack, otherwise), ReturnType,
			stay},
		{standby, running_, "set to other capacity reservations, and another client has started it", otherwise, Wait, stay},
		{standby, stopped, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{starting, pending, "booting", nil, Wait, stay},
		{starting, running_, "not Ready anew", nil, Wait, stay},
		{starting, running_, "Ready anew, network not up", func(o *Observation) {
			o.Node.Ready, o.Node.Complete = true,
				true
		}, Wait, stay},
		{starting, running_, "Ready anew, devices not back", func(o *Observation) {
			o.Node.Ready, o.Node.NetworkReady = true,
				true
		}, Wait, stay},
		{starting, running_, "Ready anew, network up, allocatable complete", ready, ToRunning, "running"},
		{starting, stopped, "Ready anew, and the last look at the cloud is older", ready, ToRunning, "running"},
		{starting, stopping_, "Ready still, and a stop by another client hangs", ready, Wait, stay},
		{starting, stopping_, "Ready anew, and a start was accepted since the last look at the cloud",
			all(ready, acceptedSince), ToRunning, "running"},
		{starting, stopping_, "Ready still at scaleUp.readyTimeout, and a stop by another client hangs",
			all(ready, startedFor(6*time.Minute)), ReturnStart, "stopping"},
		{starting, stopped, "Ready still, and a sweep showed it running a moment ago", all(ready, wasUpAgo(5*time.Second)),
			Wait, stay},
		{starting, stopped, "Ready still, and another client has stopped it since its start", all(ready, wasUpAgo(30*time.Second)),
			ReturnStart, "stopping"},
		{starting, stopped, "Ready anew, its start written by a clock that is behind ours, and running in its last life",
			all(ready, startedFor(time.Hour), wasUpAgo(time.Minute), witnessed(20*time.Second)), ToRunning, "running"},
		{starting, stopped, "not Ready yet, and another client has stopped it since its start",
			all(unheard, wasUpAgo(30*time.Second)), ResumeStart, stay},
		{starting, stopped, "Ready anew, network not up, and both its start and its stop were before this process began",
			all(onceReady, bornNow), ReturnStart, "stopping"},
		{starting, stopped, "the same, and this process has asked for its start once more",
			all(onceReady, bornNow, accepted(5*time.Second)), Wait, stay},
		{starting, stopped, "stopped, seen too soon after the intent to be sure",
			func(o *Observation) { o.Node.Started = ago(time.Second) }, Wait, stay},
		{starting, stopped, "the start was not carried out", nil, ResumeStart, stay},
		{starting, stopped, "asked a moment ago, by a process that is gone",
			all(func(o *Observation) { o.Node.Started = ago(time.Second) }, bornNow), ResumeStart, stay},
		{starting, running_, "not running within scaleUp.readyTimeout",
			func(o *Observation) { o.Node.Started = ago(6 * time.Minute) }, FailStart, "stopping"},
		{starting, running_, "not running within scaleUp.readyTimeout, for the third time in a row",
			func(o *Observation) { o.Node.Started, o.Node.Failures = ago(6*time.Minute), 2 }, BeginTerminate, "terminating"},
		{starting, running_, "its kubelet never reported as a fallback type, for the third time in a row",
			all(unheard, asFallback, startedFor(6*time.Minute), failedTwice), BlameType, "stopping"},
		{starting, running_, "of a fallback type, and its kubelet is not Ready", all(asFallback, startedFor(6*time.Minute)),
			FailStart, "stopping"},
		{starting, stopped, "of a fallback type, and the cloud did not accept the start within scaleUp.readyTimeout",
			all(unheard, asFallback, startedFor(6*time.Minute)), DeclineStart, "standby"},
		{starting, stopped, "of a fallback type, and stopped again before its kubelet reported",
			all(unheard, asFallback, startedFor(6*time.Minute), wasUp), BlameType, "stopping"},
		{starting, running_, "Ready anew, network up, an agent's taint stands", all(ready, agentDown), Wait, stay},
		{starting, running_, "the same at scaleUp.readyTimeout", all(ready, agentDown, startedFor(6*time.Minute)),
			ReturnStart, "stopping"},
		{starting, running_, "the same, and two starts have failed before",
			all(ready, agentDown, startedFor(6*time.Minute), func(o *Observation) { o.Node.Failures = 2 }), ReturnStart,
			"stopping"},
		{starting, running_, "Ready anew and network up, devices not back at scaleUp.readyTimeout",
			all(ready, withoutDevices, startedFor(6*time.Minute)), ToRunning, "running"},
		{starting, running_, "Ready anew, network not up at scaleUp.readyTimeout, and a pod runs on it",
			all(onceReady, serving, startedFor(6*time.Minute)), ToRunning, "running"},
		{starting, running_, "a pod of the last life seems to run on it, its kubelet does not report",
			all(unheard, serving, startedFor(6*time.Minute)), FailStart, "stopping"},
		{starting, stopped, "the cloud accepted the start a moment ago, and its answers may lag", accepted(5 * time.Second),
			Wait, stay},
		{starting, stopped, "the cloud accepted the start, and the instance is stopped again", accepted(30 * time.Second),
			ResumeStart, stay},
		{starting, stopped, "the cloud did not accept the start within scaleUp.readyTimeout", startedFor(6 * time.Minute),
			DeclineStart, "standby"},
		{starting, stopped, "the same, and two starts have failed before", all(startedFor(6*time.Minute), failedTwice),
			DeclineStart, "standby"},
		{starting, stopping_, "the same, and the instance is still stopping", startedFor(6 * time.Minute), ReturnStart,
			"stopping"},
		{starting, stopped, "a sweep showed the instance pending, and it is stopped at scaleUp.readyTimeout",
			all(startedFor(6*time.Minute), wasUp), FailStart, "stopping"},
		{starting, stopped, "the same, for the third time in a row", all(startedFor(6*time.Minute), wasUp, failedTwice),
			BeginTerminate, "terminating"},
		{starting, stopped, "the same, and starts of other nodes of the pool fail too",
			all(startedFor(6*time.Minute), wasUp, failedTwice, othersFail), FailStart, "stopping"},
		{starting, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{starting, pending, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{running, running_, "in use", inUse, Wait, stay},
		{running, running_, "claimed by pending pods", claimed, Wait, stay},
		{running, running_, "in use again after it was empty", all(inUse, emptySince(time.Minute)), MarkInUse, stay},
		{running, running_, "empty", nil, MarkEmpty, stay},
		{running, running_, "empty since a time to come: another clock wrote it, or ours was set back",
			emptySince(-time.Hour), MarkEmpty, stay},
		{running, running_, "empty for less than emptyNodeTTL", emptySince(time.Minute), Wait, stay},
		{running, running_, "empty for emptyNodeTTL", emptySince(5 * time.Minute), BeginStop, "stopping"},
		{running, running_, "empty for emptyNodeTTL, scale-down disabled",
			all(emptySince(time.Hour), func(o *Observation) { o.Policy.ScaleDown = false }), Wait, stay},
		{running, running_, "empty for emptyNodeTTL, annotated do-not-disrupt",
			all(emptySince(time.Hour), func(o *Observation) { o.Node.DoNotDisrupt = true }), Wait, stay},
		{running, running_, "in use, disruption: maxNodeRuntime has passed", all(inUse, turn(v1alpha1.StopRuntime)),
			BeginTerminate, "terminating"},
		{running, running_, "claimed by pending pods, disruption: maxNodeRuntime has passed",
			all(claimed, turn(v1alpha1.StopRuntime)), BeginTerminate, "terminating"},
		{running, running_, "in use, disruption: a person wants it replaced", all(inUse, turn(v1alpha1.StopRequested)),
			BeginTerminate, "terminating"},
		{running, running_, "disruption: maxNodeRuntime has passed, and its last drain failed a while ago",
			all(inUse, turn(v1alpha1.StopRuntime), drainFailed(time.Minute)), Wait, stay},
		{running, running_, "the same, and its backoff is over", all(inUse, turn(v1alpha1.StopRuntime),
			drainFailed(time.Hour)), BeginTerminate, "terminating"},
		{running, running_, "empty for emptyNodeTTL, its last drain failed, and volumes are still attached",
			all(emptySince(time.Hour), drainFailed(time.Minute), attached), Wait, stay},
		{running, running_, "the same, and the volumes are detached", all(emptySince(time.Hour), drainFailed(time.Minute)),
			BeginStop, "stopping"},
		{running, running_, "maxNodeRuntime has passed, it or a pod on it annotated do-not-disrupt",
			all(inUse, turn(v1alpha1.StopRuntime), func(o *Observation) { o.Node.DoNotDisrupt = true }), Wait, stay},
		{running, running_, "empty, disruption: drifted, or above poolSize", turn(v1alpha1.StopDrift), BeginTerminate,
			"terminating"},
		{running, running_, "disruption: drifted, or above poolSize, and in use again", all(inUse, turn(v1alpha1.StopSurplus)),
			Wait, stay},
		{running, running_, "disruption: drifted, and claimed by a pending pod", all(claimed, turn(v1alpha1.StopDrift)), Wait,
			stay},
		{running, stopped, "stopped by another client", nil, ToStandby, "standby"},
		{running, stopped, "stopped, seen too soon after the start to be sure",
			all(inUse, func(o *Observation) { o.Node.Running = ago(time.Second) }), Wait, stay},
		{running, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{running, running_, "its machine died: no report for scaleUp.readyTimeout, and its pods have outstayed their grace",
			died(6*time.Minute, 2), Fence, "stopping"},
		{running, stopping_, "the same, and another client's stop of it hangs", died(6*time.Minute, 2), Fence, "stopping"},
		{running, running_, "no report for scaleUp.readyTimeout, and one of two pods is within its grace",
			died(6*time.Minute, 1), Wait, stay},
		{running, running_, "its pods have outstayed their grace, no report for less than scaleUp.readyTimeout",
			died(4*time.Minute, 2), Wait, stay},
		{running, unknown, "the cloud does not say", nil, Wait, stay},
		{running, running_, "the pool is being deleted", all(inUse, deleting), BeginTerminate, "terminating"},

		{stopping, running_, "cordoned less than a second ago",
			func(o *Observation) { o.Node.StoppingSince = ago(100 * time.Millisecond) }, Wait, stay},
		{stopping, running_, "empty", nil, VerifyAndStop, stay},
		{stopping, running_, "a workload pod is there", inUse, CancelStop, "running"},
		{stopping, running_, "claimed by a pending pod", claimed, CancelStop, "running"},
		{stopping, running_, "volumes of pods that left are still attached", attached, Wait, stay},
		{stopping, running_, "volumes are attached, and a workload pod is there", all(attached, inUse), CancelStop,
			"running"},
		{stopping, running_, "no intent written within drainTimeout",
			func(o *Observation) { o.Node.StoppingSince = ago(6 * time.Minute) }, AbandonDrain, "running"},
		{stopping, running_, "empty, images not looked at since the drain began", imagesAre(ImagesUnknown), PullImages, stay},
		{stopping, running_, "empty, images are being looked at", imagesAre(ImagesPulling), Wait, stay},
		{stopping, running_, "empty, images looked at", imagesAre(ImagesSettled), RecordImages, stay},
		{stopping, running_, "images are being looked at, a workload pod is there", all(inUse, imagesAre(ImagesPulling)),
			CancelStop, "running"},
		{stopping, running_, "images not looked at, and the node is not Ready",
			all(imagesAre(ImagesUnknown), func(o *Observation) { o.Node.Ready = false }), VerifyAndStop, stay},
		{stopping, running_, "images not there within preWarm.timeout", all(imagesAre(ImagesPulling),
			func(o *Observation) { o.Node.StoppingSince = ago(11 * time.Minute) }), VerifyAndStop, stay},
		{stopping, running_, "images looked at, which took longer than drainTimeout", func(o *Observation) {
			o.Node.StoppingSince, o.Node.ImagesChecked = ago(8*time.Minute), ago(time.Second)
		}, VerifyAndStop, stay},
		{stopping, running_, "no intent written within drainTimeout after the images were looked at", func(o *Observation) {
			o.Node.StoppingSince, o.Node.ImagesChecked = ago(8*time.Minute), ago(6*time.Minute)
		}, AbandonDrain, "running"},
		{stopping, running_, "no intent written within preWarm.timeout and drainTimeout, images never there",
			all(imagesAre(ImagesPulling), func(o *Observation) { o.Node.StoppingSince = ago(16 * time.Minute) }), AbandonDrain,
			"running"},
		{stopping, stopped, "stopped by another client while draining",
			func(o *Observation) { o.Node.StoppingSince = ago(time.Minute) }, ToStandby, "standby"},
		{stopping, running_, "intent written, stop just asked", freshIntent, Wait, stay},
		{stopping, running_, "intent written, a pod has landed since: it is not cancelled any more", all(freshIntent, inUse), Wait,
			stay},
		{stopping, running_, "intent written, the stop was not carried out", intent, StopAgain, stay},
		{stopping, running_, "the same, and a pod has landed since: the call may still arrive, or not show yet",
			all(intent, inUse), Wait, stay},
		{stopping, running_, "the same, and no call of it can be under way any more", all(intended(21*time.Second), inUse),
			TakeBackStop, stay},
		{stopping, running_, "the same, and the stop was asked for again a moment ago",
			all(intended(6*time.Minute), inUse, askedAgain(20*time.Second)), Wait, stay},
		{stopping, running_, "the same, and the stop was asked for again a while ago",
			all(intended(6*time.Minute), inUse, askedAgain(21*time.Second)), TakeBackStop, stay},
		{stopping, running_, "the same, and this process has seen the intent for a while",
			all(intended(6*time.Minute), inUse, askedAgain(20*time.Second), witnessed(5*time.Minute)), Wait, stay},
		{stopping, running_, "a pod has landed on an instance whose start failed: its kubelet never came up",
			all(intended(21*time.Second), inUse, startFailed), StopAgain, stay},
		{stopping, running_, "the same, and its kubelet has come up since",
			all(intended(21*time.Second), inUse, startFailed, ready), TakeBackStop, stay},
		{stopping, running_, "intent written long ago, and the cloud shows nothing of a stop", intended(6 * time.Minute),
			ForceStop, stay},
		{stopping, stopping_, "the stop hangs, and a pod has landed since: that machine goes down",
			all(intended(6*time.Minute), inUse), ForceStop, stay},
		{stopping, running_, "intent written a moment ago, by a process that is gone", all(freshIntent, bornNow), StopAgain,
			stay},
		{stopping, stopping_, "intent written, stopping", intent, Wait, stay},
		{stopping, stopping_, "intent written, the stop hangs",
			func(o *Observation) { o.Node.Stop.At = ago(6 * time.Minute) }, ForceStop, stay},
		{stopping, stopping_, "the same, and the stop was asked for again a moment ago",
			all(intended(6*time.Minute), askedAgain(29*time.Second)), Wait, stay},
		{stopping, stopping_, "the same, and the stop was asked for again a while ago",
			all(intended(6*time.Minute), askedAgain(30*time.Second)), ForceStop, stay},
		{stopping, stopping_, "the same, and it was asked for by a clock that is ahead of ours",
			all(intended(6*time.Minute), askedAgain(-time.Hour)), ForceStop, stay},
		{stopping, stopped, "intent written, stopped", intent, ToStandby, "standby"},
		{stopping, stopped, "intent written by a clock that is ahead of ours, stopped",
			all(intended(-time.Hour), witnessed(20*time.Second)), ToStandby, "standby"},
		{stopping, stopped, "the same, and not looked at since this process first saw it",
			all(intended(-time.Hour), witnessed(0)), Wait, stay},
		{stopping, stopped, "draining by a clock that is ahead of ours, stopped by another client",
			all(drainingFor(-time.Hour, ""), witnessed(time.Minute)), ToStandby, "standby"},
		{stopping, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{stopping, running_, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{terminating, running_, "workload pods are there", all(inUse, deleting), Drain, stay},
		{terminating, running_, "workload pods are there, terminationGracePeriod not over",
			all(inUse, bounded(time.Minute)), Drain, stay},
		{terminating, running_, "workload pods are there, terminationGracePeriod over", all(inUse, bounded(time.Hour)),
			DeletePods, stay},
		{terminating, running_, "terminationGracePeriod over, and the pods' own too",
			all(inUse, bounded(time.Hour), func(o *Observation) { o.OverduePods = 1 }), Terminate, "gone"},
		{terminating, running_, "pods are past their own grace, terminationGracePeriod unset",
			all(inUse, func(o *Observation) { o.OverduePods = 1 }), Drain, stay},
		{terminating, running_, "the same, and their kubelet does not report",
			all(inUse, unheard, func(o *Observation) { o.OverduePods = 1 }), Terminate, "gone"},
		{terminating, stopped, "the same, and the instance is stopped", all(inUse, func(o *Observation) { o.OverduePods = 1 }),
			Terminate, "gone"},
		{terminating, running_, "their kubelet does not report, and one of two pods is within its grace",
			all(unheard, func(o *Observation) { o.WorkloadPods, o.OverduePods = 2, 1 }), Drain, stay},
		{terminating, running_, "pods cannot be evicted within drainTimeout, replaced for its age or template",
			all(inUse, drainingFor(6*time.Minute, v1alpha1.StopRuntime)), AbandonDrain, "running"},
		{terminating, running_, "the same, replaced because a person wants it",
			all(inUse, drainingFor(6*time.Minute, v1alpha1.StopRequested)), AbandonDrain, "running"},
		{terminating, running_, "the same with terminationGracePeriod set and not over",
			all(inUse, bounded(10*time.Minute), drainingFor(10*time.Minute, v1alpha1.StopRuntime)), Drain, stay},
		{terminating, running_, "pods cannot be evicted within drainTimeout, pool deleted",
			all(inUse, drainingFor(6*time.Minute, v1alpha1.StopDeleted)), Drain, stay},
		{terminating, running_, "drained, volumes of the pods are still attached",
			all(attached, drainingFor(time.Minute, v1alpha1.StopRuntime)), Wait, stay},
		{terminating, running_, "drained, volumes are still attached after drainTimeout",
			all(attached, drainingFor(6*time.Minute, v1alpha1.StopRuntime)), Terminate, "gone"},
		{terminating, running_, "drained", deleting, Terminate, "gone"},
		{terminating, stopped, "nothing to drain", deleting, Terminate, "gone"},
		{terminating, terminated, "the instance is gone", deleting, DeleteNode, "gone"},
		{terminating, unknown, "the cloud does not say", deleting, Wait, stay},

		{noNode, running_, "paused: no Node within preWarm.timeout",
			all(paused, func(o *Observation) { o.Instance.Launched = ago(time.Hour) }), Wait, stay},
		{warmup, stopped, "paused: stopped before it was complete", all(paused, ready, unseen, func(o *Observation) {
			o.Node.NetworkReady = false
		}), Wait, stay},
		{warmup, running_, "paused: warm-up is complete", all(paused, ready, func(o *Observation) {
			o.Policy.SelfStop, o.Node.Warmed = false, ago(time.Second)
		}), StopWarmed, stay},
		{standby, stopped, "paused: a pod is bound to it", all(paused, inUse), Wait, stay},
		{standby, stopped, "paused: its images are to be pulled", all(paused, func(o *Observation) { o.Refresh = true }),
			Wait, stay},
		{standby, stopped, "paused: of a fallback type, and the first may be had", all(paused, fallenBack), Wait, stay},
		{starting, running_, "paused: Ready", all(paused, ready), ToRunning, "running"},
		{starting, running_, "paused: not Ready within scaleUp.readyTimeout, for the third time",
			all(paused, startedFor(6*time.Minute), failedTwice, wasUp), FailStart, "stopping"},
		{running, running_, "paused: empty for emptyNodeTTL", all(paused, emptySince(5*time.Minute)), Wait, stay},
		{running, running_, "paused: its machine died", all(paused, died(6*time.Minute, 2)), Wait, stay},
		{running, running_, "paused: the pool is being deleted", all(paused, inUse, deleting), Wait, stay},
		{stopping, running_, "paused: no intent is written", paused, CancelStop, "running"},
		{stopping, running_, "paused: intent written, the stop was not carried out", all(paused, intent), StopAgain, stay},
		{terminating, running_, "paused: drained for its age or its template, workload pods are there",
			all(paused, inUse, ready, drainingFor(time.Minute, v1alpha1.StopRuntime)), CancelStop, "running"},
		{terminating, running_, "paused: its start failed three times, and workload pods are there",
			all(paused, inUse, ready, drainingFor(time.Minute, v1alpha1.StopFailed)), Drain, stay},
		{terminating, running_, "paused: drained", paused, Terminate, "gone"},
	}
}

func TestTransitionTable(t *testing.T) {
	for _, r := range table() {
		t.Run(fmt.Sprintf("%s, instance %s, %s", r.state, r.instance, r.when), func(t *testing.T) {
			d := Decide(r.observation(), epoch())
			if d.Action != r.action {
				t.Errorf("action %s (%s), want %s", d.Action, d.Reason, r.action)
			}
			if d.Reason == "" {
				t.Error("a decision without a reason")
			}
		})
	}
}

const end = "<!-- end of table -->\n"

// documented holds the document to the table that it has behind its marker.
func documented(t *testing.T, name, want string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	begin := "<!-- " + name + ": UPDATE=1 go test ./scaler/lifecycle -->\n"
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s between its markers", document, name)
	}
	want = head + begin + want + end + tail
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s differs from the %s; run: UPDATE=1 go test ./scaler/lifecycle", document, name)
	}
}

func TestDocumentHoldsTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| state | instance | observed | action | then |\n|---|---|---|---|---|\n")
	for _, r := range table() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.state, r.instance, r.when, r.action, r.to)
	}
	documented(t, "table", b.String())
}
