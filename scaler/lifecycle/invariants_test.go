package lifecycle

import (
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// every calls f with the product of everything that a decision depends on.
func every(f func(Observation)) {
	marks := []time.Time{{}, ago(100 * time.Millisecond), ago(20 * time.Second), ago(time.Hour)}
	bools := []bool{false, true}
	imageStates := []ImageState{ImagesPresent, ImagesUnknown, ImagesPulling, ImagesFailing, ImagesFailureReported,
		ImagesSettled}
	states := []v1alpha1.NodeState{noNode, "", v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting,
		v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateTerminating}
	for _, s := range states {
		images := imageStates
		if s != v1alpha1.StateWarmup && s != v1alpha1.StateStopping { // nothing depends on them
			images = images[:1]
		}
		for _, i := range []provider.InstanceState{pending, running_, stopping_, stopped, terminated, unknown} {
			for _, mark := range marks {
				for _, other := range marks {
					for bits := range len(images) << 10 {
						bit := func(n int) bool { return bools[bits>>n&1] }
						o := row{state: s, instance: i}.observation()
						if !mark.IsZero() {
							o.Instance.Launched = mark
						}
						o.Policy.Deleting, o.Policy.SelfStop, o.Policy.ScaleDown = bit(0), bit(1), bit(2)
						o.WorkloadPods, o.Claims, o.Wanted = bits>>3&1, bits>>4&1, bit(8)
						if n := o.Node; n != nil {
							n.Ready, n.NetworkReady, n.Complete = bit(5), bit(6), bit(7)
							n.EverReady = n.Ready
							n.ReadySeen, n.NetworkSeen = n.Ready, n.Ready && n.NetworkReady
							n.Warmed, n.EmptySince, n.Stop.At = mark, mark, other
							n.WarmupStarted, n.ImagesChecked = other, other
							n.Images = images[bits>>10]
							n.Started, n.Running, n.StoppingSince = mark, mark, mark
							o.Refresh = bit(8)
							if bit(9) {
								o.Recycle = v1alpha1.StopDrift
							}
						}
						f(o)
					}
				}
			}
		}
	}
}

// TestStandbyHasItsImages is invariant 6, but for nodes that were standby already: those keep what
// they had.
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
		if o.Node == nil || o.WorkloadPods == 0 || o.Instance.State == terminated {
			return
		}
		d := Decide(o, epoch())
		hangs := d.Action == ForceStop && o.Instance.State == stopping_
		if d.Action == BeginTerminate && d.StopReason == v1alpha1.StopDrift {
			t.Fatalf("replaced for drift with a workload pod on it: %+v %+v", o, o.Node)
		}
		switch d.Action {
		case StopWarmed, ForceStop, StopAgain, VerifyAndStop, Terminate, BeginStop:
			if !hangs {
				t.Fatalf("%s with a workload pod on it: %+v %+v", d.Action, o, o.Node)
			}
		default:
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
			return // states without a deadline: they end by demand
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
		late := state(o) == v1alpha1.StateStarting && epoch().Sub(o.Node.Started) >= o.Policy.ReadyTimeout
		if d.Action == ToRunning && !(o.Node.Ready && o.Node.NetworkReady && (o.Node.Complete || late)) {
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

// TestNothingBeginsInAPausedPool: what a decision writes or calls there ends something, or records
// what is so. It looks at each seventh observation, for the time: seven divides no number of
// values, so that each value meets each other.
func TestNothingBeginsInAPausedPool(t *testing.T) {
	seen, count := map[Action]int{}, 0
	every(func(o Observation) {
		if count++; count%7 != 0 {
			return
		}
		o.Policy.Paused = true
		d := Decide(o, epoch())
		seen[d.Action]++
		switch s := state(o); d.Action {
		case RequestStart, BeginStop, BeginTerminate, Fence:
			t.Fatalf("%s (%s) in a paused pool: %+v %+v", d.Action, d.Reason, o, o.Node)
		case VerifyAndStop, PullImages:
			if s == v1alpha1.StateStopping {
				t.Fatalf("a drain goes on (%s) in a paused pool: %+v %+v", d.Action, o, o.Node)
			}
		case Terminate:
			if s != v1alpha1.StateTerminating {
				t.Fatalf("terminated (%s) in a paused pool: %+v %+v", d.Reason, o, o.Node)
			}
		case WarmAgain:
			if s == v1alpha1.StateStandby || o.Node.WarmupStarted.IsZero() {
				t.Fatalf("started (%s) in a paused pool: %+v %+v", d.Reason, o, o.Node)
			}
		default:
		}
	})
	for _, a := range []Action{ToRunning, CancelStop, StopWarmed, StopAgain, ToStandby, Terminate, WarmAgain, FailStart} {
		if seen[a] == 0 {
			t.Errorf("%s never: what has begun would not end", a)
		}
	}
}
