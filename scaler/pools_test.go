package scaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/pool"
)

func (r *rig) reconcilePool() time.Duration {
	r.t.Helper()
	result, err := r.pools.Reconcile(r.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "p"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (r *rig) pool() *v1alpha1.NodePool {
	r.t.Helper()
	p := &v1alpha1.NodePool{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: "p"}, p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func holding(slots string) func(*v1alpha1.NodePool) {
	return func(p *v1alpha1.NodePool) { p.Annotations = map[string]string{v1alpha1.AnnotationLaunches: slots} }
}

func deleted(p *v1alpha1.NodePool) {
	at := metav1.NewTime(epoch())
	p.DeletionTimestamp = &at
}

func TestSlotsAreReservedBeforeTheCloudIsAsked(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	r.reconcilePool()
	r.want(`reserve {"next":1,"pending":[0]}`, "launch 0")
	tags := r.launches[0].Tags
	for key, want := range map[string]string{
		v1alpha1.TagManagedBy: "stratos", v1alpha1.TagCluster: "here", v1alpha1.TagClusterUID: "uid-here",
		v1alpha1.LabelPool: "p", v1alpha1.LabelState: "warmup", inventory.TagLaunch: "0.uid-p",
		v1alpha1.AnnotationTemplateHash: nodePool(5, 1).Spec.Template.Hash(),
	} {
		if tags[key] != want {
			t.Errorf("tag %s is %q, want %q", key, tags[key], want)
		}
	}
	r.reconcilePool() // it is known from now on: nothing is launched; its slot stays for a leader that does not know it
	r.want()
	if got := r.pool().Status; got.Warmup != 1 || got.Total != 1 {
		t.Errorf("status %+v, want one warming up", got)
	}
}

func TestNoLaunchWhenSlotsCannotBeReserved(t *testing.T) {
	r := newRig(t, nodePool(5, 3))
	r.sweep()
	r.patching = func() error { return errors.New("down") }
	if _, err := r.pools.Reconcile(t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKey{Name: "p"}}); err == nil {
		t.Error("the failure is swallowed")
	}
	r.want()
}

// A launch whose answer was lost, or that a crash left open, is asked for again under the same
// token.
func TestAPendingSlotIsAskedForAgainUnderItsToken(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	r.launching = func(n int) error {
		if n == 1 {
			return errors.New("connection reset")
		}
		return nil
	}
	if again := r.reconcilePool(); again != launchRetry {
		t.Errorf("looked at again after %v, want %v", again, launchRetry)
	}
	degraded := meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue || degraded.Reason != "LaunchFailed" ||
		!strings.Contains(degraded.Message, "connection reset") {
		t.Errorf("condition %+v, want Degraded with the cloud's words", degraded)
	}
	r.now = r.now.Add(launchRetry)
	r.reconcilePool()
	r.want(`reserve {"next":1,"pending":[0]}`, "launch 0", "launch 0", "get "+r.launches[0].ClientToken)
	if r.launches[0].ClientToken != r.launches[1].ClientToken {
		t.Error("the second try has another token")
	}
	if !meta.IsStatusConditionFalse(r.pool().Status.Conditions, v1alpha1.ConditionDegraded) {
		t.Error("Degraded did not turn back")
	}
}

func TestTokensDifferByPoolAndSlot(t *testing.T) {
	r := newRig(t)
	other := nodePool(1, 1)
	other.UID = "uid-of-the-same-name-made-anew"
	seen := map[string]bool{}
	for _, token := range []string{
		r.pools.LaunchRequest(nodePool(1, 1), 0).ClientToken, r.pools.LaunchRequest(nodePool(1, 1), 1).ClientToken,
		r.pools.LaunchRequest(other, 0).ClientToken,
	} {
		if seen[token] || len(token) == 0 || len(token) > 64 {
			t.Errorf("token %q is taken, or not of 1 to 64 characters", token)
		}
		seen[token] = true
	}
}

// The cloud's list lags behind every launch by some sweeps; poolSize holds all the same, and
// nothing is launched twice.
func TestALaunchSaysWhatTheNodeRegistersWith(t *testing.T) {
	r := newRig(t)
	pool := nodePool(1, 1, func(p *v1alpha1.NodePool) {
		p.Spec.Template.Labels = map[string]string{"team": "a"}
		p.Spec.Template.Taints = []v1alpha1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		p.Spec.Template.StartupTaints = []v1alpha1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}}
	})
	want := provider.Registration{Labels: pool.Spec.Template.Labels, Taints: pool.Spec.Template.Taints,
		StartupTaints: pool.Spec.Template.StartupTaints}
	if diff := cmp.Diff(want, r.pools.LaunchRequest(pool, 0).Registration); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}
}

