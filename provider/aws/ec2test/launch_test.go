package ec2test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestEveryParameterOfALaunchIsUnderstood: what the SDK sends is read under its own name, and shows
// where EC2 shows it.
func TestEveryParameterOfALaunchIsUnderstood(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		input := runInput()
		input.ClientToken = aws.String("pool-uid-3")
		input.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String("nodes")}
		input.HibernationOptions = &types.HibernationOptionsRequest{Configured: aws.Bool(true)}
		input.MetadataOptions = &types.InstanceMetadataOptionsRequest{
			HttpTokens: types.HttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2),
			HttpEndpoint:         types.InstanceMetadataEndpointStateEnabled,
			InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled,
		}
		input.BlockDeviceMappings = []types.BlockDeviceMapping{
			{DeviceName: aws.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
				VolumeSize: aws.Int32(50), VolumeType: types.VolumeTypeGp3, Encrypted: aws.Bool(true),
				KmsKeyId: aws.String("alias/x"),
				Iops:     aws.Int32(4000), Throughput: aws.Int32(250), SnapshotId: aws.String("snap-12345678"),
				DeleteOnTermination: aws.Bool(true),
			}},
			{DeviceName: aws.String("/dev/xvdb"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(1),
				DeleteOnTermination: aws.Bool(false)}},
		}
		for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume,
			types.ResourceTypeNetworkInterface} {
			input.TagSpecifications = append(input.TagSpecifications, types.TagSpecification{
				ResourceType: kind, Tags: []types.Tag{{Key: aws.String("for"), Value: aws.String(string(kind))}},
			})
		}
		out, err := a.client.RunInstances(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		i := a.get(*out.Instances[0].InstanceId)
		for name, ok := range map[string]bool{
			"profile":     *i.IamInstanceProfile.Arn == "arn:aws:iam::123456789012:instance-profile/nodes",
			"hibernation": *i.HibernationOptions.Configured,
			"tokens": i.MetadataOptions.HttpTokens == types.HttpTokensStateRequired &&
				*i.MetadataOptions.HttpPutResponseHopLimit == 2,
			"devices": len(i.BlockDeviceMappings) == 2 && !*i.BlockDeviceMappings[1].Ebs.DeleteOnTermination &&
				*i.BlockDeviceMappings[0].Ebs.DeleteOnTermination,
			"tag":   len(i.Tags) == 1 && *i.Tags[0].Value == "instance",
			"token": *i.ClientToken == "pool-uid-3",
			"image, groups": *i.ImageId == testImage && *i.SecurityGroups[0].GroupId == testGroup &&
				*i.NetworkInterfaces[0].Groups[0].GroupId == testGroup,
			"subnet":       *i.SubnetId == testSubnet && *i.NetworkInterfaces[0].SubnetId == testSubnet,
			"architecture": i.Architecture == types.ArchitectureValuesX8664,
		} {
			if !ok {
				t.Errorf("%s is not as asked: %+v", name, i)
			}
		}
		g, _ := a.sim.Guest(v1alpha1.InstanceID(*i.InstanceId))
		if g.UserData != "#!/bin/bash\n" || g.ProviderID != "aws:///us-east-1a/"+*i.InstanceId {
			t.Errorf("the guest has user data %q and provider id %s", g.UserData, g.ProviderID)
		}
		last := a.server.Requests()[0]
		if last.Params["BlockDeviceMapping.1.Ebs.Throughput"] != "250" ||
			last.Params["TagSpecification.3.Tag.1.Value"] != "network-interface" || last.Region != testRegion {
			t.Errorf("logged %+v", last)
		}
	})
}

