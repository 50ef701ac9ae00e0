package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// LaunchInstance launches one instance of the class: as the first of its usable types that a zone
// has, in the first subnet there, in the order of the request's number, that has an address. The
// same request returns the same instance, also where the class has changed since. A request that
// was refused may be made again, with another class too. Errors: NotFound (the instance of the
// request has ended), InvalidConfig, InsufficientCapacity, RateLimit.
func (c *Cloud) LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	if class == nil {
		return nil, &provider.InvalidConfigError{Field: "class", Reason: "is missing"}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := c.ofClass(class)
	if err != nil {
		return nil, err
	}
	current := class.Status.ObservedGeneration == class.Generation && resolved(class)
	if !current {
		if class, err = c.found(ctx, r, class); err != nil {
			return nil, err
		}
	}
	instance, err := r.launch(ctx, class, req)
	if current && goneStale(err) {
		// What the class's status says was true once. The loop that writes it will find out too, in its
		// time.
		if class, err = c.found(ctx, r, class); err != nil {
			return nil, err
		}
		return r.launch(ctx, class, req)
	}
	return instance, err
}

// found is the class with the status that EC2 gives it now.
func (c *Cloud) found(ctx context.Context, r *region, class *v1alpha1.AWSNodeClass) (*v1alpha1.AWSNodeClass, error) {
	status, err := c.find(ctx, r, class, r.classes.imageOrLast)
	if err != nil {
		return nil, err
	}
	class = class.DeepCopy()
	class.Status = status
	return class, nil
}

// resolved reports whether the status says everything that a launch needs.
func resolved(class *v1alpha1.AWSNodeClass) bool {
	s := &class.Status
	joins := class.Spec.Bootstrap == nil || s.Bootstrap.IsComplete()
	_, reserves := class.ReservationOf("", "")
	return s.AMI != "" && len(s.Subnets) > 0 && len(s.SecurityGroups) > 0 && joins && reserves
}

// goneStale reports whether a launch failed for something that may have another id by now.
func goneStale(err error) bool {
	var wrong *provider.InvalidConfigError
	return errors.As(err, &wrong) && (wrong.Field == fieldImage || wrong.Field == fieldSubnets ||
		wrong.Field == fieldGroups)
}

// launch tries the offers one after another. The error is that of the last call with the first
// type, or the reason for which there was none.
func (r *region) launch(ctx context.Context, class *v1alpha1.AWSNodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	data, err := userdata.OfLaunch(&class.Spec, class.Status.Bootstrap, req.Registration)
	if err != nil {
		return nil, err
	}
	offers := r.offers(class, req)
	if len(offers) == 0 {
		return nil, &provider.InvalidConfigError{Field: fieldSubnets, Reason: fmt.Sprintf("none is in zone %q", req.Zone)}
	}
	var before refusals
	for _, o := range offers {
		if !r.tokens.isOpen(o.key) && r.leavesOut(o, &before) {
			continue
		}
		instance, err := r.launchIn(ctx, o.key, r.request(class, o, req, data))
		about := subject{operation: "RunInstances", kind: o.kind, zone: o.subnet.Zone}
		failed := about.typed(err)
		r.quotas.answered(o.kind, failed, time.Now())
		if err == nil {
			r.launches.worked(o.room(), o.addresses())
			return instance, nil
		}
		if !r.goesOn(o, err, failed, &before) {
			return nil, failed
		}
	}
	return nil, before.err()
}

// launchIn launches in one subnet, under the token that the request has there now. Where the token
// was used with other parameters, what it launched then is returned: the answer to it was lost, and
// the class has changed since.
func (r *region) launchIn(ctx context.Context, key tokenKey, in *ec2.RunInstancesInput) (*provider.Instance, error) {
	for {
		in.ClientToken = r.tokens.use(key, time.Now())
		instance, err := r.runOne(ctx, in)
		if !isMismatch(err) {
			r.tokens.ended(key, err)
			return instance, err
		}
		before, lookErr := r.launchedUnder(ctx, aws.ToString(in.ClientToken))
		if lookErr != nil {
			return nil, errors.Join(words(err), lookErr)
		}
		if before != nil {
			r.tokens.ended(key, nil)
			return before, nil
		}
		if until, ended := r.tokens.lapsed(key, time.Now()); !ended {
			return nil, fmt.Errorf(
				"the launch was asked for before with other parameters, and EC2 shows no instance of it yet: "+
					"another one is launched after %s: %w", until.UTC().Format(time.RFC3339), words(err))
		}
	}
}

// isMismatch reports whether EC2 refused a client token because it was used with other parameters.
func isMismatch(err error) bool {
	var said interface{ ErrorCode() string }
	return errors.As(err, &said) && said.ErrorCode() == "IdempotentParameterMismatch"
}

// runOne launches one instance.
func (r *region) runOne(ctx context.Context, in *ec2.RunInstancesInput) (*provider.Instance, error) {
	out, err := r.client.RunInstances(ctx, in)
	if err != nil {
		return nil, err
	}
	if len(out.Instances) != 1 {
		return nil, fmt.Errorf("RunInstances in %s answered with %d instances",
			aws.ToString(in.SubnetId), len(out.Instances))
	}
	return r.note(&out.Instances[0]), nil
}

