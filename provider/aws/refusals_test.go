package aws

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// running launches instances of numbers 0 to n-1, round the three zones, and waits until they run.
func running(t *testing.T, c *Cloud, n int) []string {
	t.Helper()
	var ids []string
	for i := range n {
		instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{
			ClientToken: "token-" + string(rune('a'+i)), Number: int64(i), Tags: ours("p"),
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(instance.ID))
	}
	await(t, c, provider.InstanceRunning, ids...)
	return ids
}

// TestAProtectedInstanceKeepsNoOtherFromStopping, and its refusal has EC2's words.
func TestAProtectedInstanceKeepsNoOtherFromStopping(t *testing.T) {
	for name, op := range map[string]struct {
		protection ec2test.Protection
		call       func(*Cloud, *testing.T) func(string) error
		reached    provider.InstanceState
		words      string
	}{
		"stop": {
			ec2test.Protection{Stop: true},
			func(c *Cloud, t *testing.T) func(string) error {
				return func(id string) error { return c.StopInstance(t.Context(), id, false) }
			}, provider.InstanceStopped, "disableApiStop",
		},
		"terminate": {
			ec2test.Protection{Termination: true},
			func(c *Cloud, t *testing.T) func(string) error {
				return func(id string) error { return c.TerminateInstance(t.Context(), id) }
			}, provider.InstanceTerminated, "disableApiTermination",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{}, unlimitedCalls)
				c := r.cloud(t, func(o *Options) { o.Limits, o.Resources = nil, nil })
				ids := running(t, c, 9)
				bad := ids[4]
				r.server.Protect(bad, op.protection)
				for id, err := range atOnce(ids, op.call(c, t)) {
					if id != bad && err != nil {
						t.Errorf("%s of %s beside it: %v", name, id, err)
					}
					if id == bad && (!provider.IsInvalidConfig(err) || !strings.Contains(err.Error(),
						"OperationNotPermitted: The instance '"+bad) ||
						!strings.Contains(err.Error(), op.words)) {
						t.Errorf("%s of the protected one: %v", name, err)
					}
				}
				await(t, c, op.reached, slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == bad })...)
				await(t, c, provider.InstanceRunning, bad)
			})
		})
	}
}

// TestAPendingInstanceIsStoppedLater: EC2 refuses to stop it, the error says so, and the others of
// the call stop.
func TestAPendingInstanceIsStoppedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{Times: simcloud.Times{Boot: time.Minute}}, unlimitedCalls)
		c := r.cloud(t, func(o *Options) { o.Limits, o.Resources = nil, nil })
		ids := running(t, c, 3)
		late, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "late", Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		stop := func(id string) error { return c.StopInstance(t.Context(), id, true) }
		for id, err := range atOnce(append(ids, string(late.ID)), stop) {
			var state *provider.IncorrectStateError
			switch {
			case id != string(late.ID) && err != nil:
				t.Errorf("stop of %s: %v", id, err)
			case id == string(late.ID) && (!errors.As(err, &state) || state.State != provider.InstancePending):
				t.Errorf("stop of the pending one: %v, want an IncorrectStateError that says pending", err)
			}
		}
		await(t, c, provider.InstanceRunning, string(late.ID))
		if err := stop(string(late.ID)); err != nil {
			t.Errorf("stop once it runs: %v", err)
		}
	})
}

// startOnly limits StartInstances as published and nothing else, so that the set-up is quick.
func startOnly(o *ec2test.Options) {
	all := ec2test.Published()
	o.Limits = &ec2test.Limits{
		Requests:  map[ec2test.Action]simcloud.Limit{ec2test.StartInstances: all.Requests[ec2test.StartInstances]},
		Resources: map[ec2test.Action]simcloud.Limit{ec2test.StartInstances: all.Resources[ec2test.StartInstances]},
	}
}

// manyStopped are n stopped instances.
func (r *rig) manyStopped(t *testing.T, c *Cloud, n int) []string {
	t.Helper()
	for left := n; left > 0; left -= 1000 {
		r.runMany(t, int32(min(left, 1000)), ours("p"))
	}
	pass(time.Minute)
	all := ids(sweep(t, c, "here"))
	client := ec2.NewFromConfig(r.config())
	for part := range slices.Chunk(all, 500) {
		if _, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: part}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, c, provider.InstanceStopped, all...)
	return all
}

// TestStartsBeyondTheResourceBucket: EC2 counts the instances of a call too, 1000 at once and 2
// more each second. No call asks for more than that, so that none is refused.
func TestStartsBeyondTheResourceBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, startOnly)
		c := r.cloud(t)
		all := r.manyStopped(t, c, 1100)
		began := time.Now()
		failed := 0
		for _, err := range atOnce(all, func(id string) error { return c.StartInstance(t.Context(), id) }) {
			if err != nil {
				failed++
			}
		}
		refused := 0
		for _, q := range r.requests(ec2test.StartInstances) {
			if q.Code != "" {
				refused++
			}
		}
		if failed > 0 || refused > 0 {
			t.Errorf("%d of %d starts failed, %d calls were refused", failed, len(all), refused)
		}
		if took := time.Since(began); took > 90*time.Second {
			t.Errorf("it took %s: 100 more than the bucket holds are 50 s at 2 per second", took)
		}
	})
}

// TestOthersUseTheResourceBucketToo: a call that EC2 refuses for its instances is followed by
// smaller ones. How soon they start depends on the SDK's jitter.
func TestOthersUseTheResourceBucketToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, startOnly)
		c := r.cloud(t)
		all := r.manyStopped(t, c, 1000)
		theirs, own := all[:900], all[900:]
		client := ec2.NewFromConfig(r.config())
		parts := [][]string{theirs[:450], theirs[450:], theirs[:99]}
		for _, part := range parts {
			if _, err := client.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: part}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		atOnce(own, func(id string) error {
			untilDone(func() error { return c.StartInstance(t.Context(), id) })
			return nil
		})
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it took %s; the bucket gives 100 within 50 s", took)
		}
		checkSmallerCalls(t, r.requests(ec2test.StartInstances)[len(parts):])
	})
}

// checkSmallerCalls: after a call whose last attempt the SDK has made, the next one names half as
// many, and those that the bucket has taken in since.
func checkSmallerCalls(t *testing.T, calls []ec2test.Request) {
	t.Helper()
	givenUp, made := 0, 1
	for i, call := range calls[:len(calls)-1] {
		next := calls[i+1]
		if slices.Equal(call.Instances, next.Instances) {
			made++
			continue
		}
		if call.Code != "" && made == attempts {
			givenUp++
			most := len(call.Instances)/2 + int(2*next.At.Sub(call.At).Seconds())
			if len(next.Instances) > max(1, most) {
				t.Errorf("a refused call of %d instances was followed by one of %d, want %d at most", len(call.Instances),
					len(next.Instances), most)
			}
		}
		made = 1
	}
	if givenUp == 0 {
		t.Error("no call was refused to its last attempt")
	}
}
