package aws

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestEveryFieldReachesTheRequest compares all that EC2 reads of a launch, so that a field that is
// not sent and one that was never set both show.
func TestEveryFieldReachesTheRequest(t *testing.T) {
	const script = "#!/bin/bash\necho 'ünïcode' $HOME\r\n\n"
	whole := class()
	whole.Spec.UserData = script
	whole.Spec.IAMInstanceProfile = "nodes"
	whole.Spec.BlockDeviceMappings = []v1alpha1.BlockDeviceMapping{
		{
			DeviceName: "/dev/xvda", VolumeSize: new(int32(50)), VolumeType: "gp3", Encrypted: new(true),
			KMSKeyID: "alias/nodes",
			IOPS:     new(int32(4000)), Throughput: new(int32(500)), SnapshotID: "snap-0123456789abcdef0",
			DeleteOnTermination: new(false),
		},
		{DeviceName: "/dev/sdb", VolumeSize: new(int32(10))},
	}
	whole.Spec.MetadataOptions = v1alpha1.MetadataOptions{HTTPTokens: "optional", HTTPPutResponseHopLimit: new(int32(1)),
		HTTPEndpoint: "disabled"}
	whole.Spec.Hibernation = &v1alpha1.Hibernation{Enabled: true}
	whole.Spec.Tags = map[string]v1alpha1.TagValue{"Environment": "production", "Name": "a name"}
	byARN := class()
	byARN.Spec.IAMInstanceProfile = "arn:aws:iam::123456789012:instance-profile/nodes"

	base := map[string]string{
		"ImageId": "ami-0123456789abcdef0", "InstanceType": "m5.large", "MinCount": "1", "MaxCount": "1",
		"SubnetId":          "subnet-12345678",
		"SecurityGroupId.1": "sg-12345678", "InstanceInitiatedShutdownBehavior": "stop",
		"MetadataOptions.HttpTokens": "required", "MetadataOptions.HttpPutResponseHopLimit": "2",
		"MetadataOptions.HttpEndpoint":         "enabled",
		"MetadataOptions.InstanceMetadataTags": "disabled",
	}
	with := func(more ...map[string]string) map[string]string {
		all := maps.Clone(base)
		for _, m := range more {
			maps.Copy(all, m)
		}
		return all
	}
	own := map[string]string{"stratos.sh/ami": "ami-0123456789abcdef0", "managed-by": "stratos",
		"stratos.sh/cluster": "here", "stratos.sh/cluster-uid": "uid-here", "stratos.sh/pool": "p",
		"stratos.sh/state": "warmup"}
	lasting := map[string]string{"managed-by": "stratos", "stratos.sh/cluster": "here",
		"stratos.sh/cluster-uid": "uid-here", "stratos.sh/pool": "p"}
	users := map[string]string{"Environment": "production", "Name": "a name"}
	for name, c := range map[string]struct {
		class *v1alpha1.AWSNodeClass
		want  map[string]string
	}{
		"only what is required: IMDSv2 and a shutdown that stops are asked for all the same": {class(),
			with(specification(1, "instance", own), specification(2, "volume", lasting),
				specification(3, "network-interface", lasting))},
		"the profile by its ARN": {byARN, with(specification(1, "instance", own), specification(2, "volume", lasting),
			specification(3, "network-interface", lasting),
			map[string]string{"IamInstanceProfile.Arn": "arn:aws:iam::123456789012:instance-profile/nodes"})},
		"everything": {whole, with(
			specification(1, "instance", own, users), specification(2, "volume", lasting, users),
			specification(3, "network-interface", lasting, users),
			map[string]string{
				"UserData": base64.StdEncoding.EncodeToString([]byte(script)), "IamInstanceProfile.Name": "nodes",
				"HibernationOptions.Configured": "true",
				"MetadataOptions.HttpTokens":    "optional", "MetadataOptions.HttpPutResponseHopLimit": "1",
				"MetadataOptions.HttpEndpoint":    "disabled",
				"BlockDeviceMapping.1.DeviceName": "/dev/xvda", "BlockDeviceMapping.1.Ebs.VolumeSize": "50",
				"BlockDeviceMapping.1.Ebs.VolumeType": "gp3",
				"BlockDeviceMapping.1.Ebs.Encrypted":  "true", "BlockDeviceMapping.1.Ebs.KmsKeyId": "alias/nodes",
				"BlockDeviceMapping.1.Ebs.Iops":       "4000",
				"BlockDeviceMapping.1.Ebs.Throughput": "500", "BlockDeviceMapping.1.Ebs.SnapshotId": "snap-0123456789abcdef0",
				"BlockDeviceMapping.1.Ebs.DeleteOnTermination": "false",
				"BlockDeviceMapping.2.DeviceName":              "/dev/sdb", "BlockDeviceMapping.2.Ebs.VolumeSize": "10",
				"BlockDeviceMapping.2.Ebs.VolumeType": "gp3", "BlockDeviceMapping.2.Ebs.DeleteOnTermination": "true",
			})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				if _, err := r.cloud(t).LaunchInstance(t.Context(), c.class, provider.LaunchRequest{ClientToken: "a",
					Tags: ours("p")}); err != nil {
					t.Fatal(err)
				}
				got := maps.Clone(r.requests(ec2test.RunInstances)[0].Params)
				if token := got["ClientToken"]; len(token) != 32 {
					t.Errorf("client token %q, want 32 characters", token)
				}
				for _, key := range []string{"Action", "Version", "ClientToken"} {
					delete(got, key)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("parameters (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// specification words the tags of one kind of resource as EC2's protocol does.
func specification(n int, kind string, tags ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, more := range tags {
		maps.Copy(all, more)
	}
	prefix := fmt.Sprintf("TagSpecification.%d.", n)
	out := map[string]string{prefix + "ResourceType": kind}
	for i, key := range slices.Sorted(maps.Keys(all)) {
		out[fmt.Sprintf("%sTag.%d.Key", prefix, i+1)], out[fmt.Sprintf("%sTag.%d.Value", prefix, i+1)] = key, all[key]
	}
	return out
}

// TestUserTagsCannotOverrideOurs: admission refuses such tags; a class that was written past it
// must still launch what is ours.
func TestUserTagsCannotOverrideOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := class()
		c.Spec.Tags = map[string]v1alpha1.TagValue{"managed-by": "somebody", "stratos.sh/cluster": "other",
			"stratos.sh/pool": "other", "stratos.sh/state": "standby", "stratos.sh/ami": "ami-x", "kept": "yes"}
		instance, err := r.cloud(t).LaunchInstance(t.Context(), c, provider.LaunchRequest{ClientToken: "a", Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		want := ours("p")
		want["kept"], want[v1alpha1.AnnotationAMI] = "yes", "ami-0123456789abcdef0"
		if diff := cmp.Diff(want, instance.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	})
}

// killed is a transport of a process that ends after EC2 has done what was asked and before the
// answer arrives.
type killed struct{ direct http.RoundTripper }

func (k killed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := k.direct.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestKilledBeforeTheAnswerOfALaunch(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.AWSNodeClass){
		"asked again as it was":              func(*v1alpha1.AWSNodeClass) {},
		"the class means a newer image now":  func(c *v1alpha1.AWSNodeClass) { c.Status.AMI = "ami-0123456789abcdef2" },
		"the class has other user data now":  func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\n" },
		"the class has its subnets shuffled": func(c *v1alpha1.AWSNodeClass) { slices.Reverse(c.Status.Subnets) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				req := provider.LaunchRequest{ClientToken: "slot", Number: 7, Tags: ours("p")}
				first := r.cloud(t, func(o *Options) {
					o.Config.HTTPClient = &http.Client{Transport: killed{r.server.HTTPClient().Transport}}
				})
				ctx, kill := context.WithTimeout(t.Context(), time.Second)
				defer kill()
				if _, err := first.LaunchInstance(ctx, class(), req); err == nil {
					t.Fatal("the answer arrived")
				}
				again := class()
				change(again)
				second := r.cloud(t) // a new process: it remembers nothing
				instance, err := second.LaunchInstance(t.Context(), again, req)
				if err != nil {
					t.Fatal(err)
				}
				all, err := second.ListInstances(t.Context(), nil)
				if err != nil || len(all) != 1 || all[0].ID != instance.ID {
					t.Errorf("%d instances, %v; want the one that the first life launched, and %s was returned", len(all), err,
						instance.ID)
				}
			})
		})
	}
}

// TestAnAnswerThatIsLostOnTheWay: the SDK asks again by itself, under the same token.
func TestAnAnswerThatIsLostOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultLostAnswer, Op: simcloud.OpLaunch, Count: 2})
		instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "slot", Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.ListInstances(t.Context(), nil)
		if err != nil || len(all) != 1 || all[0].ID != instance.ID || len(r.requests(ec2test.RunInstances)) != 3 {
			t.Errorf("%d instances after %d requests, %v", len(all), len(r.requests(ec2test.RunInstances)), err)
		}
	})
}

