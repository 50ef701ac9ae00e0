package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func said(code string) error {
	return fmt.Errorf("operation error EC2: RunInstances, https response error RequestID: 4f1c: %w",
		&smithy.GenericAPIError{Code: code, Message: "in EC2's words"})
}

func TestWhatEC2sCodesMean(t *testing.T) {
	config := func(field string) func(error) bool {
		return func(err error) bool {
			var wrong *provider.InvalidConfigError
			return errors.As(err, &wrong) && wrong.Field == field
		}
	}
	plain := func(err error) bool {
		return !provider.IsNotFound(err) && !provider.IsRateLimit(err) && !provider.IsInsufficientCapacity(err) &&
			!provider.IsIncorrectState(err) && !provider.IsInvalidConfig(err)
	}
	for code, is := range map[string]func(error) bool{
		"InvalidInstanceID.NotFound":        provider.IsNotFound,
		"IdempotentInstanceTerminated":      provider.IsNotFound,
		"InvalidInstanceID.Malformed":       provider.IsNotFound,
		"RequestLimitExceeded":              provider.IsRateLimit,
		"Throttling":                        provider.IsRateLimit,
		"InsufficientInstanceCapacity":      provider.IsInsufficientCapacity,
		"Unsupported":                       provider.IsInsufficientCapacity,
		"VcpuLimitExceeded":                 provider.IsInsufficientCapacity,
		"InsufficientFreeAddressesInSubnet": provider.IsInsufficientCapacity,
		"IncorrectInstanceState":            provider.IsIncorrectState,
		"OperationNotPermitted":             config("instance i-1"),
		"InvalidAMIID.NotFound":             config("spec.ami"),
		"InvalidSubnetID.NotFound":          config("spec.subnetIds"),
		"InvalidGroup.NotFound":             config("spec.securityGroupIds"),
		"InvalidSnapshot.NotFound":          config("spec.blockDeviceMappings"),
		"InvalidParameterValue":             config("spec"),
		"MissingParameter":                  config("spec"),
		"UnauthorizedOperation":             plain,
		"AuthFailure":                       plain,
		"RequestExpired":                    plain,
		"ExpiredToken":                      plain,
		"InvalidClientTokenId":              plain,
		"InternalError":                     plain,
		"Unavailable":                       plain,
		"ACodeOfTomorrow":                   plain,
	} {
		t.Run(code, func(t *testing.T) {
			err := subject{operation: "RunInstances", id: "i-1"}.typed(said(code))
			if !is(err) {
				t.Errorf("%T %v", err, err)
			}
			if strings.Contains(err.Error(), "RequestID") {
				t.Errorf("%v tells what differs from call to call", err)
			}
			if !provider.IsNotFound(err) && !provider.IsIncorrectState(err) &&
				!strings.Contains(err.Error(), code+": in EC2's words") {
				t.Errorf("%v does not say what EC2 said", err)
			}
		})
	}
}

func TestACodeHasOneMeaning(t *testing.T) {
	class := classCodes()
	for code := range callCodes() {
		if _, again := class[code]; again {
			t.Errorf("%s stands in both tables", code)
		}
	}
}

func TestAnEndedContextStaysOne(t *testing.T) {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if err := (subject{operation: "StartInstances"}).typed(fmt.Errorf("operation error EC2: %w", cause)); !errors.Is(err,
			cause) {
			t.Errorf("%v is not %v", err, cause)
		}
	}
}

func TestStates(t *testing.T) {
	for from, want := range map[types.InstanceStateName]provider.InstanceState{
		"pending": provider.InstancePending, "running": provider.InstanceRunning, "stopping": provider.InstanceStopping,
		"stopped":       provider.InstanceStopped,
		"shutting-down": provider.InstanceShuttingDown, "terminated": provider.InstanceTerminated,
		"": provider.InstanceUnknown, "new": provider.InstanceUnknown,
	} {
		if got := stateOf(from); got != want {
			t.Errorf("%q is %s, want %s", from, got, want)
		}
	}
}

