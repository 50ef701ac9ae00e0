package ec2test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestALifeAsTheSDKSeesIt: every state with its number, what a stopped instance keeps and what a
// terminated one loses.
func TestALifeAsTheSDKSeesIt(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{Times: simcloud.Times{ShuttingDown: 10 * time.Second}}, Options{},
		func(t *testing.T, a *testAccount) {
			id := a.run(1, map[string]string{"team": "a"})[0]
			launched := a.get(id)
			a.is(types.InstanceStateNamePending, id)
			a.after(3 * time.Second)
			a.is(types.InstanceStateNameRunning, id)
			stopped, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id},
				Force: aws.Bool(true)})
			if err != nil || *stopped.StoppingInstances[0].CurrentState.Code != 64 ||
				*stopped.StoppingInstances[0].PreviousState.Code != 16 {
				t.Fatalf("stop: %+v, error %v", stopped, err)
			}
			a.is(types.InstanceStateNameStopping, id)
			a.after(time.Hour)
			standby := a.get(id)
			if standby.State.Name != types.InstanceStateNameStopped ||
				*standby.StateReason.Code != "Client.UserInitiatedShutdown" {
				t.Errorf("stopped: state %s, reason %v", standby.State.Name, standby.StateReason)
			}
			started, err := a.client.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
			if err != nil || *started.StartingInstances[0].CurrentState.Code != 0 ||
				*started.StartingInstances[0].PreviousState.Code != 80 {
				t.Fatalf("start: %+v, error %v", started, err)
			}
			again := a.get(id)
			checkKept(t, launched, again)
			if _, err := a.client.TerminateInstances(t.Context(),
				&ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
				t.Fatal(err)
			}
			a.is(types.InstanceStateNameShuttingDown, id)
			a.after(10 * time.Second)
			a.is(types.InstanceStateNameTerminated, id)
			if gone := a.get(id); aws.ToString(gone.PrivateDnsName) != "" || gone.SubnetId != nil ||
				len(gone.NetworkInterfaces) != 0 {
				t.Errorf("a terminated instance has name %q, subnet %v, %d interfaces", *gone.PrivateDnsName, gone.SubnetId,
					len(gone.NetworkInterfaces))
			}
		})
}

// checkKept: the launch time is the last start's, the first launch stands at the interface, and the
// rest is the same.
func checkKept(t *testing.T, launched, again types.Instance) {
	t.Helper()
	if !again.LaunchTime.After(*launched.LaunchTime) {
		t.Errorf("launch time %v after the start, %v before: EC2's is that of the last start", again.LaunchTime,
			launched.LaunchTime)
	}
	first := func(i types.Instance) time.Time { return *i.NetworkInterfaces[0].Attachment.AttachTime }
	if !first(again).Equal(first(launched)) || !first(launched).Equal(*launched.LaunchTime) {
		t.Errorf("the interface was attached at %v, before %v, launched %v", first(again), first(launched),
			launched.LaunchTime)
	}
	for name, same := range map[string]bool{
		"private name": *again.PrivateDnsName == *launched.PrivateDnsName && *again.PrivateDnsName != "",
		"address":      *again.PrivateIpAddress == *launched.PrivateIpAddress,
		"volume":       *again.BlockDeviceMappings[0].Ebs.VolumeId == *launched.BlockDeviceMappings[0].Ebs.VolumeId,
		"tags":         cmp.Equal(again.Tags, launched.Tags, cmp.AllowUnexported(types.Tag{})) && len(again.Tags) == 1,
		"zone":         *again.Placement.AvailabilityZone == "us-east-1a",
	} {
		if !same {
			t.Errorf("%s is not kept through stop and start: %+v, before %+v", name, again, launched)
		}
	}
}

func TestSelfStop(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[types.ShutdownBehavior]types.InstanceStateName{
		types.ShutdownBehaviorStop:      types.InstanceStateNameStopped,
		types.ShutdownBehaviorTerminate: types.InstanceStateNameTerminated,
	} {
		t.Run(string(behaviour), func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
				input := runInput()
				input.InstanceInitiatedShutdownBehavior = behaviour
				out, err := a.client.RunInstances(t.Context(), input)
				if err != nil {
					t.Fatal(err)
				}
				id := *out.Instances[0].InstanceId
				a.after(4 * time.Second)
				a.sim.ShutDown(v1alpha1.InstanceID(id), 1)
				a.after(2 * time.Second)
				a.is(want, id)
				if code := *a.get(id).StateReason.Code; code != "Client.InstanceInitiatedShutdown" {
					t.Errorf("state reason %s", code)
				}
			})
		})
	}
}

