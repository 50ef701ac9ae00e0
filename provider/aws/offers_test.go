package aws

import (
	"context"
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

// withFallback is the class of an m5.large with fallback types that are all usable.
func withFallback(kinds ...string) *v1alpha1.AWSNodeClass {
	c := class()
	c.Spec.FallbackInstanceTypes = kinds
	for _, kind := range c.Spec.NamedTypes() {
		c.Status.InstanceTypes = append(c.Status.InstanceTypes, v1alpha1.InstanceTypeStatus{Type: kind, Usable: true})
	}
	return c
}

// launches are the calls of RunInstances as type@zone, in their order.
func (r *rig) launches() []string {
	zones := map[string]string{"subnet-12345678": "a", "subnet-12345679": "b", "subnet-12345680": "c"}
	var calls []string
	for _, q := range r.requests(ec2test.RunInstances) {
		calls = append(calls, q.Params["InstanceType"]+"@"+zones[q.Params["SubnetId"]])
	}
	return calls
}

// dry has no capacity for the type, in one zone or in all ("").
func (r *rig) dry(t *testing.T, kind, zone string) {
	t.Helper()
	r.fault(t, simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpLaunch, Type: kind, Zone: zone})
}

// refusal is a scripted one of the launch after skip others.
func refusal(code string, skip int) ec2test.Failure {
	return ec2test.Failure{Action: ec2test.RunInstances, Skip: skip, Count: 1,
		Error: ec2test.Error{Code: code, Message: "You have asked for too much.", Status: http.StatusBadRequest}}
}

// TestWhereALaunchGoes: the zones that are wanted with the first type, then with the next usable
// one. The second of two launches makes no call that the first has shown to be of no use.
func TestWhereALaunchGoes(t *testing.T) {
	notUsable := withFallback("m6i.large", "r5.large")
	notUsable.Status.InstanceTypes[1].Usable = false
	for name, c := range map[string]struct {
		class *v1alpha1.AWSNodeClass
		zone  string
		// what EC2 refuses
		refuse func(*testing.T, *rig)
		// calls of the first and of the second launch
		first, second string
	}{
		"nothing is refused": {class: withFallback("m6i.large"), first: "m5.large@a", second: "m5.large@a"},
		"dry in one zone, another zone would do": {
			class: withFallback("m6i.large"), refuse: func(t *testing.T, r *rig) { r.dry(t, "m5.large", "us-east-1a") },
			first: "m5.large@a m5.large@b", second: "m5.large@b",
		},
		"dry in the zone that is wanted": {
			class: withFallback("m6i.large", "r5.large"), zone: "us-east-1a",
			refuse: func(t *testing.T, r *rig) { r.dry(t, "m5.large", "us-east-1a") },
			first:  "m5.large@a m6i.large@a", second: "m6i.large@a",
		},
		"dry in all zones": {
			class: withFallback("m6i.large"), refuse: func(t *testing.T, r *rig) { r.dry(t, "m5.large", "") },
			first: "m5.large@a m5.large@b m5.large@c m6i.large@a", second: "m6i.large@a",
		},
		"two types are dry": {
			class: withFallback("m6i.large", "r5.large"), zone: "us-east-1b",
			refuse: func(t *testing.T, r *rig) {
				r.dry(t, "m5.large", "")
				r.dry(t, "m6i.large", "")
			},
			first: "m5.large@b m6i.large@b r5.large@b", second: "r5.large@b",
		},
		"a type that is not usable is never launched": {
			class: notUsable, zone: "us-east-1a", refuse: func(t *testing.T, r *rig) { r.dry(t, "m5.large", "") },
			first: "m5.large@a r5.large@a", second: "r5.large@a",
		},
		"a quota, and a type of another family": {
			class: withFallback("m6i.large", "g4dn.xlarge"), zone: "us-east-1a",
			refuse: func(_ *testing.T, r *rig) { r.server.Script(refusal("VcpuLimitExceeded", 0)) },
			first:  "m5.large@a g4dn.xlarge@a", second: "g4dn.xlarge@a",
		},
		"EC2 finds something wrong with a fallback type": {
			class: withFallback("m6i.large", "r5.large"), refuse: func(t *testing.T, r *rig) {
				r.dry(t, "m5.large", "")
				r.server.Script(refusal("InvalidParameterCombination", 3))
			},
			first: "m5.large@a m5.large@b m5.large@c m6i.large@a r5.large@a", second: "m6i.large@a",
		},
		"a policy does not allow a fallback type": {
			class: withFallback("m6i.large", "r5.large"), zone: "us-east-1a", refuse: func(t *testing.T, r *rig) {
				r.dry(t, "m5.large", "")
				r.server.Script(refusal("UnauthorizedOperation", 1))
			},
			first: "m5.large@a m6i.large@a r5.large@a", second: "m6i.large@a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				cloud := r.cloud(t)
				if c.refuse != nil {
					c.refuse(t, r)
				}
				before := 0
				for n, want := range []string{c.first, c.second} {
					req := provider.LaunchRequest{ClientToken: string(rune('x' + n)), Zone: c.zone, Tags: ours("p")}
					instance, err := cloud.LaunchInstance(t.Context(), c.class, req)
					if err != nil {
						t.Fatal(err)
					}
					calls := r.launches()[before:]
					before += len(calls)
					if got := strings.Join(calls, " "); got != want {
						t.Errorf("launch %d: calls %s, want %s", n, got, want)
					}
					if last := calls[len(calls)-1]; !strings.HasPrefix(last, instance.Type+"@") {
						t.Errorf("launch %d: an instance of type %s by %s", n, instance.Type, last)
					}
				}
			})
		})
	}
}

