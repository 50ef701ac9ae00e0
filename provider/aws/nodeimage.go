package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// nodeImageValue is <base>-<kubernetes>-<version>, with the versions that cluster stacks have: v2,
// v0-sha.1a2b3c4.
var nodeImageValue = regexp.MustCompile(
	`^[a-z0-9]+(?:[.-][a-z0-9]+)*-([0-9]+\.[0-9]+)\.[0-9]+-v[0-9]+(?:-[a-z]+[.-][a-z0-9]+)?$`)

// nodeImages tells which node image the cluster's control plane names.
type nodeImages struct {
	// labels reads the label of each control-plane Node, by the Node's name.
	labels func(ctx context.Context) (map[string]string, error)
	// minor is not that of aliases: an image of a class with nodeImage may be older than the API
	// server, so it says nothing about the minor that aliases follow.
	minor *minors
}

// get returns the value that the control-plane Nodes name. present is the value that the class has
// now, empty for none. Errors: InvalidConfig with the reason of the condition, and the API
// server's.
func (n *nodeImages) get(ctx context.Context, present string) (string, error) {
	if n == nil {
		return "", wrong(fieldNodeImage, "the control-plane Nodes are not read here; use ami or amiSelector")
	}
	minor, err := n.minor.get(ctx, func() (string, error) { return minorOfNodeImage(present), nil })
	if err != nil {
		return "", fmt.Errorf("the cluster's version, for %s: %w", fieldNodeImage, err)
	}
	labels, err := n.labels(ctx)
	if err != nil {
		return "", fmt.Errorf("the control-plane Nodes, for %s: %w", fieldNodeImage, err)
	}
	return agreedNodeImage(labels, minor)
}

func minorOfNodeImage(value string) string {
	if found := nodeImageValue.FindStringSubmatch(value); found != nil {
		return found[1]
	}
	return ""
}

// agreedNodeImage returns the value that all control-plane Nodes have, given by the Node's name. It
// may not be for a newer minor than the API server's, because no kubelet may be newer than that.
func agreedNodeImage(labels map[string]string, minor string) (string, error) {
	if len(labels) == 0 {
		return "", notFollowed(v1alpha1.ReasonNodeImageLabelMissing,
			"no Node has the label %s, so none names the cluster's node image", v1alpha1.LabelControlPlane)
	}
	names := slices.Sorted(maps.Keys(labels))
	value := labels[names[0]]
	if slices.ContainsFunc(names, func(name string) bool { return labels[name] != value }) {
		return "", notFollowed(v1alpha1.ReasonNodeImageLabelsDiffer, "%s differs between control-plane Nodes: %s",
			v1alpha1.LabelNodeImage, eachValue(names, labels))
	}
	if value == "" {
		return "", notFollowed(v1alpha1.ReasonNodeImageLabelMissing, "no control-plane Node has the label %s",
			v1alpha1.LabelNodeImage)
	}
	made := minorOfNodeImage(value)
	if made == "" {
		return "", notFollowed(v1alpha1.ReasonNodeImageLabelInvalid,
			"%s=%s of the control-plane Nodes must be <base>-<kubernetes>-<version>, such as ubuntu-24.04-1.37.2-v2",
			v1alpha1.LabelNodeImage, value)
	}
	isNewer, err := isNewerMinor(made, minor)
	if err != nil {
		return "", err
	}
	if isNewer {
		return "", notFollowed(v1alpha1.ReasonNodeImageTooNew,
			"%s is for Kubernetes %s, and the API server is %s: it is used once the API server has answered %s for %s",
			value, made, minor, made, minorHolds)
	}
	return value, nil
}

// eachValue words the first Node of each value.
func eachValue(names []string, labels map[string]string) string {
	var words []string
	said := map[string]bool{}
	for _, name := range names {
		if value := labels[name]; !said[value] {
			said[value] = true
			words = append(words, name+" has "+cmp.Or(value, "none"))
		}
	}
	return strings.Join(words, ", ")
}