// TestStartFailsAsAWhole: one instance that cannot start keeps the others from starting, wherever
// it stands in the list.
func TestStartFailsAsAWhole(t *testing.T) {
	t.Parallel()
	const all = 4
	for name, tt := range map[string]struct {
		spoil func(a *testAccount, id string) string
		code  string
	}{
		"no capacity for one": {code: codeCapacity, spoil: func(a *testAccount, id string) string {
			a.arm(simcloud.Fault{Kind: simcloud.FaultInsufficientCapacity, Op: simcloud.OpStart,
				Instance: v1alpha1.InstanceID(id)})
			return id
		}},
		"no room for all of them": {code: codeCapacity, spoil: func(a *testAccount, id string) string {
			if err := a.sim.SetCapacity(a.t.Context(), []simcloud.Capacity{{Zone: "*", Type: "m5.large",
				Count: all - 1}}); err != nil {
				a.t.Fatal(err)
			}
			return id
		}},
		"one is terminated": {code: codeState, spoil: func(a *testAccount, id string) string {
			if err := a.sim.Behind(a.t.Context(), id, simcloud.ActTerminate); err != nil {
				a.t.Fatal(err)
			}
			return id
		}},
		"one does not exist": {code: codeNotFound, spoil: func(*testAccount, string) string { return "i-00000000deadbeef0" }},
		"one is no id":       {code: codeMalformed, spoil: func(*testAccount, string) string { return "i-xyz" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := range all {
				inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
					ids := a.standby(all)
					ids[at] = tt.spoil(a, ids[at])
					if code := codeOf(t, a.start(ids...)); code != tt.code {
						t.Errorf("spoilt at %d: code %q, want %q", at, code, tt.code)
					}
					a.is(types.InstanceStateNameStopped, slices.Delete(slices.Clone(ids), at, at+1)...)
					if rest := slices.Delete(slices.Clone(ids), at, at+1); codeOf(t, a.start(rest...)) != "" {
						t.Errorf("spoilt at %d: the others do not start without it", at)
					}
				})
			}
		})
	}
}

func TestStateRefusals(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.run(3, nil)
		if code := codeOf(t, a.start(ids...)); code != "" {
			t.Errorf("start while pending: %s", code)
		}
		a.after(4 * time.Second)
		stop := func(id string, force bool) string {
			_, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id},
				Force: aws.Bool(force)})
			return codeOf(t, err)
		}
		a.arm(simcloud.Fault{Kind: simcloud.FaultStopHangs, Count: 1})
		if code := stop(ids[0], false); code != "" {
			t.Fatal(code)
		}
		a.after(time.Hour)
		a.is(types.InstanceStateNameStopping, ids[0])
		if code := codeOf(t, a.start(ids[1], ids[0])); code != codeState {
			t.Errorf("start while stopping: %q", code)
		}
		if code := stop(ids[0], true); code != "" {
			t.Error(code)
		}
		a.after(2 * time.Second)
		a.is(types.InstanceStateNameStopped, ids[0])
		if _, err := a.client.TerminateInstances(t.Context(),
			&ec2.TerminateInstancesInput{InstanceIds: ids[1:2]}); err != nil {
			t.Fatal(err)
		}
		if code := stop(ids[1], false); code != codeState {
			t.Errorf("stop of a terminated instance: %q", code)
		}
		if _, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids[2:],
			Hibernate: aws.Bool(true)}); codeOf(t, err) != "UnsupportedHibernationConfiguration" {
			t.Errorf("hibernation of an instance that has none: %v", err)
		}
	})
}

// TestReadsLagBehindWrites: what was written a moment ago is not there yet, for reads by id, in
// lists and by tag.
func TestReadsLagBehindWrites(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{Times: simcloud.Times{Lag: 5 * time.Second}}, Options{},
		func(t *testing.T, a *testAccount) {
			id := a.run(1, map[string]string{"v": "1"})[0]
			byID := func() string {
				_, err := a.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
				return codeOf(t, err)
			}
			if code := byID(); code != codeNotFound {
				t.Errorf("read by id at once: %q", code)
			}
			if n := len(a.list(&ec2.DescribeInstancesInput{})); n != 0 {
				t.Errorf("the list holds %d", n)
			}
			a.after(5 * time.Second)
			if code := byID(); code != "" {
				t.Errorf("read by id after the lag: %q", code)
			}
			_, err := a.client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id},
				Tags: []types.Tag{{Key: aws.String("v"), Value: aws.String("2")}}})
			if err != nil {
				t.Fatal(err)
			}
			byTag := func(value string) int { return len(a.list(filtered("tag:v", value))) }
			if byTag("1") != 1 || byTag("2") != 0 {
				t.Errorf("at once %d have the old tag, %d the new one", byTag("1"), byTag("2"))
			}
			a.after(5 * time.Second)
			if byTag("1") != 0 || byTag("2") != 1 {
				t.Errorf("after the lag %d have the old tag, %d the new one", byTag("1"), byTag("2"))
			}
		})
}

func filtered(pairs ...string) *ec2.DescribeInstancesInput {
	input := &ec2.DescribeInstancesInput{MaxResults: aws.Int32(1000)}
	for i := 0; i+1 < len(pairs); i += 2 {
		input.Filters = append(input.Filters, types.Filter{Name: aws.String(pairs[i]), Values: []string{pairs[i+1]}})
	}
	return input
}

