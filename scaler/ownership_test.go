package scaler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

// marking is a cloud that notes which instances are tagged, and with what.
type marking struct {
	lister
	tagged  []string
	refused error
}

func (m *marking) UpdateInstanceTags(_ context.Context, id string, tags map[string]string) error {
	for key, value := range tags {
		m.tagged = append(m.tagged, id+" "+key+"="+value)
	}
	return m.refused
}

func (m *marking) GetInstance(_ context.Context, id string) (*provider.Instance, error) {
	return nil, &provider.InstanceNotFoundError{ID: id}
}

// withoutUID takes the cluster's UID from an instance, as if an earlier version had launched it.
func withoutUID(i *provider.Instance) { delete(i.Tags, v1alpha1.TagClusterUID) }

func ofOtherCluster(i *provider.Instance) { i.Tags[v1alpha1.TagClusterUID] = "uid-there" }

// sweeps has the rig's pools look at what sweeps of the cloud show.
func (r *rig) sweeps(cloud *marking) *inventory.Sweep {
	s := newSweep(&cloud.lister)
	s.Cloud, s.Reader, s.Inventory = cloud, r.api, r.inventory
	return s
}

func (r *rig) once(s *inventory.Sweep) {
	r.t.Helper()
	if err := s.Once(r.t.Context(), r.now); err != nil {
		r.t.Fatal(err)
	}
}

// inventoried are the ids of the instances that the inventory has of the pool.
func (r *rig) inventoried() []string {
	var ids []string
	for _, e := range r.inventory.Of("p") {
		ids = append(ids, string(e.ID))
	}
	return ids
}

// Two clusters may have one name. The UID of the namespace kube-system tells their instances apart;
// what an earlier version launched gets it where something of this cluster claims it.
func TestTwoClustersWithOneName(t *testing.T) {
	stopped := func(id string, change ...func(*provider.Instance)) *provider.Instance {
		return instance(provider.InstanceStopped, append(change, called(id))...)
	}
	for name, c := range map[string]struct {
		list   []*provider.Instance
		has    []string
		tagged []string
		says   string
	}{
		"all are this cluster's": {[]*provider.Instance{stopped("a")}, []string{"a"}, nil, "Healthy"},
		"the UID of another cluster": {[]*provider.Instance{stopped("a", ofOtherCluster)}, nil, nil,
			"instance a has this cluster's name and stratos.sh/cluster-uid uid-there"},
		"several of another cluster": {[]*provider.Instance{stopped("b", ofOtherCluster), stopped("a", ofOtherCluster)},
			nil, nil, "instance a (and 1 more)"},
		"terminated, of another cluster": {[]*provider.Instance{instance(provider.InstanceTerminated, ofOtherCluster)}, nil,
			nil, "Healthy"},
		"no UID, its Node is here": {[]*provider.Instance{stopped("i-c", withoutUID,
			withTag(inventory.TagLaunch, "0.uid-there"))}, []string{"i-c"},
			[]string{"i-c stratos.sh/cluster-uid=uid-here"}, "Healthy"},
		"no UID, launched for this pool": {[]*provider.Instance{stopped("a", withoutUID, withTag(inventory.TagLaunch, "0.uid-p"))},
			[]string{"a"}, []string{"a stratos.sh/cluster-uid=uid-here"}, "Healthy"},
		"no UID, launched for other pools": {[]*provider.Instance{stopped("a", withoutUID,
			withTag(inventory.TagLaunch, "0.uid-there"))}, nil, nil, "no Node or pool of this cluster claims it"},
		"no UID, only a pool's name": {[]*provider.Instance{stopped("a", withoutUID)}, []string{"a"},
			[]string{"a stratos.sh/cluster-uid=uid-here"}, "Healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(3, 0), nodeIn(v1alpha1.StateStandby))
			cloud := &marking{lister: lister{list: c.list}}
			r.once(r.sweeps(cloud))
			if diff := cmp.Diff(c.has, r.inventoried()); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.tagged, cloud.tagged); diff != "" {
				t.Errorf("tagged (-want +got):\n%s", diff)
			}
			cond := r.degraded()
			if !strings.Contains(cond.Reason+" "+cond.Message, c.says) {
				t.Errorf("Degraded is %s: %s; want %q", cond.Reason, cond.Message, c.says)
			}
		})
	}
}

// The pool's condition ends with the instances of the other cluster, by the sweep alone.
func TestTheOtherClusterGoesAway(t *testing.T) {
	r := newRig(t, nodePool(0, 0))
	cloud := &marking{lister: lister{list: []*provider.Instance{instance(provider.InstanceStopped, ofOtherCluster)}}}
	s, woken := r.sweeps(cloud), make(chan event.TypedGenericEvent[v1alpha1.PoolName], 10)
	s.Pools = woken
	for _, want := range []string{"ClusterNameConflict", "Healthy"} {
		r.once(s)
		if n := len(woken); n != 1 {
			t.Fatalf("%d pools woken, want 1", n)
		}
		if e := <-woken; e.Object != "p" {
			t.Errorf("pool %s is woken", e.Object)
		}
		if cond := r.degraded(); cond.Reason != want {
			t.Errorf("Degraded is %s: %s; want %s", cond.Reason, cond.Message, want)
		}
		cloud.list, r.now = nil, r.now.Add(time.Minute)
	}
}

