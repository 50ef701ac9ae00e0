package aws

import (
	"context"
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

// far is a class of the account's other region.
func far() *v1alpha1.AWSNodeClass {
	k := class()
	k.Name, k.Generation, k.Status = "far", 1, v1alpha1.AWSNodeClassStatus{}
	k.Spec.Region = "eu-west-1"
	k.Spec.SubnetIDs, k.Spec.SecurityGroupIDs = []string{"subnet-12345681"}, []string{"sg-12345679"}
	return k
}

// launched launches one instance of the class and waits until it runs.
func launched(t *testing.T, c *Cloud, k *v1alpha1.AWSNodeClass) string {
	t.Helper()
	request := provider.LaunchRequest{ClientToken: "in " + k.Spec.Region, Tags: ours("p")}
	instance, err := c.LaunchInstance(t.Context(), k, request)
	if err != nil {
		t.Fatal(err)
	}
	await(t, c, provider.InstanceRunning, string(instance.ID))
	return string(instance.ID)
}

// denied is what an account answers that may not use a region.
func denied() ec2test.Failure {
	return ec2test.Failure{Region: "eu-west-1", Error: ec2test.Error{
		Code: "UnauthorizedOperation", Message: "with an explicit deny in a service control policy", Status: 403,
	}}
}

// mistype resolves a class of a region that does not exist.
func mistype(t *testing.T, c *Cloud) {
	t.Helper()
	k := class()
	k.Name, k.Spec.Region = "mistyped", "us-esat-1"
	if _, err := c.ResolveNodeClass(t.Context(), k); err == nil || !strings.Contains(err.Error(), "us-esat-1") {
		t.Fatalf("a class of a region that does not exist: %v", err)
	}
}

func TestARegionThatFailsEndsNoOthersList(t *testing.T) {
	for name, c := range map[string]struct {
		fail    func(*testing.T, *rig, *Cloud)
		region  string
		words   string
		unknown bool
		// lists are the regions whose instances are listed all the same.
		lists []string
	}{
		"denied": {
			func(_ *testing.T, r *rig, _ *Cloud) { r.server.Script(denied()) },
			"eu-west-1", "UnauthorizedOperation", false, []string{"us-east-1"},
		},
		"down": {
			func(_ *testing.T, r *rig, _ *Cloud) {
				r.server.Script(ec2test.Failure{Region: "eu-west-1", Hangs: true})
			},
			"eu-west-1", "no answer in time", false, []string{"us-east-1"},
		},
		"mistyped": {
			func(t *testing.T, _ *rig, c *Cloud) { mistype(t, c) },
			"us-esat-1", "no such host", true, []string{"eu-west-1", "us-east-1"},
		},
		"the default region": {
			func(_ *testing.T, r *rig, _ *Cloud) {
				f := denied()
				f.Region = "us-east-1"
				r.server.Script(f)
			},
			"us-east-1", "UnauthorizedOperation", false, []string{"eu-west-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				cloud := r.cloud(t)
				in := map[string]string{
					"us-east-1": launched(t, cloud, class()), "eu-west-1": launched(t, cloud, far()),
				}
				c.fail(t, r, cloud)
				begin := time.Now()
				all, err := cloud.ListInstances(t.Context(), ours("p"))
				if took := time.Since(begin); took > listTime {
					t.Errorf("the list took %s, want at most %s", took, listTime)
				}
				var want []string
				for _, region := range c.lists {
					want = append(want, in[region])
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, ids(all)); diff != "" {
					t.Errorf("instances (-want +got):\n%s", diff)
				}
				partial, ok := provider.AsPartialList(err)
				if !ok || len(partial.Failed) != 1 || partial.Answered != len(c.lists) {
					t.Fatalf("error %v, want a PartialListError", err)
				}
				f := partial.Failed[0]
				if f.Name != c.region || f.Unknown != c.unknown || f.Default != (c.region == "us-east-1") ||
					!strings.Contains(f.Err.Error(), c.words) {
					t.Errorf("failed region %+v", f)
				}
			})
		})
	}
}

