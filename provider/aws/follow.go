package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// sizes are EC2's descriptions of the types that the class names, by their names. A fallback type
// that does not exist is left out.
func (f *finder) sizes(ctx context.Context, spec *v1alpha1.AWSNodeClassSpec) (map[string]*types.InstanceTypeInfo,
	error) {
	names := spec.NamedTypes()
	out, err := f.describeTypes(ctx, names)
	if known := knownTypes(names, err); len(known) > 0 {
		out, err = f.describeTypes(ctx, known)
	}
	if err != nil {
		return nil, about(fieldType, "DescribeInstanceTypes", err)
	}
	sizes := map[string]*types.InstanceTypeInfo{}
	for i := range out.InstanceTypes {
		sizes[string(out.InstanceTypes[i].InstanceType)] = &out.InstanceTypes[i]
	}
	first := sizes[spec.InstanceType]
	if first == nil {
		return nil, wrong(fieldType, "%s does not exist in %s", spec.InstanceType, f.region.name)
	}
	if spec.HibernationEnabled() && !aws.ToBool(first.HibernationSupported) {
		return nil, wrong("spec.hibernation.enabled", "EC2 cannot hibernate %s", spec.InstanceType)
	}
	return sizes, nil
}

func (f *finder) describeTypes(ctx context.Context, names []string) (*ec2.DescribeInstanceTypesOutput, error) {
	in := &ec2.DescribeInstanceTypesInput{}
	for _, name := range names {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	return f.region.client.DescribeInstanceTypes(ctx, in)
}

// codeNoType is EC2's code for types that do not exist in the region.
const codeNoType = "InvalidInstanceType"

// unknownTypes are the names in EC2's refusal of a whole call because of some types.
var unknownTypes = regexp.MustCompile(`\[([^\]]*)\]`)

// knownTypes are the names without those that the refusal says do not exist: the first name alone
// where the refusal names none of them. It is nil where to ask again is no use.
func knownTypes(names []string, refusal error) []string {
	var said smithy.APIError
	if !errors.As(refusal, &said) || said.ErrorCode() != codeNoType || len(names) == 1 {
		return nil
	}
	var unknown []string
	if found := unknownTypes.FindStringSubmatch(said.ErrorMessage()); found != nil {
		unknown = strings.FieldsFunc(found[1], func(r rune) bool { return r == ',' || r == ' ' })
	}
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(unknown, name) })
	switch {
	case slices.Contains(unknown, names[0]):
		return nil
	case len(known) == len(names):
		return names[:1]
	}
	return known
}

// instanceTypes says of each type that the class names whether instances may be of it. It is empty
// for a class without fallback types.
func (f *finder) instanceTypes(spec *v1alpha1.AWSNodeClassSpec, sizes map[string]*types.InstanceTypeInfo,
	image *types.Image) []v1alpha1.InstanceTypeStatus {
	names := spec.NamedTypes()
	if len(names) == 1 {
		return nil
	}
	var out []v1alpha1.InstanceTypeStatus
	for _, name := range names {
		s := v1alpha1.InstanceTypeStatus{Type: name, Price: f.prices.Of(name, pricedVolumes(spec, image))}
		switch size := sizes[name]; {
		case name == spec.InstanceType:
		case size == nil:
			s.Reason = fmt.Sprintf("EC2 knows no such type in %s", f.region.name)
		default:
			s.Reason = cannotFollow(sizes[spec.InstanceType], size, image, spec)
		}
		s.Usable = s.Reason == ""
		out = append(out, s)
	}
	return out
}

// cannotFollow is why an instance of the class cannot be of the other type, "" where it can. The
// other type then has what a pod may have claimed of the first, and boots the same disk.
func cannotFollow(first, other *types.InstanceTypeInfo, image *types.Image, spec *v1alpha1.AWSNodeClassSpec) string {
	return cmp.Or(refusedByClass(spec), doesNotBoot(other, image), differs(first, other), hasLess(first, other))
}

// refusedByClass is why no other type can follow, whatever it is.
func refusedByClass(spec *v1alpha1.AWSNodeClassSpec) string {
	switch {
	case spec.HibernationEnabled():
		return "EC2 does not change the type of instances with hibernation"
	case userdata.HasStaticMemory(spec.UserData):
		return "memory-manager-policy is Static: Bottlerocket keeps the kubelet's memory_manager_state, " +
			"with which the kubelet does not start on a machine with other memory"
	}
	return ""
}

// doesNotBoot is why the type cannot boot the image. An image without a boot mode of its own boots
// as its architecture does by default (AWS documentation, "Instance launch behavior with Amazon EC2
// boot modes").
func doesNotBoot(other *types.InstanceTypeInfo, image *types.Image) string {
	if !boots(other, image) {
		return fmt.Sprintf("architecture: %s has %s, the image is for %s", other.InstanceType, architectures(other),
			image.Architecture)
	}
	mode := types.BootModeType(image.BootMode)
	if mode == "" {
		mode = types.BootModeTypeLegacyBios
		if image.Architecture == types.ArchitectureValuesArm64 {
			mode = types.BootModeTypeUefi
		}
	}
	if image.BootMode != types.BootModeValuesUefiPreferred && !slices.Contains(other.SupportedBootModes, mode) {
		return fmt.Sprintf("boot mode: %s has %s, the image needs %s", other.InstanceType,
			listed(other.SupportedBootModes), mode)
	}
	if other.NetworkInfo != nil && other.NetworkInfo.EnaSupport == types.EnaSupportRequired &&
		!aws.ToBool(image.EnaSupport) {
		return fmt.Sprintf("enhanced networking: %s needs ENA, which the image does not have", other.InstanceType)
	}
	return ""
}