// TestTheZoneDoesNotHaveTheType: EC2 refuses it as Unsupported.
func TestTheZoneDoesNotHaveTheType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size, _ := simcloud.New(simcloud.Options{}).InstanceType("m5.large")
		elsewhere := ec2test.PropertiesOf(size)
		elsewhere.Zones = []string{"us-east-1b"}
		r := newRig(t, simcloud.Options{}, func(o *ec2test.Options) {
			o.Types = map[string]ec2test.Properties{"m5.large": elsewhere}
		})
		req := provider.LaunchRequest{ClientToken: "slot", Zone: "us-east-1a", Tags: ours("p")}
		instance, err := r.cloud(t).LaunchInstance(t.Context(), withFallback("m6i.large"), req)
		if err != nil || instance.Type != "m6i.large" {
			t.Errorf("%+v, error %v, want an m6i.large", instance, err)
		}
	})
}

// TestALaunchThatNoTypeHelps returns what EC2 said of the class's first type, which a user has
// asked for, with what a person has to see to.
func TestALaunchThatNoTypeHelps(t *testing.T) {
	for name, c := range map[string]struct {
		kinds  []string
		refuse func(*testing.T, *rig)
		calls  string
		quota  bool
		words  []string
	}{
		"all are dry": {
			[]string{"m6i.large"}, func(t *testing.T, r *rig) { r.dry(t, "", "") }, "m5.large@a m6i.large@a", false,
			[]string{"capacity for m5.large in us-east-1a: InsufficientInstanceCapacity"},
		},
		"no type is usable": {
			nil, func(t *testing.T, r *rig) { r.dry(t, "m5.large", "") }, "m5.large@a", false,
			[]string{"m5.large in us-east-1a"},
		},
		"a subnet has no address for any type": {
			[]string{"m6i.large"}, func(t *testing.T, r *rig) {
				r.fault(t, simcloud.Fault{Kind: simcloud.FaultNoAddresses, Op: simcloud.OpLaunch})
			}, "m5.large@a", false, []string{"m5.large in us-east-1a: InsufficientFreeAddressesInSubnet"},
		},
		"a quota of all types": {
			[]string{"m6i.large", "c5.large"}, func(_ *testing.T, r *rig) { r.server.Script(refusal("VcpuLimitExceeded", 0)) },
			"m5.large@a", true, []string{"m5.large in us-east-1a: VcpuLimitExceeded"},
		},
		"a quota that is remembered for less time than the launch takes": {
			[]string{"g4dn.xlarge", "c5.large"}, func(t *testing.T, r *rig) {
				r.server.Script(refusal("VcpuLimitExceeded", 0))
				r.dry(t, "g4dn.xlarge", "")
				r.fault(t, simcloud.Fault{Kind: simcloud.FaultLatency, Op: simcloud.OpLaunch, Delay: 2 * quotaFirst})
			}, "m5.large@a g4dn.xlarge@a", true, []string{"m5.large in us-east-1a: VcpuLimitExceeded"},
		},
		"dry, and a quota of the fallback type": {
			[]string{"g4dn.xlarge"}, func(t *testing.T, r *rig) {
				r.dry(t, "m5.large", "")
				r.server.Script(refusal("VcpuLimitExceeded", 1))
			}, "m5.large@a g4dn.xlarge@a", false, []string{"m5.large in us-east-1a: InsufficientInstanceCapacity"},
		},
		"dry, and the fallback type is refused": {
			[]string{"m6i.large"}, func(t *testing.T, r *rig) {
				r.dry(t, "m5.large", "")
				r.server.Script(refusal("InvalidParameterCombination", 1))
			}, "m5.large@a m6i.large@a", false, []string{"m5.large in us-east-1a: InsufficientInstanceCapacity",
				"m6i.large is refused", "InvalidParameterCombination: You have asked for too much."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				c.refuse(t, r)
				req := provider.LaunchRequest{ClientToken: "slot", Zone: "us-east-1a", Tags: ours("p")}
				_, err := r.cloud(t).LaunchInstance(t.Context(), withFallback(c.kinds...), req)
				if !provider.IsInsufficientCapacity(err) || provider.IsInvalidConfig(err) || provider.IsQuota(err) != c.quota {
					t.Fatalf("%v, want no capacity (quota: %v)", err, c.quota)
				}
				for _, words := range c.words {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("%v, want %q in it", err, words)
					}
				}
				if got := strings.Join(r.launches(), " "); got != c.calls {
					t.Errorf("calls %s, want %s", got, c.calls)
				}
			})
		})
	}
}

