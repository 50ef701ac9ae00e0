package aws

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestWhatARefusedChangeOfTypeMeans: each of EC2's codes is the error that provider.TypeChanger
// names for it, with EC2's words.
func TestWhatARefusedChangeOfTypeMeans(t *testing.T) {
	plain := func(err error) bool {
		return err != nil && !provider.IsNotFound(err) && !provider.IsIncorrectState(err) &&
			!provider.IsInvalidConfig(err) && !provider.IsUnauthorized(err) && !provider.IsRateLimit(err)
	}
	for code, is := range map[string]func(error) bool{
		"InvalidInstanceAttributeValue": provider.IsInvalidConfig,
		"InvalidParameterValue":         provider.IsInvalidConfig,
		"InvalidParameterCombination":   provider.IsInvalidConfig,
		"UnsupportedOperation":          provider.IsInvalidConfig,
		"Unsupported":                   provider.IsInvalidConfig,
		"OperationNotPermitted":         provider.IsInvalidConfig,
		"OptInRequired":                 provider.IsInvalidConfig,
		"AttachmentLimitExceeded":       provider.IsInvalidConfig,
		"PrivateIpAddressLimitExceeded": provider.IsInvalidConfig,
		"InvalidInstanceID.NotFound":    provider.IsNotFound,
		"UnauthorizedOperation":         provider.IsUnauthorized,
		"RequestLimitExceeded":          provider.IsRateLimit,
		"IncorrectInstanceState":        provider.IsIncorrectState,
		"InternalError":                 plain,
		"ExpiredToken":                  plain,
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{}, unlimitedCalls)
				c := r.cloud(t)
				id := stopped(t, c, 1)[0]
				r.server.Script(ec2test.Failure{Action: ec2test.ModifyInstanceAttribute, Error: ec2test.Error{
					Code: code, Message: "in EC2's words Encoded authorization failure message: 4Gx"}})
				err := c.ChangeInstanceType(t.Context(), id, "m5.xlarge")
				if !is(err) {
					t.Errorf("%T %v", err, err)
				}
				told := provider.IsInvalidConfig(err) || provider.IsUnauthorized(err)
				if told && !strings.Contains(err.Error(), "in EC2's words") {
					t.Errorf("%v does not say what EC2 said", err)
				}
				if provider.IsInvalidConfig(err) && !strings.Contains(err.Error(), "instance "+id) {
					t.Errorf("%v does not name the instance", err)
				}
				if provider.IsUnauthorized(err) && strings.Contains(err.Error(), "4Gx") {
					t.Errorf("%v has the encoded part", err)
				}
			})
		})
	}
}

// TestAChangedTypeIsKnownAtOnce: a refused start names the new type, also while reads show the old
// one, and what others change later is seen.
func TestAChangedTypeIsKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{Capacity: []simcloud.Capacity{{Zone: "*", Type: "m5.xlarge"}}}, unlimitedCalls)
		c := r.cloud(t)
		id := stopped(t, c, 1)[0]
		pass(time.Minute) // reads see it whatever their lag
		if err := r.sim.SetTimes(t.Context(), simcloud.Times{Lag: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		refused := func() string {
			t.Helper()
			var full *provider.InsufficientCapacityError
			if err := c.StartInstance(t.Context(), id); !errors.As(err, &full) {
				t.Fatalf("start: %v", err)
			}
			return full.Type
		}
		change(t, c, id, "m5.xlarge")
		if kind := refused(); kind != "m5.xlarge" {
			t.Errorf("a start at once is refused for %s", kind)
		}
		if i, err := c.GetInstance(t.Context(), id); err != nil || i.Type != "m5.large" {
			t.Errorf("a read at once shows %v, %v", i, err)
		}
		if kind := refused(); kind != "m5.xlarge" {
			t.Errorf("after an old read a start is refused for %s", kind)
		}
		r.sim.Write(func(b *simcloud.Book) {
			inst, err := b.Find(v1alpha1.InstanceID(id))
			if err == nil {
				err = b.ChangeType(inst, "m5.2xlarge")
			}
			if err != nil {
				t.Error(err)
			}
		})
		pass(2 * readsLag)
		sweep(t, c, "here")
		if err := c.StartInstance(t.Context(), id); err != nil {
			t.Error(err)
		}
		if kind := c.index.offering(id); kind != "us-east-1a/m5.2xlarge" {
			t.Errorf("a change by others is known as %s", kind)
		}
	})
}

func change(t *testing.T, c *Cloud, id, kind string) {
	t.Helper()
	if err := c.ChangeInstanceType(t.Context(), id, kind); err != nil {
		t.Fatal(err)
	}
}