// list returns the ids of all pages.
func (a *testAccount) list(input *ec2.DescribeInstancesInput) []string {
	a.t.Helper()
	var ids []string
	pages := ec2.NewDescribeInstancesPaginator(a.client, input)
	for pages.HasMorePages() {
		out, err := pages.NextPage(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				ids = append(ids, *i.InstanceId)
			}
		}
	}
	return ids
}

func TestFiltersAndPages(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		web := a.run(7, map[string]string{"pool": "web", "cluster": "a", "odd=/&": "ü?*"})
		other := a.run(2, map[string]string{"pool": "web", "cluster": "b"})
		plain := a.run(1, nil)
		all := slices.Concat(web, other, plain)
		for name, tt := range map[string]struct {
			input *ec2.DescribeInstancesInput
			want  []string
		}{
			"everything":                  {&ec2.DescribeInstancesInput{}, all},
			"pages of five":               {&ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)}, all},
			"two tags":                    {filtered("tag:pool", "web", "tag:cluster", "a"), web},
			"a tag's value with odd text": {filtered("tag:odd=/&", `ü\?\*`), web},
			"a wildcard":                  {filtered("tag:pool", "w*"), slices.Concat(web, other)},
			"a tag's key":                 {filtered("tag-key", "cluster"), slices.Concat(web, other)},
			"no such tag":                 {filtered("tag:pool", "none"), nil},
			"a state that all have":       {filtered("instance-state-name", "pending"), all},
			"a state that none has":       {filtered("instance-state-name", "stopped"), nil},
			"a type and a zone":           {filtered("instance-type", "m5.large", "availability-zone", "us-east-1a"), all},
			"one of two values":           {&ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:cluster"), Values: []string{"a", "b"}}}}, slices.Concat(web, other)},
			"ids, of which a filter keeps": {&ec2.DescribeInstancesInput{InstanceIds: all,
				Filters: filtered("tag:cluster", "b").Filters}, other},
			"a value that is a regexp's word": {filtered("tag:pool", "w.b"), nil},
		} {
			got := a.list(tt.input)
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.want))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if got, want := a.calls(DescribeInstances), 13+1; got != want {
			t.Errorf("%d DescribeInstances calls, want %d: one each, two for the two pages of five", got, want)
		}
	})
}

// calls counts the requests of the action.
func (a *testAccount) calls(action Action) int {
	n := 0
	for _, r := range a.server.Requests() {
		if r.Action == action {
			n++
		}
	}
	return n
}

// TestRegionsAreApart: an instance of one region is unknown in another.
func TestRegionsAreApart(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		id := a.run(1, nil)[0]
		abroad := a.in("eu-west-1")
		if _, err := abroad.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}); codeOf(t,
			err) != codeNotFound {
			t.Errorf("start from abroad: %v", err)
		}
		out, err := abroad.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		if err != nil || len(out.Reservations) != 0 {
			t.Errorf("abroad %d reservations, error %v", len(out.Reservations), err)
		}
		input := runInput()
		if _, err := abroad.RunInstances(t.Context(), input); codeOf(t, err) != "InvalidSubnetID.NotFound" {
			t.Errorf("launch into a subnet of another region: %v", err)
		}
		input.SubnetId, input.SecurityGroupIds = aws.String("subnet-12345681"), []string{"sg-12345679"}
		input.ClientToken = nil // the SDK wrote one for the refused launch
		run, err := abroad.RunInstances(t.Context(), input)
		if err != nil || *run.Instances[0].Placement.AvailabilityZone != "eu-west-1a" {
			t.Fatalf("launch abroad: %v", err)
		}
		if name := *run.Instances[0].PrivateDnsName; !hasSuffix(name, ".eu-west-1.compute.internal") {
			t.Errorf("name abroad: %s", name)
		}
	})
}

func hasSuffix(text, end string) bool {
	return len(text) >= len(end) && text[len(text)-len(end):] == end
}

func TestTagLimits(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		id := a.run(1, map[string]string{"keep": "1", "change": "1"})[0]
		set := func(tags ...types.Tag) string {
			_, err := a.client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
			return codeOf(t, err)
		}
		tag := func(key, value string) types.Tag { return types.Tag{Key: aws.String(key), Value: aws.String(value)} }
		if code := set(tag("change", "2"), tag("add", "3")); code != "" {
			t.Error(code)
		}
		got := map[string]string{}
		for _, tag := range a.get(id).Tags {
			got[*tag.Key] = *tag.Value
		}
		if diff := cmp.Diff(map[string]string{"keep": "1", "change": "2", "add": "3"}, got); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		var many []types.Tag
		for i := range maxTags {
			many = append(many, tag(fmt.Sprint("n", i), ""))
		}
		for name, tt := range map[string]struct {
			tags []types.Tag
			code string
		}{
			"too many":       {many, "TagLimitExceeded"},
			"reserved":       {[]types.Tag{tag("aws:x", "")}, codeInvalid},
			"twice":          {[]types.Tag{tag("x", "1"), tag("x", "2")}, codeInvalid},
			"without a name": {[]types.Tag{tag("", "1")}, codeInvalid},
		} {
			if code := set(tt.tags...); code != tt.code {
				t.Errorf("%s: code %q, want %q", name, code, tt.code)
			}
		}
	})
}