// differs is the first property in which the types must be equal and are not.
func differs(first, other *types.InstanceTypeInfo) string {
	for _, property := range []struct {
		name string
		of   func(*types.InstanceTypeInfo) string
	}{
		{"hypervisor", func(i *types.InstanceTypeInfo) string { return cmp.Or(string(i.Hypervisor), "none") }},
		{"bare metal", func(i *types.InstanceTypeInfo) string { return yesNo(i.BareMetal) }},
		{"network cards", func(i *types.InstanceTypeInfo) string {
			return strconv.FormatInt(networkOf(i, func(n *types.NetworkInfo) *int32 { return n.MaximumNetworkCards }), 10)
		}},
		{"GPUs", gpus},
		{"accelerators", accelerators},
		{"instance store", func(i *types.InstanceTypeInfo) string { return yesNo(i.InstanceStorageSupported) }},
	} {
		if a, b := property.of(first), property.of(other); a != b {
			return fmt.Sprintf("%s: %s has %s, %s has %s, and both must be equal", property.name, other.InstanceType, b,
				first.InstanceType, a)
		}
	}
	return ""
}

// hasLess is the first property of which the other type must have at least as much as the first
// type and has not.
func hasLess(first, other *types.InstanceTypeInfo) string {
	for _, property := range []struct {
		name   string
		of     func(*types.InstanceTypeInfo) int64
		format resource.Format
	}{
		{"vCPUs", vCPUs, resource.DecimalSI},
		{"memory", memoryOf, resource.BinarySI},
		{"network interfaces", interfaces, resource.DecimalSI},
		{"IPv4 addresses per interface", func(i *types.InstanceTypeInfo) int64 {
			return networkOf(i, func(n *types.NetworkInfo) *int32 { return n.Ipv4AddressesPerInterface })
		}, resource.DecimalSI},
		{"EBS attachments", func(i *types.InstanceTypeInfo) int64 { return attachments(i, first) }, resource.DecimalSI},
	} {
		if a, b := property.of(first), property.of(other); b < a {
			return fmt.Sprintf("%s: %s has %s, less than %s with %s", property.name, other.InstanceType,
				resource.NewQuantity(b, property.format), first.InstanceType, resource.NewQuantity(a, property.format))
		}
	}
	return ""
}

func vCPUs(i *types.InstanceTypeInfo) int64 {
	if i.VCpuInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(i.VCpuInfo.DefaultVCpus))
}

// memoryOf is in bytes.
func memoryOf(i *types.InstanceTypeInfo) int64 {
	if i.MemoryInfo == nil {
		return 0
	}
	return aws.ToInt64(i.MemoryInfo.SizeInMiB) * mebi
}

func networkOf(i *types.InstanceTypeInfo, number func(*types.NetworkInfo) *int32) int64 {
	if i.NetworkInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(number(i.NetworkInfo)))
}

func interfaces(i *types.InstanceTypeInfo) int64 {
	return networkOf(i, func(n *types.NetworkInfo) *int32 { return n.MaximumNetworkInterfaces })
}

// attachments is how many volumes the type can have attached, to be compared with the first type.
// Where the first type has a limit for volumes alone and this one shares its own with network
// interfaces, the interfaces are taken off.
func attachments(i, first *types.InstanceTypeInfo) int64 {
	if i.EbsInfo == nil {
		return 0
	}
	limit := int64(aws.ToInt32(i.EbsInfo.MaximumEbsAttachments))
	if isDedicated(first) && !isDedicated(i) {
		limit -= interfaces(i)
	}
	return limit
}

func isDedicated(i *types.InstanceTypeInfo) bool {
	return i.EbsInfo != nil && i.EbsInfo.AttachmentLimitType == types.AttachmentLimitTypeDedicated
}

func gpus(i *types.InstanceTypeInfo) string {
	var found []string
	if i.GpuInfo != nil {
		for _, g := range i.GpuInfo.Gpus {
			name := device(g.Count, g.Manufacturer, g.Name)
			// Types with a part of a GPU have its name.
			if g.MemoryInfo != nil {
				name += fmt.Sprintf(" with %d MiB", aws.ToInt32(g.MemoryInfo.SizeInMiB))
			}
			found = append(found, name)
		}
	}
	return listed(found)
}

// accelerators are all devices other than GPUs.
func accelerators(i *types.InstanceTypeInfo) string {
	var found []string
	if i.NeuronInfo != nil {
		for _, d := range i.NeuronInfo.NeuronDevices {
			found = append(found, device(d.Count, nil, d.Name))
		}
	}
	if i.InferenceAcceleratorInfo != nil {
		for _, d := range i.InferenceAcceleratorInfo.Accelerators {
			found = append(found, device(d.Count, d.Manufacturer, d.Name))
		}
	}
	if i.FpgaInfo != nil {
		for _, d := range i.FpgaInfo.Fpgas {
			found = append(found, device(d.Count, d.Manufacturer, d.Name))
		}
	}
	if i.MediaAcceleratorInfo != nil {
		for _, d := range i.MediaAcceleratorInfo.Accelerators {
			found = append(found, device(d.Count, d.Manufacturer, d.Name))
		}
	}
	return listed(found)
}

func device(count *int32, maker, name *string) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%d %s %s", aws.ToInt32(count), aws.ToString(maker),
		aws.ToString(name))), " ")
}

func architectures(i *types.InstanceTypeInfo) string {
	if i.ProcessorInfo == nil {
		return "none"
	}
	return listed(i.ProcessorInfo.SupportedArchitectures)
}

// listed is the same for equal sets.
func listed[T ~string](items []T) string {
	if len(items) == 0 {
		return "none"
	}
	var words []string
	for _, item := range items {
		words = append(words, string(item))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func yesNo(b *bool) string {
	if aws.ToBool(b) {
		return "yes"
	}
	return "no"
}
