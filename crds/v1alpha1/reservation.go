package v1alpha1

import "cmp"

// ReservationPreference is which capacity reservations instances may use.
// +kubebuilder:validation:Enum=Open;None;Only
type ReservationPreference string

// The preferences, as EC2 has them.
const (
	ReservationOpen ReservationPreference = "Open"
	ReservationNone ReservationPreference = "None"
	ReservationOnly ReservationPreference = "Only"
)

// CapacityReservation says which capacity reservations instances use when they are launched and
// started.
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !has(self.resourceGroupARN)",message="id and resourceGroupARN exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.preference) || self.preference == 'Only' || !(has(self.id) || has(self.resourceGroupARN))",message="preference must be Only or unset next to id or resourceGroupARN"
type CapacityReservation struct {
	// Preference without id and resourceGroupARN: Open (default) uses any open reservation that
	// matches the instance, else On-Demand capacity; None uses no reservation; Only uses no
	// On-Demand capacity. Next to id or resourceGroupARN it is Only, or unset: then an instance
	// that finds no room there uses On-Demand capacity.
	// +optional
	Preference ReservationPreference `json:"preference,omitempty"`
	// ID of the reservation that instances use, such as cr-0123456789abcdef0. They are launched in its
	// zone. It must be of instanceType or of a fallback type, and no Capacity Block.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// ResourceGroupARN is the ARN of a resource group; instances use any reservation of it that
	// matches.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/.+$`
	// +optional
	ResourceGroupARN string `json:"resourceGroupARN,omitempty"`
}

// CapacityReservationStatus is what the cloud says of the reservation that the class names.
type CapacityReservationStatus struct {
	// ID of the reservation.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// InstanceType that it reserves.
	// +kubebuilder:validation:MaxLength=64
	InstanceType string `json:"instanceType"`
	// Zone in which it reserves, such as us-east-1a.
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone"`
	// Ended: it has expired or was cancelled. Without preference Only instances are launched and
	// started without it; with Only none is.
	// +optional
	Ended bool `json:"ended,omitempty"`
}

// Target is the id or the resource group that instances are bound to, "" for none.
func (r CapacityReservation) Target() string { return cmp.Or(r.ID, r.ResourceGroupARN) }

// Binding is what instances do not start without while they are set so: the reservation, or with
// Only the group, or any reservation. "" where EC2 goes On-Demand by itself.
func (r CapacityReservation) Binding() string {
	if r.ID == "" && !r.WithoutOnDemand() {
		return ""
	}
	return cmp.Or(r.Target(), string(ReservationOnly))
}

// WithoutOnDemand reports whether instances use no On-Demand capacity.
func (r CapacityReservation) WithoutOnDemand() bool { return r.Preference == ReservationOnly }

// plain is the same with defaults left out, so that two that mean the same are equal.
func (r CapacityReservation) plain() CapacityReservation {
	if r.Preference == ReservationOpen {
		r.Preference = ""
	}
	return r
}

// ReservationOf is what reservations an instance of the class, of that type and in that zone, is to
// use: Open is "". A reservation that the instance does not match, or that has ended, is left out,
// unless it may use nothing else. isKnown is false until the cloud has said of which type and zone
// the reservation is.
func (c *AWSNodeClass) ReservationOf(kind, zone string) (r CapacityReservation, isKnown bool) {
	if c.Spec.CapacityReservation == nil {
		return CapacityReservation{}, true
	}
	r = c.Spec.CapacityReservation.plain()
	if r.ID == "" || r.WithoutOnDemand() {
		return r, true
	}
	s := c.Status.CapacityReservation
	switch {
	case s == nil || s.ID != r.ID:
		return CapacityReservation{}, false
	case s.Ended || s.InstanceType != kind || s.Zone != zone:
		return CapacityReservation{}, true
	}
	return r, true
}

// IsBoundToReservation reports whether instances are of the type of one reservation, or do not run.
func (c *AWSNodeClass) IsBoundToReservation() bool {
	r := c.Spec.CapacityReservation
	return r != nil && r.ID != "" && r.WithoutOnDemand()
}

// ReservationEnded reports whether the reservation that the class names has ended.
func (c *AWSNodeClass) ReservationEnded() bool {
	want, s := c.Spec.CapacityReservation, c.Status.CapacityReservation
	return want != nil && want.ID != "" && s != nil && s.ID == want.ID && s.Ended
}
