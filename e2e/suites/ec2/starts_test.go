package ec2

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	firstType, fallbackType = "m5.large", "m6i.large"
	noCapacity              = "InsufficientInstanceCapacity"
	// refusalsMost bounds the refused start calls with instances of one zone: as a rule one for all
	// zones together, one for all of the zone and one for each of two instances of it, and some
	// more where several calls are under way when the zone runs out.
	refusalsMost = 12
	// longGuard ends a wait for hundreds of nodes that will never end.
	longGuard = 5 * time.Minute
)

// TestMain adds the flags.
func TestMain(m *testing.M) {
	flag.Int("standby", 15, "standby nodes, in three zones, of TestStartsAsAnotherType")
	flag.Int("starts", 12, "how many of them are started, one half after the other")
	flag.Parse()
	os.Exit(m.Run())
}

// dryRound is a pool in three zones of which one, then all, have no capacity for the first type.
type dryRound struct {
	*framework.Rig
	pool            string
	standby, starts int
	// zones are those of the instances.
	zones map[v1alpha1.InstanceID]string
	// types are what the instances are now, by the requests that EC2 has answered.
	types map[v1alpha1.InstanceID]string
	// dry are the zones without capacity for the first type.
	dry map[string]bool
	// refusals counts by zone the refused start calls that named instances of the first type there.
	refusals map[string]int
	// alone counts for each instance the refusals of calls that named no other one.
	alone map[v1alpha1.InstanceID]int
	// changes counts the changes of each instance's type.
	changes map[v1alpha1.InstanceID]int
	// seen are the requests that have been looked at.
	seen int
	// refused is when the first start of this half was refused, started when the last was accepted.
	refused, started time.Time
}

// TestStartsAsAnotherType: one zone has no capacity for the type of the stopped instances when the
// first half of the pods comes, and no zone has when the second half comes. Every pod runs. An
// instance whose start is refused, or would be, becomes the fallback type by one call, and none is
// launched.
func TestStartsAsAnotherType(t *testing.T) {
	t.Parallel()
	d := newDryRound(t)
	var pods []*corev1.Pod
	zones := slices.Sorted(maps.Keys(d.refusals))
	for half, dry := range [][]string{zones[:1], zones} {
		d.dryUp(t, dry)
		more := framework.Pods(d.starts/2, fmt.Sprintf("half%d", half+1), "cpu", "1500m")
		if _, err := env.CreateAll(t.Context(), d.Client, more); err != nil { // several at a time
			t.Fatal(err)
		}
		pods = append(pods, more...)
		d.awaitRunning(t, pods)
		d.checkPace(t, dry)
	}
	d.checkCalls(t)
	d.checkNodes(t)
}

// newDryRound warms the pool up. Launches, stops and tags have no limit, so that this takes less
// long; starts and changes of type have those of EC2, on both sides.
func newDryRound(t *testing.T) *dryRound {
	t.Helper()
	d := &dryRound{pool: "starts", standby: assert.Flag[int](t, "standby"), starts: assert.Flag[int](t, "starts"),
		zones: map[v1alpha1.InstanceID]string{}, types: map[v1alpha1.InstanceID]string{}, dry: map[string]bool{},
		refusals: map[string]int{}, alone: map[v1alpha1.InstanceID]int{},
		changes: map[v1alpha1.InstanceID]int{}}
	d.Rig = assert.NewRig(t, framework.Options{
		Provider: framework.ProviderAWS,
		Cloud:    append(assert.FastCloud(), "--unlimited=RunInstances,StopInstances,TerminateInstances,CreateTags"),
		Stratos: []string{"--rate-limit-run-instances=off", "--rate-limit-stop-instances=off",
			"--rate-limit-terminate-instances=off", "--rate-limit-create-tags=off"},
	})
	pool, class := framework.Pool(d.pool, int32(d.standby)), framework.Class(d.pool, firstType)
	class.Spec.SubnetIDs = []string{"subnet-12345678", "subnet-12345679", "subnet-12345680"}
	class.Spec.FallbackInstanceTypes = []string{fallbackType}
	assert.Create(t, d.Rig, class, pool)
	d.await(t, "all standby", func(ctx context.Context) (bool, error) {
		now, err := framework.Read(ctx, d.Rig, pool)
		if err != nil {
			return false, err
		}
		return is("standby nodes", int(now.Status.Standby), d.standby)
	})
	for id, view := range assert.PoolInstances(t, d.Rig, d.pool) {
		d.zones[id], d.types[id] = view.Zone, view.Type
		d.refusals[view.Zone] = 0
	}
	if len(d.zones) != d.standby || len(d.refusals) != len(class.Spec.SubnetIDs) {
		t.Fatalf("%d instances in %d zones, want %d in 3", len(d.zones), len(d.refusals), d.standby)
	}
	d.read(t)
	return d
}

func (d *dryRound) await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), longGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// is has a wait go on until there are as many as wanted.
func is(what string, got, want int) (bool, error) {
	if got == want {
		return true, nil
	}
	return false, fmt.Errorf("%d %s, want %d", got, what, want)
}

