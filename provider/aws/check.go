package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// Checker asks AWS by calls that change nothing what its caller may do. A call that a policy does
// not allow returns a provider.UnauthorizedError.
type Checker struct {
	cloud *Cloud
	sts   *sts.Client
	iam   *iam.Client
}

// Checker returns one with the credentials of the cloud.
func (c *Cloud) Checker() *Checker {
	return &Checker{
		cloud: c,
		sts:   sts.NewFromConfig(c.options.Config, func(o *sts.Options) { o.Retryer = retryer() }),
		iam:   iam.NewFromConfig(c.options.Config, func(o *iam.Options) { o.Retryer = retryer() }),
	}
}

// Identity is the ARN of the caller.
func (c *Checker) Identity(ctx context.Context) (string, error) {
	out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", checked("GetCallerIdentity", "", err)
	}
	return aws.ToString(out.Arn), nil
}

// Launch makes a dry run of RunInstances in each subnet of a class whose status is resolved. The
// error is that of the first one that fails.
func (c *Checker) Launch(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) error {
	r, err := c.cloud.in(regionName(class.Spec.Region))
	if err != nil {
		return err
	}
	if !resolved(class) {
		return fmt.Errorf("the status of class %s is not resolved", class.Name)
	}
	req.Registration.BootstrapToken = userdata.PlaceholderToken
	data, err := userdata.OfLaunch(&class.Spec, class.Status.Bootstrap, req.Registration)
	if err != nil {
		return err
	}
	for _, subnet := range inOrder(class.Status.Subnets, 0) {
		o, _ := offerOf(class, "", "", subnet, false)
		in := r.request(class, o, req, data)
		in.DryRun = aws.Bool(true)
		_, err := r.client.RunInstances(ctx, in)
		if err := checked(limiter.RunInstances, "", err); err != nil {
			return fmt.Errorf("subnet %s: %w", subnet.ID, err)
		}
	}
	return nil
}

// Operate makes a dry run of the operation on an instance: StartInstances, StopInstances,
// TerminateInstances, CreateTags, or one that asks for the type or the reservation that it has.
func (c *Checker) Operate(ctx context.Context, op limiter.Operation, i *provider.Instance) error {
	r, err := c.cloud.in(regionName(i.Region))
	if err != nil {
		return err
	}
	ids, dry := []string{string(i.ID)}, aws.Bool(true)
	switch op {
	case limiter.StartInstances:
		_, err = r.client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids, DryRun: dry})
	case limiter.StopInstances:
		_, err = r.client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids, DryRun: dry})
	case limiter.TerminateInstances:
		_, err = r.client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids, DryRun: dry})
	case limiter.CreateTags:
		state := map[string]string{v1alpha1.LabelState: i.Tags[v1alpha1.LabelState]}
		_, err = r.client.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tagsOf(state), DryRun: dry})
	case limiter.ModifyInstanceAttribute:
		in := modifyType(string(i.ID), i.Type)
		in.DryRun = dry
		_, err = r.client.ModifyInstanceAttribute(ctx, in)
	case limiter.ModifyInstanceCapacityReservationAttributes:
		in := reserve(string(i.ID), i.Reservation)
		in.DryRun = dry
		_, err = r.client.ModifyInstanceCapacityReservationAttributes(ctx, in)
	default:
		return fmt.Errorf("%s has no dry run", op)
	}
	return checked(op, string(i.ID), err)
}

// Instances are those that carry all the tags, in all regions in use.
func (c *Checker) Instances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error) {
	return c.cloud.ListInstances(ctx, tags)
}

// AuthenticationMode asks EKS how principals enter the cluster: API, CONFIG_MAP or
// API_AND_CONFIG_MAP.
func (c *Checker) AuthenticationMode(ctx context.Context, cluster string) (string, error) {
	out, err := c.cloud.clusters.client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(cluster)})
	if err != nil {
		return "", checked(describeCluster, "", err)
	}
	if out.Cluster == nil || out.Cluster.AccessConfig == nil {
		return "", nil
	}
	return string(out.Cluster.AccessConfig.AuthenticationMode), nil
}

// Role is the ARN of the role in the class's instance profile, "" for a class without a profile.
func (c *Checker) Role(ctx context.Context, class *v1alpha1.AWSNodeClass) (string, error) {
	profile := class.Spec.IAMInstanceProfile
	if profile == "" {
		return "", nil
	}
	name := profile[strings.LastIndex(profile, "/")+1:]
	out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err != nil {
		return "", checked("GetInstanceProfile", "", err)
	}
	if out.InstanceProfile == nil || len(out.InstanceProfile.Roles) == 0 {
		return "", wrong(fieldProfile, "the instance profile %s has no role", name)
	}
	return aws.ToString(out.InstanceProfile.Roles[0].Arn), nil
}

// AccessEntry is the type of the principal's access entry, such as EC2_LINUX; "" where there is
// none.
func (c *Checker) AccessEntry(ctx context.Context, cluster, principal string) (string, error) {
	out, err := c.cloud.clusters.client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{
		ClusterName: aws.String(cluster), PrincipalArn: aws.String(principal),
	})
	var said smithy.APIError
	switch {
	case errors.As(err, &said) && said.ErrorCode() == codeNoResource:
		return "", nil
	case err != nil:
		return "", checked("DescribeAccessEntry", "", err)
	case out.AccessEntry == nil:
		return "", nil
	}
	return aws.ToString(out.AccessEntry.Type), nil
}

// codeNoResource is EKS's code for what does not exist.
const codeNoResource = "ResourceNotFoundException"

// checked reads the answer to a call that changes nothing. A dry run that is allowed is answered
// by an error.
func checked(op limiter.Operation, id string, err error) error {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return subject{operation: string(op), id: id}.typed(err)
	}
	switch said.ErrorCode() {
	case "DryRunOperation":
		return nil
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		return unauthorized(op, err)
	case codeNoResource, "NoSuchEntity":
		return &provider.InvalidConfigError{Field: string(op), Reason: said.ErrorMessage()}
	}
	return subject{operation: string(op), id: id}.typed(err)
}
