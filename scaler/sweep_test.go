package scaler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// lister is a cloud that lists what it is told and notes when.
type lister struct {
	provider.CloudProvider
	list []*provider.Instance
	err  error
	at   []time.Duration
	tags map[string]string
	zero time.Time
}

func (l *lister) ListInstances(_ context.Context, tags map[string]string) ([]*provider.Instance, error) {
	l.at, l.tags = append(l.at, time.Since(l.zero)), tags
	return l.list, l.err
}

func newSweep(l *lister) *inventory.Sweep {
	l.zero = time.Now()
	return &inventory.Sweep{
		Cloud: l, Owner: inventory.Owner{Cluster: "here", UID: "uid-here"}, Inventory: inventory.New(), Now: time.Now,
		Log: logr.Discard(), Wake: make(chan struct{}, 1),
		Instances: make(chan event.TypedGenericEvent[v1alpha1.InstanceID], 1000),
		Pools:     make(chan event.TypedGenericEvent[v1alpha1.PoolName], 1000),
	}
}

func TestSweepPace(t *testing.T) {
	s := time.Second
	for name, c := range map[string]struct {
		state provider.InstanceState
		err   error
		poke  time.Duration // 0: never
		until time.Duration
		want  []time.Duration
	}{
		"at rest": {state: provider.InstanceStopped, until: 46 * s,
			want: []time.Duration{0, 15 * s, 30 * s, 45 * s}},
		"something is on its way": {state: provider.InstancePending, until: 7 * s,
			want: []time.Duration{0, 2 * s, 4 * s, 6 * s}},
		"the cloud fails": {err: errors.New("down"), until: 31 * s, want: []time.Duration{0, 15 * s, 30 * s}},
		"poked, soon after a sweep": {state: provider.InstanceStopped, poke: 1 * s, until: 5 * s,
			want: []time.Duration{0, 2 * s, 4 * s}},
		"poked, long after a sweep": {state: provider.InstanceStopped, poke: 10 * s, until: 13 * s,
			want: []time.Duration{0, 10 * s, 12 * s}},
		"a poke wears off after 30 s": {state: provider.InstanceStopped, poke: 1 * s, until: 50 * s,
			want: append(every(2*s, 0, 30*s), 32*s, 47*s)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lister{err: c.err}
				if c.state != "" {
					l.list = []*provider.Instance{instance(c.state)}
				}
				sweep := newSweep(l)
				ctx, stop := context.WithTimeout(t.Context(), c.until)
				defer stop()
				if c.poke > 0 {
					time.AfterFunc(c.poke, sweep.Poke)
				}
				if err := sweep.Start(ctx); err != nil {
					t.Errorf("Start ended with %v", err)
				}
				if diff := cmp.Diff(c.want, l.at); diff != "" {
					t.Errorf("sweeps at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func every(step, from, to time.Duration) []time.Duration {
	var out []time.Duration
	for ; from <= to; from += step {
		out = append(out, from)
	}
	return out
}

func TestSweepAsksForOursOnlyAndWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{list: []*provider.Instance{
			instance(provider.InstanceStopped, called("a")), instance(provider.InstanceTerminated, called("gone"),
				withTag(v1alpha1.LabelPool, "q")),
		}}
		s := newSweep(l)
		instances := make(chan event.TypedGenericEvent[v1alpha1.InstanceID], 100)
		s.Instances = instances
		for range 2 {
			if err := s.Once(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "here"}
		if diff := cmp.Diff(want, l.tags); diff != "" {
			t.Errorf("tags asked for (-want +got):\n%s", diff)
		}
		woken := map[v1alpha1.InstanceID]int{}
		for range len(instances) {
			woken[(<-instances).Object]++
		}
		// First sweep: both are new, and a is looked at in any case. Second: nothing is new.
		if diff := cmp.Diff(map[v1alpha1.InstanceID]int{"a": 3, "gone": 1}, woken); diff != "" {
			t.Errorf("instances woken (-want +got):\n%s", diff)
		}
	})
}

// A list that failed must not make every instance look gone.
func TestSweepKeepsWhatItKnewWhenTheCloudFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{list: []*provider.Instance{instance(provider.InstanceRunning)}}
		s := newSweep(l)
		if err := s.Once(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		l.list, l.err = nil, errors.New("down")
		if err := s.Once(t.Context(), time.Now().Add(time.Hour)); err == nil {
			t.Error("the failure is swallowed")
		}
		if e, ok := s.Inventory.Get("i-c"); !ok || e.State != provider.InstanceRunning {
			t.Errorf("state %q, want running", e.State)
		}
	})
}

// strayed is a cloud whose list lacks an instance that is asked for by its id.
type strayed struct {
	lister
	one  *provider.Instance
	tags map[string]string
	// describing and tagging are what the cloud answers, by instance.
	describing, tagging map[string]error
}

