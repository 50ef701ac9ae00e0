package aws

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// oneSubnet is a class with one subnet: each launch meets the same token there.
func oneSubnet() *v1alpha1.AWSNodeClass {
	c := class()
	c.Spec.SubnetIDs, c.Status.Subnets = c.Spec.SubnetIDs[:1], c.Status.Subnets[:1]
	return c
}

// only fails the test unless exactly one instance exists, the given one.
func (r *rig) only(t *testing.T, c *Cloud, want *provider.Instance) {
	t.Helper()
	all, err := c.ListInstances(t.Context(), nil)
	if err != nil || len(all) != 1 || all[0].ID != want.ID {
		t.Errorf("%d instances, error %v; want %s alone", len(all), err, want.ID)
	}
}

// TestARefusalEndsItsClientToken: EC2 keeps the token of a refused launch with its parameters. The
// same request launches all the same when the class names another type or image since.
func TestARefusalEndsItsClientToken(t *testing.T) {
	vcpus := ec2test.Failure{Action: ec2test.RunInstances, Count: 1, Error: ec2test.Error{Code: "VcpuLimitExceeded",
		Message: "no more", Status: 400}}
	full := func(t *testing.T, r *rig) {
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch, Type: "m5.large"})
	}
	for name, c := range map[string]struct {
		refuse func(*testing.T, *rig)
		change func(*v1alpha1.AWSNodeClass)
		wait   time.Duration
	}{
		"no capacity, another type": {full, func(c *v1alpha1.AWSNodeClass) { c.Spec.InstanceType = "m5.xlarge" }, 0},
		"no capacity, another image": {full, func(c *v1alpha1.AWSNodeClass) { c.Status.AMI = "ami-0123456789abcdef2" },
			restFirst},
		"no addresses, another type": {
			func(t *testing.T, r *rig) {
				r.fault(t, simcloud.Fault{Kind: simcloud.FaultNoAddresses, Op: simcloud.OpLaunch})
			},
			func(c *v1alpha1.AWSNodeClass) { c.Spec.InstanceType = "m5.xlarge" }, restFirst,
		},
		"no quota, another type": {
			func(_ *testing.T, r *rig) { r.server.Script(vcpus) },
			func(c *v1alpha1.AWSNodeClass) { c.Spec.InstanceType = "m5.xlarge" }, quotaFirst,
		},
		"a profile that does not exist, then one that does": {
			func(_ *testing.T, r *rig) {
				wrong := vcpus
				wrong.Error = ec2test.Error{Code: "InvalidParameterValue",
					Message: "Value (nodes) for parameter iamInstanceProfile.name is invalid"}
				r.server.Script(wrong)
			},
			func(c *v1alpha1.AWSNodeClass) { c.Spec.IAMInstanceProfile = "nodes-2" }, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				cloud := r.cloud(t)
				req := provider.LaunchRequest{ClientToken: "slot", Number: 7, Tags: ours("p")}
				c.refuse(t, r)
				if _, err := cloud.LaunchInstance(t.Context(), oneSubnet(), req); err == nil {
					t.Fatal("the launch was accepted")
				}
				r.heal(t)
				pass(c.wait)
				again := oneSubnet()
				c.change(again)
				instance, err := cloud.LaunchInstance(t.Context(), again, req)
				if err != nil {
					t.Fatalf("the same request with the changed class: %v", err)
				}
				r.only(t, cloud, instance)
				if same, err := cloud.LaunchInstance(t.Context(), again, req); err != nil || same.ID != instance.ID {
					t.Errorf("once more: %v, error %v, want %s", same, err, instance.ID)
				}
				r.only(t, cloud, instance)
			})
		})
	}
}

// TestATokenThatAnEarlierProcessUsed: EC2 refuses the parameters and shows no instance. It may show
// one for minutes not yet, so that the request takes another token only after that time.
func TestATokenThatAnEarlierProcessUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		req := provider.LaunchRequest{ClientToken: "slot", Number: 7, Tags: ours("p")}
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch})
		if _, err := r.cloud(t).LaunchInstance(t.Context(), oneSubnet(), req); !provider.IsInsufficientCapacity(err) {
			t.Fatal(err)
		}
		r.heal(t)
		changed := oneSubnet()
		changed.Spec.InstanceType = "m5.xlarge"
		next := r.cloud(t)
		began := time.Now()
		var instance *provider.Instance
		for {
			var err error
			if instance, err = next.LaunchInstance(t.Context(), changed, req); err == nil {
				break
			}
			if !strings.Contains(err.Error(), "IdempotentParameterMismatch") || provider.IsInvalidConfig(err) {
				t.Fatalf("%v: want EC2's words, and no fault of the class", err)
			}
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("refused for 10 minutes: %v", err)
			}
			pass(5 * time.Second)
		}
		if waited := time.Since(began); waited < 5*time.Minute {
			t.Errorf("another token after %s: an instance may be listed minutes late", waited)
		}
		r.only(t, next, instance)
	})
}

// TestAnOpenLaunchIsAskedForWhereItWent: its answer was lost and its list lags. The class has
// changed since, and the zone has no room now: nothing is launched elsewhere.
func TestAnOpenLaunchIsAskedForWhereItWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{Times: simcloud.Times{Lag: 30 * time.Second}})
		broken := false
		c := r.cloud(t, func(o *Options) {
			o.Config.HTTPClient = &http.Client{Transport: lossy{r.server.HTTPClient().Transport, &broken}}
		})
		req := provider.LaunchRequest{ClientToken: "slot", Number: 0, Tags: ours("p")}
		broken = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.LaunchInstance(ctx, class(), req); err == nil {
			t.Fatal("the answer arrived")
		}
		broken = false
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch, Zone: "us-east-1a"})
		other := provider.LaunchRequest{ClientToken: "other", Zone: "us-east-1a", Tags: ours("p")}
		if _, err := c.LaunchInstance(t.Context(), class(), other); !provider.IsInsufficientCapacity(err) {
			t.Fatal(err)
		}
		changed := class()
		changed.Spec.UserData = "#!/bin/sh\n"
		var instance *provider.Instance
		for {
			var err error
			if instance, err = c.LaunchInstance(t.Context(), changed, req); err == nil {
				break
			}
			if provider.IsInsufficientCapacity(err) {
				t.Fatalf("%v, although the launch may have happened", err)
			}
			pass(5 * time.Second)
		}
		if instance.Zone != "us-east-1a" {
			t.Errorf("launched in %s, want the instance in us-east-1a", instance.Zone)
		}
		pass(time.Minute)
		r.only(t, c, instance)
	})
}

// lossy is a transport whose answers are lost while broken is set.
type lossy struct {
	direct http.RoundTripper
	broken *bool
}

func (l lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if *l.broken {
		return killed{l.direct}.RoundTrip(r)
	}
	return l.direct.RoundTrip(r)
}
