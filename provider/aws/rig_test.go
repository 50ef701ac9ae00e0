package aws

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// rig is a played account behind EC2's own protocol, without a socket: it works in a synctest
// bubble too.
type rig struct {
	sim    *simcloud.Cloud
	server *ec2test.Server
}

func newRig(t *testing.T, o simcloud.Options, with ...func(*ec2test.Options)) *rig {
	t.Helper()
	o.ProviderPrefix = ec2test.ProviderPrefix
	sim := simcloud.New(o)
	var server ec2test.Options
	for _, f := range with {
		f(&server)
	}
	return &rig{sim: sim, server: ec2test.New(sim, server)}
}

// config is the SDK's configuration for the rig: what it loads from the environment elsewhere.
func (r *rig) config() aws.Config {
	return aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
		HTTPClient: r.server.HTTPClient(), BaseEndpoint: aws.String("http://ec2.test"),
	}
}

// cloud is a provider before the rig, as one process has it.
func (r *rig) cloud(t *testing.T, change ...func(*Options)) *Cloud {
	t.Helper()
	calls, err := limiter.NewCalls("aws", limiter.New(nil), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: r.config(), ClusterName: "e2e", Calls: calls, Limits: limiter.Default(), Resources: limiter.Resources()}
	for _, f := range change {
		f(&o)
	}
	return New(o)
}

// requests counts the requests of an action, and returns them.
func (r *rig) requests(action ec2test.Action) []ec2test.Request {
	return slices.DeleteFunc(r.server.Requests(), func(q ec2test.Request) bool { return q.Action != action })
}

// ours are the tags that every instance of ours carries.
func ours(pool string) map[string]string {
	return map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "here", v1alpha1.TagClusterUID: "uid-here",
		v1alpha1.LabelPool: pool, v1alpha1.LabelState: string(v1alpha1.StateWarmup),
	}
}

// class is resolved already, to three subnets in three zones of the default account.
func class() *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{Spec: v1alpha1.AWSNodeClassSpec{
		InstanceType: "m5.large", AMI: "ami-0123456789abcdef0",
		SubnetIDs:        []string{"subnet-12345678", "subnet-12345679", "subnet-12345680"},
		SecurityGroupIDs: []string{"sg-12345678"},
	}}
	c.Status = v1alpha1.AWSNodeClassStatus{
		AMI: "ami-0123456789abcdef0", SecurityGroups: []string{"sg-12345678"},
		Subnets: []v1alpha1.ResolvedSubnet{{ID: "subnet-12345678", Zone: "us-east-1a"},
			{ID: "subnet-12345679", Zone: "us-east-1b"}, {ID: "subnet-12345680", Zone: "us-east-1c"}},
	}
	return c
}

// stopped launches n instances and stops them; they are returned in the order of their launch.
func stopped(t *testing.T, c *Cloud, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range n {
		instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "token-" +
			string(rune('a'+i%26)) + string(rune('a'+i/26)), Number: int64(i), Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = string(instance.ID)
	}
	await(t, c, provider.InstanceRunning, ids...)
	for _, err := range atOnce(ids, func(id string) error { return c.StopInstance(t.Context(), id, false) }) {
		if err != nil {
			t.Fatal(err)
		}
	}
	await(t, c, provider.InstanceStopped, ids...)
	return ids
}

// await waits, in the bubble's time, until all are in the state.
func await(t *testing.T, c *Cloud, want provider.InstanceState, ids ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		all, err := c.ListInstances(ctx, nil)
		if err == nil && !slices.ContainsFunc(all, func(i *provider.Instance) bool {
			return slices.Contains(ids,
				string(i.ID)) && i.State != want
		}) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not all of %d instances became %s: %v", len(ids), want, err)
		case <-tick.C:
		}
	}
}

// atOnce makes the call for all ids at the same time, in their order, and returns what became of
// each.
func atOnce(ids []string, call func(id string) error) map[string]error {
	var (
		mu  sync.Mutex
		all = map[string]error{}
		wg  sync.WaitGroup
	)
	for _, id := range ids {
		wg.Go(func() {
			err := call(id)
			mu.Lock()
			defer mu.Unlock()
			all[id] = err
		})
	}
	wg.Wait()
	return all
}

func (r *rig) fault(t *testing.T, f simcloud.Fault) {
	t.Helper()
	if _, err := r.sim.AddFault(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) heal(t *testing.T) {
	t.Helper()
	if err := r.sim.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass in a bubble, whose clock moves when no goroutine has anything to do.
func pass(d time.Duration) { <-time.After(d) }

// unlimitedCalls is an account that refuses nothing for its rate: what makes a test's ground is not
// what it is about.
func unlimitedCalls(o *ec2test.Options) { o.Limits = &ec2test.Limits{} }