func TestLaunchRefusals(t *testing.T) {
	t.Parallel()
	root := func(ebs types.EbsBlockDevice) []types.BlockDeviceMapping {
		return []types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &ebs}}
	}
	tests := map[string]struct {
		change func(*ec2.RunInstancesInput)
		code   string
	}{
		"an unknown type": {func(i *ec2.RunInstancesInput) { i.InstanceType = "m5.tiny" }, codeInvalid},
		"an unknown image": {func(i *ec2.RunInstancesInput) { i.ImageId = aws.String("ami-00000000") },
			"InvalidAMIID.NotFound"},
		"an image that is not ready": {
			func(i *ec2.RunInstancesInput) { i.ImageId = aws.String("ami-0123456789abcdef6") },
			"InvalidAMIID.Unavailable",
		},
		"an image of another architecture": {
			func(i *ec2.RunInstancesInput) { i.ImageId = aws.String("ami-0123456789abcdef1") },
			codeInvalid,
		},
		"an unknown subnet": {func(i *ec2.RunInstancesInput) { i.SubnetId = aws.String("subnet-00000000") },
			"InvalidSubnetID.NotFound"},
		"an unknown security group": {func(i *ec2.RunInstancesInput) { i.SecurityGroupIds = []string{"sg-00000000"} },
			"InvalidGroup.NotFound"},
		"a zone that is not the subnet's": {func(i *ec2.RunInstancesInput) {
			i.Placement = &types.Placement{AvailabilityZone: aws.String("us-east-1b")}
		}, codeInvalid},
		"user data that is not base64": {func(i *ec2.RunInstancesInput) { i.UserData = aws.String("#!/bin/bash") },
			"InvalidUserData.Malformed"},
		"user data of more than 16 KiB": {func(i *ec2.RunInstancesInput) {
			i.UserData = aws.String(base64.StdEncoding.EncodeToString(make([]byte, maxUserData+1)))
		}, codeInvalid},
		"a profile by name and by ARN": {func(i *ec2.RunInstancesInput) {
			i.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String("a"), Arn: aws.String("b")}
		}, codeCombination},
		"hibernation on an open root volume": {func(i *ec2.RunInstancesInput) {
			i.HibernationOptions = &types.HibernationOptionsRequest{Configured: aws.Bool(true)}
		}, "UnsupportedHibernationConfiguration"},
		"a key without encryption": {func(i *ec2.RunInstancesInput) {
			i.BlockDeviceMappings = root(types.EbsBlockDevice{KmsKeyId: aws.String("k")})
		}, codeCombination},
		"throughput of a gp2 volume": {func(i *ec2.RunInstancesInput) {
			i.BlockDeviceMappings = root(types.EbsBlockDevice{VolumeType: types.VolumeTypeGp2, Throughput: aws.Int32(250)})
		}, codeCombination},
		"iops of a gp2 volume": {func(i *ec2.RunInstancesInput) {
			i.BlockDeviceMappings = root(types.EbsBlockDevice{VolumeType: types.VolumeTypeGp2, Iops: aws.Int32(250)})
		}, codeCombination},
		"more wanted than possible": {func(i *ec2.RunInstancesInput) {
			i.MinCount, i.MaxCount = aws.Int32(2),
				aws.Int32(1)
		}, codeInvalid},
		"a token that is too long": {func(i *ec2.RunInstancesInput) {
			i.ClientToken = aws.String(string(make([]byte,
				maxToken+1)))
		}, codeInvalid},
		"a parameter nobody modelled": {func(i *ec2.RunInstancesInput) { i.EnablePrimaryIpv6 = aws.Bool(true) },
			"UnknownParameter"},
		"a dry run": {func(i *ec2.RunInstancesInput) { i.DryRun = aws.Bool(true) }, codeDryRun},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
				input := runInput()
				tt.change(input)
				if _, err := a.client.RunInstances(t.Context(), input); codeOf(t, err) != tt.code {
					t.Errorf("%v, want code %s", err, tt.code)
				}
				if left, err := a.sim.Snapshot(t.Context()); err != nil || len(left) != 0 {
					t.Errorf("%d instances were launched all the same, error %v", len(left), err)
				}
			})
		})
	}
}

func TestClientTokensOverTheWire(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		input := runInput()
		input.ClientToken = aws.String("once")
		first, err := a.client.RunInstances(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		a.after(4 * time.Second)
		second, err := a.client.RunInstances(t.Context(), input)
		if err != nil || *second.Instances[0].InstanceId != *first.Instances[0].InstanceId ||
			*second.ReservationId != *first.ReservationId {
			t.Fatalf("the same again: %v", err)
		}
		if state := second.Instances[0].State.Name; state != types.InstanceStateNameRunning {
			t.Errorf("the second answer says %s, want what it is now", state)
		}
		input.InstanceType = "m5.xlarge"
		if _, err := a.client.RunInstances(t.Context(), input); codeOf(t, err) != "IdempotentParameterMismatch" {
			t.Errorf("the token for another launch: %v", err)
		}
		if err := a.sim.Behind(t.Context(), *first.Instances[0].InstanceId, simcloud.ActTerminate); err != nil {
			t.Fatal(err)
		}
		a.after(time.Second) // it shuts down
		input.InstanceType = "m5.large"
		if _, err := a.client.RunInstances(t.Context(), input); codeOf(t, err) != codeEnded {
			t.Errorf("the token of a terminated instance: %v", err)
		}
		if all, err := a.sim.Snapshot(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%d instances, error %v", len(all), err)
		}
	})
}