func TestPoolSizeHoldsWhileSweepsLag(t *testing.T) {
	r := newRig(t, nodePool(4, 4))
	r.sweep()
	var list []*provider.Instance
	for step := range 12 {
		r.reconcilePool()
		r.now = r.now.Add(2 * time.Second)
		if step >= 3 {
			list = nil
			for _, l := range r.launches {
				list = append(list, &provider.Instance{ID: v1alpha1.InstanceID(l.ClientToken), State: provider.InstanceRunning,
					Tags: l.Tags})
			}
		}
		r.sweep(list...)
	}
	if len(r.launches) != 4 {
		t.Errorf("%d launches, want 4", len(r.launches))
	}
	if got := r.pool().Status.Total; got != 4 {
		t.Errorf("total %d, want 4", got)
	}
}

// Slots were reserved, and then poolSize was lowered.
func TestPendingSlotsDoNotPassALoweredPoolSize(t *testing.T) {
	r := newRig(t, nodePool(2, 2, holding(`{"next":5,"pending":[1,2,3,4]}`)))
	r.sweep(instance(provider.InstanceStopped))
	r.reconcilePool()
	r.want("launch 1", "get "+r.launches[0].ClientToken)
	if got := r.pool().Annotations[v1alpha1.AnnotationLaunches]; got != `{"next":5,"pending":[1,2,3,4]}` {
		t.Errorf("slots %s, want them kept: an instance may yet show for each", got)
	}
}

func TestAnInstanceThatShowsSettlesItsSlot(t *testing.T) {
	r := newRig(t, nodePool(2, 1, holding(`{"next":5,"pending":[4]}`)))
	r.sweep(instance(provider.InstanceRunning, withTag(inventory.TagLaunch, "4")))
	r.reconcilePool()
	r.want()
	r.now = r.now.Add(slotRetention)
	r.sweep(instance(provider.InstanceRunning, withTag(inventory.TagLaunch, "4")))
	r.reconcilePool()
	r.want(`reserve {"next":5}`)
}

func unfinished(i *provider.Instance) { i.Unfinished = true }

// The leader died between the two calls that make an instance: its successor asks again under the
// same token, in no further room, and once.
func TestAnInterruptedLaunchIsAskedForAgain(t *testing.T) {
	r := newRig(t, nodePool(2, 2, holding(`{"next":6,"pending":[4,5]}`)))
	token := r.pools.LaunchRequest(r.pool(), 5).ClientToken
	half := instance(provider.InstancePending, called(token), withTag(inventory.TagLaunch, "5"), unfinished)
	r.known[token] = half
	r.sweep(half, instance(provider.InstanceStopped, called("whole"), withTag(inventory.TagLaunch, "3")))
	r.reconcilePool()
	r.want("launch 5", "get "+token)
	if got := r.launches[0].ClientToken; got != token {
		t.Errorf("token %s, want that of slot 5, %s", got, token)
	}
	r.reconcilePool() // this process has finished it; the sweep is as old as before
	r.want()
	if got := r.pool().Status.Total; got != 2 {
		t.Errorf("total %d, want 2", got)
	}
}

// Only the token of its launch says whose it is.
func TestTagsTakenBeforeTheNodeRegisteredAreWrittenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*provider.Instance)
		want   []string
	}{
		"nothing is taken":    {func(*provider.Instance) {}, nil},
		"the pool's tag":      {func(i *provider.Instance) { delete(i.Tags, v1alpha1.LabelPool) }, []string{"tag T "}},
		"somebody else's now": {withTag(v1alpha1.TagCluster, "there"), nil},
		"it is gone":          {func(i *provider.Instance) { i.Tags, i.State = nil, provider.InstanceTerminated }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(2, 1, holding(`{"next":5,"pending":[4]}`)))
			r.sweep()
			token := r.pools.LaunchRequest(r.pool(), 4).ClientToken
			r.known[token] = instance(provider.InstanceRunning, called(token), c.change)
			r.reconcilePool()
			want := []string{"launch 4", "get " + token}
			for _, call := range c.want {
				want = append(want, strings.ReplaceAll(call, "T", token))
			}
			r.want(want...)
		})
	}
}

// One process has launched, and dies; or it goes on, and another leads as well. The other's list of
// instances is from before the launch, and so are those that it gets from now on: the cloud's reads
// lag. It asks for the same launch again, which yields the same instance.
func TestAnotherLeaderThatDoesNotSeeALaunchDoesNotRepeatIt(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	other := &pool.Reconciler{
		Client: r.api, Cloud: r, Owner: inventory.Owner{Cluster: "here", UID: "uid-here"}, Launcher: r.pools.Launcher,
		Classes: r.pools.Classes, Events: r.events, Metrics: r.pools.Metrics, Now: r.pools.Now,
		Inventory: inventory.New(), Warmups: &pool.WarmupFailures{}, Starts: &pool.StartTimes{},
		State: r.nodes.State, Demand: r.demand,
		Disruptions: pool.NewDisruptions(),
		Poke:        func() {}, Wake: r.pools.Wake,
	}
	r.reconcilePool()
	r.reconcilePool()
	r.want(`reserve {"next":1,"pending":[0]}`, "launch 0")

	other.Inventory.Replace(nil, r.now)
	if _, err := other.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "p"}}); err != nil {
		t.Fatal(err)
	}
	r.want("launch 0", "get "+r.launches[0].ClientToken) // whether it still carries its tags
	if r.launches[0].ClientToken != r.launches[1].ClientToken {
		t.Error("the other asked for another instance")
	}
}