// dryUp takes the capacity for the first type away in the zones. Instances that run go on.
func (d *dryRound) dryUp(t *testing.T, zones []string) {
	t.Helper()
	var limits []simcloud.Capacity
	for _, zone := range zones {
		d.dry[zone] = true
		limits = append(limits, simcloud.Capacity{Zone: zone, Type: firstType})
	}
	if err := d.Cloud.SetCapacity(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
}

func (d *dryRound) awaitRunning(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	d.await(t, "all pods run", func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := d.Client.List(ctx, list); err != nil {
			return false, err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return is("pods that run", running, len(pods))
	})
}

// read looks at the requests since the last look.
func (d *dryRound) read(t *testing.T) {
	t.Helper()
	all, err := d.EC2Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all[d.seen:] {
		switch q.Action {
		case ec2test.ModifyInstanceAttribute:
			d.changed(t, q)
		case ec2test.StartInstances:
			d.start(t, q)
		default:
		}
	}
	d.seen = len(all)
}

func (d *dryRound) changed(t *testing.T, q ec2test.Request) {
	t.Helper()
	if q.Code != "" {
		t.Errorf("a change of type was answered %q", q.Code)
		return
	}
	for _, id := range q.Instances {
		d.changes[id]++
		d.types[id] = q.Params["InstanceType.Value"]
	}
}

func (d *dryRound) start(t *testing.T, q ec2test.Request) {
	t.Helper()
	switch q.Code {
	case "":
		d.started = q.At
		return
	case noCapacity:
	default:
		t.Errorf("a start was answered %q", q.Code)
		return
	}
	if d.refused.IsZero() {
		d.refused = q.At
	}
	if len(q.Instances) == 1 {
		d.alone[q.Instances[0]]++
	}
	zones := map[string]bool{}
	for _, id := range q.Instances {
		if zone := d.zones[id]; d.dry[zone] && d.types[id] == firstType {
			zones[zone] = true
		}
	}
	for zone := range zones {
		d.refusals[zone]++
	}
}

// checkCalls: a few calls tell that a zone is dry, each instance was changed at most once, and none
// was launched.
func (d *dryRound) checkCalls(t *testing.T) {
	t.Helper()
	refused := 0
	for zone, n := range d.refusals {
		if refused += n; n > refusalsMost {
			t.Errorf("%d start calls with instances of %s were refused, want at most %d", n, zone, refusalsMost)
		}
	}
	if refused == 0 {
		t.Error("no start was refused")
	}
	for id, n := range d.alone {
		if n > 1 {
			t.Errorf("instance %s alone was refused %d times", id, n)
		}
	}
	for id, n := range d.changes {
		if n > 1 {
			t.Errorf("the type of instance %s was changed %d times", id, n)
		}
	}
	if launched := len(requests(t, d.Rig, ec2test.RunInstances)); launched != d.standby {
		t.Errorf("%d launches, want the %d of the warm-up", launched, d.standby)
	}
	started := assert.Starts(t, d.Rig)
	if n := len(slices.Compact(slices.Sorted(slices.Values(started)))); n != d.starts || len(started) != n {
		t.Errorf("%d starts of %d instances, want %d%s", len(started), n, d.starts, d.twice(t))
	}
}

// twice are the start calls that were accepted for an instance that had been started before.
func (d *dryRound) twice(t *testing.T) string {
	t.Helper()
	var words strings.Builder
	first := map[v1alpha1.InstanceID]ec2test.Request{}
	for _, q := range requests(t, d.Rig, ec2test.StartInstances) {
		if q.Code != "" {
			continue
		}
		again := map[string]int{}
		for _, id := range q.Instances {
			if before, ok := first[id]; ok {
				again[fmt.Sprintf("%s (%s)", before.At.Format(time.StampMilli), before.Attempt)]++
			} else {
				first[id] = q
			}
		}
		if len(again) > 0 {
			fmt.Fprintf(&words, "\nat %s (%s) again of %d that it named: %v", q.At.Format(time.StampMilli), q.Attempt,
				len(q.Instances), again)
		}
	}
	return words.String()
}

// checkNodes: each Node says what its instance is, and none that runs is still to be changed.
func (d *dryRound) checkNodes(t *testing.T) {
	t.Helper()
	views := assert.PoolInstances(t, d.Rig, d.pool)
	for name, n := range assert.PoolNodes(t, d.Rig, d.pool) {
		id := assert.InstanceOf(n)
		if got, want := n.Labels[corev1.LabelInstanceTypeStable], views[id].Type; got != want || d.types[id] != want {
			t.Errorf("node %s is labelled %s, its instance is %s, and was made %s", name, got, want, d.types[id])
		}
		if as := n.Annotations[v1alpha1.AnnotationInstanceType]; as != "" {
			t.Errorf("node %s is still to be made %s", name, as)
		}
	}
}

// checkPace looks at the requests of a half: the starts wait for nothing but the limit of changes.
// Where that makes up for most of the time, it may not take twice as long, as it would if nodes
// were changed twice, or one half of them after the other. The figures are for the note.
func (d *dryRound) checkPace(t *testing.T, dry []string) {
	t.Helper()
	d.refused, d.started = time.Time{}, time.Time{}
	changes := -len(d.changes)
	d.read(t)
	changes += len(d.changes)
	limit := limiter.Default()[limiter.ModifyInstanceAttribute]
	limited := time.Duration(float64(max(0, changes-limit.Burst)) / limit.PerSecond * float64(time.Second))
	took := max(0, d.started.Sub(d.refused))
	t.Logf("dry in %v: %d starts of %d standby nodes, %d changes of type; refused start calls so far: %v; "+
		"the last start left %s after the first refusal, of which the limit of changes is %s", dry, d.starts/2, d.standby,
		changes, d.refusals, took.Round(time.Millisecond), limited)
	if limited > 5*time.Second && took > 2*limited {
		t.Errorf("the starts took %s, the limit of changes alone %s", took, limited)
	}
}
