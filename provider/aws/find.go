package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/price"
)

// finder finds what a class's spec stands for in one region.
type finder struct {
	region *region
	// minor is nil where the cluster's version is unknown.
	minor *minors
	// nodeImages are nil where the cluster's version or its control-plane Nodes are unknown.
	nodeImages *nodeImages
	prices     *price.Book
}

// chosenImage is the image of a class, and for nodeImage the label's value that it was found by.
type chosenImage struct {
	*types.Image
	nodeImage string
}

// imageFinder finds the image of a class that the type can boot.
type imageFinder func(ctx context.Context, class *v1alpha1.AWSNodeClass,
	size *types.InstanceTypeInfo) (chosenImage, error)

// ResolveNodeClass returns what the class's spec stands for, in the parts of the status that are
// the cloud's. Errors: InvalidConfig with the field and AWS's words, RateLimit.
func (c *Cloud) ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus,
	error) {
	if class == nil {
		return v1alpha1.AWSNodeClassStatus{}, &provider.InvalidConfigError{Field: "class", Reason: "is missing"}
	}
	r, err := c.ofClass(class)
	if err != nil {
		return v1alpha1.AWSNodeClassStatus{}, err
	}
	return c.find(ctx, r, class, r.classes.image)
}

// find asks EC2 in the class's region, and EKS in that of Stratos.
func (c *Cloud) find(ctx context.Context, r *region, class *v1alpha1.AWSNodeClass,
	imageOf imageFinder) (v1alpha1.AWSNodeClassStatus, error) {
	found, err := r.classes.find(ctx, class, imageOf)
	if err != nil {
		return v1alpha1.AWSNodeClassStatus{}, err
	}
	if found.Bootstrap, err = c.clusters.resolve(ctx, class); err != nil {
		return v1alpha1.AWSNodeClassStatus{}, err
	}
	return found, nil
}

func (f *finder) find(ctx context.Context, class *v1alpha1.AWSNodeClass,
	imageOf imageFinder) (v1alpha1.AWSNodeClassStatus, error) {
	var none v1alpha1.AWSNodeClassStatus
	spec := &class.Spec
	sizes, err := f.sizes(ctx, spec)
	if err != nil {
		return none, err
	}
	size := sizes[spec.InstanceType]
	image, err := imageOf(ctx, class, size)
	if err != nil {
		return none, err
	}
	subnets, err := f.subnets(ctx, spec)
	if err != nil {
		return none, err
	}
	groups, err := f.groups(ctx, spec)
	if err != nil {
		return none, err
	}
	if err := sameNetwork(subnets, groups); err != nil {
		return none, err
	}
	found := v1alpha1.AWSNodeClassStatus{
		AMI: aws.ToString(image.ImageId), NodeImage: image.nodeImage,
		Architecture: kubernetesArchitecture(image.Architecture), Capacity: capacityOf(size, spec, image.Image),
		Price:         f.prices.Of(spec.InstanceType, pricedVolumes(spec, image.Image)),
		InstanceTypes: f.instanceTypes(spec, sizes, image.Image),
	}
	for _, s := range subnets {
		found.Subnets = append(found.Subnets, v1alpha1.ResolvedSubnet{ID: aws.ToString(s.SubnetId),
			Zone: aws.ToString(s.AvailabilityZone)})
	}
	if found.CapacityReservation, err = f.reservation(ctx, class, image.Image, &found); err != nil {
		return none, err
	}
	if found.Subnets, err = inZoneOf(found.CapacityReservation, found.Subnets); err != nil {
		return none, err
	}
	for _, g := range groups {
		found.SecurityGroups = append(found.SecurityGroups, aws.ToString(g.GroupId))
	}
	return found, nil
}