// TestChangesOfTypesStayWithinTheLimit: 50 leave at once, then a little fewer than 5 per second,
// and EC2 refuses none.
func TestChangesOfTypesStayWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, func(o *ec2test.Options) {
			o.Limits = &ec2test.Limits{Requests: map[ec2test.Action]simcloud.Limit{
				ec2test.ModifyInstanceAttribute: {Burst: 50, PerSecond: 5}}}
		})
		c := r.cloud(t)
		ids := r.manyStopped(t, c, 100)
		began := time.Now()
		for id, err := range atOnce(ids, func(id string) error {
			return c.ChangeInstanceType(t.Context(), id, "m5.xlarge")
		}) {
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		first := 0
		for _, q := range r.requests(ec2test.ModifyInstanceAttribute) {
			if q.Code != "" {
				t.Errorf("a call was refused: %s", q.Code)
			}
			if q.At.Equal(began) {
				first++
			}
		}
		if took := time.Since(began); first != 50 || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("%d at once, all in %s; want 50, and 50 more in 10.5 s", first, took)
		}
	})
}

// TestATypeThatTheImageCannotBootKeepsNoOtherFromStarting: EC2 tells at the start, and names the
// instance.
func TestATypeThatTheImageCannotBootKeepsNoOtherFromStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account, none := ec2test.DefaultAccount(), simcloud.New(simcloud.Options{})
		account.Images[0].NoENA = true
		size, _ := none.InstanceType("m5.large")
		first := ec2test.PropertiesOf(size)
		first.ENA = "supported"
		r := newRig(t, simcloud.Options{}, unlimitedCalls, func(o *ec2test.Options) {
			o.Account, o.Types = account, map[string]ec2test.Properties{"m5.large": first}
		})
		c := r.cloud(t)
		ids := stopped(t, c, 5)
		change(t, c, ids[2], "m5.xlarge")
		for id, err := range atOnce(ids, func(id string) error { return c.StartInstance(t.Context(), id) }) {
			if id != ids[2] && err != nil {
				t.Errorf("start beside it: %v", err)
			}
			if id == ids[2] && (!provider.IsInvalidConfig(err) || !strings.Contains(err.Error(), "is enabled for ENA")) {
				t.Errorf("start of the one without ENA: %v", err)
			}
		}
	})
}

// TestThePolicyAllowsChangesOfTypes of this cluster's instances, and of no other attribute. Without
// its statement, or where EC2 has no key for the attribute, the error says that it is a permission.
func TestThePolicyAllowsChangesOfTypes(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*ec2test.Policy)
		cluster string
		allowed bool
	}{
		"as it is": {change: func(*ec2test.Policy) {}, allowed: true},
		"without the statement": {change: func(p *ec2test.Policy) {
			for i := range p.Statement {
				if p.Statement[i].Condition["StringEquals"]["ec2:Attribute"] != "" {
					p.Statement[i].Action = nil
				}
			}
		}},
		"without the key":                  {change: func(p *ec2test.Policy) { p.NoAttributeKey = true }},
		"an instance of another cluster's": {change: func(*ec2test.Policy) {}, cluster: "there"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{})
				cloud := r.cloud(t)
				id := stopped(t, cloud, 1)[0]
				if c.cluster != "" {
					r.take(t, id, v1alpha1.TagCluster)
				}
				p := docsPolicy(t)
				c.change(p)
				r.server.SetPolicy(p)
				err := cloud.ChangeInstanceType(t.Context(), id, "m5.xlarge")
				if c.allowed != (err == nil) || err != nil && !provider.IsUnauthorized(err) {
					t.Errorf("%v, want it allowed: %v", err, c.allowed)
				}
			})
		})
	}
}

// TestADryRunOfAChangeOfType asks for the type that the instance has, and changes nothing.
func TestADryRunOfAChangeOfType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		i, err := c.GetInstance(t.Context(), stopped(t, c, 1)[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Checker().Operate(t.Context(), limiter.ModifyInstanceAttribute, i); err != nil {
			t.Error(err)
		}
		calls := r.requests(ec2test.ModifyInstanceAttribute)
		if len(calls) != 1 || calls[0].Params["DryRun"] != "true" || calls[0].Params["InstanceType.Value"] != "m5.large" {
			t.Errorf("calls %v", calls)
		}
		r.server.Script(ec2test.Failure{Action: ec2test.ModifyInstanceAttribute, Error: ec2test.Error{
			Code: "UnauthorizedOperation", Message: "no", Status: http.StatusForbidden}})
		if err := c.Checker().Operate(t.Context(), limiter.ModifyInstanceAttribute, i); !provider.IsUnauthorized(err) {
			t.Errorf("without the permission: %v", err)
		}
	})
}