func isNewerMinor(a, b string) (bool, error) {
	left, err := version.ParseGeneric(a)
	if err != nil {
		return false, fmt.Errorf("minor of the node image: %w", err)
	}
	right, err := version.ParseGeneric(b)
	if err != nil {
		return false, fmt.Errorf("minor of the API server: %w", err)
	}
	return left.GreaterThan(right), nil
}

// notFollowed is why the cluster's node image is not followed now.
func notFollowed(reason v1alpha1.Reason, format string, args ...any) error {
	return &provider.InvalidConfigError{Field: fieldNodeImage, Reason: fmt.Sprintf(format, args...), Condition: reason}
}

// nodeImage is an imageFinder for the image that the control-plane Nodes name.
func (f *finder) nodeImage(ctx context.Context, class *v1alpha1.AWSNodeClass,
	size *types.InstanceTypeInfo) (chosenImage, error) {
	value, err := f.nodeImages.get(ctx, class.Status.NodeImage)
	if err != nil {
		return chosenImage{}, err
	}
	return f.nodeImageOf(ctx, value, &ec2.DescribeImagesInput{}, class.Spec.NodeImage.OwnerOrDefault(), size)
}

// imageOrLast is an imageFinder for launches: where the cluster's node image cannot be followed, it
// finds the last image of the class, if its owner still has it and the type can boot it.
func (f *finder) imageOrLast(ctx context.Context, class *v1alpha1.AWSNodeClass,
	size *types.InstanceTypeInfo) (chosenImage, error) {
	image, err := f.image(ctx, class, size)
	if err == nil || class.Spec.NodeImage == nil || class.Status.NodeImage == "" || class.Status.AMI == "" {
		return image, err
	}
	last, lastErr := f.nodeImageOf(ctx, class.Status.NodeImage,
		&ec2.DescribeImagesInput{ImageIds: []string{class.Status.AMI}}, class.Spec.NodeImage.OwnerOrDefault(), size)
	if lastErr != nil {
		return chosenImage{}, err
	}
	return last, nil
}

// nodeImageOf finds the owner's image of exactly the name that the value stands for.
func (f *finder) nodeImageOf(ctx context.Context, value string, in *ec2.DescribeImagesInput, owner string,
	size *types.InstanceTypeInfo) (chosenImage, error) {
	names := nodeImageNames(value, size)
	if len(names) == 0 {
		return chosenImage{}, wrong(fieldType, "%s boots neither amd64 nor arm64, which node images are for", size.InstanceType)
	}
	in.Owners, in.Filters = []string{owner}, []types.Filter{filter("name", names...)}
	images, err := f.images(ctx, fieldNodeImage, in)
	if err != nil {
		return chosenImage{}, err
	}
	if len(images) == 0 {
		return chosenImage{}, notFollowed(v1alpha1.ReasonNodeImageNotFound, "%s has no image named %s in %s", owner,
			strings.Join(names, " or "), f.region.name)
	}
	image, err := newest(images, size, fieldNodeImage)
	var unusable *provider.InvalidConfigError
	if errors.As(err, &unusable) {
		return chosenImage{}, notFollowed(v1alpha1.ReasonNodeImageNotFound, "%s", unusable.Reason)
	}
	return chosenImage{Image: image, nodeImage: value}, err
}

// nodeImageNames are the names of the value's images, one for each architecture that the type boots
// and that node images are made for.
func nodeImageNames(value string, size *types.InstanceTypeInfo) []string {
	var names []string
	if size.ProcessorInfo == nil {
		return nil
	}
	for _, architecture := range size.ProcessorInfo.SupportedArchitectures {
		known := kubernetesArchitecture(types.ArchitectureValues(architecture))
		if known == "amd64" || known == "arm64" {
			names = append(names, literal("stratos-node-"+value+"-"+known))
		}
	}
	return names
}