// wrong is an error about a field in words of ours.
func wrong(field, format string, args ...any) error {
	return &provider.InvalidConfigError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// about gives EC2's refusal of a read the field that the read was for.
func about(field, operation string, err error) error {
	if m := classify(err).means; m == meansWrong || m == meansMissing || m == meansForbidden || m == meansReservation {
		return wrong(field, "%v", words(err))
	}
	return subject{operation: operation}.typed(err)
}

// image is an imageFinder for the image that the class means now.
func (f *finder) image(ctx context.Context, class *v1alpha1.AWSNodeClass,
	size *types.InstanceTypeInfo) (chosenImage, error) {
	switch {
	case class.Spec.NodeImage != nil:
		return f.nodeImage(ctx, class, size)
	case class.Spec.AMI != "":
		images, err := f.images(ctx, fieldImage, &ec2.DescribeImagesInput{ImageIds: []string{class.Spec.AMI}})
		if err != nil {
			return chosenImage{}, err
		}
		image, err := newest(images, size, fieldImage)
		return chosenImage{Image: image}, err
	}
	image, err := f.selected(ctx, class, size)
	return chosenImage{Image: image}, err
}

// selected finds the newest image that one of the terms selects and that the type can boot.
func (f *finder) selected(
	ctx context.Context, class *v1alpha1.AWSNodeClass, size *types.InstanceTypeInfo,
) (*types.Image, error) {
	var all []types.Image
	for n, term := range class.Spec.AMISelector {
		field := fmt.Sprintf("%s[%d]", fieldSelector, n)
		in, err := f.imageQuery(ctx, term, size, field, class.Status.AMI)
		if err != nil {
			return nil, err
		}
		images, err := f.images(ctx, field, in)
		if err != nil {
			return nil, err
		}
		all = append(all, images...)
	}
	return newest(all, size, fieldSelector)
}

// imageQuery words a term. present is the image that the class has now.
func (f *finder) imageQuery(
	ctx context.Context, term v1alpha1.SelectorTerm, size *types.InstanceTypeInfo, field, present string,
) (*ec2.DescribeImagesInput, error) {
	in := &ec2.DescribeImagesInput{}
	switch {
	case term.ID != "":
		in.ImageIds = []string{term.ID}
		return in, nil
	case term.Alias != "":
		return f.aliasQuery(ctx, term.Alias, size, field+".alias", present)
	case term.Owner != "":
		in.Owners = []string{term.Owner}
	case term.Name != "":
		in.Owners = []string{"self", "amazon"} // anyone may publish an image under any name
	}
	if term.Name != "" {
		in.Filters = append(in.Filters, filter("name", term.Name))
	}
	in.Filters = append(in.Filters, tagFilters(term.Tags)...)
	return in, nil
}

// aliasQuery words an alias: Amazon's images of a family for the cluster's minor.
func (f *finder) aliasQuery(
	ctx context.Context, alias string, size *types.InstanceTypeInfo, field, present string,
) (*ec2.DescribeImagesInput, error) {
	if f.minor == nil {
		return nil, wrong(field, "the cluster's version is not known, so no image can be chosen for it")
	}
	minor, err := f.minor.get(ctx, func() (string, error) { return f.minorOf(ctx, present) })
	if err != nil {
		return nil, fmt.Errorf("the cluster's version, for %s: %w", field, err)
	}
	name, err := aliasPattern(alias, minor, size)
	if err != nil {
		return nil, wrong(field, "%v", err)
	}
	return &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []types.Filter{filter("name", name)}}, nil
}

func (f *finder) images(ctx context.Context, field string, in *ec2.DescribeImagesInput) ([]types.Image, error) {
	var all []types.Image
	if len(in.ImageIds) == 0 {
		in.MaxResults = aws.Int32(pageSize)
	}
	pages := ec2.NewDescribeImagesPaginator(f.region.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, about(field, "DescribeImages", err)
		}
		all = append(all, page.Images...)
	}
	return all, nil
}

// newest returns the newest of the images that the type can boot and that can be stopped. The error
// says what is wrong with the last one that cannot.
func newest(images []types.Image, size *types.InstanceTypeInfo, field string) (*types.Image, error) {
	err := wrong(field, "no image matches")
	var best *types.Image
	for n := range images {
		i := &images[n]
		switch id := aws.ToString(i.ImageId); {
		case i.State != types.ImageStateAvailable:
			err = wrong(field, "image %s is %s, not available", id, i.State)
		case i.RootDeviceType != types.DeviceTypeEbs:
			err = wrong(field, "the root volume of image %s is an instance store: its instances cannot be stopped", id)
		case !boots(size, i):
			err = wrong(field, "image %s is for %s, but %s is not", id, i.Architecture, size.InstanceType)
		case best == nil, newer(i, best):
			best = i
		}
	}
	if best == nil {
		return nil, err
	}
	return best, nil
}

// newer compares the dates that EC2 gives as text, and the ids where they are equal, so that equal
// answers give equal images.
func newer(a, b *types.Image) bool {
	if x, y := aws.ToString(a.CreationDate), aws.ToString(b.CreationDate); x != y {
		return x > y
	}
	return aws.ToString(a.ImageId) > aws.ToString(b.ImageId)
}