// A launch of which the process has heard stays known when its instance is gone from the lists
// again: it is not asked for once more.
func TestALaunchWhoseInstanceHasVanishedIsNotAskedForAgain(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	r.reconcilePool()
	r.want(`reserve {"next":1,"pending":[0]}`, "launch 0")
	launched := r.launches[0]
	r.sweep(instance(provider.InstancePending, called(launched.ClientToken),
		withTag(inventory.TagLaunch, launched.Tags[inventory.TagLaunch])))
	r.now = r.now.Add(20 * time.Second) // past what the list may lag
	r.sweep()
	r.sweep()
	r.reconcilePool()
	r.want(`reserve {"next":2,"pending":[0,1]}`, "launch 1")
}

// Numbers must never come twice, and what stood there cannot be read.
func TestALaunchOfAnInstanceThatHasEndedLeavesItsSlot(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	r.launching = func(n int) error {
		if n == 1 {
			return &provider.InstanceNotFoundError{ID: "of the token"}
		}
		return nil
	}
	if again := r.reconcilePool(); again != slotRetention {
		t.Errorf("looked at again after %v, want %v: no event tells of what is gone", again, slotRetention)
	}
	r.reconcilePool()
	if n := len(r.launches); n != 2 || r.launches[0].ClientToken == r.launches[1].ClientToken {
		t.Errorf("%d launches, %v; want the second under a token of its own", n, r.launches)
	}
}

func TestGarbledSlotsGoOnFromANumberThatNoLaunchHad(t *testing.T) {
	r := newRig(t, nodePool(2, 1, holding("yes")))
	r.sweep()
	r.reconcilePool()
	r.want(`reserve {"next":1772366400001,"pending":[1772366400000]}`, "launch 1772366400000")
}

func TestAddsItsFinalizerBeforeAnythingElse(t *testing.T) {
	r := newRig(t, nodePool(2, 1, func(p *v1alpha1.NodePool) { p.Finalizers = nil }))
	r.sweep()
	r.reconcilePool()
	r.want("finalizer, spec sent: false", `reserve {"next":1,"pending":[0]}`, "launch 0")
	if got := r.pool().Finalizers; len(got) != 1 || got[0] != v1alpha1.FinalizerNodePool {
		t.Errorf("finalizers %v", got)
	}
}

func TestADeletedPoolGoesWhenNothingIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		pool   *v1alpha1.NodePool
		node   *corev1.Node
		swept  []*provider.Instance
		listed []*provider.Instance
		after  time.Duration
		log    []string
		gone   bool
	}{
		"an instance is left: it is looked at": {pool: nodePool(2, 2, deleted),
			swept: []*provider.Instance{instance(provider.InstanceRunning)}, log: []string{"wake i-c"}},
		"one that no sweep has shown yet": {pool: nodePool(2, 2, deleted),
			listed: []*provider.Instance{instance(provider.InstancePending)}},
		"a launch may not show yet": {pool: nodePool(2, 2, deleted,
			holding(`{"next":1,"pending":[0]}`)), after: 5*time.Minute - time.Second},
		"a launch would show by now": {pool: nodePool(2, 2, deleted,
			holding(`{"next":1,"pending":[0]}`)), after: 5 * time.Minute, gone: true},
		"nothing was ever launched": {pool: nodePool(2, 2, deleted), gone: true},
		"a Node is left without its instance: it is looked at": {pool: nodePool(2, 2, deleted),
			node: nodeIn(v1alpha1.StateTerminating), log: []string{"wake i-c"}},
		"a Node that only bears the pool's label is not ours": {pool: nodePool(2, 2, deleted),
			node: nodeIn("", func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelState) }), gone: true},
		"terminated ones are nothing": {pool: nodePool(2, 2, deleted),
			swept:  []*provider.Instance{instance(provider.InstanceTerminated)},
			listed: []*provider.Instance{instance(provider.InstanceTerminated)}, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.pool)
			if c.node != nil {
				if err := r.api.Create(t.Context(), c.node); err != nil {
					t.Fatal(err)
				}
			}
			r.listed = c.listed
			r.now = r.now.Add(c.after)
			r.sweep(c.swept...)
			again := r.reconcilePool()
			r.want(c.log...)
			err := r.api.Get(t.Context(), client.ObjectKey{Name: "p"}, &v1alpha1.NodePool{})
			if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != c.gone {
				t.Errorf("gone %v, want %v", gone, c.gone)
			}
			if (again > 0) == c.gone {
				t.Errorf("looked at again after %v", again)
			}
		})
	}
}

func TestStatusCountsInstancesByTheStateOfTheirNodes(t *testing.T) {
	r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateRunning))
	r.sweep(instance(provider.InstanceRunning), instance(provider.InstancePending, called("new")),
		instance(provider.InstanceTerminated, called("old")))
	r.reconcilePool()
	if got := r.pool().Status; got.Running != 1 || got.Warmup != 1 || got.Total != 2 || got.Standby != 0 {
		t.Errorf("status %+v, want one running, one warming up", got)
	}
}
