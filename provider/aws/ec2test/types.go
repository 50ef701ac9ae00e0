package ec2test

import (
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// The values of Properties that more than one place compares.
const (
	bootBIOS, bootUEFI, bootUEFIPreferred = "legacy-bios", "uefi", "uefi-preferred"
	enaRequired                           = "required"
	archX86, archARM                      = "x86_64", "arm64"
)

// Properties are what EC2 shows of a type in addition to its vCPUs and memory.
type Properties struct {
	// Architectures of the images that it boots: x86_64, i386, arm64.
	Architectures []string
	// Hypervisor is nitro or xen.
	Hypervisor                            string
	BareMetal, InstanceStore, Hibernation bool
	// Addresses are those of one interface.
	NetworkCards, Interfaces, Addresses int
	GPUs, Neuron, Inference             []Device
	FPGAs, Media                        []Device
	// BootModes are legacy-bios and uefi.
	BootModes []string
	// ENA is unsupported, supported or required.
	ENA string
	// EBSAttachments is how many volumes can be attached. Unless it is dedicated to them, network
	// interfaces and volumes of the instance store count too.
	EBSAttachments int
	DedicatedEBS   bool
	// Zones that have the type; empty: all.
	Zones []string
}

// Device is one kind of GPU or accelerator of a type.
type Device struct {
	// Manufacturer and Name such as NVIDIA and T4. EC2 tells no manufacturer of Neuron devices.
	Manufacturer, Name string
	Count              int64
	// MemoryMiB of each.
	MemoryMiB int
}

// PropertiesOf are those of a type that Options.Types does not name. Those of the built-in types
// are EC2's, others are those of a small Nitro type. The addresses of a type are what makes the VPC
// CNI offer its pods: interfaces x (addresses - 1) + 2.
func PropertiesOf(t simcloud.InstanceType) Properties {
	family, size, _ := strings.Cut(t.Name, ".")
	p := Properties{
		Architectures: []string{archX86}, Hypervisor: "nitro", NetworkCards: 1,
		BootModes: []string{bootBIOS, bootUEFI}, ENA: enaRequired, EBSAttachments: 27,
	}
	p.Interfaces, p.Addresses = network(t.Capacity.Pods().Value())
	if t.Arch == archARM {
		p.Architectures, p.BootModes = []string{archARM}, []string{bootUEFI}
	}
	gpu := Device{Manufacturer: "NVIDIA", Name: "T4", MemoryMiB: 15360}
	switch family {
	case "g4dn", "g5":
		p.InstanceStore, p.EBSAttachments = true, 25
		if size == "12xlarge" {
			p.EBSAttachments = 22
		}
		if family == "g5" {
			gpu = Device{Manufacturer: "NVIDIA", Name: "A10G", MemoryMiB: 22888}
		}
	case "p3":
		p.Hypervisor, p.ENA, p.EBSAttachments = "xen", "supported", 40
		p.BootModes = []string{bootBIOS}
		gpu = Device{Manufacturer: "NVIDIA", Name: "V100", MemoryMiB: 16384}
	case "m7i":
		p.EBSAttachments, p.DedicatedEBS = 32, true
	}
	if n, ok := t.Capacity[simcloud.GPUResource]; ok {
		gpu.Count = n.Value()
		p.GPUs = []Device{gpu}
	}
	p.Hibernation = len(p.GPUs) == 0 && t.Capacity.Memory().Value() < 150<<30
	return p
}

// network finds interfaces and addresses per interface for that many pods: EC2's own figures for
// the sizes that it has.
func network(pods int64) (interfaces, addresses int) {
	known := map[int64][2]int{8: {2, 4}, 11: {3, 4}, 17: {3, 6}, 29: {3, 10}, 35: {3, 12}, 58: {4, 15}, 234: {8, 30}}
	if n, ok := known[pods]; ok {
		return n[0], n[1]
	}
	return 1, int(max(0, pods-2)) + 1
}

// properties are those of the type by that name.
func (s *Server) properties(t simcloud.InstanceType) Properties {
	if p, ok := s.options.Types[t.Name]; ok {
		return p
	}
	return PropertiesOf(t)
}

type typeInfo struct {
	Name          string        `xml:"instanceType"`
	Current       bool          `xml:"currentGeneration"`
	BareMetal     bool          `xml:"bareMetal"`
	Hypervisor    string        `xml:"hypervisor,omitempty"`
	Hibernation   bool          `xml:"hibernationSupported"`
	Architectures []string      `xml:"processorInfo>supportedArchitectures>item"`
	VCPUs         int64         `xml:"vCpuInfo>defaultVCpus"`
	MemoryMiB     int64         `xml:"memoryInfo>sizeInMiB"`
	RootDevices   []string      `xml:"supportedRootDeviceTypes>item"`
	BootModes     []string      `xml:"supportedBootModes>item"`
	Storage       bool          `xml:"instanceStorageSupported"`
	EBSLimit      int           `xml:"ebsInfo>maximumEbsAttachments"`
	EBSLimitType  string        `xml:"ebsInfo>attachmentLimitType"`
	GPUs          *[]deviceInfo `xml:"gpuInfo>gpus>item"`
	Neuron        *[]deviceInfo `xml:"neuronInfo>neuronDevices>item"`
	Inference     *[]deviceInfo `xml:"inferenceAcceleratorInfo>accelerators>member"`
	FPGAs         *[]deviceInfo `xml:"fpgaInfo>fpgas>item"`
	Media         *[]deviceInfo `xml:"mediaAcceleratorInfo>accelerators>item"`
	ENA           string        `xml:"networkInfo>enaSupport"`
	Interfaces    int           `xml:"networkInfo>maximumNetworkInterfaces"`
	Addresses     int           `xml:"networkInfo>ipv4AddressesPerInterface"`
	Cards         int           `xml:"networkInfo>maximumNetworkCards"`
	DefaultCard   int           `xml:"networkInfo>defaultNetworkCardIndex"`
	CardList      []card        `xml:"networkInfo>networkCards>item"`
}

type card struct {
	Index      int `xml:"networkCardIndex"`
	Interfaces int `xml:"maximumNetworkInterfaces"`
}

type deviceInfo struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer,omitempty"`
	Count        int64  `xml:"count"`
	MemoryMiB    int    `xml:"memoryInfo>sizeInMiB"`
}

