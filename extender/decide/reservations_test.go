package decide

import (
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// TestWhatAStartNeeds: by the reservations that the instance is to use, and what is known to be
// full.
func TestWhatAStartNeeds(t *testing.T) {
	here := Offering{Zone: "z", Type: "a"}
	in := func(reservation string) Offering { return Offering{Zone: "z", Type: "a", Reservation: reservation} }
	id := v1alpha1.CapacityReservation{ID: "cr-1"}
	only := v1alpha1.CapacityReservation{ID: "cr-1", Preference: v1alpha1.ReservationOnly}
	full := func(l *Claims) { l.MarkOfferingUnavailable(in("cr-1"), epoch()) }
	for name, c := range map[string]struct {
		of   Offering
		uses v1alpha1.CapacityReservation
		with func(*Claims)
		want Offering
	}{
		"nothing special":    {of: here, want: here},
		"no zone and type":   {uses: only},
		"none":               {of: here, uses: v1alpha1.CapacityReservation{Preference: "None"}, want: here},
		"a group":            {of: here, uses: v1alpha1.CapacityReservation{ResourceGroupARN: "g"}, want: here},
		"a group alone":      {of: here, uses: v1alpha1.CapacityReservation{ResourceGroupARN: "g", Preference: "Only"}, want: in("g")},
		"any reservation":    {of: here, uses: v1alpha1.CapacityReservation{Preference: "Only"}, want: in("Only")},
		"an id":              {of: here, uses: id, want: in("cr-1")},
		"an id that is full": {of: here, uses: id, with: full, want: here},
		"an id that is full, and On-Demand too": {of: here, uses: id, with: func(l *Claims) { full(l); l.MarkOfferingUnavailable(here, epoch()) },
			want: here},
		"On-Demand alone is out":          {of: here, uses: id, with: func(l *Claims) { l.MarkOfferingUnavailable(here, epoch()) }, want: in("cr-1")},
		"an id alone that is full":        {of: here, uses: only, with: full, want: in("cr-1")},
		"no instance may leave its own":   {of: here, uses: id, with: func(l *Claims) { full(l); l.HoldReservations(epoch().Add(time.Hour)) }, want: in("cr-1")},
		"instances may leave their again": {of: here, uses: id, with: func(l *Claims) { full(l); l.HoldReservations(epoch()) }, want: here},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewClaims()
			if c.with != nil {
				c.with(l)
			}
			if got := l.StartOffering(c.of, c.uses, epoch().Add(time.Second)); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