// launchedUnder returns the instance that was launched under the client token, nil where EC2 shows
// none.
func (r *region) launchedUnder(ctx context.Context, token string) (*provider.Instance, error) {
	found, err := r.read(ctx, &ec2.DescribeInstancesInput{
		MaxResults: aws.Int32(pageSize), Filters: []types.Filter{filter("client-token", token)},
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// request words a launch with its user data, all but its client token.
func (r *region) request(class *v1alpha1.AWSNodeClass, o offer, req provider.LaunchRequest,
	data string) *ec2.RunInstancesInput {
	spec, status := &class.Spec, &class.Status
	in := &ec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		ImageId: aws.String(status.AMI), InstanceType: types.InstanceType(o.kind),
		SubnetId: aws.String(o.subnet.ID), SecurityGroupIds: slices.Clone(status.SecurityGroups),
		BlockDeviceMappings: volumesOf(spec.BlockDeviceMappings), IamInstanceProfile: profileOf(spec.IAMInstanceProfile),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens:              types.HttpTokensState(spec.MetadataOptions.HTTPTokensOrDefault()),
			HttpPutResponseHopLimit: aws.Int32(spec.MetadataOptions.HTTPPutResponseHopLimitOrDefault()),
			HttpEndpoint:            types.InstanceMetadataEndpointState(spec.MetadataOptions.HTTPEndpointOrDefault()),
			// Where the account's default shows tags in the metadata, EC2 refuses tag keys with a
			// slash, and so all of ours.
			InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled,
		},
		// An instance that powers itself off after its warm-up is to be stopped by that, whatever the
		// image's default is.
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorStop,
		TagSpecifications:                 tagSpecifications(spec.Tags, req.Tags, status.AMI),
	}
	if data != "" {
		in.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(data)))
	}
	if o.reservation != (v1alpha1.CapacityReservation{}) {
		in.CapacityReservationSpecification = specificationOf(o.reservation)
	}
	if spec.HibernationEnabled() {
		in.HibernationOptions = &types.HibernationOptionsRequest{Configured: aws.Bool(true)}
	}
	return in
}

// tagSpecifications puts tags on the instance and on what is made with it. Ours win over the
// class's. What changes in the life of an instance, or records its launch, is on the instance
// alone: on a volume it would not be kept true.
func tagSpecifications(class map[string]v1alpha1.TagValue, ours map[string]string,
	image string) []types.TagSpecification {
	own := maps.Clone(ours)
	if own == nil {
		own = map[string]string{}
	}
	if own[v1alpha1.TagManagedBy] != "" {
		own[v1alpha1.AnnotationAMI] = image // the one that it is launched from, should the class's status have said another
	}
	lasting := map[string]string{}
	for _, key := range []string{v1alpha1.TagManagedBy, v1alpha1.TagCluster, v1alpha1.TagClusterUID, v1alpha1.LabelPool} {
		if value, ok := own[key]; ok {
			lasting[key] = value
		}
	}
	var out []types.TagSpecification
	for _, on := range []struct {
		kind types.ResourceType
		ours map[string]string
	}{
		{types.ResourceTypeInstance, own}, {types.ResourceTypeVolume, lasting}, {types.ResourceTypeNetworkInterface, lasting},
	} {
		all := map[string]string{}
		maps.Copy(all, class)
		maps.Copy(all, on.ours)
		if len(all) > 0 {
			out = append(out, types.TagSpecification{ResourceType: on.kind, Tags: tagsOf(all)})
		}
	}
	return out
}

func profileOf(profile string) *types.IamInstanceProfileSpecification {
	switch {
	case profile == "":
		return nil
	case strings.HasPrefix(profile, "arn:"):
		return &types.IamInstanceProfileSpecification{Arn: aws.String(profile)}
	}
	return &types.IamInstanceProfileSpecification{Name: aws.String(profile)}
}

func volumesOf(mappings []v1alpha1.BlockDeviceMapping) []types.BlockDeviceMapping {
	var out []types.BlockDeviceMapping
	for i := range mappings {
		m := &mappings[i]
		ebs := &types.EbsBlockDevice{
			VolumeSize: m.VolumeSize, VolumeType: types.VolumeType(m.VolumeTypeOrDefault()), Encrypted: m.Encrypted,
			Iops: m.IOPS, Throughput: m.Throughput, DeleteOnTermination: aws.Bool(m.DeleteOnTerminationOrDefault()),
		}
		if m.KMSKeyID != "" {
			ebs.KmsKeyId = aws.String(m.KMSKeyID)
		}
		if m.SnapshotID != "" {
			ebs.SnapshotId = aws.String(m.SnapshotID)
		}
		out = append(out, types.BlockDeviceMapping{DeviceName: aws.String(m.DeviceName), Ebs: ebs})
	}
	return out
}
