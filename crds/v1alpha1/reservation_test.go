package v1alpha1

import "testing"

// TestReservationOfAnInstance: what an instance is to use, by its type and zone.
func TestReservationOfAnInstance(t *testing.T) {
	const id, kind, zone = "cr-1", "m5.large", "us-east-1a"
	group := CapacityReservation{ResourceGroupARN: "arn:aws:resource-groups:us-east-1:123456789012:group/g"}
	only := CapacityReservation{Preference: ReservationOnly, ID: id}
	found := &CapacityReservationStatus{ID: id, InstanceType: kind, Zone: zone}
	ended := &CapacityReservationStatus{ID: id, InstanceType: kind, Zone: zone, Ended: true}
	for name, c := range map[string]struct {
		spec       *CapacityReservation
		status     *CapacityReservationStatus
		kind, zone string
		want       CapacityReservation
		unknown    bool
	}{
		"unset":                     {kind: kind, zone: zone},
		"open, written out":         {spec: &CapacityReservation{Preference: ReservationOpen}, kind: kind, zone: zone},
		"none":                      {spec: &CapacityReservation{Preference: ReservationNone}, want: CapacityReservation{Preference: ReservationNone}},
		"a group":                   {spec: &group, kind: kind, zone: zone, want: group},
		"an id":                     {spec: &CapacityReservation{ID: id}, status: found, kind: kind, zone: zone, want: CapacityReservation{ID: id}},
		"an id of another type":     {spec: &CapacityReservation{ID: id}, status: found, kind: "m5.xlarge", zone: zone},
		"an id of another zone":     {spec: &CapacityReservation{ID: id}, status: found, kind: kind, zone: "us-east-1b"},
		"an id that has ended":      {spec: &CapacityReservation{ID: id}, status: ended, kind: kind, zone: zone},
		"an id, not asked for yet":  {spec: &CapacityReservation{ID: id}, kind: kind, zone: zone, unknown: true},
		"an id, status of another":  {spec: &CapacityReservation{ID: "cr-2"}, status: found, kind: kind, zone: zone, unknown: true},
		"Only, of another type":     {spec: &only, status: found, kind: "m5.xlarge", zone: zone, want: only},
		"Only, with one that ended": {spec: &only, status: ended, kind: kind, zone: zone, want: only},
	} {
		t.Run(name, func(t *testing.T) {
			class := &AWSNodeClass{}
			class.Spec.CapacityReservation, class.Status.CapacityReservation = c.spec, c.status
			if got, known := class.ReservationOf(c.kind, c.zone); got != c.want || known == c.unknown {
				t.Errorf("%+v, known %t, want %+v, %t", got, known, c.want, !c.unknown)
			}
		})
	}
}