// lostLaunch is a transport that loses the answer of an accepted launch while broken is set.
type lostLaunch struct {
	direct http.RoundTripper
	broken *bool
}

func (l lostLaunch) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.direct.RoundTrip(r)
	if err != nil || !*l.broken || response.StatusCode != http.StatusOK {
		return response, err
	}
	_ = response.Body.Close()
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestALostAnswerToALaunchAsAFallbackType: the same request returns the instance, and launches no
// other.
func TestALostAnswerToALaunchAsAFallbackType(t *testing.T) {
	for name, c := range map[string]struct {
		// after is what happens before the request is made again.
		after       func(*testing.T, *rig, *v1alpha1.AWSNodeClass)
		nextProcess bool
	}{
		"asked again as it was": {after: func(*testing.T, *rig, *v1alpha1.AWSNodeClass) {}},
		"the first type is back": {after: func(t *testing.T, r *rig, _ *v1alpha1.AWSNodeClass) {
			r.heal(t)
			pass(restFirst)
		}},
		"the type is not usable any more": {after: func(_ *testing.T, _ *rig, c *v1alpha1.AWSNodeClass) {
			c.Spec.FallbackInstanceTypes, c.Status.InstanceTypes = nil, nil
		}},
		"the type has no capacity any more": {after: func(t *testing.T, r *rig, _ *v1alpha1.AWSNodeClass) {
			r.dry(t, "", "")
		}},
		"other user data, too": {after: func(_ *testing.T, _ *rig, c *v1alpha1.AWSNodeClass) {
			c.Spec.UserData = "#!/bin/sh\n"
		}},
		"by the next process": {after: func(*testing.T, *rig, *v1alpha1.AWSNodeClass) {}, nextProcess: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, broken := newRig(t, simcloud.Options{}), true
				cloud := r.cloud(t, func(o *Options) {
					o.Config.HTTPClient = &http.Client{Transport: lostLaunch{r.server.HTTPClient().Transport, &broken}}
				})
				r.dry(t, "m5.large", "")
				req := provider.LaunchRequest{ClientToken: "slot", Zone: "us-east-1a", Tags: ours("p")}
				cl := withFallback("m6i.large", "r5.large")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := cloud.LaunchInstance(ctx, cl, req); err == nil || provider.LaunchedNothing(err) {
					t.Fatalf("%v, want that the launch may have happened", err)
				}
				broken = false
				c.after(t, r, cl)
				if c.nextProcess {
					cloud = r.cloud(t)
				}
				instance, err := cloud.LaunchInstance(t.Context(), cl, req)
				if err != nil || instance.Type != "m6i.large" {
					t.Fatalf("%+v, error %v; want the m6i.large", instance, err)
				}
				r.only(t, cloud, instance)
			})
		})
	}
}