// subnets are all that are named or that one of the terms selects, by zone and id.
func (f *finder) subnets(ctx context.Context, spec *v1alpha1.AWSNodeClassSpec) ([]types.Subnet, error) {
	var all []types.Subnet
	query := func(field string, in *ec2.DescribeSubnetsInput) error {
		pages := ec2.NewDescribeSubnetsPaginator(f.region.client, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return about(field, "DescribeSubnets", err)
			}
			all = append(all, page.Subnets...)
		}
		return nil
	}
	if len(spec.SubnetIDs) > 0 {
		if err := query(fieldSubnets, &ec2.DescribeSubnetsInput{SubnetIds: spec.SubnetIDs}); err != nil {
			return nil, err
		}
	}
	for n, term := range spec.SubnetSelector {
		field := fmt.Sprintf("spec.subnetSelector[%d]", n)
		filters, err := f.filters(ctx, term, "subnet-id", "tag:Name", field)
		if err != nil {
			return nil, err
		}
		if err := query(field, &ec2.DescribeSubnetsInput{Filters: filters}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b types.Subnet) int {
		if x, y := aws.ToString(a.AvailabilityZone), aws.ToString(b.AvailabilityZone); x != y {
			return strings.Compare(x, y)
		}
		return strings.Compare(aws.ToString(a.SubnetId), aws.ToString(b.SubnetId))
	})
	all = slices.CompactFunc(all, func(a,
		b types.Subnet) bool {
		return aws.ToString(a.SubnetId) == aws.ToString(b.SubnetId)
	})
	if len(all) == 0 {
		return nil, wrong("spec.subnetSelector", "no subnet matches")
	}
	return all, nil
}

// groups are the security groups, by id.
func (f *finder) groups(ctx context.Context, spec *v1alpha1.AWSNodeClassSpec) ([]types.SecurityGroup, error) {
	var all []types.SecurityGroup
	query := func(field string, in *ec2.DescribeSecurityGroupsInput) error {
		pages := ec2.NewDescribeSecurityGroupsPaginator(f.region.client, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return about(field, "DescribeSecurityGroups", err)
			}
			all = append(all, page.SecurityGroups...)
		}
		return nil
	}
	if len(spec.SecurityGroupIDs) > 0 {
		if err := query(fieldGroups, &ec2.DescribeSecurityGroupsInput{GroupIds: spec.SecurityGroupIDs}); err != nil {
			return nil, err
		}
	}
	for n, term := range spec.SecurityGroupSelector {
		field := fmt.Sprintf("spec.securityGroupSelector[%d]", n)
		filters, err := f.filters(ctx, term, "group-id", "group-name", field)
		if err != nil {
			return nil, err
		}
		if err := query(field, &ec2.DescribeSecurityGroupsInput{Filters: filters}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b types.SecurityGroup) int {
		return strings.Compare(aws.ToString(a.GroupId), aws.ToString(b.GroupId))
	})
	all = slices.CompactFunc(all, func(a,
		b types.SecurityGroup) bool {
		return aws.ToString(a.GroupId) == aws.ToString(b.GroupId)
	})
	if len(all) == 0 {
		return nil, wrong("spec.securityGroupSelector", "no security group matches")
	}
	return all, nil
}

// sameNetwork finds the mistake that EC2 would only report launch by launch.
func sameNetwork(subnets []types.Subnet, groups []types.SecurityGroup) error {
	first := &subnets[0]
	for i := range subnets {
		if aws.ToString(subnets[i].VpcId) != aws.ToString(first.VpcId) {
			return wrong(fieldSubnets, "%s is in %s and %s in %s: all must be in one VPC", aws.ToString(first.SubnetId),
				aws.ToString(first.VpcId), aws.ToString(subnets[i].SubnetId), aws.ToString(subnets[i].VpcId))
		}
	}
	for i := range groups {
		if aws.ToString(groups[i].VpcId) != aws.ToString(first.VpcId) {
			return wrong(fieldGroups, "%s is in %s, but the subnets are in %s", aws.ToString(groups[i].GroupId),
				aws.ToString(groups[i].VpcId), aws.ToString(first.VpcId))
		}
	}
	return nil
}

// filters words a term for subnets or security groups. All that it states must hold.
func (f *finder) filters(_ context.Context, term v1alpha1.SelectorTerm, id, name, field string) ([]types.Filter,
	error) {
	var out []types.Filter
	if term.ID != "" {
		out = append(out, filter(id, term.ID))
	}
	if term.Name != "" {
		out = append(out, filter(name, term.Name))
	}
	switch {
	case term.Owner == "self":
		return nil, wrong(field+".owner", "self is known for images only; name the account by its 12 digits")
	case term.Owner != "":
		out = append(out, filter("owner-id", term.Owner))
	}
	return append(out, tagFilters(term.Tags)...), nil
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// tagFilters: a value of * is any value, which EC2 knows by another filter. All other characters
// stand for themselves.
func tagFilters(tags map[string]v1alpha1.TagValue) []types.Filter {
	var out []types.Filter
	for _, tag := range tagsOf(tags) {
		if aws.ToString(tag.Value) == "*" {
			out = append(out, filter("tag-key", literal(aws.ToString(tag.Key))))
			continue
		}
		out = append(out, filter("tag:"+aws.ToString(tag.Key), literal(aws.ToString(tag.Value))))
	}
	return out
}
