package scaler

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// lacking is the error of a list that lacks the regions.
func lacking(answered int, failed ...provider.FailedRegion) error {
	return &provider.PartialListError{Failed: failed, Answered: answered}
}

func failed(name string) provider.FailedRegion {
	return provider.FailedRegion{Name: name, Err: errors.New("denied")}
}

func unknown(name string) provider.FailedRegion {
	f := failed(name)
	f.Unknown = true
	return f
}

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

// lacks has the sweeps lack the regions for long enough to say so.
func (r *rig) lacks(failed ...provider.FailedRegion) {
	for _, at := range []time.Time{r.now.Add(-regionGrace), r.now} {
		r.inventory.Regions.Note(&provider.PartialListError{Failed: failed, Answered: 1}, at)
	}
}

func inRegion(name string) func(*provider.Instance) {
	return func(i *provider.Instance) { i.Region = name }
}

// A region that fails ends no sweep: what is in it keeps its last state, and what is elsewhere goes
// on.
func TestARegionThatFailsIsItsOwnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &strayed{}
		s := newSweep(&cloud.lister)
		s.Cloud = cloud
		near := func(state provider.InstanceState, id string) *provider.Instance {
			return instance(state, called(id), inRegion("near"))
		}
		cloud.list = []*provider.Instance{
			near(provider.InstancePending, "a"), near(provider.InstanceStopped, "b"),
			instance(provider.InstanceRunning, called("c"), inRegion("far")),
		}
		at := epoch()
		sweepAt := func() {
			t.Helper()
			at = at.Add(time.Minute)
			if err := s.Once(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		sweepAt()
		cloud.list, cloud.err = []*provider.Instance{near(provider.InstanceRunning, "a")}, lacking(1, failed("far"))
		sweepAt()
		want := map[string]provider.InstanceState{
			"a": provider.InstanceRunning, "b": provider.InstanceTerminated, "c": provider.InstanceRunning,
		}
		got := map[string]provider.InstanceState{}
		for id := range want {
			e, _ := s.Inventory.Get(v1alpha1.InstanceID(id))
			got[id] = e.State
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("states while a region fails (-want +got):\n%s", diff)
		}
		cloud.err = nil
		sweepAt()
		if e, _ := s.Inventory.Get("c"); e.State != provider.InstanceTerminated {
			t.Errorf("c is %s once its region has answered without it", e.State)
		}
	})
}

// What may be in a region that has not answered since this process began counts, and nothing is
// launched in its place.
func TestARegionThatHasNotAnsweredIsNotEmpty(t *testing.T) {
	launches := []string{`reserve {"next":1,"pending":[0]}`, "launch 0"}
	for name, c := range map[string]struct {
		region string // of the class
		nodes  []client.Object
		failed []provider.FailedRegion
		want   []string
		says   bool
	}{
		"nothing fails":               {"far", nil, nil, launches, false},
		"another region fails":        {"near", nil, []provider.FailedRegion{unknown("far")}, launches, false},
		"its region has not answered": {"far", nil, []provider.FailedRegion{unknown("far")}, nil, true},
		"the default has not answered": {
			"", nil, []provider.FailedRegion{{Name: "far", Default: true, Unknown: true}}, nil, true,
		},
		"its region has answered before": {"far", nil, []provider.FailedRegion{failed("far")}, launches, true},
		"its Node may be there": {
			"near", []client.Object{nodeIn(v1alpha1.StateStandby)},
			[]provider.FailedRegion{unknown("far")}, []string{`reserve {"next":0}`}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			class := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
			class.Spec.Region = c.region
			r := newRig(t, append(c.nodes, nodePool(1, 1), class)...)
			r.sweep()
			r.lacks(c.failed...)
			result, err := r.pools.Reconcile(t.Context(), named("p"))
			if err != nil {
				t.Fatal(err)
			}
			r.want(c.want...)
			if c.want == nil && result.RequeueAfter == 0 { // no sweep leads back to a pool without instances
				t.Error("nothing leads back to the pool")
			}
			pool := r.pool()
			degraded := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionDegraded)
			says := degraded != nil && degraded.Reason == string(v1alpha1.ReasonRegionUnavailable)
			if says != c.says {
				t.Errorf("Degraded %+v", degraded)
			}
		})
	}
}

