package aws

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/price"
)

const (
	mebi, gibi = int64(1) << 20, int64(1) << 30
	// podsMost is what kubelets on EC2 are given at most: 110 on types of up to 30 vCPUs, 250 on
	// larger ones (AWS documentation, "Choosing an optimal EC2 node instance type").
	podsMost, podsMostLarge = 110, 250
	largeCPUs               = 30
)

// boots reports whether the type can boot the image.
func boots(size *types.InstanceTypeInfo, image *types.Image) bool {
	return size.ProcessorInfo != nil && slices.Contains(size.ProcessorInfo.SupportedArchitectures,
		types.ArchitectureType(image.Architecture))
}

// kubernetesArchitecture is the value of the label kubernetes.io/arch.
func kubernetesArchitecture(a types.ArchitectureValues) string {
	switch a {
	case types.ArchitectureValuesX8664, types.ArchitectureValuesX8664Mac:
		return "amd64"
	case types.ArchitectureValuesArm64, types.ArchitectureValuesArm64Mac:
		return "arm64"
	case types.ArchitectureValuesI386:
		return "386"
	}
	return ""
}

// capacityOf is what one instance has, by EC2's description of its type.
func capacityOf(size *types.InstanceTypeInfo, spec *v1alpha1.AWSNodeClassSpec, image *types.Image) corev1.ResourceList {
	capacity := corev1.ResourceList{}
	set := func(name corev1.ResourceName, n int64, format resource.Format) {
		if n > 0 {
			capacity[name] = *resource.NewQuantity(n, format)
		}
	}
	cpus := vCPUs(size)
	set(corev1.ResourceCPU, cpus, resource.DecimalSI)
	set(corev1.ResourceMemory, memoryOf(size), resource.BinarySI)
	pods := int64(spec.MaxPods())
	if pods == 0 {
		pods = podsOf(size.NetworkInfo, cpus)
	}
	set(corev1.ResourcePods, pods, resource.DecimalSI)
	set(corev1.ResourceEphemeralStorage, storageOf(spec, image)*gibi, resource.BinarySI)
	for name, n := range devicesOf(size) {
		set(name, n, resource.DecimalSI)
	}
	return capacity
}

// podsOf is how many pods get an address of the VPC: each network interface keeps its first one,
// and two pods of the host's network come on top (amazon-vpc-cni-k8s, "ENI allocation").
func podsOf(network *types.NetworkInfo, cpus int64) int64 {
	if network == nil {
		return 0
	}
	interfaces, addresses := int64(aws.ToInt32(network.MaximumNetworkInterfaces)),
		int64(aws.ToInt32(network.Ipv4AddressesPerInterface))
	if interfaces == 0 || addresses == 0 {
		return 0
	}
	most := int64(podsMost)
	if cpus > largeCPUs {
		most = podsMostLarge
	}
	return min(interfaces*(addresses-1)+2, most)
}

// storageOf is the size in GiB of the volume that has the images and the pods. It is the root
// volume, but for Bottlerocket, whose system has a volume of its own.
func storageOf(spec *v1alpha1.AWSNodeClassSpec, image *types.Image) int64 {
	device := aws.ToString(image.RootDeviceName)
	if spec.BootstrapFamily() == v1alpha1.FamilyBottlerocket {
		device = bottlerocketData
	}
	return volumeOf(device, spec, image)
}

// bottlerocketData is Bottlerocket's volume for images and pods.
const bottlerocketData = "/dev/xvdb"

// volumeOf is the size of a volume in GiB: as the class says, else as the image does.
func volumeOf(device string, spec *v1alpha1.AWSNodeClassSpec, image *types.Image) int64 {
	for i := range spec.BlockDeviceMappings {
		if m := &spec.BlockDeviceMappings[i]; sameDevice(m.DeviceName, device) && m.VolumeSize != nil {
			return int64(*m.VolumeSize)
		}
	}
	for _, m := range image.BlockDeviceMappings {
		if sameDevice(aws.ToString(m.DeviceName), device) && m.Ebs != nil {
			return int64(aws.ToInt32(m.Ebs.VolumeSize))
		}
	}
	return 0
}

