package cluster

import (
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// TestStandbyNodesAndReservations: a node of type a in zone z, as the class and what is full make
// it.
func TestStandbyNodesAndReservations(t *testing.T) {
	full := func(v *typedView) {
		v.MarkOfferingUnavailable(decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}, v.now)
	}
	for name, c := range map[string]struct {
		preference v1alpha1.ReservationPreference
		ended      bool
		event      func(*typedView)
		// starts is what a start needs, sees the type as which it starts.
		starts       decide.Offering
		sees, reason string
	}{
		"it has room":            {starts: decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}, sees: "a"},
		"On-Demand is dry":       {event: func(v *typedView) { v.dry("a") }, starts: decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}, sees: "a"},
		"it is full":             {event: full, starts: decide.Offering{Zone: "z", Type: "a"}, sees: "a"},
		"it is full, and dry":    {event: func(v *typedView) { full(v); v.dry("a") }, starts: decide.Offering{Zone: "z", Type: "b"}, sees: "b"},
		"full, and nothing else": {preference: "Only", event: full, starts: decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}, sees: "a"},
		"full, and none may leave": {event: func(v *typedView) { full(v); v.HoldReservations(v.now.Add(time.Minute)) },
			starts: decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}, sees: "a"},
		"it has ended": {ended: true, starts: decide.Offering{Zone: "z", Type: "a"}, sees: "a"},
		"it has ended, and nothing else": {preference: "Only", ended: true, sees: "a",
			starts: decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}, reason: "capacity reservation cr-1 has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			v.SetNode(poolNode("n", v1alpha1.StateStandby, inZ("a")))
			class := typedClass("a", "b")
			class.Spec.CapacityReservation = &v1alpha1.CapacityReservation{ID: "cr-1", Preference: c.preference}
			class.Status.CapacityReservation = &v1alpha1.CapacityReservationStatus{ID: "cr-1", InstanceType: "a", Zone: "z",
				Ended: c.ended}
			v.SetNodeClass(class) // nodes that are there already follow it
			if c.event != nil {
				c.event(v)
			}
			for _, n := range lookUp(v.State, "n") {
				if got, _ := v.NodeOffering(n, v.now); got != c.starts {
					t.Errorf("its start needs %+v, want %+v", got, c.starts)
				}
				if n.NotStartable != c.reason {
					t.Errorf("not startable: %q, want %q", n.NotStartable, c.reason)
				}
			}
			if got := v.sees("n"); got != c.sees {
				t.Errorf("it starts as %s, want %s", got, c.sees)
			}
		})
	}
}
