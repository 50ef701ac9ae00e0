package aws

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

func TestRegionOfAProviderID(t *testing.T) {
	for id, want := range map[string]regionName{
		"aws:///us-east-1a/i-0abc":              "us-east-1",
		"aws:///us-gov-west-1b/i-0abc":          "us-gov-west-1",
		"aws:///us-west-2-lax-1a/i-0abc":        "us-west-2",
		"aws:///us-east-1-wl1-bos-wlz-1/i-0abc": "us-east-1",
		"aws:///ap-southeast-2c/i-0abc":         "ap-southeast-2",
		"aws:////i-0abc":                        "",
		"fake:///us-east-1a/i-0abc":             "",
		"":                                      "",
	} {
		if got := regionOf(id); got != want {
			t.Errorf("%q is in %q, want %q", id, got, want)
		}
	}
}

// TestAnInstanceIsAskedForInTheRegionOfItsNode: no class names that region any more, and this
// process has never listed it.
func TestAnInstanceIsAskedForInTheRegionOfItsNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		var far simcloud.View
		r.sim.Write(func(b *simcloud.Book) {
			inst := b.Launch(simcloud.LaunchSpec{Type: "m5.large", Region: "eu-west-1", Zone: "eu-west-1b", Subnet: "subnet-1",
				Tags: ours("p")})
			far.Instance = inst.Instance
		})
		pass(time.Minute)
		c := r.cloud(t)
		if _, err := c.GetInstance(t.Context(), string(far.ID)); !provider.IsNotFound(err) {
			t.Fatalf("set-up: %v, want an instance that nobody has told of", err)
		}
		c.Locate(string(far.ID), far.ProviderID)
		got, err := c.GetInstance(t.Context(), string(far.ID))
		if err != nil || got.State != provider.InstanceRunning || got.Zone != "eu-west-1b" {
			t.Errorf("%+v, error %v", got, err)
		}
		if err := c.StopInstance(t.Context(), string(far.ID), false); err != nil {
			t.Error(err)
		}
	})
}

// TestAnInstanceThatReadsDoNotShow is not found, and calls that change it work.
func TestAnInstanceThatReadsDoNotShow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		id := stopped(t, c, 1)[0]
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultUnseen})
		list, err := c.ListInstances(t.Context(), nil)
		if _, getErr := c.GetInstance(t.Context(), id); len(list) > 0 || err != nil || !provider.IsNotFound(getErr) {
			t.Errorf("%d listed, error %v; the one: %v", len(list), err, getErr)
		}
		if err := c.StartInstance(t.Context(), id); err != nil {
			t.Error(err)
		}
		r.heal(t)
		await(t, c, provider.InstanceRunning, id)
	})
}
