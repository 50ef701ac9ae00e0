package scaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

const settle = 10 * time.Second

func TestInventoryReplace(t *testing.T) {
	pending, running, stopped := provider.InstancePending, provider.InstanceRunning, provider.InstanceStopped
	for name, c := range map[string]struct {
		before  func(*inventory.Inventory)
		list    []*provider.Instance
		after   time.Duration
		changed []v1alpha1.InstanceID
		state   provider.InstanceState // "" where the inventory must not know it
	}{
		"a new one": {func(*inventory.Inventory) {}, []*provider.Instance{instance(pending)}, 0,
			[]v1alpha1.InstanceID{"i-c"}, pending},
		"one that has changed": {swept(running), []*provider.Instance{instance(stopped)}, time.Minute,
			[]v1alpha1.InstanceID{"i-c"}, stopped},
		"one that has not changed": {swept(running), []*provider.Instance{instance(running)}, time.Minute, nil,
			running},
		"a missing one that was seen long ago": {swept(running), nil, time.Minute, []v1alpha1.InstanceID{"i-c"},
			provider.InstanceTerminated},
		"a missing one that was seen just now": {swept(running), nil, settle, []v1alpha1.InstanceID{"i-c"}, running},
		"a launch that does not show yet":      {launched, nil, 2 * time.Second, []v1alpha1.InstanceID{"i-c"}, pending},
		"a launch that never showed": {launched, nil, 2*settle + 1, []v1alpha1.InstanceID{"i-c"},
			provider.InstanceTerminated},
		"a launch that shows late": {launched, nil, 2 * settle, []v1alpha1.InstanceID{"i-c"}, pending},
		"a launch that showed, and is missing": {shown, nil, 2 * settle, []v1alpha1.InstanceID{"i-c"},
			provider.InstanceTerminated},
		"one that is gone is forgotten": {swept(provider.InstanceTerminated), nil, time.Minute, nil, ""},
		"one that is gone and still listed": {swept(provider.InstanceTerminated),
			[]*provider.Instance{instance(provider.InstanceTerminated)}, time.Minute, nil, provider.InstanceTerminated},
		"an accepted stop that shows by now": {asked(running), []*provider.Instance{instance(stopped)}, time.Minute,
			[]v1alpha1.InstanceID{"i-c"}, stopped},
		"an accepted stop that does not show": {asked(running), []*provider.Instance{instance(running)}, time.Second,
			[]v1alpha1.InstanceID{"i-c"}, running},
	} {
		t.Run(name, func(t *testing.T) {
			i := inventory.New()
			c.before(i)
			at := epoch().Add(c.after)
			if diff := cmp.Diff(c.changed, i.Replace(c.list, at), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			e, ok := i.Get("i-c")
			if ok != (c.state != "") || e.State != c.state {
				t.Errorf("known %v in state %q, want %q", ok, e.State, c.state)
			}
			if !i.LastSweep().Equal(at) {
				t.Errorf("last sweep %v, want %v", i.LastSweep(), at)
			}
		})
	}
}

func swept(state provider.InstanceState) func(*inventory.Inventory) {
	return func(i *inventory.Inventory) { i.Replace([]*provider.Instance{instance(state)}, epoch()) }
}

func asked(state provider.InstanceState) func(*inventory.Inventory) {
	return func(i *inventory.Inventory) { swept(state)(i); i.Stopping("i-c", epoch()) }
}

// launched: by the cloud's clock an hour ago, which must not matter.
func launched(i *inventory.Inventory) {
	i.Expect("p", instance(provider.InstancePending), epoch(), 2*settle)
}

// shown: launched, and a list has shown it since.
func shown(i *inventory.Inventory) { launched(i); swept(provider.InstancePending)(i) }

func TestInventoryStopping(t *testing.T) {
	for state, want := range map[provider.InstanceState]provider.InstanceState{
		provider.InstanceRunning: provider.InstanceStopping, provider.InstancePending: provider.InstanceStopping,
		provider.InstanceStopped: provider.InstanceStopped, provider.InstanceTerminated: provider.InstanceTerminated,
	} {
		i := inventory.New()
		swept(state)(i)
		i.Stopping("i-c", epoch().Add(time.Second))
		i.Stopping("i-other", epoch())
		if e, _ := i.Get("i-c"); e.State != want {
			t.Errorf("%s turns %s, want %s", state, e.State, want)
		}
		if _, ok := i.Get("i-other"); ok {
			t.Error("an instance came from nowhere")
		}
	}
}

func TestInventoryExpectDoesNotOverwriteWhatASweepHasShown(t *testing.T) {
	i := inventory.New()
	swept(provider.InstanceRunning)(i)
	launched(i)
	if e, _ := i.Get("i-c"); e.State != provider.InstanceRunning {
		t.Errorf("state %s, want running", e.State)
	}
}

func TestInventoryOfAndSlotsOf(t *testing.T) {
	i := inventory.New()
	i.Replace([]*provider.Instance{
		instance(provider.InstanceStopped, called("b"), withTag(inventory.TagLaunch, "4")),
		instance(provider.InstanceRunning, called("a"), withTag(inventory.TagLaunch, "2")),
		instance(provider.InstanceTerminated, called("gone"), withTag(inventory.TagLaunch, "3")),
		instance(provider.InstanceRunning, called("other"), withTag(inventory.TagLaunch, "9"),
			withTag(v1alpha1.LabelPool, "q")),
		instance(provider.InstanceRunning, called("odd"), withTag(inventory.TagLaunch, "x")),
		instance(provider.InstanceRunning, called("own"), withTag(inventory.TagLaunch, "7.uid-p")),
		instance(provider.InstanceTerminated, called("of a pool that was called so before"),
			withTag(inventory.TagLaunch, "8.uid-before")),
		instance(provider.InstancePending, called("unfinished"), withTag(inventory.TagLaunch, "5"), unfinished),
	}, epoch())
	var ids []v1alpha1.InstanceID
	for _, e := range i.Of("p") {
		ids = append(ids, e.ID)
	}
	if diff := cmp.Diff([]v1alpha1.InstanceID{"a", "b", "odd", "own", "unfinished"}, ids); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	finished, interrupted := i.SlotsOf("p", "uid-p")
	if diff := cmp.Diff(map[int64]bool{2: true, 3: true, 4: true, 7: true}, finished); diff != "" {
		t.Errorf("slots, those of the gone included (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int64]bool{5: true}, interrupted); diff != "" {
		t.Errorf("slots of interrupted launches (-want +got):\n%s", diff)
	}
}

// TestAPoolsNodeSaysWhoseItsInstanceIs: the tag was taken before this process began, so no sweep of
// its has shown it.
func TestAPoolsNodeSaysWhoseItsInstanceIs(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStandby), nodePool(1, 1))
	r.sweep(instance(provider.InstanceStopped, withTag(v1alpha1.LabelPool, "")))
	r.reconcilePool()
	r.want("patch c standby", `reserve {"next":0}`) // the Node is stamped; nothing is launched
	if got := r.pool().Status; got.Standby != 1 || got.Total != 1 {
		t.Errorf("status %+v, want one node, standby", got)
	}
}

