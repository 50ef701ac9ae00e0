package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// phaseRow is one line of the table of phases in docs/lifecycle.md.
type phaseRow struct {
	phase warmupPhase
	// facts decide the phase where those of no line above hold; rules are what it looks at.
	facts, means, rules string
	// holds has all the facts of the phase, without an order among the phases.
	holds func(*Observation) bool
}

// phases is the table of phases, in the order of priority.
func phases() []phaseRow {
	is := func(o *Observation, states ...provider.InstanceState) bool {
		return slices.Contains(states, o.Instance.State)
	}
	again := func(o *Observation) bool { return !o.Node.WarmupStarted.IsZero() }
	recorded := func(o *Observation) bool { return !o.Node.Warmed.IsZero() }
	up := func(o *Observation) bool { return o.Node.Ready && o.Node.NetworkReady }
	present := func(o *Observation) bool { return o.Node.Images == ImagesPresent }
	runs := func(o *Observation) bool { return is(o, pending, running_) && !o.Node.Stop.Stands() }
	return []phaseRow{
		{phaseStopped, "instance stopped, no second warm-up asked for",
			"the first warm-up has ended",
			"reports from before the stop, images, deadline",
			func(o *Observation) bool { return is(o, stopped) && !again(o) }},
		{phaseRetryStopped, "instance stopped, completion not recorded",
			"the second warm-up has not been started yet, or has ended",
			"reports since its start, images, deadline, age of the intent",
			func(o *Observation) bool { return is(o, stopped) && again(o) && !recorded(o) }},
		{phaseRefreshStopped, "instance stopped",
			"the same, of a node that was complete before",
			"reports since its start, images, deadline, age of the intent",
			func(o *Observation) bool { return is(o, stopped) && again(o) && recorded(o) }},
		{phaseStopping, "instance stopping, or a stop intent",
			"a stop is under way",
			"pods, age of the intent, time of the last call, deadline",
			func(o *Observation) bool {
				return is(o, stopping_) || is(o, pending, running_) && o.Node.Stop.Stands()
			}},
		{phaseComplete, "images there; Ready and network up, or completion recorded",
			"nothing is missing, or nothing was when completion was recorded",
			"what is recorded, pods, demand for new nodes, completionMode, deadline",
			func(o *Observation) bool { return runs(o) && present(o) && (up(o) || recorded(o)) }},
		{phasePulling, "Ready and network up",
			"images are missing",
			"what is recorded, pods, demand for new nodes, progress of the pulls, deadline",
			func(o *Observation) bool { return runs(o) && !present(o) && up(o) }},
		{phaseBooting, "none of these",
			"the kubelet is not Ready, or the network is not up",
			"what is recorded, pods, deadline",
			func(o *Observation) bool { return runs(o) && !up(o) && !(present(o) && recorded(o)) }},
	}
}

// warms reports whether the decision about the observation is left to the phases.
func warms(o *Observation) bool {
	return o.Node != nil && o.Node.State == v1alpha1.StateWarmup && o.Policy.Exists && !o.Policy.Deleting &&
		slices.Contains([]provider.InstanceState{pending, running_, stopping_, stopped}, o.Instance.State)
}

// warmups gives the rows that the phases decide: those of the transition table, and two
// that it lacks.
func warmups() []row {
	rows := append(table(),
		row{v1alpha1.StateWarmup, stopped, "second try, stopped and was complete, which is not recorded",
			all(secondTry(time.Minute), ready), ToStandby, "standby"},
		row{v1alpha1.StateWarmup, running_, "refreshed: Ready for the first time, images are there",
			all(ready, unseen, refreshed(time.Minute, ImagesPresent)), RecordSeen, stay},
	)
	return slices.DeleteFunc(rows, func(r row) bool {
		o := r.observation()
		return !warms(&o)
	})
}

// actions gives the actions that the rows show in each phase, sorted.
func actions() map[warmupPhase][]string {
	shown := map[warmupPhase][]string{}
	for _, r := range warmups() {
		o := r.observation()
		phase := phaseOf(&o)
		if !slices.Contains(shown[phase], string(r.action)) {
			shown[phase] = append(shown[phase], string(r.action))
			slices.Sort(shown[phase])
		}
	}
	return shown
}

func TestEachObservationHasExactlyOnePhase(t *testing.T) {
	rows := phases()
	check := func(o Observation) {
		if !warms(&o) {
			return
		}
		var held []warmupPhase
		for _, r := range rows {
			if r.holds(&o) {
				held = append(held, r.phase)
			}
		}
		if len(held) != 1 || held[0] != phaseOf(&o) {
			t.Fatalf("phase %s, and the facts are those of %s: %+v %+v", phaseOf(&o), held, o, o.Node)
		}
	}
	for _, r := range warmups() {
		check(r.observation())
	}
	every(check)
}

// TestRowsShowEachPhase walks the rows by phase: there is one for each phase, and for each action
// that the phase leads to.
func TestRowsShowEachPhase(t *testing.T) {
	for _, r := range warmups() {
		if d := Decide(r.observation(), epoch()); d.Action != r.action {
			t.Errorf("%s: action %s (%s), want %s", r.when, d.Action, d.Reason, r.action)
		}
	}
	shown := actions()
	for _, r := range phases() {
		if len(shown[r.phase]) == 0 {
			t.Errorf("no row shows phase %s", r.phase)
		}
	}
	every(func(o Observation) {
		if !warms(&o) {
			return
		}
		if d := Decide(o, epoch()); !slices.Contains(shown[phaseOf(&o)], string(d.Action)) {
			t.Fatalf("no row shows %s in phase %s: %+v %+v", d.Action, phaseOf(&o), o, o.Node)
		}
	})
}

func TestDocumentHoldsThePhases(t *testing.T) {
	shown := actions()
	var b strings.Builder
	b.WriteString("| phase | decided by | what it means | what its rules look at | actions |\n|---|---|---|---|---|\n")
	for _, r := range phases() {
		acts := strings.Join(shown[r.phase], ", ")
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.phase, r.facts, r.means, r.rules, acts)
	}
	documented(t, "table of phases", b.String())
}
