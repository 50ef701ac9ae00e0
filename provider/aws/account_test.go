package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// sweep lists as the scaler does: everything of ours in one cluster.
func sweep(t *testing.T, c *Cloud, cluster string) []*provider.Instance {
	t.Helper()
	all, err := c.ListInstances(t.Context(), map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos,
		v1alpha1.TagCluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTwoClustersWithPoolsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		clouds := map[string]*Cloud{"one": r.cloud(t), "two": r.cloud(t)}
		for cluster, c := range clouds {
			for i := range 3 {
				tags := ours("workers")
				tags[v1alpha1.TagCluster] = cluster
				if _, err := c.LaunchInstance(t.Context(), class(),
					provider.LaunchRequest{ClientToken: cluster + string(rune('a'+i)), Number: int64(i), Tags: tags}); err != nil {
					t.Fatal(err)
				}
			}
		}
		mine := sweep(t, clouds["one"], "one")
		for _, i := range mine {
			if i.Tags[v1alpha1.TagCluster] != "one" {
				t.Errorf("a sweep of cluster one shows %s of cluster %s", i.ID, i.Tags[v1alpha1.TagCluster])
			}
			// As the deletion of the pool does with what its sweep shows.
			if err := clouds["one"].TerminateInstance(t.Context(), string(i.ID)); err != nil {
				t.Error(err)
			}
		}
		await(t, clouds["one"], provider.InstanceTerminated, ids(mine)...)
		theirs := sweep(t, clouds["two"], "two")
		if len(mine) != 3 || len(theirs) != 3 || slices.ContainsFunc(theirs,
			func(i *provider.Instance) bool { return i.State == provider.InstanceTerminated }) {
			t.Errorf("cluster one saw %d of 3; of cluster two are left %v", len(mine), theirs)
		}
	})
}

func ids(instances []*provider.Instance) []string {
	var out []string
	for _, i := range instances {
		out = append(out, string(i.ID))
	}
	return out
}

// runMany launches instances of ours by EC2's own call for many, past the provider.
func (r *rig) runMany(t *testing.T, n int32, tags map[string]string) {
	t.Helper()
	client := ec2.NewFromConfig(r.config())
	_, err := client.RunInstances(t.Context(), &ec2.RunInstancesInput{
		MinCount: aws.Int32(n), MaxCount: aws.Int32(n), ImageId: aws.String("ami-0123456789abcdef0"),
		InstanceType: "m5.large",
		SubnetId:     aws.String("subnet-12345678"), SecurityGroupIds: []string{"sg-12345678"},
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled,
		},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tagsOf(tags)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASweepOfAThousandInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		c := r.cloud(t)
		r.runMany(t, 1000, ours("p"))
		pass(time.Minute)
		for range 3 {
			before := len(r.server.Requests())
			if got := len(sweep(t, c, "here")); got != 1000 {
				t.Errorf("%d instances, want 1000", got)
			}
			if calls := len(r.server.Requests()) - before; calls > 2 {
				t.Errorf("%d calls for one sweep, want at most 2", calls)
			}
		}
		other := ours("p")
		other["stratos.sh/cluster"] = "another"
		r.runMany(t, 600, other)
		r.runMany(t, 200, ours("p"))
		if got := len(sweep(t, c, "here")); got != 1200 {
			t.Errorf("%d instances over two pages, want 1200", got)
		}
	})
}

// TestAListIsWholeOrNone: the second page of a region fails. Nothing of that region is handed out,
// and everything of the others.
func TestAListIsWholeOrNone(t *testing.T) {
	for name, others := range map[string]int{"one region": 0, "beside another region": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, simcloud.Options{}, unlimitedCalls)
				c := r.cloud(t)
				if others > 0 {
					launched(t, c, far())
				}
				r.runMany(t, 1000, ours("p"))
				r.runMany(t, 10, ours("q"))
				expired := ec2test.Error{Code: "AuthFailure", Message: "expired", Status: 401}
				r.server.Script(ec2test.Failure{Action: ec2test.DescribeInstances, Region: "us-east-1", Skip: 1, Error: expired})
				all, err := c.ListInstances(t.Context(), nil)
				partial, ok := provider.AsPartialList(err)
				if !ok || len(all) != others || partial.Answered != others || partial.Failed[0].Name != "us-east-1" ||
					!strings.Contains(err.Error(), "AuthFailure: expired") {
					t.Errorf("%d instances, %v", len(all), err)
				}
			})
		})
	}
}

// untilDone calls as the scaler does: with backoff, until it works.
func untilDone(call func() error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		if call() == nil {
			return
		}
		pass(pause)
	}
}

func TestAnOutageOfFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		standby := stopped(t, c, 40)
		running := make([]string, 10)
		for i := range running {
			instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "run" +
				string(rune('a'+i)), Number: int64(i), Tags: ours("q")})
			if err != nil {
				t.Fatal(err)
			}
			running[i] = string(instance.ID)
		}
		await(t, c, provider.InstanceRunning, running...)

		r.fault(t, simcloud.Fault{Kind: simcloud.FaultOutage})
		begin := time.Now()
		done := make(chan string, len(standby))
		for _, id := range standby {
			go func() {
				untilDone(func() error { return c.StartInstance(t.Context(), id) })
				done <- id
			}()
		}
		for time.Since(begin) < 5*time.Minute {
			if list, err := c.ListInstances(t.Context(), nil); err == nil || list != nil {
				t.Fatalf("a list of %d in an outage, %v", len(list), err)
			}
			if _, err := c.GetInstance(t.Context(), running[0]); err == nil || provider.IsNotFound(err) {
				t.Fatalf("an instance in an outage: %v, which must not be taken for gone", err)
			}
			pass(15 * time.Second)
		}
		if len(done) > 0 {
			t.Fatalf("%d starts were accepted in an outage", len(done))
		}
		r.heal(t)
		for range standby {
			<-done
		}
		await(t, c, provider.InstanceRunning, slices.Concat(standby, running)...)
		for _, q := range r.server.Requests() {
			touched := slices.ContainsFunc(q.Instances, func(id v1alpha1.InstanceID) bool {
				return slices.Contains(running,
					string(id))
			})
			if touched && (q.Action == ec2test.StopInstances || q.Action == ec2test.TerminateInstances) {
				t.Errorf("%s touched a running instance", q.Action)
			}
		}
		checkRate(t, r.requests(ec2test.StartInstances), 5, 2)
		checkRate(t, r.requests(ec2test.DescribeInstances), 100, 20)
	})
}

// checkRate: no span of time holds more calls than the bucket has and is refilled with.
func checkRate(t *testing.T, calls []ec2test.Request, burst, perSecond float64) {
	t.Helper()
	for i, first := range calls {
		for j, last := range calls[i:] {
			if span := last.At.Sub(first.At); float64(j+1) > burst+perSecond*span.Seconds()+1e-6 {
				t.Fatalf("%d calls of %s within %s", j+1, first.Action, span)
			}
		}
	}
}

// TestThrottledAllTheSame: another client uses the account up; nothing is lost, and the rate is
// lowered.
func TestThrottledAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		ids := stopped(t, c, 12)
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultRateLimit, Op: simcloud.OpStart, Count: 3})
		for id, err := range atOnce(ids, func(id string) error { return c.StartInstance(t.Context(), id) }) {
			if err != nil {
				t.Errorf("start of %s: %v", id, err)
			}
		}
		await(t, c, provider.InstanceRunning, ids...)

		r.fault(t, simcloud.Fault{Kind: simcloud.FaultRateLimit, Op: simcloud.OpStop})
		if err := c.StopInstance(t.Context(), ids[0], false); !provider.IsRateLimit(err) {
			t.Errorf("a refusal without an end: %v, want a RateLimitError", err)
		}
		if calls := len(r.requests(ec2test.StopInstances)); calls < attempts {
			t.Errorf("%d requests, want %d attempts", calls, attempts)
		}
	})
}

// TestRegions: a class of another region launches there, a new process finds its instances there,
// and a sweep asks each region once.
func TestRegions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		far := class()
		far.Spec.Region, far.Spec.SubnetIDs, far.Spec.SecurityGroupIDs = "eu-west-1", []string{"subnet-12345681"},
			[]string{"sg-12345679"}
		far.Status = v1alpha1.AWSNodeClassStatus{}
		far.Generation = 1
		var launched []string
		for i, k := range []*v1alpha1.AWSNodeClass{class(), far} {
			instance, err := c.LaunchInstance(t.Context(), k, provider.LaunchRequest{ClientToken: string(rune('a' + i)),
				Tags: ours("p")})
			if err != nil {
				t.Fatal(err)
			}
			launched = append(launched, string(instance.ID))
		}
		await(t, c, provider.InstanceRunning, launched...)
		restarted := func(regions func(context.Context) ([]string, error)) *Cloud {
			return r.cloud(t, func(o *Options) { o.Regions = regions })
		}
		again := restarted(func(context.Context) ([]string, error) { return []string{"eu-west-1", "us-east-1"}, nil })
		found, err := again.GetInstance(t.Context(), launched[1])
		if err != nil || found.Zone != "eu-west-1a" || found.ProviderID != "aws:///eu-west-1a/"+launched[1] {
			t.Errorf("the instance of the other region: %+v, %v", found, err)
		}
		before := len(r.server.Requests())
		if all := sweep(t, again, "here"); len(all) != 2 {
			t.Errorf("%d instances in two regions", len(all))
		}
		var asked []string
		for _, q := range r.server.Requests()[before:] {
			asked = append(asked, q.Region)
		}
		slices.Sort(asked)
		if diff := cmp.Diff([]string{"eu-west-1", "us-east-1"}, asked); diff != "" {
			t.Errorf("regions that were asked (-want +got):\n%s", diff)
		}
		if _, err := again.GetInstance(t.Context(), "i-00000000deadbeef0"); !provider.IsNotFound(err) {
			t.Errorf("an instance of no region: %v", err)
		}
		trouble := errors.New("the API server does not answer")
		blind := restarted(func(context.Context) ([]string, error) { return nil, trouble })
		if list, err := blind.ListInstances(t.Context(), nil); !errors.Is(err, trouble) || list != nil {
			t.Errorf("a list without knowing the regions: %d instances, %v", len(list), err)
		}
		if _, err := blind.GetInstance(t.Context(), launched[1]); !errors.Is(err, trouble) {
			t.Errorf("an instance without knowing the regions: %v, which must not be taken for gone", err)
		}
	})
}

