package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// TestStartsThatLeaveTheReservation: a start may take an instance out of what it is set to, unless
// the class allows nothing else. It does not matter whether the Node says its zone and type.
func TestStartsThatLeaveTheReservation(t *testing.T) {
	full := decide.Offering{Zone: "z", Type: "a", Reservation: "cr-1"}
	only := v1alpha1.CapacityReservation{ID: "cr-1", Preference: v1alpha1.ReservationOnly}
	for name, c := range map[string]struct {
		class  *v1alpha1.CapacityReservation
		isFull bool
		bare   bool
		want   bool
	}{
		"it has room":                        {class: &v1alpha1.CapacityReservation{ID: "cr-1"}},
		"it is full":                         {class: &v1alpha1.CapacityReservation{ID: "cr-1"}, isFull: true, want: true},
		"a Node without labels":              {class: &v1alpha1.CapacityReservation{ID: "cr-1"}, bare: true, want: true},
		"nothing else":                       {class: &only},
		"nothing else, and it is full":       {class: &only, isFull: true},
		"nothing else, without labels":       {class: &only, bare: true},
		"nothing but a group":                {class: &v1alpha1.CapacityReservation{ResourceGroupARN: "g", Preference: "Only"}, bare: true},
		"nothing but some reservation":       {class: &v1alpha1.CapacityReservation{Preference: "Only"}, bare: true},
		"the class says nothing":             {want: true},
		"nor has the Node labels":            {bare: true, want: true},
		"none, and it may be set to another": {class: &v1alpha1.CapacityReservation{Preference: "None"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTypedView()
			class := typedClass("a", "b")
			class.Spec.CapacityReservation = c.class
			class.Status.CapacityReservation = &v1alpha1.CapacityReservationStatus{ID: "cr-1", InstanceType: "a", Zone: "z"}
			v.SetNodeClass(class)
			if c.isFull {
				v.MarkOfferingUnavailable(full, v.now)
			}
			labels := inZ("a")
			if c.bare {
				labels = func(*corev1.Node) {}
			}
			if _, _, leaves := v.StartOffering(poolNode("n", v1alpha1.StateStandby, labels)); leaves != c.want {
				t.Errorf("the start leaves the reservation: %t, want %t", leaves, c.want)
			}
		})
	}
}