// zones counts launches of that many numbers by zone, those refused under "".
func zones(t *testing.T, c *Cloud, from, n int) map[string]int {
	t.Helper()
	count := map[string]int{}
	for i := range n {
		instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: fmt.Sprint("n", from+i),
			Number: int64(from + i), Tags: ours("p")})
		switch {
		case err == nil:
			count[instance.Zone]++
		case provider.IsInsufficientCapacity(err):
			count[""]++
		default:
			t.Fatal(err)
		}
	}
	return count
}

func TestLaunchesGoRoundZonesAndRememberFullOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		want := func(when string, got, want map[string]int) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		want("nine launches", zones(t, c, 0, 9), map[string]int{"us-east-1a": 3, "us-east-1b": 3, "us-east-1c": 3})

		r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch, Zone: "us-east-1a"})
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultNoAddresses, Op: simcloud.OpLaunch, Zone: "us-east-1b"})
		before := len(r.requests(ec2test.RunInstances))
		want("one zone without the type, one without addresses", zones(t, c, 9, 6), map[string]int{"us-east-1c": 6})
		if asked := len(r.requests(ec2test.RunInstances)) - before; asked != 8 {
			t.Errorf("%d requests for six launches, want each full zone to be tried once", asked)
		}
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch, Zone: "us-east-1c"})
		want("no zone is left", zones(t, c, 15, 2), map[string]int{"": 2})
		before = len(r.requests(ec2test.RunInstances))
		want("while all rest", zones(t, c, 17, 3), map[string]int{"": 3})
		if asked := len(r.requests(ec2test.RunInstances)) - before; asked != 0 {
			t.Errorf("%d requests although every zone rests", asked)
		}
		_, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "z", Zone: "us-east-1a"})
		if !provider.IsInsufficientCapacity(err) || !strings.Contains(err.Error(), "us-east-1a") {
			t.Errorf("the zone that was asked for rests: %v", err)
		}

		r.heal(t)
		pass(restFirst)
		want("three minutes later", zones(t, c, 21, 3), map[string]int{"us-east-1a": 1, "us-east-1b": 1, "us-east-1c": 1})
	})
}

