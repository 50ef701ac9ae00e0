package aws

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

// stateOf is the one table of EC2's states.
func stateOf(s types.InstanceStateName) provider.InstanceState {
	switch s {
	case types.InstanceStateNamePending:
		return provider.InstancePending
	case types.InstanceStateNameRunning:
		return provider.InstanceRunning
	case types.InstanceStateNameStopping:
		return provider.InstanceStopping
	case types.InstanceStateNameStopped:
		return provider.InstanceStopped
	case types.InstanceStateNameShuttingDown:
		return provider.InstanceShuttingDown
	case types.InstanceStateNameTerminated:
		return provider.InstanceTerminated
	}
	return provider.InstanceUnknown
}

// convert is an instance as the contract knows it.
func convert(i *types.Instance) *provider.Instance {
	out := &provider.Instance{
		ID: v1alpha1.InstanceID(aws.ToString(i.InstanceId)), State: provider.InstanceUnknown, Type: string(i.InstanceType),
		PrivateDNSName: aws.ToString(i.PrivateDnsName), LaunchTime: launchedAt(i),
		StateReason: aws.ToString(i.StateTransitionReason),
		Tags:        map[string]string{}, Reservation: reservationOf(i.CapacityReservationSpecification),
	}
	if i.State != nil {
		out.State = stateOf(i.State.Name)
	}
	if i.Placement != nil {
		out.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	if i.StateReason != nil && aws.ToString(i.StateReason.Message) != "" {
		out.StateReason = aws.ToString(i.StateReason.Message)
	}
	out.ProviderID = "aws:///" + out.Zone + "/" + string(out.ID)
	for _, tag := range i.Tags {
		out.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return out
}

// launchedAt is when the instance was launched. What EC2 calls its launch time is that of its last
// start; the first network interface has been there since the launch. A terminated instance has
// none any more.
func launchedAt(i *types.Instance) time.Time {
	for _, n := range i.NetworkInterfaces {
		if a := n.Attachment; a != nil && aws.ToInt32(a.DeviceIndex) == 0 && a.AttachTime != nil {
			return *a.AttachTime
		}
	}
	return aws.ToTime(i.LaunchTime)
}

func tagsOf(tags map[string]string) []types.Tag {
	var out []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}

// newLooks gathers looks at single instances into calls for many. They go by a filter and not by
// ids: an id that EC2 does not know is then missing from the answer, and does not spoil it for the
// others.
func newLooks(r *region) *batcher[*provider.Instance] {
	return &batcher[*provider.Instance]{
		most:  mostPerFilter,
		admit: func(ctx context.Context) error { return r.calls.Wait(ctx, limiter.DescribeInstances) },
		send: func(ctx context.Context, ids []string, report func(string, *provider.Instance, error)) (func(), error) {
			instances, err := r.read(withAdmission(ctx), &ec2.DescribeInstancesInput{
				MaxResults: aws.Int32(pageSize), Filters: []types.Filter{{Name: aws.String("instance-id"), Values: ids}},
			})
			if err != nil {
				return nil, err
			}
			for _, i := range instances {
				report(string(i.ID), i, nil)
			}
			for _, id := range ids {
				// of those that were reported already only the first report counts
				report(id, nil, &provider.InstanceNotFoundError{ID: id})
			}
			return nil, nil
		},
		size: func(n int) { r.size(limiter.DescribeInstances, n) },
	}
}

// describe returns one instance as it is now, as far as EC2's reads are consistent.
func (r *region) describe(ctx context.Context, id string) (*provider.Instance, error) {
	shared, err := r.looks.do(ctx, id)
	if err != nil {
		return nil, err
	}
	own := *shared
	own.Tags = maps.Clone(shared.Tags)
	return &own, nil
}