// deviceInfos returns nil for no devices: EC2 leaves their element out then.
func deviceInfos(devices []Device) *[]deviceInfo {
	if len(devices) == 0 {
		return nil
	}
	var out []deviceInfo
	for _, d := range devices {
		out = append(out, deviceInfo{Name: d.Name, Manufacturer: d.Manufacturer, Count: d.Count, MemoryMiB: d.MemoryMiB})
	}
	return &out
}

// info is what EC2 says of the type.
func (s *Server) info(t simcloud.InstanceType) typeInfo {
	p := s.properties(t)
	i := typeInfo{
		Name: t.Name, Current: true, BareMetal: p.BareMetal, Hypervisor: p.Hypervisor, Hibernation: p.Hibernation,
		Architectures: p.Architectures, VCPUs: t.Capacity.Cpu().Value(), MemoryMiB: t.Capacity.Memory().Value() >> 20,
		RootDevices: []string{"ebs"}, BootModes: p.BootModes, Storage: p.InstanceStore,
		EBSLimit: p.EBSAttachments, EBSLimitType: "shared",
		GPUs: deviceInfos(p.GPUs), Neuron: deviceInfos(p.Neuron), Inference: deviceInfos(p.Inference),
		FPGAs: deviceInfos(p.FPGAs), Media: deviceInfos(p.Media),
		ENA: p.ENA, Interfaces: p.Interfaces, Addresses: p.Addresses, Cards: p.NetworkCards,
	}
	if p.DedicatedEBS {
		i.EBSLimitType = "dedicated"
	}
	for n := range p.NetworkCards {
		i.CardList = append(i.CardList, card{Index: n, Interfaces: p.Interfaces / p.NetworkCards})
	}
	return i
}

// typeRefusal is why EC2 launches no instance of the type from the image in the zone; nil where it
// does.
func (s *Server) typeRefusal(t simcloud.InstanceType, image *Image, zone string) error {
	p := s.properties(t)
	switch {
	case !slices.Contains(p.Architectures, image.Architecture):
		return fail(codeInvalid, "The architecture '%s' of the specified instance type does not match the architecture "+
			"'%s' of the specified AMI.", strings.Join(p.Architectures, ","), image.Architecture)
	case image.BootMode == bootUEFI && !slices.Contains(p.BootModes, bootUEFI):
		return fail(codeInvalid, "The %s instance type does not support an AMI with a boot mode of UEFI. Only instance "+
			"types built on the Nitro System support UEFI. Specify an instance type that supports UEFI, and try again.", t.Name)
	case image.BootMode == bootBIOS && !slices.Contains(p.BootModes, bootBIOS):
		return fail(codeInvalid, "The %s instance type does not support an AMI with a boot mode of Legacy BIOS.", t.Name)
	case image.NoENA && p.ENA == enaRequired:
		return fail(codeCombination, "Enhanced networking with the Elastic Network Adapter (ENA) is required for the '%s' "+
			"instance type. Ensure that you are using an AMI that is enabled for ENA.", t.Name)
	}
	return zoneRefusal(p, t.Name, zone)
}

// zoneRefusal is why there is no instance of the type in the zone; nil where there may be.
func zoneRefusal(p Properties, kind, zone string) error {
	if len(p.Zones) == 0 || slices.Contains(p.Zones, zone) {
		return nil
	}
	return fail(codeNoOffering, "Your requested instance type (%s) is not supported in your requested Availability Zone "+
		"(%s). Please retry your request by not specifying an Availability Zone or choosing %s.", kind, zone,
		strings.Join(p.Zones, ", "))
}

// architecture is EC2's word for that of the type's instances.
func (s *Server) architecture(kind string) string {
	t, _ := s.sim.InstanceType(kind)
	return s.properties(t).Architectures[0]
}