func TestALaunchThatIsWrongNamesItsField(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.AWSNodeClass)
		script *ec2test.Failure
		words  []string
	}{
		"user data above 16 KiB": {
			change: func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = strings.Repeat("ü", 9000) },
			words:  []string{"spec.userData", "18000 bytes", "16384"},
		},
		"an image that is gone": {
			change: func(c *v1alpha1.AWSNodeClass) {
				c.Status.AMI, c.Spec.AMI = "ami-0000000000000dead", "ami-0000000000000dead"
			},
			words: []string{"spec.ami", "InvalidAMIID.NotFound", "ami-0000000000000dead"},
		},
		"a subnet of another region": {
			change: func(c *v1alpha1.AWSNodeClass) {
				c.Spec.SubnetIDs, c.Status.Subnets = []string{"subnet-12345681"},
					[]v1alpha1.ResolvedSubnet{{ID: "subnet-12345681", Zone: "eu-west-1a"}}
			},
			words: []string{"spec.subnetIds", "InvalidSubnetID.NotFound", "subnet-12345681"},
		},
		"a profile that does not exist": {
			script: &ec2test.Failure{Action: ec2test.RunInstances, Error: ec2test.Error{Code: "InvalidParameterValue",
				Message: "Value (nodes) for parameter iamInstanceProfile.name is invalid"}},
			words: []string{"iamInstanceProfile", "InvalidParameterValue"},
		},
		"no region anywhere": {
			change: func(c *v1alpha1.AWSNodeClass) { c.Spec.Region = "-" },
			words:  []string{"spec.region", "AWS_REGION"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				wrong := class()
				if c.change != nil {
					c.change(wrong)
				}
				if c.script != nil {
					r.server.Script(*c.script)
				}
				cloud := r.cloud(t)
				if wrong.Spec.Region == "-" {
					wrong.Spec.Region = ""
					cloud = r.cloud(t, func(o *Options) { o.Config.Region = "" })
				}
				_, err := cloud.LaunchInstance(t.Context(), wrong, provider.LaunchRequest{ClientToken: "a", Tags: ours("p")})
				if !provider.IsInvalidConfig(err) {
					t.Fatalf("%v, want an InvalidConfigError", err)
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%v: want %q in it", err, word)
					}
				}
			})
		})
	}
}

// TestWhatIsNoFaultOfTheClass: missing permissions say nothing about a class, and a launch that is
// refused for them goes to no other subnet.
func TestWhatIsNoFaultOfTheClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		r.server.Script(ec2test.Failure{Error: ec2test.Error{Code: "UnauthorizedOperation",
			Message: "You are not authorized to perform this operation.", Status: http.StatusForbidden}})
		c := r.cloud(t)
		_, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "a", Tags: ours("p")})
		if err == nil || provider.IsInvalidConfig(err) || !strings.Contains(err.Error(),
			"UnauthorizedOperation: You are not authorized") {
			t.Errorf("launch: %v", err)
		}
		if asked := len(r.requests(ec2test.RunInstances)); asked != 1 {
			t.Errorf("%d requests, want one", asked)
		}
		if err := c.StartInstance(t.Context(), "i-00000000000000001"); err == nil || provider.IsInvalidConfig(err) ||
			provider.IsNotFound(err) {
			t.Errorf("start: %v", err)
		}
	})
}
