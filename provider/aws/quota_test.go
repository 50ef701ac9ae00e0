package aws

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestAQuotaIsRememberedByRegionAndFamily: what one launch or start learned about the account's
// quota holds for the launches and starts of every type of its family in the region, in each zone.
// One call shows when it is over.
func TestAQuotaIsRememberedByRegionAndFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		launch := func(kind, token string) error {
			cl := class()
			cl.Spec.InstanceType = kind
			_, err := c.LaunchInstance(t.Context(), cl, provider.LaunchRequest{ClientToken: token, Tags: ours("p")})
			return err
		}
		standing := stopped(t, c, 1)[0]
		calls := func() int {
			return len(r.requests(ec2test.RunInstances)) + len(r.requests(ec2test.StartInstances))
		}
		r.server.Script(ec2test.Failure{Action: ec2test.RunInstances, Count: 1, Error: ec2test.Error{
			Code: "VcpuLimitExceeded", Message: "You have requested more vCPU capacity than your current vCPU limit of 8 allows",
			Status: 400,
		}})
		if err := launch("m5.large", "second"); !provider.IsQuota(err) || provider.IsInvalidConfig(err) {
			t.Fatalf("over quota: %v", err)
		}
		before := calls()
		for what, err := range map[string]error{
			"a launch of the type":              launch("m5.large", "third"),
			"a launch of another in its family": launch("c5.xlarge", "fourth"),
			"a start":                           c.StartInstance(t.Context(), standing),
		} {
			if !provider.IsQuota(err) || !strings.Contains(err.Error(), "vCPU limit of 8") {
				t.Errorf("%s: %v; want EC2's words", what, err)
			}
		}
		if made := calls() - before; made != 0 {
			t.Errorf("%d calls although the quota is used up", made)
		}
		if err := launch("g5.xlarge", "fifth"); err != nil {
			t.Errorf("a launch of another family: %v", err)
		}
		pass(quotaFirst)
		if err := errors.Join(launch("c5.xlarge", "sixth"), c.StartInstance(t.Context(), standing)); err != nil {
			t.Errorf("after the back-off: %v", err)
		}
	})
}

// TestFamilyOf: the groups of instance types that share a quota of vCPUs.
func TestFamilyOf(t *testing.T) {
	for kind, want := range map[string]string{
		"m5.large": "standard", "t3a.micro": "standard", "c7gn.16xlarge": "standard", "g5.xlarge": "g", "vt1.3xlarge": "g",
		"p5.48xlarge": "p", "inf2.xlarge": "inf", "trn1.2xlarge": "trn", "f1.2xlarge": "f", "x2idn.16xlarge": "x", "": "",
		"u-6tb1.metal": "u", "hpc7g.4xlarge": "hpc", "dl1.24xlarge": "dl", "is4gen.large": "standard",
		"im4gn.large": "standard",
	} {
		if got := familyOf(kind); got != want {
			t.Errorf("%q is of family %q, want %q", kind, got, want)
		}
	}
}
