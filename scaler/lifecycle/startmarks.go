package lifecycle

import (
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// StartMarks are the ends of the phases of one start, as the leader saw them by its own clock.
type StartMarks struct {
	// Began is when the start intent was written.
	Began time.Time
	// ends has no entry for PhaseOpen, nor for a phase whose end was not seen.
	ends map[v1alpha1.StartPhase]time.Time
}

// NewStartMarks returns those of a start that has just begun.
func NewStartMarks(began time.Time) *StartMarks {
	return &StartMarks{Began: began, ends: map[v1alpha1.StartPhase]time.Time{}}
}

// Observe takes in what is known of the start now. booted: the kubelet has reported another bootID
// than before the start.
func (m *StartMarks) Observe(o *Observation, booted bool, now time.Time) {
	i, n := &o.Instance, o.Node
	switch {
	case !i.Accepted.Before(m.Began):
		m.mark(v1alpha1.PhaseCall, i.Accepted)
	case shownUp(o):
		m.mark(v1alpha1.PhaseCall, i.Up)
	}
	if i.State == provider.InstanceRunning && shownUp(o) {
		m.mark(v1alpha1.PhaseMachine, i.Since)
	}
	if booted {
		m.mark(v1alpha1.PhaseBoot, now)
	}
	// What may end again has its mark from when it last began. The node waits for all of it together.
	holds := n.Ready
	m.hold(v1alpha1.PhaseReady, holds, now)
	holds = holds && n.NetworkReady
	m.hold(v1alpha1.PhaseNetwork, holds, now)
	holds = holds && n.Complete && n.AgentTaint == ""
	m.hold(v1alpha1.PhaseDevices, holds, now)
}

// mark takes in that the phase has ended. The first mark stands.
func (m *StartMarks) mark(phase v1alpha1.StartPhase, at time.Time) {
	if _, marked := m.ends[phase]; !marked {
		m.ends[phase] = at
	}
}

// hold marks the phase while what ends it is so.
func (m *StartMarks) hold(phase v1alpha1.StartPhase, holds bool, now time.Time) {
	if !holds {
		delete(m.ends, phase)
		return
	}
	m.mark(phase, now)
}

// Phases are how long each phase took of a start that ended at the given time. A mark that was seen
// after its successor, or not at all, takes the successor's time: no phase is negative, and their
// sum is the time from the intent to the end. It is nil where the clock has gone back behind the
// intent.
func (m *StartMarks) Phases(ended time.Time) map[v1alpha1.StartPhase]time.Duration {
	// By the wall clock alone, which the intent was written by: sums are exact though it is stepped.
	took := ended.Round(0).Sub(m.Began)
	if took < 0 {
		return nil
	}
	phases, out, end := v1alpha1.StartPhases(), map[v1alpha1.StartPhase]time.Duration{}, took
	for i, phase := range slices.Backward(phases) {
		begin := time.Duration(0)
		if i > 0 {
			begin = min(end, m.endOf(phases[i-1], took))
		}
		out[phase] = end - begin
		end = begin
	}
	return out
}

// endOf is when the phase ended, since the intent; took where that was not seen.
func (m *StartMarks) endOf(phase v1alpha1.StartPhase, took time.Duration) time.Duration {
	at, marked := m.ends[phase]
	if !marked {
		return took
	}
	return max(0, at.Round(0).Sub(m.Began))
}
