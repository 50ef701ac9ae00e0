package ec2test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestPropertiesOfTypes: the SDK reads what the server was told of a type, and what it tells of the
// built-in ones.
func TestPropertiesOfTypes(t *testing.T) {
	t.Parallel()
	whole := Properties{
		Architectures: []string{"i386", archX86}, Hypervisor: "xen", BareMetal: true, InstanceStore: true, Hibernation: true,
		NetworkCards: 2, Interfaces: 8, Addresses: 6, BootModes: []string{bootUEFI}, ENA: "unsupported",
		EBSAttachments: 16, DedicatedEBS: true,
		GPUs:      []Device{{"AMD", "V520", 2, 8192}},
		Neuron:    []Device{{"", "Inferentia2", 3, 32768}},
		Inference: []Device{{"AWS", "Inferentia", 4, 8192}},
		FPGAs:     []Device{{"Xilinx", "VU47P", 5, 81920}},
		Media:     []Device{{"Xilinx", "U30", 6, 4096}},
	}
	inAccount(t, simcloud.Options{}, Options{Types: map[string]Properties{"c5.large": whole}}, func(t *testing.T,
		a *testAccount) {
		names := []string{"c5.large", "g5.xlarge", "m5.large", "m7g.large", "m7i.large", "p3.2xlarge"}
		want := map[string]Properties{"c5.large": whole}
		for _, name := range names[1:] {
			size, ok := a.sim.InstanceType(name)
			if !ok {
				t.Fatalf("no type %s", name)
			}
			want[name] = PropertiesOf(size)
		}
		in := &ec2.DescribeInstanceTypesInput{}
		for _, name := range names {
			in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
		}
		out, err := a.client.DescribeInstanceTypes(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Properties{}
		for i := range out.InstanceTypes {
			got[string(out.InstanceTypes[i].InstanceType)] = told(&out.InstanceTypes[i])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("properties (-want +got):\n%s", diff)
		}
	})
}

// told reads the properties out of the SDK's description.
func told(i *types.InstanceTypeInfo) Properties {
	p := Properties{
		Hypervisor: string(i.Hypervisor), BareMetal: *i.BareMetal, InstanceStore: *i.InstanceStorageSupported,
		Hibernation: *i.HibernationSupported, NetworkCards: int(*i.NetworkInfo.MaximumNetworkCards),
		Interfaces: int(*i.NetworkInfo.MaximumNetworkInterfaces), Addresses: int(*i.NetworkInfo.Ipv4AddressesPerInterface),
		ENA: string(i.NetworkInfo.EnaSupport), EBSAttachments: int(*i.EbsInfo.MaximumEbsAttachments),
		DedicatedEBS: i.EbsInfo.AttachmentLimitType == types.AttachmentLimitTypeDedicated,
	}
	for _, a := range i.ProcessorInfo.SupportedArchitectures {
		p.Architectures = append(p.Architectures, string(a))
	}
	for _, m := range i.SupportedBootModes {
		p.BootModes = append(p.BootModes, string(m))
	}
	device := func(maker, name *string, count, mib *int32) []Device {
		return []Device{{Manufacturer: aws.ToString(maker), Name: *name, Count: int64(*count), MemoryMiB: int(*mib)}}
	}
	if g := i.GpuInfo; g != nil {
		p.GPUs = device(g.Gpus[0].Manufacturer, g.Gpus[0].Name, g.Gpus[0].Count, g.Gpus[0].MemoryInfo.SizeInMiB)
	}
	if n := i.NeuronInfo; n != nil {
		p.Neuron = device(nil, n.NeuronDevices[0].Name, n.NeuronDevices[0].Count, n.NeuronDevices[0].MemoryInfo.SizeInMiB)
	}
	if n := i.InferenceAcceleratorInfo; n != nil {
		d := n.Accelerators[0]
		p.Inference = device(d.Manufacturer, d.Name, d.Count, d.MemoryInfo.SizeInMiB)
	}
	if n := i.FpgaInfo; n != nil {
		p.FPGAs = device(n.Fpgas[0].Manufacturer, n.Fpgas[0].Name, n.Fpgas[0].Count, n.Fpgas[0].MemoryInfo.SizeInMiB)
	}
	if n := i.MediaAcceleratorInfo; n != nil {
		d := n.Accelerators[0]
		p.Media = device(d.Manufacturer, d.Name, d.Count, d.MemoryInfo.SizeInMiB)
	}
	return p
}

// TestTypesThatDoNotBootAnImage: each refusal has EC2's code.
func TestTypesThatDoNotBootAnImage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		image func(*Image)
		kind  func(*Properties)
		code  string
	}{
		"both boot modes":               {},
		"UEFI, and the type has it":     {image: func(i *Image) { i.BootMode = bootUEFI }},
		"UEFI, and the type does not":   {func(i *Image) { i.BootMode = bootUEFI }, biosOnly, codeInvalid},
		"UEFI preferred":                {func(i *Image) { i.BootMode = bootUEFIPreferred }, biosOnly, ""},
		"BIOS, and the type does not":   {func(i *Image) { i.BootMode = bootBIOS }, uefiOnly, codeInvalid},
		"no ENA, and the type needs it": {image: func(i *Image) { i.NoENA = true }, code: codeCombination},
		"no ENA, and the type can do without": {func(i *Image) { i.NoENA = true },
			func(p *Properties) { p.ENA = "supported" }, ""},
		"another architecture": {kind: func(p *Properties) { p.Architectures = []string{archARM} }, code: codeInvalid},
		"a zone without the type": {kind: func(p *Properties) { p.Zones = []string{"us-east-1b", "us-east-1c"} },
			code: "Unsupported"},
		"a zone with the type": {kind: func(p *Properties) { p.Zones = []string{"us-east-1a"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account, m5 := DefaultAccount(), simcloud.New(simcloud.Options{})
			if c.image != nil {
				c.image(account.image(testImage))
			}
			size, _ := m5.InstanceType("m5.large")
			p := PropertiesOf(size)
			if c.kind != nil {
				c.kind(&p)
			}
			o := Options{Account: account, Types: map[string]Properties{"m5.large": p}}
			inAccount(t, simcloud.Options{}, o, func(t *testing.T, a *testAccount) {
				if _, err := a.client.RunInstances(t.Context(), runInput()); codeOf(t, err) != c.code {
					t.Errorf("%v, want code %q", err, c.code)
				}
			})
		})
	}
}

func biosOnly(p *Properties) { p.BootModes = []string{bootBIOS} }
func uefiOnly(p *Properties) { p.BootModes = []string{bootUEFI} }