// A pool is deleted although a region fails that it does not use, and not while its own fails.
func TestAPoolIsDeletedBesideARegionThatFails(t *testing.T) {
	for region, gone := range map[string]bool{"near": true, "far": false, "": false} {
		class := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
		class.Spec.Region = region
		r := newRig(t, nodePool(1, 0), class)
		if err := r.api.Delete(t.Context(), r.pool()); err != nil {
			t.Fatal(err)
		}
		f := failed("far")
		f.Default = true
		r.listing = lacking(1, f)
		r.sweep()
		r.lacks(f)
		_, err := r.pools.Reconcile(t.Context(), named("p"))
		left := &v1alpha1.NodePool{}
		absent := client.IgnoreNotFound(r.api.Get(t.Context(), client.ObjectKey{Name: "p"}, left)) == nil && left.Name == ""
		if absent != gone || gone && err != nil {
			t.Errorf("class of region %q: the pool is gone: %v, %v", region, absent, err)
		}
	}
}

// The classes of a region that fails say so, and no others.
func TestClassesOfARegionThatFailsSaySo(t *testing.T) {
	wants := map[string]metav1.ConditionStatus{"near": metav1.ConditionTrue, "far": metav1.ConditionFalse}
	for region, want := range wants {
		class := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class", Generation: 3}}
		class.Spec.Region = region
		r := newRig(t, class)
		c := r.classLoop()
		c.Regions = &r.inventory.Regions
		ready := func() *metav1.Condition {
			t.Helper()
			if _, err := c.Reconcile(t.Context(), named("class")); err != nil {
				t.Fatal(err)
			}
			if err := r.api.Get(t.Context(), client.ObjectKey{Name: "class"}, class); err != nil {
				t.Fatal(err)
			}
			return meta.FindStatusCondition(class.Status.Conditions, v1alpha1.ConditionReady)
		}
		r.lacks(failed("far"))
		if got := ready(); got.Status != want || class.Status.ObservedGeneration != 3 {
			t.Errorf("class of region %s: %+v", region, got)
		} else if want == metav1.ConditionFalse &&
			(got.Reason != string(v1alpha1.ReasonRegionUnavailable) || !strings.Contains(got.Message,
				"far does not answer: denied")) {
			t.Errorf("class of region %s: %+v", region, got)
		}
		r.lacks()
		if got := ready(); got.Status != metav1.ConditionTrue {
			t.Errorf("class of region %s once it answers: %+v", region, got)
		}
	}
}

// One list that failed is not told: clouds have short troubles. Where nothing is known it is told
// at once.
func TestAShortTroubleOfARegionIsNotTold(t *testing.T) {
	var rs inventory.Regions
	at := epoch()
	steps := []struct {
		after   time.Duration
		failed  []provider.FailedRegion
		changed bool
		told    bool
	}{
		{0, []provider.FailedRegion{failed("far")}, false, false},
		{2 * time.Second, nil, false, false},
		{2 * time.Second, []provider.FailedRegion{failed("far")}, false, false},
		{regionGrace, []provider.FailedRegion{failed("far")}, true, true},
		{regionGrace, []provider.FailedRegion{failed("far")}, false, true},
		{2 * time.Second, nil, true, false},
		{2 * time.Second, []provider.FailedRegion{unknown("far")}, true, true},
		{2 * time.Second, []provider.FailedRegion{failed("far")}, false, true}, // another list was answered, no sweep
	}
	for n, step := range steps {
		at = at.Add(step.after)
		if got := rs.Note(&provider.PartialListError{Failed: step.failed}, at); got != step.changed {
			t.Errorf("step %d: changed %v", n, got)
		}
		if _, told := rs.Told("far"); told != step.told {
			t.Errorf("step %d: told %v", n, told)
		}
	}
	if !rs.Unknown("far") {
		t.Error("a region is known although no sweep has shown what is in it")
	}
}