// TestAHibernatingInstance is stopped by hibernation, unless by force; one that cannot after all is
// stopped plainly.
func TestAHibernatingInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		k := class()
		k.Spec.Hibernation = &v1alpha1.Hibernation{Enabled: true}
		k.Spec.BlockDeviceMappings = []v1alpha1.BlockDeviceMapping{{DeviceName: "/dev/xvda", VolumeSize: new(int32(30)),
			Encrypted: new(true)}}
		instance, err := c.LaunchInstance(t.Context(), k, provider.LaunchRequest{ClientToken: "a", Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		id := string(instance.ID)
		stop := func(c *Cloud, force bool) []string {
			t.Helper()
			await(t, c, provider.InstanceRunning, id)
			before := len(r.requests(ec2test.StopInstances))
			if err := c.StopInstance(t.Context(), id, force); err != nil {
				t.Fatal(err)
			}
			await(t, c, provider.InstanceStopped, id)
			var how []string
			for _, q := range r.requests(ec2test.StopInstances)[before:] {
				how = append(how, "hibernate="+q.Params["Hibernate"]+" force="+q.Params["Force"])
			}
			if err := c.StartInstance(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return how
		}
		got := [][]string{stop(c, false), stop(c, true), stop(r.cloud(t), false)}
		r.server.Script(ec2test.Failure{Action: ec2test.StopInstances, Count: 1,
			Error: ec2test.Error{Code: "UnsupportedHibernationConfiguration",
				Message: "The instance is not configured for hibernation"}})
		got = append(got, stop(c, false))
		want := [][]string{{"hibernate=true force="}, {"hibernate= force=true"}, {"hibernate=true force="},
			{"hibernate=true force=", "hibernate= force="}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stops: plain, by force, by a new process, where it cannot (-want +got):\n%s", diff)
		}
	})
}

// TestTheLaunchTimeIsThatOfTheLaunch: EC2's own is that of the last start, and a standby node would
// never grow old by it.
func TestTheLaunchTimeIsThatOfTheLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		instance, err := c.LaunchInstance(t.Context(), class(), provider.LaunchRequest{ClientToken: "a", Tags: ours("p")})
		if err != nil {
			t.Fatal(err)
		}
		id := string(instance.ID)
		for range 2 {
			await(t, c, provider.InstanceRunning, id)
			pass(time.Hour)
			if err := c.StopInstance(t.Context(), id, false); err != nil {
				t.Fatal(err)
			}
			await(t, c, provider.InstanceStopped, id)
			if err := c.StartInstance(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if now, err := c.GetInstance(t.Context(), id); err != nil || !now.LaunchTime.Equal(instance.LaunchTime) {
				t.Errorf("launched at %s, %v, want %s", now.LaunchTime, err, instance.LaunchTime)
			}
		}
	})
}

// TestTagsOfManyAreOneCall: nodes that change their state together.
func TestTagsOfManyAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		r.runMany(t, 30, ours("p"))
		all := ids(sweep(t, c, "here"))
		r.fault(t, simcloud.Fault{Kind: simcloud.FaultLatency, Op: simcloud.OpUpdateTags, Delay: 100 * time.Millisecond})
		for id, err := range atOnce(all, func(id string) error {
			return c.UpdateInstanceTags(t.Context(), id, map[string]string{v1alpha1.LabelState: "standby"})
		}) {
			if err != nil {
				t.Errorf("tag of %s: %v", id, err)
			}
		}
		if calls := len(r.requests(ec2test.CreateTags)); calls > 2 {
			t.Errorf("%d calls for 30 instances, want one for those who were there first and one for the rest", calls)
		}
		for _, i := range sweep(t, c, "here") {
			if i.Tags[v1alpha1.LabelState] != "standby" {
				t.Errorf("%s is tagged %q", i.ID, i.Tags[v1alpha1.LabelState])
			}
		}
	})
}