// A region that hangs holds up one list of the others, and is listed again when it answers.
func TestARegionThatHangsHoldsUpOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		launched(t, c, class())
		launched(t, c, far())
		r.server.Script(ec2test.Failure{Region: "eu-west-1", Hangs: true})
		begin, waited := time.Now(), time.Duration(0)
		for time.Since(begin) < time.Hour {
			asked := time.Now()
			if all, err := c.ListInstances(t.Context(), ours("p")); len(all) != 1 || err == nil {
				t.Fatalf("%d instances, %v", len(all), err)
			}
			waited += time.Since(asked)
			pass(2 * time.Second)
		}
		if waited > listTime {
			t.Errorf("lists waited %s of an hour for a region that hangs", waited)
		}
		r.server.Unscript()
		pass(listTime)
		_, _ = c.ListInstances(t.Context(), ours("p"))
		pass(2 * time.Second)
		if all, err := c.ListInstances(t.Context(), ours("p")); len(all) != 2 || err != nil {
			t.Errorf("%d instances after the region is back, %v", len(all), err)
		}
	})
}

// An instance is not gone because no region of those that answer has it.
func TestNotFoundNeedsTheAnswerOfEveryRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		near, away := launched(t, c, class()), launched(t, c, far())
		used := func(context.Context) ([]string, error) { return []string{"eu-west-1"}, nil }
		again := r.cloud(t, func(o *Options) { o.Regions = used })
		r.server.Script(denied())
		if _, err := again.GetInstance(t.Context(), near); err != nil {
			t.Errorf("an instance of the region that answers: %v", err)
		}
		for _, id := range []string{away, "i-00000000deadbeef0"} {
			if _, err := again.GetInstance(t.Context(), id); err == nil || provider.IsNotFound(err) {
				t.Errorf("an instance that may be in the region that does not answer: %v", err)
			}
		}
		r.server.Unscript()
		if i, err := again.GetInstance(t.Context(), away); err != nil || i.Region != "eu-west-1" {
			t.Errorf("the instance once its region answers: %+v, %v", i, err)
		}
	})
}

// A region is asked no more once no class, no Node and no instance is left that uses it.
func TestARegionThatNothingUsesIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		node, classes := []string{"eu-west-1"}, []string{"eu-west-1"}
		c := r.cloud(t, func(o *Options) {
			o.Regions = func(context.Context) ([]string, error) { return slices.Concat(node, classes), nil }
		})
		away := launched(t, c, far())
		mistype(t, c)
		classes = append(classes, "us-esat-1")
		failing := func() []string {
			t.Helper()
			all, err := c.ListInstances(t.Context(), ours("p"))
			var names []string
			if partial, ok := provider.AsPartialList(err); ok {
				for _, f := range partial.Failed {
					names = append(names, f.Name)
				}
			} else if err != nil {
				t.Fatalf("%d instances, %v", len(all), err)
			}
			pass(time.Second) // until the probes have been answered
			return names
		}
		want := func(what string, names ...string) {
			t.Helper()
			if diff := cmp.Diff(names, failing()); diff != "" {
				t.Errorf("failing regions, %s (-want +got):\n%s", what, diff)
			}
		}
		resolve := func(k *v1alpha1.AWSNodeClass) {
			t.Helper()
			if _, err := c.ResolveNodeClass(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		want("a class names one that does not exist", "us-esat-1")
		pass(2 * reviewEvery)
		want("it does so still", "us-esat-1")
		mended := class()
		mended.Name, classes = "mistyped", []string{"eu-west-1", ""}
		resolve(mended)
		want("the class was mended, so at once")
		r.server.Script(denied())
		moved := far()
		moved.Spec, classes = class().Spec, []string{""}
		resolve(moved)
		want("a Node and an instance are in it", "eu-west-1")
		node = nil
		pass(reviewEvery)
		want("an instance is in it", "eu-west-1")
		r.server.Unscript()
		want("it answers again, which is seen once a small call was answered", "eu-west-1")
		if err := c.TerminateInstance(t.Context(), away); err != nil {
			t.Fatal(err)
		}
		await(t, c, provider.InstanceTerminated, away)
		r.server.Script(denied())
		pass(reviewEvery)
		want("nothing is in it")
	})
}
