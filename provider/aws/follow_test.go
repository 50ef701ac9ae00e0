package aws

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/price"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// pair are two types that are alike, and the image of their class.
type pair struct {
	first, other ec2test.Properties
	// of the other type; the first has 4 CPUs and 16Gi.
	cpus, memory string
	image        *ec2test.Image
	spec         *v1alpha1.AWSNodeClassSpec
}

// reasonOf resolves a class of first.xlarge, with other.xlarge as its fallback type, through EC2's
// protocol. It returns why the other cannot be used.
func reasonOf(t *testing.T, change func(*pair)) string {
	t.Helper()
	gpu := []ec2test.Device{{Manufacturer: "NVIDIA", Name: "T4", Count: 2, MemoryMiB: 15360}}
	alike := ec2test.Properties{
		Architectures: []string{"x86_64"}, Hypervisor: "nitro", NetworkCards: 2, Interfaces: 4, Addresses: 15, GPUs: gpu,
		BootModes: []string{"legacy-bios", "uefi"}, ENA: "required", EBSAttachments: 27,
	}
	account := ec2test.DefaultAccount()
	c := class()
	c.Status = v1alpha1.AWSNodeClassStatus{}
	c.Spec.InstanceType, c.Spec.FallbackInstanceTypes = "first.xlarge", []string{"other.xlarge"}
	p := &pair{first: alike, other: alike, cpus: "4", memory: "16Gi", image: &account.Images[0], spec: &c.Spec}
	change(p)
	size := func(name, cpus, memory string) simcloud.InstanceType {
		return simcloud.InstanceType{Name: name, Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse(memory),
		}}
	}
	o := simcloud.Options{Types: []simcloud.InstanceType{size("first.xlarge", "4", "16Gi"),
		size("other.xlarge", p.cpus, p.memory)}}
	r := newRig(t, o, func(o *ec2test.Options) {
		o.Account, o.Types = account, map[string]ec2test.Properties{"first.xlarge": p.first, "other.xlarge": p.other}
	})
	got, err := r.cloud(t).ResolveNodeClass(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	other := got.InstanceTypes[1]
	if len(got.InstanceTypes) != 2 || !got.InstanceTypes[0].Usable || other.Usable != (other.Reason == "") {
		t.Fatalf("instanceTypes: %+v", got.InstanceTypes)
	}
	if len(other.Reason) > 1024 {
		t.Errorf("a reason of %d bytes", len(other.Reason))
	}
	return other.Reason
}

