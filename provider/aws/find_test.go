package aws

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// find resolves a class of an m5.large in a new account.
func find(t *testing.T, change func(*v1alpha1.AWSNodeClassSpec),
	with ...func(*ec2test.Options)) (v1alpha1.AWSNodeClassStatus, error) {
	t.Helper()
	r := newRig(t, simcloud.Options{}, with...)
	c := class()
	c.Status = v1alpha1.AWSNodeClassStatus{}
	change(&c.Spec)
	cloud := r.cloud(t, func(o *Options) { o.Minor = func(context.Context) (string, error) { return "1.37", nil } })
	return cloud.ResolveNodeClass(t.Context(), c)
}

func byAMI(terms ...v1alpha1.SelectorTerm) func(*v1alpha1.AWSNodeClassSpec) {
	return func(s *v1alpha1.AWSNodeClassSpec) { s.AMI, s.AMISelector = "", terms }
}

func TestWhatAClassStandsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := find(t, func(s *v1alpha1.AWSNodeClassSpec) {
			s.SubnetIDs, s.SecurityGroupIDs = nil, nil
			s.SubnetSelector = []v1alpha1.SelectorTerm{{Tags: map[string]v1alpha1.TagValue{"tier": "private",
				"kubernetes.io/cluster/e2e": "*"}}, {ID: "subnet-12345679"}}
			s.SecurityGroupSelector = []v1alpha1.SelectorTerm{{Name: "nodes",
				Tags: map[string]v1alpha1.TagValue{"Name": "nodes"}}}
			s.BlockDeviceMappings = []v1alpha1.BlockDeviceMapping{{DeviceName: "xvda", VolumeSize: new(int32(80))}}
		})
		if err != nil {
			t.Fatal(err)
		}
		capacity := map[string]string{}
		for name, q := range got.Capacity {
			capacity[string(name)] = q.String()
		}
		if diff := cmp.Diff(map[string]string{"cpu": "2", "memory": "8Gi", "pods": "29", "ephemeral-storage": "80Gi"},
			capacity); diff != "" {
			t.Errorf("capacity (-want +got):\n%s", diff)
		}
		got.Capacity = nil
		want := v1alpha1.AWSNodeClassStatus{
			AMI: "ami-0123456789abcdef0", Architecture: "amd64", SecurityGroups: []string{"sg-12345678"},
			Subnets: []v1alpha1.ResolvedSubnet{{ID: "subnet-12345678", Zone: "us-east-1a"},
				{ID: "subnet-12345679", Zone: "us-east-1b"}, {ID: "subnet-12345680", Zone: "us-east-1c"}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

func TestWhichImageAClassMeans(t *testing.T) {
	for name, c := range map[string]struct {
		terms []v1alpha1.SelectorTerm
		want  string
	}{
		"its id": {[]v1alpha1.SelectorTerm{{ID: "ami-0123456789abcdef2"}}, "ami-0123456789abcdef2"},
		"the newest of an alias, for this architecture": {[]v1alpha1.SelectorTerm{{Alias: "al2023@latest"}},
			"ami-0123456789abcdef0"},
		"an alias at a version": {[]v1alpha1.SelectorTerm{{Alias: "al2023@v20261001"}},
			"ami-0123456789abcdef2"},
		"Bottlerocket at a version": {[]v1alpha1.SelectorTerm{{Alias: "bottlerocket@1.60.0"}},
			"ami-0123456789abcdef4"},
		"a name with wildcards, of an owner": {[]v1alpha1.SelectorTerm{{Name: "amazon-eks-node-al2023-*",
			Owner: "amazon"}}, "ami-0123456789abcdef0"},
		"of our own, by tags; one is not available yet": {[]v1alpha1.SelectorTerm{{Owner: "self",
			Tags: map[string]v1alpha1.TagValue{"team": "platform"}}}, "ami-0123456789abcdef5"},
		"a name without owner: ours, not a newer one of a stranger": {
			[]v1alpha1.SelectorTerm{{Name: "nodes-of-our-own"}}, "ami-0123456789abcdef5",
		},
		"a name without owner: Amazon's, not a newer one of a stranger": {
			[]v1alpha1.SelectorTerm{{Name: "amazon-eks-node-al2023-x86_64-*"}}, "ami-0123456789abcdef0",
		},
		"a name of an account that is named": {
			[]v1alpha1.SelectorTerm{{Name: "nodes-of-our-own", Owner: "999988887777"}}, "ami-0123456789abcdef7",
		},
		"the newest over all terms": {[]v1alpha1.SelectorTerm{{Name: "nodes-of-our-own"}, {Alias: "bottlerocket@latest"}},
			"ami-0123456789abcdef4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := find(t, byAMI(c.terms...))
				if err != nil || got.AMI != c.want {
					t.Errorf("image %s, %v, want %s", got.AMI, err, c.want)
				}
			})
		})
	}
}

