package simcloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// InstanceType is a size. Allocatable equals Capacity: nothing is reserved, so that tests can
// compute what fits.
type InstanceType struct {
	Name     string
	Capacity corev1.ResourceList
	// Arch is the value of the kubernetes.io/arch label; empty: amd64.
	Arch string
}

// GPUResource is the extended resource of the built-in GPU types.
const GPUResource corev1.ResourceName = "nvidia.com/gpu"

// builtinTypes is the table of the types that the docs use: cpu, memory in GiB, pods as the VPC CNI
// counts addresses.
func builtinTypes() map[string]InstanceType {
	table := map[string]InstanceType{}
	add := func(name string, cpu, memory, pods, gpus int64) {
		arch := "amd64"
		if strings.HasPrefix(name, "m7g.") || strings.HasPrefix(name, "t4g.") {
			arch = "arm64"
		}
		capacity := corev1.ResourceList{
			corev1.ResourceCPU:              *resource.NewQuantity(cpu, resource.DecimalSI),
			corev1.ResourceMemory:           *resource.NewQuantity(memory<<30, resource.BinarySI),
			corev1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(50<<30, resource.BinarySI),
		}
		if gpus > 0 {
			capacity[GPUResource] = *resource.NewQuantity(gpus, resource.DecimalSI)
		}
		table[name] = InstanceType{Name: name, Capacity: capacity, Arch: arch}
	}
	add("t3.small", 2, 2, 11, 0)
	add("t3.medium", 2, 4, 17, 0)
	add("t3.large", 2, 8, 35, 0)
	add("t3.xlarge", 4, 16, 58, 0)
	add("t4g.medium", 2, 4, 17, 0)
	for _, family := range []string{"m5", "m6i", "m7i", "m7g"} {
		add(family+".large", 2, 8, 29, 0)
		add(family+".xlarge", 4, 16, 58, 0)
		add(family+".2xlarge", 8, 32, 58, 0)
		add(family+".4xlarge", 16, 64, 234, 0)
	}
	for _, family := range []string{"c5", "c6i"} {
		add(family+".large", 2, 4, 29, 0)
		add(family+".xlarge", 4, 8, 58, 0)
		add(family+".2xlarge", 8, 16, 58, 0)
		add(family+".4xlarge", 16, 32, 234, 0)
	}
	add("r5.large", 2, 16, 29, 0)
	add("r5.xlarge", 4, 32, 58, 0)
	add("g4dn.xlarge", 4, 16, 29, 1)
	add("g4dn.2xlarge", 8, 32, 29, 1)
	add("g4dn.12xlarge", 48, 192, 234, 4)
	add("g5.xlarge", 4, 16, 58, 1)
	add("p3.2xlarge", 8, 61, 58, 1)
	return table
}

// ParseTypes reads "small=cpu:4,memory:16Gi,pods:110;gpu=cpu:8,memory:32Gi,example.com/gpu:1".
// Missing pods means 110, missing ephemeral-storage 50Gi; cpu and memory are required.
func ParseTypes(text string) ([]InstanceType, error) {
	var types []InstanceType
	for _, part := range Parts(text, ";") {
		name, list, ok := strings.Cut(part, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("instance type %q: want name=resource:quantity, more of them separated by commas", part)
		}
		capacity, err := parseResources(list)
		if err != nil {
			return nil, fmt.Errorf("instance type %s: %w", name, err)
		}
		types = append(types, InstanceType{Name: strings.TrimSpace(name), Capacity: capacity})
	}
	return types, nil
}

func parseResources(text string) (corev1.ResourceList, error) {
	capacity := corev1.ResourceList{
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("50Gi"),
	}
	for _, part := range Parts(text, ",") {
		name, value, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("resource %q: want name:quantity", part)
		}
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("resource %s: bad quantity %q", name, value)
		}
		capacity[corev1.ResourceName(name)] = quantity
	}
	for _, required := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := capacity[required]; q.IsZero() {
			return nil, fmt.Errorf("resource %s is missing", required)
		}
	}
	return capacity, nil
}

// IsExtended reports whether a device plugin brings the resource: a domain in its name that is not
// Kubernetes' own.
func IsExtended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// WithoutDevices returns the resources with 0 of each extended one, which is what a kubelet reports
// after a restart.
func WithoutDevices(full corev1.ResourceList) corev1.ResourceList {
	reduced := maps.Clone(full)
	for name := range reduced {
		if IsExtended(name) {
			reduced[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	return reduced
}

// HasDevices reports whether there is an extended resource.
func HasDevices(full corev1.ResourceList) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(full)), IsExtended)
}