// TestALaunchSaysWhoseItsInstanceIs: also where its tag is removed before a sweep, or even the
// answer, shows it.
func TestALaunchSaysWhoseItsInstanceIs(t *testing.T) {
	bare := instance(provider.InstancePending, withTag(v1alpha1.LabelPool, ""))
	for name, swept := range map[string][]*provider.Instance{"a sweep was faster": {bare}, "no sweep has shown it": nil} {
		t.Run(name, func(t *testing.T) {
			i := inventory.New()
			i.Replace(swept, epoch())
			i.Expect("p", bare, epoch(), settle)
			if got := i.Of("p"); len(got) != 1 || got[0].Pool() != "" {
				t.Errorf("%d instances of the pool, want one, whose tag is still to be written", len(got))
			}
		})
	}
}

// TestALaunchThatHadEndedHoldsNothing: a launch that is asked for again answers with its instance,
// which has ended since. No sweep shows a change of it, so nothing would ever tell of its end.
func TestALaunchThatHadEndedHoldsNothing(t *testing.T) {
	i := inventory.New()
	i.Expect("p", instance(provider.InstanceTerminated), epoch(), settle)
	if i.EndUnexplained("p") {
		t.Error("the pool's launches wait for word of an instance that had ended when this process first heard of it")
	}
	swept(provider.InstanceTerminated)(i)
	if i.EndUnexplained("p") {
		t.Error("so they do when a sweep has shown it")
	}
}

func TestInventoryRestless(t *testing.T) {
	for state, want := range map[provider.InstanceState]bool{
		provider.InstancePending: true, provider.InstanceStopping: true,
		provider.InstanceRunning: false, provider.InstanceStopped: false, provider.InstanceTerminated: false,
		provider.InstanceUnknown: false,
	} {
		i := inventory.New()
		swept(state)(i)
		if got := i.InTransition(); got != want {
			t.Errorf("restless with one %s: %v, want %v", state, got, want)
		}
	}
}

// Readers hold the maps that were handed out.
func TestInventoryTaggedChangesNoMapThatWasHandedOut(t *testing.T) {
	i := inventory.New()
	swept(provider.InstanceRunning)(i)
	before, _ := i.Get("i-c")
	i.Tagged("i-c", map[string]string{v1alpha1.LabelState: "running"})
	i.Tagged("i-other", map[string]string{v1alpha1.LabelState: "running"})
	after, _ := i.Get("i-c")
	if before.Tags[v1alpha1.LabelState] != "" || after.Tags[v1alpha1.LabelState] != "running" {
		t.Errorf("tag before %q, after %q", before.Tags[v1alpha1.LabelState], after.Tags[v1alpha1.LabelState])
	}
}