func TestAClassThatCannotBeResolvedSaysWhy(t *testing.T) {
	foreign := func(o *ec2test.Options) {
		o.Account = ec2test.DefaultAccount()
		o.Account.SecurityGroups = append(o.Account.SecurityGroups, ec2test.SecurityGroup{ID: "sg-99999999",
			Name: "elsewhere", VPC: "vpc-33333333", Region: "us-east-1"})
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.AWSNodeClassSpec)
		words  []string
	}{
		"the image does not exist": {func(s *v1alpha1.AWSNodeClassSpec) { s.AMI = "ami-0000000000000dead" },
			[]string{"spec.ami:", "InvalidAMIID.NotFound", "ami-0000000000000dead"}},
		"the image is for another processor": {func(s *v1alpha1.AWSNodeClassSpec) { s.AMI = "ami-0123456789abcdef1" },
			[]string{"spec.ami:", "arm64", "m5.large"}},
		"the image is not available": {func(s *v1alpha1.AWSNodeClassSpec) { s.AMI = "ami-0123456789abcdef6" },
			[]string{"spec.ami:", "pending, not available"}},
		"no image matches": {byAMI(v1alpha1.SelectorTerm{Name: "nothing"}),
			[]string{"spec.amiSelector:", "no image matches"}},
		"an alias nobody knows": {byAMI(v1alpha1.SelectorTerm{Alias: "suse@latest"}),
			[]string{"spec.amiSelector[0].alias", "al2023, al2 and bottlerocket"}},
		"the type does not exist": {func(s *v1alpha1.AWSNodeClassSpec) { s.InstanceType = "m99.large" },
			[]string{"spec.instanceType", "m99.large"}},
		"a subnet of another region": {func(s *v1alpha1.AWSNodeClassSpec) { s.SubnetIDs = []string{"subnet-12345681"} }, []string{"spec.subnetIds", "InvalidSubnetID.NotFound"}},
		"no subnet matches": {func(s *v1alpha1.AWSNodeClassSpec) {
			s.SubnetIDs, s.SubnetSelector = nil, []v1alpha1.SelectorTerm{{Name: "none"}}
		}, []string{"spec.subnetSelector", "no subnet matches"}},
		"a group of another region": {func(s *v1alpha1.AWSNodeClassSpec) { s.SecurityGroupIDs = []string{"sg-12345679"} },
			[]string{"spec.securityGroupIds", "NotFound"}},
		"a group of another network": {func(s *v1alpha1.AWSNodeClassSpec) { s.SecurityGroupIDs = []string{"sg-99999999"} },
			[]string{"spec.securityGroupIds", "vpc-33333333", "vpc-11111111"}},
		"an owner that only images have": {func(s *v1alpha1.AWSNodeClassSpec) {
			s.SecurityGroupIDs, s.SecurityGroupSelector = nil, []v1alpha1.SelectorTerm{{Name: "nodes", Owner: "self"}}
		}, []string{"spec.securityGroupSelector[0].owner", "12 digits"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := find(t, c.change, foreign)
				if !provider.IsInvalidConfig(err) || got.AMI != "" {
					t.Fatalf("%+v, %v, want an InvalidConfigError and nothing", got, err)
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

// TestExpiredCredentialsAreNoFaultOfTheClass: the words are EC2's, and the same at each try, so
// that the condition does not change all the time.
func TestExpiredCredentialsAreNoFaultOfTheClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		r.server.Script(ec2test.Failure{Error: ec2test.Error{Code: "RequestExpired", Message: "Request has expired.",
			Status: 400}})
		cloud := r.cloud(t)
		_, first := cloud.ResolveNodeClass(t.Context(), class())
		_, second := cloud.ResolveNodeClass(t.Context(), class())
		if first == nil || provider.IsInvalidConfig(first) || !strings.Contains(first.Error(),
			"RequestExpired: Request has expired.") {
			t.Errorf("%v", first)
		}
		if second == nil || first.Error() != second.Error() {
			t.Errorf("%q became %q", first, second)
		}
	})
}