// An upgrade writes the tag on all instances, a few at a time, and once on each although the
// cloud's reads lag.
func TestInstancesOfAnEarlierVersionAreMarked(t *testing.T) {
	r := newRig(t, nodePool(100, 0))
	cloud := &marking{}
	for i := range 2 * marksAtOnce {
		cloud.list = append(cloud.list, instance(provider.InstanceStopped, called("i-"+string(rune('a'+i))), withoutUID))
	}
	s := r.sweeps(cloud)
	for range 3 {
		r.once(s)
		r.now = r.now.Add(2 * time.Second)
	}
	if n := len(r.inventoried()); n != 2*marksAtOnce {
		t.Errorf("the pool has %d instances", n)
	}
	if got := slices.Compact(slices.Sorted(slices.Values(cloud.tagged))); len(got) != 2*marksAtOnce ||
		len(cloud.tagged) != len(got) {
		t.Errorf("%d calls tag %d instances, want one for each of %d", len(cloud.tagged), len(got), 2*marksAtOnce)
	}
}

// Where the tag cannot be written the instances are this cluster's all the same, and the pool says
// why. One call per sweep asks.
func TestATagThatCannotBeWrittenKeepsNothing(t *testing.T) {
	r := newRig(t, nodePool(2, 0))
	cloud := &marking{refused: errors.New("UnauthorizedOperation: no")}
	cloud.list = []*provider.Instance{
		instance(provider.InstanceStopped, called("a"), withoutUID), instance(provider.InstanceStopped, called("b"),
			withoutUID),
	}
	s := r.sweeps(cloud)
	r.once(s)
	r.once(s)
	if diff := cmp.Diff([]string{"a", "b"}, r.inventoried()); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if len(cloud.tagged) != 2 {
		t.Errorf("%d calls in two sweeps", len(cloud.tagged))
	}
	if cond := r.degraded(); cond.Reason != "TagsMissing" || !strings.Contains(cond.Message, "UnauthorizedOperation") {
		t.Errorf("Degraded is %s: %s", cond.Reason, cond.Message)
	}
}

// The instances of another cluster, or of a pool of the same name there, hold up no deletion here.
func TestAPoolIsDeletedBesideAnotherCluster(t *testing.T) {
	for name, change := range map[string]func(*provider.Instance){
		"another UID": ofOtherCluster,
		"no UID": func(i *provider.Instance) {
			withoutUID(i)
			i.Tags[inventory.TagLaunch] = "0.uid-there"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(1, 0, func(p *v1alpha1.NodePool) { p.DeletionTimestamp = &metav1.Time{Time: epoch()} }))
			r.listed = []*provider.Instance{instance(provider.InstanceStopped, change)}
			r.sweep()
			r.reconcilePool()
			err := r.api.Get(t.Context(), client.ObjectKey{Name: "p"}, &v1alpha1.NodePool{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the pool is still there: %v", err)
			}
		})
	}
}

// answering answers each question in turn.
type answering struct {
	client.Reader
	answers []error
}

func (a *answering) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if key != (client.ObjectKey{Name: "kube-system"}) {
		return errors.New("asked for " + key.String())
	}
	err := a.answers[0]
	a.answers = a.answers[1:]
	o.SetUID("uid-here")
	return err
}

func TestTheClustersUIDIsRead(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for name, c := range map[string]struct {
		answers []error
		fails   string
	}{
		"at once": {[]error{nil}, ""},
		"the API server does not come": {[]error{errors.New("connection refused"),
			apierrors.NewNotFound(namespaces, "kube-system"), nil}, ""},
		"the right is missing": {[]error{apierrors.NewForbidden(namespaces, "kube-system", nil)},
			"namespace kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := &answering{answers: c.answers}
				uid, err := clusterUID(t.Context(), reader, logr.Discard())
				switch {
				case c.fails == "" && (err != nil || uid != "uid-here"):
					t.Errorf("%q, %v", uid, err)
				case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
					t.Errorf("%v, want %q", err, c.fails)
				case len(reader.answers) > 0:
					t.Errorf("%d answers were not asked for", len(reader.answers))
				}
			})
		})
	}
}

// countingPools counts how often the pools are listed.
type countingPools struct {
	client.Reader
	lists int
}

func (c *countingPools) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, pools := list.(*v1alpha1.NodePoolList); pools {
		c.lists++
	}
	return c.Reader.List(ctx, list, opts...)
}

// TestASweepListsThePoolsOnce, however many instances carry no cluster's UID, and not at all where
// each carries one.
func TestASweepListsThePoolsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*provider.Instance)
		want   int
	}{
		"none has the UID": {withoutUID, 1},
		"all have it":      {func(*provider.Instance) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(2, 0))
			cloud := &marking{}
			for _, id := range []string{"a", "b", "c"} {
				cloud.list = append(cloud.list, instance(provider.InstanceStopped, called(id), c.change))
			}
			s, counting := r.sweeps(cloud), &countingPools{Reader: r.api}
			s.Reader = counting
			r.once(s)
			if counting.lists != c.want {
				t.Errorf("the pools are listed %d times, want %d", counting.lists, c.want)
			}
		})
	}
}
