package aws

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

var _ provider.Reserver = (*Cloud)(nil)

// SetReservation implements provider.Reserver. EC2 takes one instance in a call.
func (c *Cloud) SetReservation(ctx context.Context, instanceID string, want v1alpha1.CapacityReservation) error {
	r, err := c.of(ctx, instanceID)
	if err != nil {
		return err
	}
	_, err = r.client.ModifyInstanceCapacityReservationAttributes(ctx, reserve(instanceID, want))
	if err != nil {
		return r.modifyRefused(ctx, limiter.ModifyInstanceCapacityReservationAttributes, instanceID, err,
			func(i *provider.Instance) bool { return i.Reservation == want })
	}
	c.index.bind(instanceID, want.Binding(), time.Now())
	return nil
}

func reserve(id string, want v1alpha1.CapacityReservation) *ec2.ModifyInstanceCapacityReservationAttributesInput {
	return &ec2.ModifyInstanceCapacityReservationAttributesInput{
		InstanceId: aws.String(id), CapacityReservationSpecification: specificationOf(want),
	}
}

// specificationOf words what reservations an instance is to use.
func specificationOf(want v1alpha1.CapacityReservation) *types.CapacityReservationSpecification {
	s := &types.CapacityReservationSpecification{}
	switch {
	case want.WithoutOnDemand():
		s.CapacityReservationPreference = types.CapacityReservationPreferenceCapacityReservationsOnly
	case want.Preference == v1alpha1.ReservationNone:
		s.CapacityReservationPreference = types.CapacityReservationPreferenceNone
	case want.Target() == "":
		s.CapacityReservationPreference = types.CapacityReservationPreferenceOpen
	}
	switch {
	case want.ID != "":
		s.CapacityReservationTarget = &types.CapacityReservationTarget{CapacityReservationId: aws.String(want.ID)}
	case want.ResourceGroupARN != "":
		s.CapacityReservationTarget = &types.CapacityReservationTarget{
			CapacityReservationResourceGroupArn: aws.String(want.ResourceGroupARN)}
	}
	return s
}

// reservationOf reads what reservations an instance uses.
func reservationOf(s *types.CapacityReservationSpecificationResponse) v1alpha1.CapacityReservation {
	var r v1alpha1.CapacityReservation
	if s == nil {
		return r
	}
	if t := s.CapacityReservationTarget; t != nil {
		r.ID, r.ResourceGroupARN = aws.ToString(t.CapacityReservationId), aws.ToString(t.CapacityReservationResourceGroupArn)
	}
	switch s.CapacityReservationPreference {
	case types.CapacityReservationPreferenceCapacityReservationsOnly:
		r.Preference = v1alpha1.ReservationOnly
	case types.CapacityReservationPreferenceNone:
		r.Preference = v1alpha1.ReservationNone
	case types.CapacityReservationPreferenceOpen: // the default
	}
	return r
}

// bind notes what reservation the instance cannot start without from now on.
func (x *index) bind(id, binding string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t, known := x.known[id]; known {
		t.binding, t.bound = binding, now
		x.known[id] = t
	}
}

// reservation is what EC2 says of the reservation that the class names, nil where it names none.
// One that EC2 has forgotten since has ended.
func (f *finder) reservation(ctx context.Context, class *v1alpha1.AWSNodeClass, image *types.Image,
	found *v1alpha1.AWSNodeClassStatus) (*v1alpha1.CapacityReservationStatus, error) {
	want, last := class.Spec.CapacityReservation, class.Status.CapacityReservation
	if want == nil || want.ID == "" {
		return nil, nil
	}
	out, err := f.region.client.DescribeCapacityReservations(ctx,
		&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{want.ID}})
	isGone := err == nil && len(out.CapacityReservations) == 0 || isNoReservation(err)
	switch {
	case isGone && last != nil && last.ID == want.ID:
		ended := *last
		ended.Ended = true
		return &ended, nil
	case isGone:
		return nil, wrong(fieldReservation, "there is no reservation %s in %s", want.ID, f.region.name)
	case err != nil:
		return nil, about(fieldReservation, "DescribeCapacityReservations", err)
	}
	r := &out.CapacityReservations[0]
	status := &v1alpha1.CapacityReservationStatus{ID: want.ID, InstanceType: aws.ToString(r.InstanceType),
		Zone: aws.ToString(r.AvailabilityZone)}
	if status.Ended, err = hasEnded(r); err != nil || status.Ended {
		return status, err
	}
	return status, unsuited(r, image, class.Spec.InstanceType, found)
}