// TestATypeThatCannotFollow: each property of a fallback type equal to the first type's,
// smaller and larger. The words are those that the class's status shows.
func TestATypeThatCannotFollow(t *testing.T) {
	devices := func(name string, n int64) []ec2test.Device {
		return []ec2test.Device{{Manufacturer: "AWS", Name: name, Count: n, MemoryMiB: 8192}}
	}
	for name, c := range map[string]struct {
		change func(*pair)
		reason string
	}{
		"all equal": {func(*pair) {}, ""},
		"another architecture": {func(p *pair) { p.other.Architectures = []string{"arm64"} },
			"architecture: other.xlarge has arm64, the image is for x86_64"},
		"one architecture more": {func(p *pair) { p.other.Architectures = []string{"i386", "x86_64"} }, ""},
		"another hypervisor": {func(p *pair) { p.other.Hypervisor = "xen" },
			"hypervisor: other.xlarge has xen, first.xlarge has nitro, and both must be equal"},
		"bare metal has no hypervisor": {func(p *pair) { p.other.Hypervisor = "" }, "hypervisor: other.xlarge has none"},
		"bare metal":                   {func(p *pair) { p.other.BareMetal = true }, "bare metal: other.xlarge has yes"},
		"the first is bare metal":      {func(p *pair) { p.first.BareMetal = true }, "bare metal: other.xlarge has no"},
		"fewer network cards": {func(p *pair) { p.other.NetworkCards = 1 },
			"network cards: other.xlarge has 1, first.xlarge has 2"},
		"more network cards": {func(p *pair) { p.other.NetworkCards = 4 }, "network cards: other.xlarge has 4"},
		"no GPU": {func(p *pair) { p.other.GPUs = nil },
			"GPUs: other.xlarge has none, first.xlarge has 2 NVIDIA T4 with 15360 MiB"},
		"one GPU fewer": {func(p *pair) { p.other.GPUs = countOf(p.other.GPUs, 1) }, "GPUs: other.xlarge has 1 NVIDIA T4"},
		"one GPU more":  {func(p *pair) { p.other.GPUs = countOf(p.other.GPUs, 3) }, "GPUs: other.xlarge has 3 NVIDIA T4"},
		"other GPUs":    {func(p *pair) { p.other.GPUs = devices("V520", 2) }, "GPUs: other.xlarge has 2 AWS V520"},
		"a part of the GPU": {func(p *pair) {
			p.other.GPUs = []ec2test.Device{{Manufacturer: "NVIDIA", Name: "T4", Count: 2, MemoryMiB: 3840}}
		}, "GPUs: other.xlarge has 2 NVIDIA T4 with 3840 MiB"},
		"equal accelerators": {func(p *pair) {
			p.first.Inference, p.other.Inference = devices("Inferentia", 4), devices("Inferentia", 4)
			p.first.FPGAs, p.other.FPGAs = devices("VU47P", 1), devices("VU47P", 1)
		}, ""},
		"Neuron devices": {func(p *pair) { p.other.Neuron = devices("Trainium", 1) },
			"accelerators: other.xlarge has 1 Trainium, first.xlarge has none"},
		"fewer inference accelerators": {func(p *pair) {
			p.first.Inference, p.other.Inference = devices("Inferentia", 4), devices("Inferentia", 1)
		}, "accelerators: other.xlarge has 1 AWS Inferentia, first.xlarge has 4 AWS Inferentia"},
		"other FPGAs": {func(p *pair) { p.first.FPGAs, p.other.FPGAs = devices("VU9P", 1), devices("VU47P", 1) },
			"accelerators: other.xlarge has 1 AWS VU47P"},
		"media accelerators": {func(p *pair) { p.other.Media = devices("U30", 2) },
			"accelerators: other.xlarge has 2 AWS U30"},
		"an instance store": {func(p *pair) { p.other.InstanceStore = true }, "instance store: other.xlarge has yes"},
		"no instance store": {func(p *pair) { p.first.InstanceStore = true }, "instance store: other.xlarge has no"},

		"fewer CPUs":  {func(p *pair) { p.cpus = "2" }, "vCPUs: other.xlarge has 2, less than first.xlarge with 4"},
		"more CPUs":   {func(p *pair) { p.cpus = "8" }, ""},
		"less memory": {func(p *pair) { p.memory = "8Gi" }, "memory: other.xlarge has 8Gi, less than first.xlarge with 16Gi"},
		"a bit less":  {func(p *pair) { p.memory = "16383Mi" }, "memory: other.xlarge has 16383Mi"},
		"more memory": {func(p *pair) { p.memory = "32Gi" }, ""},
		"fewer network interfaces": {func(p *pair) { p.other.Interfaces = 2 },
			"network interfaces: other.xlarge has 2, less than first.xlarge with 4"},
		"more network interfaces": {func(p *pair) { p.other.Interfaces = 8 }, ""},
		"fewer addresses": {func(p *pair) { p.other.Addresses = 10 },
			"IPv4 addresses per interface: other.xlarge has 10, less than first.xlarge with 15"},
		"more addresses": {func(p *pair) { p.other.Addresses = 30 }, ""},
		"fewer EBS attachments": {func(p *pair) { p.other.EBSAttachments = 26 },
			"EBS attachments: other.xlarge has 26, less than first.xlarge with 27"},
		"more EBS attachments":                 {func(p *pair) { p.other.EBSAttachments = 31 }, ""},
		"as many, and interfaces do not count": {func(p *pair) { p.other.DedicatedEBS = true }, ""},
		"as many, but interfaces count": {func(p *pair) { p.first.DedicatedEBS = true },
			"EBS attachments: other.xlarge has 23"},
		"as many next to the interfaces": {moreNextToInterfaces, ""},
		"as many, for volumes alone on each type": {func(p *pair) { p.first.DedicatedEBS, p.other.DedicatedEBS = true, true },
			""},

		"an image for UEFI": {func(p *pair) { p.image.BootMode, p.other.BootModes = "uefi", []string{"legacy-bios"} },
			"boot mode: other.xlarge has legacy-bios, the image needs uefi"},
		"an image for BIOS": {func(p *pair) { p.image.BootMode, p.other.BootModes = "legacy-bios", []string{"uefi"} },
			"boot mode: other.xlarge has uefi, the image needs legacy-bios"},
		"an image that says nothing": {func(p *pair) { p.image.BootMode, p.other.BootModes = "", []string{"uefi"} },
			"boot mode: other.xlarge has uefi, the image needs legacy-bios"},
		"an image for both": {func(p *pair) { p.other.BootModes = []string{"legacy-bios"} }, ""},
		"an image without ENA": {func(p *pair) { p.image.NoENA, p.first.ENA = true, "supported" },
			"enhanced networking: other.xlarge needs ENA, which the image does not have"},
		"an image without ENA, and none is needed": {func(p *pair) { p.image.NoENA, p.other.ENA = true, "supported" }, ""},

		"Bottlerocket with static memory": {func(p *pair) {
			p.spec.UserData = "[settings.kubernetes]\nmemory-manager-policy = \"Static\"\n"
		}, "memory-manager-policy is Static"},
		"hibernation": {func(p *pair) {
			p.first.Hibernation, p.other.Hibernation = true, true
			p.spec.Hibernation = &v1alpha1.Hibernation{Enabled: true}
		}, "EC2 does not change the type of instances with hibernation"},
		"Bottlerocket with static CPUs": {func(p *pair) {
			p.spec.UserData = "[settings.kubernetes]\ncpu-manager-policy = \"static\"\nmemory-manager-policy = \"None\"\n"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := reasonOf(t, c.change)
				if got != c.reason && (c.reason == "" || !strings.HasPrefix(got, c.reason)) {
					t.Errorf("reason %q, want %q", got, c.reason)
				}
			})
		})
	}
}