// pricedVolumes are the volumes of an instance with their types: those of the class, and those of
// the image that the class does not replace. The size is 0 where it is that of a snapshot.
func pricedVolumes(spec *v1alpha1.AWSNodeClassSpec, image *types.Image) []price.Volume {
	var out []price.Volume
	replaced := func(device string) bool {
		return slices.ContainsFunc(spec.BlockDeviceMappings, func(m v1alpha1.BlockDeviceMapping) bool {
			return sameDevice(m.DeviceName, device)
		})
	}
	for i := range spec.BlockDeviceMappings {
		m := &spec.BlockDeviceMappings[i]
		out = append(out, price.Volume{Type: m.VolumeTypeOrDefault(), GiB: int64(aws.ToInt32(m.VolumeSize))})
	}
	for _, m := range image.BlockDeviceMappings {
		if device := aws.ToString(m.DeviceName); m.Ebs != nil && !replaced(device) {
			out = append(out, price.Volume{Type: string(m.Ebs.VolumeType), GiB: int64(aws.ToInt32(m.Ebs.VolumeSize))})
		}
	}
	return out
}

// sameDevice takes sda1 and /dev/sda1 for one.
func sameDevice(a, b string) bool {
	return strings.TrimPrefix(a, "/dev/") == strings.TrimPrefix(b, "/dev/")
}

// devicesOf counts what device plugins will offer, by the names that the vendors' plugins use.
func devicesOf(size *types.InstanceTypeInfo) map[corev1.ResourceName]int64 {
	devices := map[corev1.ResourceName]int64{}
	if size.GpuInfo != nil {
		for _, gpu := range size.GpuInfo.Gpus {
			switch strings.ToLower(aws.ToString(gpu.Manufacturer)) {
			case "nvidia":
				devices["nvidia.com/gpu"] += int64(aws.ToInt32(gpu.Count))
			case "amd":
				devices["amd.com/gpu"] += int64(aws.ToInt32(gpu.Count))
			}
		}
	}
	if size.NeuronInfo != nil {
		for _, neuron := range size.NeuronInfo.NeuronDevices {
			devices["aws.amazon.com/neuron"] += int64(aws.ToInt32(neuron.Count))
		}
	}
	return devices
}

// aliasPattern is the pattern of the names that AWS gives the images of a family for a minor
// version of Kubernetes (AWS documentation, "EKS optimized AMIs"; Bottlerocket's "Quickstart"). The
// version after the @ is latest, or the one that the names end with.
func aliasPattern(alias, minor string, size *types.InstanceTypeInfo) (string, error) {
	family, version, _ := strings.Cut(alias, "@")
	version = strings.TrimPrefix(version, "v")
	if version == "latest" {
		version = "*"
	}
	arm := size.ProcessorInfo != nil && slices.Contains(size.ProcessorInfo.SupportedArchitectures,
		types.ArchitectureTypeArm64)
	architecture := "x86_64"
	if arm {
		architecture = "arm64"
	}
	devices := devicesOf(size)
	nvidia, neuron := devices["nvidia.com/gpu"] > 0, devices["aws.amazon.com/neuron"] > 0
	switch family {
	case "al2023":
		variant := "standard"
		switch {
		case nvidia:
			variant = "nvidia"
		case neuron:
			variant = "neuron"
		}
		return fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-v%s", architecture, variant, minor, version), nil
	case "al2":
		kind := ""
		switch {
		case arm:
			kind = "arm64-"
		case nvidia, neuron:
			kind = "gpu-"
		}
		return fmt.Sprintf("amazon-eks-%snode-%s-v%s", kind, minor, version), nil
	case "bottlerocket":
		kind := ""
		if nvidia {
			kind = "-nvidia"
		}
		if version != "*" {
			version += "-*" // the names go on with the build
		}
		return fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s", minor, kind, architecture, version), nil
	}
	return "", fmt.Errorf("%s is no family that is known here; al2023, al2 and bottlerocket are", family)
}
