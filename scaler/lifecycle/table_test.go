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

// row is one line of the transition table. The base of its observation is an instance in the given state, launched an hour
// ago and looked at just now, whose Node is in the row's state.
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
func bornNow(o *Observation) { o.Born = epoch() }

func (r row) observation() Observation {
	o := Observation{
		Instance: Instance{State: r.instance, Launched: ago(time.Hour), Seen: epoch()},
		Node:     &Node{State: r.state},
		Policy:   policy(),
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
		o.Node.StopReason, o.Node.StoppingSince = v1alpha1.StopEmpty, ago(10*time.Second)
	}
	if r.with != nil {
		r.with(&o)
	}
	return o
}

func ready(o *Observation) {
	o.Node.Ready, o.Node.EverReady, o.Node.NetworkReady, o.Node.Complete = true, true, true, true
}

func all(steps ...func(*Observation)) func(*Observation) {
	return func(o *Observation) {
		for _, s := range steps {
			s(o)
		}
	}
}

func deleting(o *Observation)       { o.Policy.Deleting = true }
func controllerStop(o *Observation) { o.Policy.SelfStop = false }
func warmed(o *Observation)         { o.Node.Warmed = ago(30 * time.Second) }
func late(o *Observation)           { o.Instance.Launched = ago(11 * time.Minute) }
func inUse(o *Observation)          { o.Counting = 1 }
func wanted(o *Observation)         { o.Wanted = true }
func claimed(o *Observation)        { o.Claims = 1 }
func bestEffort(o *Observation)     { o.Policy.ImagesBestEffort = true }
func imagesAre(s ImageState) func(*Observation) {
	return func(o *Observation) { o.Node.Images = s }
}

// again is a warm-up that we began so long ago.
func again(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.WarmupStarted = ago(d) }
}
func intent(o *Observation)      { o.Node.StopIntent = ago(20 * time.Second) }
func freshIntent(o *Observation) { o.Node.StopIntent = ago(time.Second) }
func emptySince(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Node.EmptySince = ago(d) }
}