func (s *strayed) GetInstance(_ context.Context, id string) (*provider.Instance, error) {
	if err := s.describing[id]; err != nil {
		return nil, err
	}
	if s.one == nil {
		return nil, &provider.InstanceNotFoundError{ID: id}
	}
	return s.one, nil
}

func (s *strayed) UpdateInstanceTags(_ context.Context, id string, tags map[string]string) error {
	s.tags = tags
	return s.tagging[id]
}

// An instance that lost our tags is in no list. It is not gone for that, or another would be
// launched in its place.
func TestWhatLostItsTagsIsNotGone(t *testing.T) {
	untagged := func(i *provider.Instance) { delete(i.Tags, v1alpha1.TagManagedBy) }
	for name, c := range map[string]struct {
		now  *provider.Instance
		late time.Duration
		want provider.InstanceState
		tags map[string]string
	}{
		"its tag is written again": {instance(provider.InstanceStopped, untagged), time.Minute, provider.InstanceStopped,
			map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos}},
		"the list lags":     {instance(provider.InstanceStopped), time.Minute, provider.InstanceStopped, nil},
		"seen a moment ago": {nil, 5 * time.Second, provider.InstanceStopped, nil},
		"nobody knows it":   {nil, time.Minute, provider.InstanceTerminated, nil},
		"it is terminated": {instance(provider.InstanceTerminated, untagged), time.Minute,
			provider.InstanceTerminated, nil},
		"it is somebody else's": {instance(provider.InstanceStopped, withTag(v1alpha1.TagCluster, "there")), time.Minute,
			provider.InstanceTerminated, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &strayed{one: c.now}
			s := newSweep(&cloud.lister)
			s.Cloud = cloud
			s.Inventory.Replace([]*provider.Instance{instance(provider.InstanceStopped)}, epoch())
			if err := s.Once(t.Context(), epoch().Add(c.late)); err != nil {
				t.Fatal(err)
			}
			if e, _ := s.Inventory.Get("i-c"); e.State != c.want {
				t.Errorf("%s, want %s", e.State, c.want)
			}
			if diff := cmp.Diff(c.tags, cloud.tags); diff != "" {
				t.Errorf("tags written (-want +got):\n%s", diff)
			}
		})
	}
}

// A stray instance that cannot be described or tagged ends nothing but its own repair.
func TestAStrayInstanceEndsNothingButItsOwnRepair(t *testing.T) {
	denied := map[string]error{"stray": errors.New("UnauthorizedOperation: no")}
	for name, cloud := range map[string]*strayed{"described": {describing: denied}, "tagged": {tagging: denied}} {
		t.Run(name, func(t *testing.T) {
			cloud.one = instance(provider.InstanceStopped, called("stray"), func(i *provider.Instance) {
				delete(i.Tags,
					v1alpha1.TagManagedBy)
			})
			s := newSweep(&cloud.lister)
			s.Cloud = cloud
			both := []*provider.Instance{instance(provider.InstancePending, called("other")),
				instance(provider.InstanceStopped, called("stray"))}
			s.Inventory.Replace(both, epoch())
			cloud.list = []*provider.Instance{instance(provider.InstanceRunning, called("other"))}
			for n := range 3 {
				if err := s.Once(t.Context(), epoch().Add(time.Duration(n+1)*time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			want := map[v1alpha1.InstanceID]provider.InstanceState{"other": provider.InstanceRunning,
				"stray": provider.InstanceStopped}
			got := map[v1alpha1.InstanceID]provider.InstanceState{}
			for _, e := range s.Inventory.Of("p") {
				got[e.ID] = e.State
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("instances of the pool (-want +got):\n%s", diff)
			}
			reason, words := s.Inventory.DegradedBy("p", epoch().Add(3*time.Minute))
			if reason != v1alpha1.ReasonTagsMissing || !strings.Contains(words, "UnauthorizedOperation") {
				t.Errorf("the pool says %s: %s", reason, words)
			}
			cloud.describing, cloud.tagging = nil, nil
			if err := s.Once(t.Context(), epoch().Add(4*time.Minute)); err != nil {
				t.Fatal(err)
			}
			if reason, words := s.Inventory.DegradedBy("p", epoch().Add(4*time.Minute)); reason != "" {
				t.Errorf("once it is mended the pool says %s: %s", reason, words)
			}
		})
	}
}

// A pool counts what has just lost its tag, and the tag is written again though no Node tells whose
// it is.
func TestWhatLostItsPoolIsCountedForIt(t *testing.T) {
	r := newRig(t, nodePool(2, 1))
	r.sweep(instance(provider.InstanceRunning))
	r.now = r.now.Add(15 * time.Second)
	r.sweep(instance(provider.InstanceRunning, func(i *provider.Instance) { delete(i.Tags, v1alpha1.LabelPool) }))
	if got := len(r.inventory.Of("p")); got != 1 {
		t.Errorf("%d instances of the pool, want 1", got)
	}
	r.reconcile()
	if e, _ := r.inventory.Get("i-c"); e.Pool() != "p" {
		t.Errorf("tags %v, want the pool's written again", e.Tags)
	}
}
