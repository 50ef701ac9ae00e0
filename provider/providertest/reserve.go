package providertest

import (
	"reflect"
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// reserver is the provider as one that sets reservations; nil where the cloud has none.
func reserver(t *testing.T, s Subject) provider.Reserver {
	t.Helper()
	return capability[provider.Reserver](t, s, s.Reserves)
}

// capability is the provider as one that can more than each has to; nil where it cannot. The
// subject says which: a provider that loses the method, for example in a wrapper, fails here.
func capability[T any](t *testing.T, s Subject, wanted bool) T {
	t.Helper()
	c, can := s.Provider.(T)
	if can != wanted {
		t.Fatalf("the provider is a %v: %t, and the subject says %t", reflect.TypeFor[T](), can, wanted)
	}
	return c
}

func checkReservation(t *testing.T, s Subject, id v1alpha1.InstanceID, want v1alpha1.CapacityReservation) {
	t.Helper()
	got, err := s.Provider.GetInstance(t.Context(), string(id))
	must(t, "get", err)
	if got.Reservation != want {
		t.Errorf("the instance uses %+v, want %+v", got.Reservation, want)
	}
}

// setReservation sets each value twice: the second time it has no effect. A life of the instance
// leaves it.
func setReservation(t *testing.T, s Subject) {
	r := reserver(t, s)
	if r == nil {
		return
	}
	i := standby(t, s)
	checkReservation(t, s, i.ID, v1alpha1.CapacityReservation{})
	for _, want := range []v1alpha1.CapacityReservation{{Preference: v1alpha1.ReservationNone}, {}} {
		for range 2 {
			must(t, "set", r.SetReservation(t.Context(), string(i.ID), want))
		}
		must(t, "start", s.Provider.StartInstance(t.Context(), string(i.ID)))
		s.WaitFor(t, i.ID, provider.InstanceRunning)
		must(t, "stop", s.Provider.StopInstance(t.Context(), string(i.ID), false))
		s.WaitFor(t, i.ID, provider.InstanceStopped)
		checkReservation(t, s, i.ID, want)
	}
}

// setNoReservation: of an instance that runs, one that there is not, and to a reservation that
// there is not.
func setNoReservation(t *testing.T, s Subject) {
	r := reserver(t, s)
	if r == nil {
		return
	}
	none := v1alpha1.CapacityReservation{Preference: v1alpha1.ReservationNone}
	i := launch(t, s, provider.LaunchRequest{})
	if err := r.SetReservation(t.Context(), string(i.ID), none); !provider.IsIncorrectState(err) {
		t.Errorf("set while running: %v, want an IncorrectStateError", err)
	}
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(i.ID), false))
	s.WaitFor(t, i.ID, provider.InstanceStopped)
	other := v1alpha1.CapacityReservation{ID: "cr-0000000000000dead"}
	if err := r.SetReservation(t.Context(), string(i.ID), other); !provider.IsInvalidConfig(err) {
		t.Errorf("set to a reservation that there is not: %v, want an InvalidConfigError", err)
	}
	checkReservation(t, s, i.ID, v1alpha1.CapacityReservation{})
	must(t, "terminate", s.Provider.TerminateInstance(t.Context(), string(i.ID)))
	s.WaitFor(t, i.ID, provider.InstanceTerminated)
	err := r.SetReservation(t.Context(), string(i.ID), none)
	if !provider.IsIncorrectState(err) && !provider.IsNotFound(err) {
		t.Errorf("set after the end: %v, want an IncorrectStateError or a NotFoundError", err)
	}
}