const (
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
		{noNode, stopped, "stopped before a Node registered", func(o *Observation) { o.Instance.Launched = ago(2 * time.Minute) }, Terminate, "gone"},
		{noNode, stopped, "stopped, seen too soon after the launch to be sure", func(o *Observation) { o.Instance.Launched = ago(time.Second) }, Wait, stay},
		{noNode, running_, "the pool is being deleted", deleting, Terminate, "gone"},
		{noNode, stopped, "the pool is gone", func(o *Observation) { o.Policy = Policy{} }, Terminate, "gone"},
		{noNode, terminated, "nothing left", nil, Wait, "gone"},
		{noNode, unknown, "the cloud does not say", nil, Wait, stay},

		{new_, running_, "a Node registered", nil, Adopt, "warmup"},
		{new_, stopped, "a Node registered and the instance has stopped since", nil, Adopt, "warmup"},
		{"nonsense", running_, "somebody wrote a state that does not exist", nil, Adopt, "warmup"},
		{new_, running_, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{warmup, pending, "booting", nil, Wait, stay},
		{warmup, running_, "not Ready yet", nil, Wait, stay},
		{warmup, running_, "Ready, network not up", func(o *Observation) { o.Node.Ready = true }, Wait, stay},
		{warmup, running_, "Ready and network up", ready, RecordWarmed, stay},
		{warmup, running_, "complete, SelfStop: the instance will stop itself", all(ready, warmed), Wait, stay},
		{warmup, running_, "complete, ControllerStop", all(ready, warmed, controllerStop), StopWarmed, stay},
		{warmup, running_, "complete, SelfStop, but still running at preWarm.timeout", all(ready, warmed, late), ForceStop, stay},
		{warmup, running_, "complete at preWarm.timeout with timeoutAction terminate", all(ready, warmed, late, func(o *Observation) { o.Policy.TerminateOnTimeout = true }), BeginTerminate, "terminating"},
		{warmup, running_, "incomplete at preWarm.timeout", late, BeginTerminate, "terminating"},
		{warmup, running_, "complete, SelfStop, a pod was bound in spite of the cordon", all(ready, warmed, inUse), Wait, stay},
		{warmup, running_, "complete, SelfStop, a pod was bound, still running at preWarm.timeout", all(ready, warmed, inUse, late), ToRunning, "running"},
		{warmup, running_, "complete, ControllerStop, a pod was bound in spite of the cordon", all(ready, warmed, inUse, controllerStop), ToRunning, "running"},
		{warmup, running_, "complete, ControllerStop, pods wait for a new instance", all(ready, warmed, controllerStop, wanted), ToRunning, "running"},
		{warmup, running_, "complete, SelfStop, pods wait for a new instance: it will stop itself and be started", all(ready, warmed, wanted), Wait, stay},
		{warmup, running_, "Ready, devices not back, ControllerStop, pods wait for a new instance", all(ready, warmed, controllerStop, wanted, func(o *Observation) { o.Node.Complete = false }), StopWarmed, stay},
		{warmup, running_, "not Ready yet, ControllerStop, pods wait for a new instance", all(controllerStop, wanted), Wait, stay},
		{warmup, running_, "Ready and network up, images not asked for", all(ready, imagesAre(ImagesUnknown)), PullImages, stay},
		{warmup, running_, "Ready, network not up, images not asked for", all(imagesAre(ImagesUnknown), func(o *Observation) { o.Node.Ready = true }), Wait, stay},
		{warmup, running_, "images are being pulled", all(ready, imagesAre(ImagesPulling)), Wait, stay},
		{warmup, running_, "an image cannot be pulled", all(ready, imagesAre(ImagesFailing)), TellImages, stay},
		{warmup, running_, "an image cannot be pulled, which was told", all(ready, imagesAre(ImagesFailingTold), controllerStop), Wait, stay},
		{warmup, running_, "all images were pulled, or tried with imagePullPolicy BestEffort", all(ready, imagesAre(ImagesSettled)), RecordImages, stay},
		{warmup, running_, "complete, and other images are wanted since", all(ready, warmed, controllerStop, imagesAre(ImagesUnknown)), PullImages, stay},
		{warmup, running_, "images not pulled at preWarm.timeout", all(ready, late, imagesAre(ImagesFailingTold)), ForceStop, stay},
		{warmup, running_, "images not pulled at preWarm.timeout, imagePullPolicy BestEffort", all(ready, late, imagesAre(ImagesPulling), bestEffort), RecordImages, stay},
		{warmup, running_, "images not pulled at preWarm.timeout, timeoutAction terminate", all(ready, late, imagesAre(ImagesPulling), func(o *Observation) { o.Policy.TerminateOnTimeout = true }), BeginTerminate, "terminating"},
		{warmup, running_, "images not pulled at preWarm.timeout, a pod was bound in spite of the cordon", all(ready, late, inUse, imagesAre(ImagesPulling)), BeginTerminate, "terminating"},
		{warmup, running_, "once more: complete, stopped by us in SelfStop too", all(ready, warmed, again(time.Minute)), StopWarmed, stay},
		{warmup, running_, "once more: the launch is long ago, the start is not", all(late, again(time.Minute)), Wait, stay},
		{warmup, running_, "once more, after standby: images being pulled, pods wait for a new instance", all(ready, warmed, wanted, again(time.Minute), imagesAre(ImagesPulling)), ToRunning, "running"},
		{warmup, running_, "once more, after standby: images not pulled at preWarm.timeout", all(ready, warmed, again(11*time.Minute), imagesAre(ImagesFailingTold)), ForceStop, stay},
		{warmup, running_, "once more: never complete until preWarm.timeout", all(ready, again(11*time.Minute), imagesAre(ImagesFailingTold)), BeginTerminate, "terminating"},
		{warmup, stopped, "stopped before its images were there", all(imagesAre(ImagesPulling), func(o *Observation) { o.Node.EverReady = true }), WarmAgain, stay},
		{warmup, stopped, "stopped before it was Ready, so without images", imagesAre(ImagesUnknown), BeginTerminate, "terminating"},
		{warmup, stopped, "once more: start asked, and the cloud's look may be older", all(imagesAre(ImagesUnknown), again(time.Second)), Wait, stay},
		{warmup, stopped, "once more: the start was not carried out", all(imagesAre(ImagesUnknown), again(time.Minute)), ResumeWarmup, stay},
		{warmup, stopped, "once more: asked a moment ago, by a process that is gone", all(imagesAre(ImagesUnknown), again(time.Second), bornNow), ResumeWarmup, stay},
		{warmup, stopped, "once more: complete", all(warmed, again(time.Minute)), ToStandby, "standby"},
		{warmup, stopped, "once more: incomplete after preWarm.timeout", all(imagesAre(ImagesPulling), again(11*time.Minute)), BeginTerminate, "terminating"},
		{warmup, stopped, "once more, after standby: images not pulled within preWarm.timeout", all(warmed, imagesAre(ImagesPulling), again(11*time.Minute)), ToStandby, "standby"},
		{warmup, stopping_, "once more: the launch is long ago, the start is not", all(late, again(time.Minute)), Wait, stay},
		{warmup, stopping_, "stopping", all(ready, warmed), Wait, stay},
		{warmup, stopping_, "the stop hangs", all(ready, warmed, func(o *Observation) { o.Instance.Launched = ago(16 * time.Minute) }), ForceStop, stay},
		{warmup, stopped, "stopped and was complete", warmed, ToStandby, "standby"},
		{warmup, stopped, "stopped and was Ready, which nobody had time to write down", func(o *Observation) { o.Node.EverReady = true }, ToStandby, "standby"},
		{warmup, stopped, "stopped and was never Ready", nil, BeginTerminate, "terminating"},
		{warmup, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{warmup, running_, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{standby, stopped, "standing by", nil, Wait, stay},
		{standby, stopped, "a pod that counts is bound to it", inUse, RequestStart, "starting"},
		{standby, stopping_, "a forced stop is not over", nil, Wait, stay},
		{standby, pending, "somebody else starts it", nil, Wait, stay},
		{standby, running_, "somebody else started it and it is Ready anew", ready, ToRunning, "running"},
		{standby, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{standby, unknown, "the cloud does not say", nil, Wait, stay},
		{standby, stopped, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{starting, pending, "booting", nil, Wait, stay},
		{starting, running_, "not Ready anew", nil, Wait, stay},
		{starting, running_, "Ready anew, network not up", func(o *Observation) { o.Node.Ready, o.Node.Complete = true, true }, Wait, stay},
		{starting, running_, "Ready anew, devices not back", func(o *Observation) { o.Node.Ready, o.Node.NetworkReady = true, true }, Wait, stay},
		{starting, running_, "Ready anew, network up, allocatable complete", ready, ToRunning, "running"},
		{starting, stopped, "Ready anew, and the last look at the cloud is older", ready, ToRunning, "running"},
		{starting, stopped, "stopped, seen too soon after the intent to be sure", func(o *Observation) { o.Node.Started = ago(time.Second) }, Wait, stay},
		{starting, stopped, "the start was not carried out", nil, ResumeStart, stay},
		{starting, stopped, "asked a moment ago, by a process that is gone", all(func(o *Observation) { o.Node.Started = ago(time.Second) }, bornNow), ResumeStart, stay},
		{starting, running_, "not running within scaleUp.readyTimeout", func(o *Observation) { o.Node.Started = ago(6 * time.Minute) }, FailStart, "standby"},
		{starting, running_, "not running within scaleUp.readyTimeout, for the third time in a row", func(o *Observation) { o.Node.Started, o.Node.Failures = ago(6*time.Minute), 2 }, BeginTerminate, "terminating"},
		{starting, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{starting, pending, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{running, running_, "in use", inUse, Wait, stay},
		{running, running_, "promised to waiting pods", claimed, Wait, stay},
		{running, running_, "in use again after it was empty", all(inUse, emptySince(time.Minute)), MarkInUse, stay},
		{running, running_, "empty", nil, MarkEmpty, stay},
		{running, running_, "empty for less than emptyNodeTTL", emptySince(time.Minute), Wait, stay},
		{running, running_, "empty for emptyNodeTTL", emptySince(5 * time.Minute), BeginStop, "stopping"},
		{running, running_, "empty for emptyNodeTTL, scale-down disabled", all(emptySince(time.Hour), func(o *Observation) { o.Policy.ScaleDown = false }), Wait, stay},
		{running, running_, "empty for emptyNodeTTL, annotated do-not-disrupt", all(emptySince(time.Hour), func(o *Observation) { o.Node.DoNotDisrupt = true }), Wait, stay},
		{running, stopped, "stopped by somebody else", nil, ToStandby, "standby"},
		{running, stopped, "stopped, seen too soon after the start to be sure", all(inUse, func(o *Observation) { o.Node.Running = ago(time.Second) }), Wait, stay},
		{running, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{running, unknown, "the cloud does not say", nil, Wait, stay},
		{running, running_, "the pool is being deleted", all(inUse, deleting), BeginTerminate, "terminating"},

		{stopping, running_, "cordoned less than a second ago", func(o *Observation) { o.Node.StoppingSince = ago(100 * time.Millisecond) }, Wait, stay},
		{stopping, running_, "empty", nil, VerifyAndStop, stay},
		{stopping, running_, "a pod that counts is there", inUse, CancelStop, "running"},
		{stopping, running_, "promised to a waiting pod", claimed, CancelStop, "running"},
		{stopping, running_, "no intent written within drainTimeout", func(o *Observation) { o.Node.StoppingSince = ago(6 * time.Minute) }, CancelStop, "running"},
		{stopping, running_, "empty, images not looked at since the drain began", imagesAre(ImagesUnknown), PullImages, stay},
		{stopping, running_, "empty, images are being looked at", imagesAre(ImagesPulling), Wait, stay},
		{stopping, running_, "empty, images looked at", imagesAre(ImagesSettled), RecordImages, stay},
		{stopping, running_, "images are being looked at, a pod that counts is there", all(inUse, imagesAre(ImagesPulling)), CancelStop, "running"},
		{stopping, running_, "images not looked at, and the node is not Ready", all(imagesAre(ImagesUnknown), func(o *Observation) { o.Node.Ready = false }), VerifyAndStop, stay},
		{stopping, running_, "images not there within preWarm.timeout", all(imagesAre(ImagesPulling), func(o *Observation) { o.Node.StoppingSince = ago(11 * time.Minute) }), VerifyAndStop, stay},
		{stopping, running_, "images looked at, which took longer than drainTimeout", func(o *Observation) {
			o.Node.StoppingSince, o.Node.ImagesChecked = ago(8*time.Minute), ago(time.Second)
		}, VerifyAndStop, stay},
		{stopping, running_, "no intent written within drainTimeout after the images were looked at", func(o *Observation) {
			o.Node.StoppingSince, o.Node.ImagesChecked = ago(8*time.Minute), ago(6*time.Minute)
		}, CancelStop, "running"},
		{stopping, running_, "no intent written within preWarm.timeout and drainTimeout, images never there", all(imagesAre(ImagesPulling), func(o *Observation) { o.Node.StoppingSince = ago(16 * time.Minute) }), CancelStop, "running"},
		{stopping, stopped, "stopped by somebody else while draining", func(o *Observation) { o.Node.StoppingSince = ago(time.Minute) }, ToStandby, "standby"},
		{stopping, running_, "intent written, stop just asked", freshIntent, Wait, stay},
		{stopping, running_, "intent written, a pod has landed since: nobody cancels any more", all(freshIntent, inUse), Wait, stay},
		{stopping, running_, "intent written, the stop was not carried out", intent, StopAgain, stay},
		{stopping, running_, "intent written a moment ago, by a process that is gone", all(freshIntent, bornNow), StopAgain, stay},
		{stopping, stopping_, "intent written, stopping", intent, Wait, stay},
		{stopping, stopping_, "intent written, the stop hangs", func(o *Observation) { o.Node.StopIntent = ago(6 * time.Minute) }, ForceStop, stay},
		{stopping, stopped, "intent written, stopped", intent, ToStandby, "standby"},
		{stopping, terminated, "the instance is gone", nil, DeleteNode, "gone"},
		{stopping, running_, "the pool is being deleted", deleting, BeginTerminate, "terminating"},

		{terminating, running_, "pods that count are there", all(inUse, deleting), Drain, stay},
		{terminating, running_, "drained", deleting, Terminate, "gone"},
		{terminating, stopped, "nothing to drain", deleting, Terminate, "gone"},
		{terminating, terminated, "the instance is gone", deleting, DeleteNode, "gone"},
		{terminating, unknown, "the cloud does not say", deleting, Wait, stay},
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

const begin, end = "<!-- table: UPDATE=1 go test ./scaler/lifecycle -->\n", "<!-- end of table -->\n"

func TestDocumentHoldsTheTable(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between its markers", document)
	}
	var b strings.Builder
	b.WriteString("| state | instance | observed | action | then |\n|---|---|---|---|---|\n")
	for _, r := range table() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.state, r.instance, r.when, r.action, r.to)
	}
	want := head + begin + b.String() + end + tail
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s differs from the table; run: UPDATE=1 go test ./scaler/lifecycle", document)
	}
}

// every calls f with the product of everything that a decision depends on.
func every(f func(Observation)) {
	marks := []time.Time{{}, ago(100 * time.Millisecond), ago(20 * time.Second), ago(time.Hour)}
	bools := []bool{false, true}
	imageStates := []ImageState{ImagesPresent, ImagesUnknown, ImagesPulling, ImagesFailing, ImagesFailingTold, ImagesSettled}
	states := []v1alpha1.NodeState{noNode, "", v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting, v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateTerminating}
	for _, s := range states {
		images := imageStates
		if s != v1alpha1.StateWarmup && s != v1alpha1.StateStopping { // nothing depends on them
			images = images[:1]
		}
		for _, i := range []provider.InstanceState{pending, running_, stopping_, stopped, terminated, unknown} {
			for _, mark := range marks {
				for _, other := range marks {
					for bits := range len(images) << 9 {
						bit := func(n int) bool { return bools[bits>>n&1] }
						o := row{state: s, instance: i}.observation()
						if !mark.IsZero() {
							o.Instance.Launched = mark
						}
						o.Policy.Deleting, o.Policy.SelfStop, o.Policy.ScaleDown = bit(0), bit(1), bit(2)
						o.Counting, o.Claims, o.Wanted = bits>>3&1, bits>>4&1, bit(8)
						if n := o.Node; n != nil {
							n.Ready, n.NetworkReady, n.Complete = bit(5), bit(6), bit(7)
							n.EverReady = n.Ready
							n.Warmed, n.EmptySince, n.StopIntent = mark, mark, other
							n.WarmupStarted, n.ImagesChecked = other, other
							n.Images = images[bits>>9]
							n.Started, n.Running, n.StoppingSince = mark, mark, mark
						}
						f(o)
					}
				}
			}
		}
	}
}

// TestStandbyHasItsImages is invariant 6, but for nodes that were standby already: those keep what they had.
func TestStandbyHasItsImages(t *testing.T) {
	seen := 0
	every(func(o Observation) {
		if o.Node == nil || o.Node.State != v1alpha1.StateWarmup || o.Node.Images == ImagesPresent {
			return
		}
		d := Decide(o, epoch())
		before := !o.Node.WarmupStarted.IsZero() && !o.Node.Warmed.IsZero()
		if d.Action == ToStandby && !before || d.Action == RecordWarmed || d.Action == StopWarmed {
			t.Fatalf("%s without its images: %+v %+v", d.Action, o, o.Node)
		}
		seen++
	})
	if seen == 0 {
		t.Fatal("no observation lacked images")
	}
}

func TestNothingIsTakenFromUnderAPod(t *testing.T) {
	seen := 0
	every(func(o Observation) {
		if o.Node == nil || o.Counting == 0 || o.Instance.State == terminated {
			return
		}
		d := Decide(o, epoch())
		intended := o.Node.State == v1alpha1.StateStopping && !o.Node.StopIntent.IsZero()
		hangs := d.Action == ForceStop && o.Instance.State == stopping_
		switch d.Action {
		case StopWarmed, ForceStop, StopAgain, VerifyAndStop, Terminate, BeginStop:
			if !intended && !hangs {
				t.Fatalf("%s with a pod that counts on it: %+v %+v", d.Action, o, o.Node)
			}
		}
		seen++
	})
	if seen == 0 {
		t.Fatal("no observation had a pod")
	}
}

func TestNoStateWithoutAWayOut(t *testing.T) {
	later := epoch().Add(24 * time.Hour)
	every(func(o Observation) {
		if o.Node == nil && o.Instance.State == terminated || o.Instance.State == unknown {
			return
		}
		if s := state(o); s == v1alpha1.StateRunning || s == v1alpha1.StateStandby {
			return // resting states: they end by demand, not by a deadline
		}
		o.Instance.Seen = later
		if d := Decide(o, later); d.Action == Wait {
			t.Fatalf("still %q a day later: %+v %+v", d.Reason, o, o.Node)
		}
	})
}

func state(o Observation) v1alpha1.NodeState {
	if o.Node == nil {
		return noNode
	}
	return o.Node.State
}

func TestOnlyAFreshReportOpensANode(t *testing.T) {
	every(func(o Observation) {
		d := Decide(o, epoch())
		if d.Action == ToRunning && !(o.Node.Ready && o.Node.NetworkReady && o.Node.Complete) {
			t.Fatalf("opened without a fresh report: %+v %+v", o, o.Node)
		}
	})
}

func TestEveryDecisionIsMadeAgainOfTheSame(t *testing.T) {
	every(func(o Observation) {
		if a, b := Decide(o, epoch()), Decide(o, epoch()); a != b {
			t.Fatalf("%+v, then %+v, of %+v", a, b, o)
		}
	})
}