func TestOrderOfSubnets(t *testing.T) {
	subnet := func(id, zone string) v1alpha1.ResolvedSubnet { return v1alpha1.ResolvedSubnet{ID: id, Zone: zone} }
	subnets := []v1alpha1.ResolvedSubnet{subnet("b1", "b"), subnet("a2", "a"), subnet("c1", "c"), subnet("a1", "a")}
	for number, want := range map[int64]string{0: "a1 b1 c1 a2", 1: "b1 c1 a1 a2", 2: "c1 a1 b1 a2", 3: "a2 b1 c1 a1",
		4: "b1 c1 a2 a1", 6: "a1 b1 c1 a2", -1: "a1 b1 c1 a2"} {
		var got []string
		for _, s := range inOrder(subnets, number) {
			got = append(got, s.ID)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("launch %d (-want +got):\n%s", number, diff)
		}
		slices.Reverse(subnets) // equal input in another order is equal output
	}
	if got := inOrder(nil, 5); len(got) != 0 {
		t.Errorf("%v of no subnets", got)
	}
}

func TestMemoryDoublesAndForgets(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m, o := newMemory(restFirst, restMost), offering{zone: "a", kind: "m5.large"}
	rests := func() time.Duration {
		t.Helper()
		until := m.until(now, o, offering{zone: "b", kind: "m5.large"})
		if until.IsZero() {
			return 0
		}
		return until.Sub(now)
	}
	var got []time.Duration
	for range 6 {
		m.refused(now, o)
		m.refused(now, o) // of a call that was under way with it
		got = append(got, rests())
		now = now.Add(rests())
	}
	want := []time.Duration{3 * time.Minute, 6 * time.Minute, 12 * time.Minute, 24 * time.Minute, 30 * time.Minute,
		30 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rests (-want +got):\n%s", diff)
	}
	if rests() != 0 {
		t.Errorf("it rests for %s more when its time is over", rests())
	}
	m.refused(now, o)
	m.worked(o)
	if rests() != 0 {
		t.Error("a launch that worked is not remembered")
	}
	m.refused(now, o)
	if rests() != restFirst {
		t.Errorf("after a launch that worked the first rest is %s", rests())
	}
	now = now.Add(rests() + 2*restMost)
	m.refused(now, o)
	if rests() != restFirst {
		t.Errorf("long after the last refusal the rest is %s", rests())
	}
}