// TestTheTokenOfTheFirstType does not depend on the type, as before there were fallback types: what
// an older version has launched is found.
func TestTheTokenOfTheFirstType(t *testing.T) {
	first, fallback := tokenKey{request: "slot", subnet: "s"}, tokenKey{request: "slot", subnet: "s", kind: "m6i.large"}
	all := []string{first.token(0), first.token(1), fallback.token(0), fallback.token(1)}
	if all[0] != "54beefc32ce5ec9f323e652083181855" {
		t.Errorf("token %s", all[0])
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 4 {
		t.Errorf("tokens %v, want four", all)
	}
}

// TestALaunchUsesTheTypesOfTheStatusInUse: where the class is resolved anew inside the launch, the
// types are those that this finds.
func TestALaunchUsesTheTypesOfTheStatusInUse(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.AWSNodeClass){
		"the spec is newer than the status": func(c *v1alpha1.AWSNodeClass) { c.Generation = 2 },
		"what the status names is gone": func(c *v1alpha1.AWSNodeClass) {
			c.Status.Subnets = []v1alpha1.ResolvedSubnet{{ID: "subnet-0000dead", Zone: "us-east-1a"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				r.dry(t, "m5.large", "")
				cl := withFallback("c5.large", "r5.large") // c5.large has less memory
				cl.Status.InstanceTypes = cl.Status.InstanceTypes[:2]
				change(cl)
				before := cl.DeepCopy()
				instance, err := r.cloud(t).LaunchInstance(t.Context(), cl, provider.LaunchRequest{ClientToken: "slot",
					Tags: ours("p")})
				if err != nil || instance.Type != "r5.large" {
					t.Errorf("%+v, error %v; want an r5.large", instance, err)
				}
				if diff := cmp.Diff(before, cl); diff != "" {
					t.Errorf("the caller's class has changed (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// TestARefusedFallbackTypeHoldsNoRequest: nothing was launched, so the request goes to the first
// type when that is back.
func TestARefusedFallbackTypeHoldsNoRequest(t *testing.T) {
	for _, code := range []string{"UnauthorizedOperation", "InvalidParameterCombination", "OperationNotPermitted"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				cloud, cl := r.cloud(t), withFallback("m6i.large")
				r.dry(t, "m5.large", "")
				r.server.Script(refusal(code, 1))
				req := provider.LaunchRequest{ClientToken: "slot", Zone: "us-east-1a", Tags: ours("p")}
				if _, err := cloud.LaunchInstance(t.Context(), cl, req); !provider.IsInsufficientCapacity(err) {
					t.Fatal(err)
				}
				r.heal(t)
				pass(restFirst)
				instance, err := cloud.LaunchInstance(t.Context(), cl, req)
				if err != nil || instance.Type != "m5.large" {
					t.Errorf("%+v, error %v; want an m5.large", instance, err)
				}
			})
		})
	}
}

// TestALaunchThatMayHaveHappenedIsFollowedByNone: its answer was lost, and the next one is a
// refusal that says nothing of the first.
func TestALaunchThatMayHaveHappenedIsFollowedByNone(t *testing.T) {
	for _, code := range []string{"UnauthorizedOperation", "InvalidParameterCombination"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, broken := newRig(t, simcloud.Options{}), true
				cloud := r.cloud(t, func(o *Options) {
					o.Config.HTTPClient = &http.Client{Transport: lostLaunch{r.server.HTTPClient().Transport, &broken}}
				})
				r.dry(t, "m5.large", "")
				req := provider.LaunchRequest{ClientToken: "slot", Zone: "us-east-1a", Tags: ours("p")}
				cl := withFallback("m6i.large", "r5.large")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, lost := cloud.LaunchInstance(ctx, cl, req)
				broken = false
				r.server.Script(refusal(code, 0))
				_, refused := cloud.LaunchInstance(t.Context(), cl, req)
				if lost == nil || refused == nil || !strings.Contains(refused.Error(), code) {
					t.Errorf("%v, then %v, want the refusal", lost, refused)
				}
				instance, err := cloud.LaunchInstance(t.Context(), cl, req)
				if err != nil || instance.Type != "m6i.large" {
					t.Fatalf("%+v, error %v; want the m6i.large", instance, err)
				}
				r.only(t, cloud, instance)
			})
		})
	}
}