// TestLaunchesMeetRoom: capacity and addresses by subnet, all or as many as there are between
// MinCount and MaxCount.
func TestLaunchesMeetRoom(t *testing.T) {
	t.Parallel()
	small := DefaultAccount()
	small.Subnets[0].Addresses = 4
	for name, tt := range map[string]struct {
		capacity    []simcloud.Capacity
		account     *Account
		least, most int32
		got         int
		code        string
	}{
		"room for all": {least: 3, most: 3, got: 3},
		"room for some": {capacity: []simcloud.Capacity{{Zone: "us-east-1a", Type: "*", Count: 2}}, least: 1,
			most: 5, got: 2},
		"room for too few": {capacity: []simcloud.Capacity{{Zone: "us-east-1a", Type: "*", Count: 2}}, least: 3,
			most: 5, code: codeCapacity},
		"addresses for some":    {account: small, least: 1, most: 9, got: 4},
		"addresses for too few": {account: small, least: 5, most: 9, code: simcloud.NoAddresses},
		"another zone is not ours": {capacity: []simcloud.Capacity{{Zone: "us-east-1b", Type: "*", Count: 0}}, least: 2,
			most: 2, got: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{Capacity: tt.capacity}, Options{Account: tt.account},
				func(t *testing.T, a *testAccount) {
					input := runInput()
					input.MinCount, input.MaxCount = aws.Int32(tt.least), aws.Int32(tt.most)
					_, err := a.client.RunInstances(t.Context(), input)
					if code := codeOf(t, err); code != tt.code {
						t.Errorf("code %q, want %q", code, tt.code)
					}
					all, err := a.sim.Snapshot(t.Context())
					if err != nil || len(all) != tt.got {
						t.Errorf("%d instances, want %d, error %v", len(all), tt.got, err)
					}
				})
		})
	}
}

// TestAnAddressIsKeptWhileStopped: a subnet runs out with nothing running in it.
func TestAnAddressIsKeptWhileStopped(t *testing.T) {
	t.Parallel()
	account := DefaultAccount()
	account.Subnets[0].Addresses = 3
	inAccount(t, simcloud.Options{}, Options{Account: account}, func(t *testing.T, a *testAccount) {
		ids := a.standby(2)
		free := func() int32 {
			out, err := a.client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{testSubnet}})
			if err != nil {
				t.Fatal(err)
			}
			return *out.Subnets[0].AvailableIpAddressCount
		}
		if n := free(); n != 1 {
			t.Errorf("%d free addresses beside two stopped instances, want 1", n)
		}
		if _, err := a.client.TerminateInstances(t.Context(),
			&ec2.TerminateInstancesInput{InstanceIds: ids[:1]}); err != nil {
			t.Fatal(err)
		}
		a.after(time.Second) // it shuts down
		if n := free(); n != 2 {
			t.Errorf("%d free addresses after a termination, want 2", n)
		}
	})
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		out, err := a.client.DescribeInstanceTypes(t.Context(),
			&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.xlarge", "g4dn.12xlarge", "m7g.large"}})
		if err != nil || len(out.InstanceTypes) != 3 {
			t.Fatalf("%d types, error %v", len(out.InstanceTypes), err)
		}
		for i, want := range []struct {
			name      types.InstanceType
			cpu       int32
			memory    int64
			pods      int32
			gpus      int32
			processor types.ArchitectureType
		}{
			{"g4dn.12xlarge", 48, 192 << 10, 234, 4, types.ArchitectureTypeX8664},
			{"m5.xlarge", 4, 16 << 10, 58, 0, types.ArchitectureTypeX8664},
			{"m7g.large", 2, 8 << 10, 29, 0, types.ArchitectureTypeArm64},
		} {
			got := out.InstanceTypes[i]
			n := got.NetworkInfo
			pods := *n.MaximumNetworkInterfaces*(*n.Ipv4AddressesPerInterface-1) + 2
			gpus := int32(0)
			if got.GpuInfo != nil {
				gpus = *got.GpuInfo.Gpus[0].Count
			}
			if got.InstanceType != want.name || *got.VCpuInfo.DefaultVCpus != want.cpu ||
				*got.MemoryInfo.SizeInMiB != want.memory || pods != want.pods ||
				gpus != want.gpus || got.ProcessorInfo.SupportedArchitectures[0] != want.processor {
				t.Errorf("%s: %d cpu, %d MiB, %d pods, %d GPUs, %v", got.InstanceType, *got.VCpuInfo.DefaultVCpus,
					*got.MemoryInfo.SizeInMiB, pods, gpus, got.ProcessorInfo.SupportedArchitectures)
			}
		}
		if _, err := a.client.DescribeInstanceTypes(t.Context(),
			&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.tiny"}}); codeOf(t,
			err) != "InvalidInstanceType" {
			t.Errorf("an unknown type: %v", err)
		}
		checkImages(t, a)
		checkNetwork(t, a)
	})
}