func countOf(devices []ec2test.Device, n int64) []ec2test.Device {
	d := devices[0]
	d.Count = n
	return []ec2test.Device{d}
}

func moreNextToInterfaces(p *pair) {
	p.first.DedicatedEBS, p.other.EBSAttachments = true, 27+p.other.Interfaces
}

// TestFallbackTypesInTheStatus: in the order of the spec, with what each costs. One that does not
// exist costs one more call, and takes nothing from the others.
func TestFallbackTypesInTheStatus(t *testing.T) {
	book, err := price.Parse([]byte("{currency: EUR, instances: {m5.large: 0.1, m6i.large: 0.2, c5.large: 0.3}, " +
		"volumes: {gp3: 7.3}}"))
	if err != nil {
		t.Fatal(err)
	}
	costs := func(running string) *v1alpha1.Price {
		return &v1alpha1.Price{Currency: "EUR", RunningPerHour: running, StoppedPerHour: "0.2"}
	}
	first := v1alpha1.InstanceTypeStatus{Type: "m5.large", Usable: true, Price: costs("0.3")}
	small := v1alpha1.InstanceTypeStatus{Type: "c5.large", Price: costs("0.5"),
		Reason: "memory: c5.large has 4Gi, less than m5.large with 8Gi"}
	unknown := v1alpha1.InstanceTypeStatus{Type: "m99.large", Reason: "EC2 knows no such type in us-east-1"}
	for name, c := range map[string]struct {
		fallback []string
		want     []v1alpha1.InstanceTypeStatus
		calls    int
	}{
		"none": {calls: 1},
		"several": {[]string{"m6i.large", "c5.large", "r5.large"}, []v1alpha1.InstanceTypeStatus{first,
			{Type: "m6i.large", Usable: true, Price: costs("0.4")}, small, {Type: "r5.large", Usable: true}}, 1},
		"two that do not exist": {[]string{"m99.large", "r5.large", "m98.large"}, []v1alpha1.InstanceTypeStatus{first,
			unknown,
			{Type: "r5.large", Usable: true},
			{Type: "m98.large", Reason: "EC2 knows no such type in us-east-1"}}, 2},
		"the first type and one twice, which admission refuses": {[]string{"m5.large", "r5.large", "r5.large"},
			[]v1alpha1.InstanceTypeStatus{first, {Type: "r5.large", Usable: true}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, cl := newRig(t, simcloud.Options{}), class()
				cl.Spec.FallbackInstanceTypes = c.fallback
				got, err := r.cloud(t, func(o *Options) { o.Prices = book }).ResolveNodeClass(t.Context(), cl)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got.InstanceTypes); diff != "" {
					t.Errorf("instanceTypes (-want +got):\n%s", diff)
				}
				if calls := len(r.requests(ec2test.DescribeInstanceTypes)); calls != c.calls {
					t.Errorf("%d calls of DescribeInstanceTypes, want %d", calls, c.calls)
				}
			})
		})
	}
}

// TestAFirstTypeThatDoesNotExist stays an error, also next to a fallback type that does. A refusal
// that names no type costs the class its fallback types alone.
func TestAFirstTypeThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, cl := newRig(t, simcloud.Options{}), class()
		cl.Spec.InstanceType, cl.Spec.FallbackInstanceTypes = "m99.large", []string{"m98.large", "m5.large"}
		_, err := r.cloud(t).ResolveNodeClass(t.Context(), cl)
		if !provider.IsInvalidConfig(err) || !strings.Contains(err.Error(), "spec.instanceType: InvalidInstanceType") ||
			!strings.Contains(err.Error(), "m99.large") {
			t.Errorf("%v, want spec.instanceType and EC2's words", err)
		}
		cl.Spec.InstanceType, cl.Spec.FallbackInstanceTypes = "m5.large", []string{"m6i.large"}
		r.server.Script(ec2test.Failure{Action: ec2test.DescribeInstanceTypes, Count: 1,
			Error: ec2test.Error{Code: "InvalidInstanceType", Message: "no"}})
		got, err := r.cloud(t).ResolveNodeClass(t.Context(), cl)
		if err != nil || len(got.InstanceTypes) != 2 || got.InstanceTypes[1].Usable {
			t.Errorf("%+v, error %v; want the first type alone", got.InstanceTypes, err)
		}
	})
}