func TestCapacityOfTypes(t *testing.T) {
	info := func(cpus int32, mib int64, interfaces, addresses int32) *types.InstanceTypeInfo {
		return &types.InstanceTypeInfo{
			VCpuInfo: &types.VCpuInfo{DefaultVCpus: aws.Int32(cpus)}, MemoryInfo: &types.MemoryInfo{SizeInMiB: aws.Int64(mib)},
			NetworkInfo: &types.NetworkInfo{MaximumNetworkInterfaces: aws.Int32(interfaces),
				Ipv4AddressesPerInterface: aws.Int32(addresses)},
		}
	}
	gpu := info(48, 196608, 7, 30)
	gpu.GpuInfo = &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{Manufacturer: aws.String("NVIDIA"), Count: aws.Int32(4)}}}
	neuron := info(4, 16384, 4, 10)
	neuron.NeuronInfo = &types.NeuronInfo{NeuronDevices: []types.NeuronDeviceInfo{{Count: aws.Int32(1)}}}
	image := &types.Image{RootDeviceName: aws.String("/dev/xvda"),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"),
			Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(20)}}}}
	for name, c := range map[string]struct {
		size *types.InstanceTypeInfo
		want map[string]string
	}{
		"m5.large": {info(2, 8192, 3, 10), map[string]string{"cpu": "2", "memory": "8Gi", "pods": "29",
			"ephemeral-storage": "20Gi"}},
		"m5.4xlarge": {info(16, 65536, 8, 30), map[string]string{"cpu": "16", "memory": "64Gi", "pods": "110",
			"ephemeral-storage": "20Gi"}},
		"g4dn.12xlarge": {gpu, map[string]string{"cpu": "48", "memory": "192Gi", "pods": "205", "ephemeral-storage": "20Gi",
			"nvidia.com/gpu": "4"}},
		"inf2.xlarge": {neuron, map[string]string{"cpu": "4", "memory": "16Gi", "pods": "38", "ephemeral-storage": "20Gi",
			"aws.amazon.com/neuron": "1"}},
		"nothing is told": {&types.InstanceTypeInfo{}, map[string]string{"ephemeral-storage": "20Gi"}},
	} {
		got := map[string]string{}
		for resource, q := range capacityOf(c.size, &v1alpha1.AWSNodeClassSpec{}, image) {
			got[string(resource)] = q.String()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamesOfAliases(t *testing.T) {
	x86 := &types.InstanceTypeInfo{
		ProcessorInfo: &types.ProcessorInfo{SupportedArchitectures: []types.ArchitectureType{"x86_64"}},
	}
	arm := &types.InstanceTypeInfo{
		ProcessorInfo: &types.ProcessorInfo{SupportedArchitectures: []types.ArchitectureType{"arm64"}},
	}
	gpu := &types.InstanceTypeInfo{ProcessorInfo: x86.ProcessorInfo,
		GpuInfo: &types.GpuInfo{Gpus: []types.GpuDeviceInfo{{Manufacturer: aws.String("NVIDIA"), Count: aws.Int32(1)}}}}
	for _, c := range []struct {
		alias string
		size  *types.InstanceTypeInfo
		want  string
	}{
		{"al2023@latest", x86, "amazon-eks-node-al2023-x86_64-standard-1.33-v*"},
		{"al2023@v20250801", arm, "amazon-eks-node-al2023-arm64-standard-1.33-v20250801"},
		{"al2023@latest", gpu, "amazon-eks-node-al2023-x86_64-nvidia-1.33-v*"},
		{"al2@latest", x86, "amazon-eks-node-1.33-v*"},
		{"al2@20250801", arm, "amazon-eks-arm64-node-1.33-v20250801"},
		{"al2@latest", gpu, "amazon-eks-gpu-node-1.33-v*"},
		{"bottlerocket@latest", x86, "bottlerocket-aws-k8s-1.33-x86_64-v*"},
		{"bottlerocket@1.43.0", arm, "bottlerocket-aws-k8s-1.33-arm64-v1.43.0-*"},
		{"bottlerocket@latest", gpu, "bottlerocket-aws-k8s-1.33-nvidia-x86_64-v*"},
	} {
		if got, err := aliasPattern(c.alias, "1.33", c.size); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.alias, got, err, c.want)
		}
	}
}

// TestNothingLeavesForNobody: all who wait give up while the limit holds the call.
func TestNothingLeavesForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		sent := 0
		b := &batcher[nothing]{
			most: 2, size: func(int) {},
			admit: func(context.Context) error { <-open; return nil },
			send: func(_ context.Context, ids []string, _ func(string, nothing, error)) (func(), error) {
				sent += len(ids)
				return nil, nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = b.do(ctx, "a") }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(open)
		synctest.Wait()
		if sent != 0 {
			t.Errorf("%d sent", sent)
		}
		if _, err := b.do(t.Context(), "b"); err != nil || sent != 1 {
			t.Errorf("the next one: %d sent, %v", sent, err)
		}
	})
}

// TestACallIsGivenUpWithItsLastCaller, and not before.
func TestACallIsGivenUpWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var flight context.Context
		b := &batcher[nothing]{
			most: 10, size: func(int) {}, admit: func(context.Context) error { <-open; return nil },
			send: func(ctx context.Context, _ []string, _ func(string, nothing, error)) (func(), error) {
				flight = ctx
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, second} {
			go func() { _, _ = b.do(ctx, "a") }()
		}
		synctest.Wait()
		close(open)
		synctest.Wait()
		leave()
		synctest.Wait()
		if flight == nil || flight.Err() != nil {
			t.Fatal("the call was given up although somebody still waits for it")
		}
		leaveToo()
		synctest.Wait()
		if flight.Err() == nil {
			t.Error("the call goes on although nobody waits for it")
		}
	})
}