func checkImages(t *testing.T, a *testAccount) {
	t.Helper()
	name := func(pattern string) []types.Filter {
		return []types.Filter{{Name: aws.String("name"), Values: []string{pattern}}}
	}
	for what, tt := range map[string]struct {
		input *ec2.DescribeImagesInput
		want  []string
		code  string
	}{
		"by id": {input: &ec2.DescribeImagesInput{ImageIds: []string{testImage}}, want: []string{testImage}},
		"by owner and name": {input: &ec2.DescribeImagesInput{Owners: []string{"amazon"},
			Filters: name("amazon-eks-node-al2023-x86_64-standard-1.37-*")}, want: []string{testImage, "ami-0123456789abcdef2"}},
		"our own": {input: &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: name("nodes-*")},
			want: []string{"ami-0123456789abcdef5", "ami-0123456789abcdef6"}},
		"our own of a name that a stranger uses too": {input: &ec2.DescribeImagesInput{Owners: []string{"self"},
			Filters: name("stratos-node-ubuntu-24.04-1.36.3-v2-amd64")}, want: []string{"ami-0123456789abcdfa1"}},
		"our own, available": {input: &ec2.DescribeImagesInput{Owners: []string{defaultAccountID},
			Filters: append(name("nodes-*"), types.Filter{Name: aws.String("state"), Values: []string{"available"}})},
			want: []string{"ami-0123456789abcdef5"}},
		"by tag": {input: &ec2.DescribeImagesInput{Filters: []types.Filter{{Name: aws.String("tag:team"),
			Values: []string{"platform"}}}}, want: []string{"ami-0123456789abcdef5", "ami-0123456789abcdef6"}},
		"an unknown id": {input: &ec2.DescribeImagesInput{ImageIds: []string{"ami-00000000"}},
			code: "InvalidAMIID.NotFound"},
		"no id": {input: &ec2.DescribeImagesInput{ImageIds: []string{"image"}}, code: "InvalidAMIID.Malformed"},
	} {
		out, err := a.client.DescribeImages(t.Context(), tt.input)
		if code := codeOf(t, err); code != tt.code {
			t.Errorf("images %s: code %q, want %q", what, code, tt.code)
			continue
		}
		var got []string
		if out != nil {
			for _, i := range out.Images {
				got = append(got, *i.ImageId)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("images %s (-want +got):\n%s", what, diff)
		}
	}
}

func checkNetwork(t *testing.T, a *testAccount) {
	t.Helper()
	tagged := []types.Filter{{Name: aws.String("tag:" + clusterTag), Values: []string{"*"}}}
	subnets, err := a.client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: tagged})
	if err != nil || len(subnets.Subnets) != 3 || *subnets.Subnets[2].AvailabilityZone != "us-east-1c" {
		t.Errorf("subnets of the region: %+v, error %v", subnets, err)
	}
	groups, err := a.client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: tagged})
	if err != nil || len(groups.SecurityGroups) != 1 || *groups.SecurityGroups[0].GroupId != testGroup {
		t.Errorf("security groups of the region: %+v, error %v", groups, err)
	}
	if _, err := a.client.DescribeSubnets(t.Context(),
		&ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-00000000"}}); codeOf(t, err) != "InvalidSubnetID.NotFound" {
		t.Errorf("an unknown subnet: %v", err)
	}
	if _, err := a.client.DescribeSecurityGroups(t.Context(),
		&ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-00000000"}}); codeOf(t, err) != "InvalidGroup.NotFound" {
		t.Errorf("an unknown security group: %v", err)
	}
}

// TestFallsBack: EC2 accepts a start and gives it up later, with its reason on the instance.
func TestFallsBack(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		id := a.standby(1)[0]
		a.arm(simcloud.Fault{Kind: simcloud.FaultStartFallsBack, Count: 1,
			Reason: "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state"})
		if err := a.start(id); err != nil {
			t.Fatal(err)
		}
		a.is(types.InstanceStateNamePending, id)
		a.after(2 * time.Second)
		i := a.get(id)
		if i.State.Name != types.InstanceStateNameStopped || *i.StateReason.Code != "Client.InvalidKMSKey.InvalidState" {
			t.Errorf("state %s, reason %+v", i.State.Name, i.StateReason)
		}
		if state, ok := a.sim.Truth("aws:///us-east-1a/" + id); !ok || state != provider.InstanceStopped {
			t.Errorf("the truth is %s", state)
		}
	})
}