func isNoReservation(err error) bool {
	var said smithy.APIError
	return errors.As(err, &said) && said.ErrorCode() == "InvalidCapacityReservationId.NotFound"
}

// hasEnded reports whether the reservation keeps capacity no more. The error says that it keeps
// none yet, or never will.
func hasEnded(r *types.CapacityReservation) (bool, error) {
	switch r.State {
	case types.CapacityReservationStateExpired, types.CapacityReservationStateCancelled,
		types.CapacityReservationStateCancelling:
		return true, nil
	case types.CapacityReservationStateFailed, types.CapacityReservationStateScheduled,
		types.CapacityReservationStatePaymentPending, types.CapacityReservationStatePaymentFailed,
		types.CapacityReservationStateAssessing, types.CapacityReservationStateDelayed,
		types.CapacityReservationStateUnsupported:
		return false, wrong(fieldReservation, "%s is %s, not active", aws.ToString(r.CapacityReservationId), r.State)
	case types.CapacityReservationStateActive, types.CapacityReservationStatePending,
		types.CapacityReservationStateUnavailable: // a new one may be shown as pending for 5 minutes
	}
	return false, nil
}

// unsuited is why instances of the class cannot use the reservation; nil where they can.
func unsuited(r *types.CapacityReservation, image *types.Image, first string,
	found *v1alpha1.AWSNodeClassStatus) error {
	id, kind := aws.ToString(r.CapacityReservationId), aws.ToString(r.InstanceType)
	usable := kind == first || slices.ContainsFunc(found.InstanceTypes,
		func(t v1alpha1.InstanceTypeStatus) bool { return t.Type == kind && t.Usable })
	platform := aws.ToString(image.PlatformDetails)
	switch {
	case r.ReservationType == types.CapacityReservationTypeCapacityBlock:
		return wrong(fieldReservation, "%s is a Capacity Block, at whose end EC2 terminates the instances", id)
	case aws.ToBool(r.Interruptible):
		return wrong(fieldReservation, "%s is interruptible: its owner may have the instances terminated", id)
	case r.Tenancy != types.CapacityReservationTenancyDefault:
		return wrong(fieldReservation, "%s has tenancy %s, and instances have default", id, r.Tenancy)
	case platform != "" && string(r.InstancePlatform) != platform:
		return wrong(fieldReservation, "%s is for %s, and image %s is %s", id, r.InstancePlatform,
			aws.ToString(image.ImageId), platform)
	case !usable:
		return wrong(fieldReservation, "%s is for %s, which is neither instanceType nor a usable fallback type", id, kind)
	}
	return nil
}

// inZoneOf are the subnets in the zone of the reservation, all where there is none or it has ended.
func inZoneOf(r *v1alpha1.CapacityReservationStatus, subnets []v1alpha1.ResolvedSubnet) ([]v1alpha1.ResolvedSubnet,
	error) {
	if r == nil || r.Ended {
		return subnets, nil
	}
	subnets = slices.DeleteFunc(subnets, func(s v1alpha1.ResolvedSubnet) bool { return s.Zone != r.Zone })
	if len(subnets) == 0 {
		return nil, wrong(fieldReservation, "%s is in %s, where the class has no subnet", r.ID, r.Zone)
	}
	return subnets, nil
}
