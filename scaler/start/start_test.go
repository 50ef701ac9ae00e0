package start

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

// rig is a Starter over an API server in memory and a scripted cloud. Both write what they are
// asked to one log.
type rig struct {
	t       *testing.T
	starter *Starter
	view    *cluster.State
	api     client.WithWatch
	events  *events.FakeRecorder
	// cached, if set, is what the cache shows instead of the truth.
	cached atomic.Pointer[corev1.Node]
	// answer is the cloud's; n counts its calls from 1.
	answer func(n int) error
	// patching is called before each patch.
	patching func() error
	// denying, if set, is called before each patch of the named node.
	denying func(node string) error

	mu      sync.Mutex // guards what follows
	log     []string
	counted []string
	// homeless are the pods whose claims were handed back for another placement.
	homeless []string
}

func newRig(t *testing.T, nodes ...*corev1.Node) *rig {
	r := &rig{t: t, view: cluster.New(decide.NewClaims(), time.Now), events: events.NewFakeRecorder(100),
		answer:   func(int) error { return nil },
		patching: func() error { return nil }}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(
		scheme,
	).WithObjects(
		&v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
	)
	for _, n := range nodes {
		b = b.WithObjects(n)
	}
	r.api = b.WithInterceptorFuncs(interceptor.Funcs{Patch: r.patch}).Build()
	r.view.Listen(cluster.Listener{ClaimsLost: func(claims []decide.Claim) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range claims {
			r.homeless = append(r.homeless, string(claims[i].Pod))
		}
	}})
	r.starter = New(Options{
		Reader: cache{r}, Live: r.api, Writer: r.api, Cloud: r, State: r.view, Events: r.events, Now: time.Now,
		Log: logr.Discard(),
		Count: func(pool v1alpha1.PoolName, trigger Trigger) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.counted = append(r.counted, string(pool)+" "+string(trigger))
		},
		Refused: func(pool v1alpha1.PoolName, why Refusal) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.counted = append(r.counted, string(pool)+" refused "+string(why))
		},
	})
	return r
}

// run has the Starter work while f runs, which ends when everything that was asked for is done or
// waits for time.
func (r *rig) run(f func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() { done <- r.starter.Start(ctx) }()
	f()
	synctest.Wait()
	stop()
	if err := <-done; err != nil {
		r.t.Errorf("Start ended with %v", err)
	}
}

// end is for a Starter that was not run.
func (r *rig) end() {
	r.starter.queue.ShutDown()
	r.starter.callQueue.ShutDown()
}

// cache reads what the rig says a cache would show.
type cache struct{ *rig }

func (c cache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	shown := c.cached.Load()
	if node, ok := o.(*corev1.Node); ok && shown != nil {
		shown.DeepCopyInto(node)
		return nil
	}
	return c.api.Get(ctx, key, o, opts...)
}

func (c cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.api.List(ctx, list, opts...)
}

func (r *rig) StartInstance(ctx context.Context, id string) error {
	r.mu.Lock()
	r.log = append(r.log, "start "+id)
	n := r.starts(id)
	r.mu.Unlock()
	if err := r.answer(n); err != nil {
		return err
	}
	return ctx.Err()
}

func (r *rig) GetInstance(_ context.Context, id string) (*provider.Instance, error) {
	return &provider.Instance{ID: v1alpha1.InstanceID(id)}, nil
}

func (r *rig) starts(id string) int {
	return len(slices.DeleteFunc(slices.Clone(r.log), func(s string) bool { return s != "start "+id }))
}

// patch answers as the API server does: a test that fails is 422.
func (r *rig) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	if err := r.patching(); err != nil {
		return err
	}
	if r.denying != nil {
		if err := r.denying(o.GetName()); err != nil {
			return err
		}
	}
	err := c.Patch(ctx, o, p, opts...)
	if err != nil && strings.Contains(err.Error(), "test") {
		err = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch",
			schema.GroupResource{Resource: "nodes"}, o.GetName(), err.Error(), 0, false)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.log = append(r.log, "patch refused")
	default:
		r.log = append(
			r.log,
			"patch "+o.GetName()+" "+o.GetLabels()[v1alpha1.LabelState]+" claims "+o.GetAnnotations()[v1alpha1.AnnotationClaims],
		)
	}
	return err
}

func (r *rig) promise(pods ...string) {
	r.t.Helper()
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.NodePoolSpec{PoolSize: 10}}
	r.view.SetPool(pool)
	n := nodeIn(v1alpha1.StateStandby)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	r.view.SetNode(n)
	for _, name := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		if d := r.view.Decide(p, [][]byte{[]byte("c")}, &cluster.Candidates{}, time.Now()); d.Claim == nil {
			r.t.Fatalf("set-up: no claim for %s: %q", name, d.Refused)
		}
	}
}

func (r *rig) node() *corev1.Node {
	r.t.Helper()
	n := &corev1.Node{}
	r.read("c", n)
	return n
}

func (r *rig) read(name string, n *corev1.Node) {
	r.t.Helper()
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) said() []string {
	var out []string
	for {
		select {
		case e := <-r.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func (r *rig) want(log ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(log, r.log, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("what happened (-want +got):\n%s", diff)
	}
}

func nodeIn(state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "uid-c", Labels: map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(state)},
		Annotations: map[string]string{"x": "y"},
	}}
	n.Spec.ProviderID = "fake:///zone-a/i-c"
	for _, f := range change {
		f(n)
	}
	return n
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[key] = value }
}

func TestIntentComesBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("b", "a")
		r.run(func() { r.starter.StartNode("c") })
		r.want("patch c starting claims a,b", "start i-c")
		if diff := cmp.Diff([]string{"p filter"}, r.counted); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		if got := r.said(); len(got) != 1 || !strings.Contains(got[0], "ScaleUp") {
			t.Errorf("events %q, want one ScaleUp", got)
		}
	})
}

// What the API server refuses is not asked of the cloud.
func TestNoCallWithoutAnIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("a")
		var down atomic.Bool
		down.Store(true)
		r.patching = func() error {
			if down.Load() {
				return errors.New("the API server is down")
			}
			return nil
		}
		r.run(func() {
			r.starter.StartNode("c")
			<-time.After(time.Minute)
			r.want()
			down.Store(false)
			<-time.After(time.Minute)
		})
		r.want("patch c starting claims a", "start i-c")
	})
}

func TestAsksWhileACallIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		accept := make(chan struct{})
		r.answer = func(int) error { <-accept; return nil }
		r.promise("a")
		r.run(func() {
			r.starter.StartNode("c")
			synctest.Wait()
			for _, p := range []string{"b", "d", "e"} {
				r.promise(p)
				r.starter.StartNode("c")
			}
			synctest.Wait()
			r.want("patch c starting claims a", "start i-c")
			close(accept)
			<-time.After(time.Second)
		})
		r.want("patch c starting claims a", "start i-c", "patch c starting claims a,b,d,e") // three claims, one write
	})
}

// Each write to a Node has the scheduler ask about all pending pods again, so claims that follow
// each other are written together: at most one write in each time of gathering, and none is left
// out.
func TestClaimsThatFollowEachOtherAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("a")
		r.run(func() {
			r.starter.StartNode("c")
			for _, p := range []string{"b", "d", "e", "f"} {
				<-time.After(gathering * 2 / 5)
				r.promise(p)
				r.starter.StartNode("c")
			}
			<-time.After(time.Second)
			r.promise("g") // long after the last write: there is nothing to wait for
			r.starter.StartNode("c")
			synctest.Wait()
			r.want("patch c starting claims a", "start i-c", "patch c starting claims a,b,d",
				"patch c starting claims a,b,d,e,f", "patch c starting claims a,b,d,e,f,g")
		})
	})
}

// TestAWriteWaitsForWhatTheNodeNames: another replica has named a pod, which the cache of Nodes
// shows and the cluster state does not yet. Its claim stands, and ours are written in addition.
func TestAWriteWaitsForWhatTheNodeNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationClaims, "theirs"))
		r := newRig(t, node)
		r.promise("a")
		r.view.SetPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs", UID: "theirs"}})
		r.run(func() {
			r.starter.StartNode("c")
			<-time.After(knownAgain * 3 / 2)
			synctest.Wait()
			r.want()
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
			r.view.SetNode(node)
			<-time.After(knownAgain)
			synctest.Wait()
			r.want("patch c starting claims a,theirs")
		})
	})
}

// slow is a cloud that takes its time.
type slow struct {
	*rig
	takes time.Duration
}

func (s slow) StartInstance(ctx context.Context, id string) error {
	select {
	case <-time.After(s.takes):
		return s.rig.StartInstance(ctx, id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A planned end leaves no intent without its call: it would not be made for ten seconds. A call
// that hangs does not keep the process.
func TestAStepUnderWayIsFinished(t *testing.T) {
	for name, c := range map[string]struct {
		takes, ends time.Duration
		want        []string
	}{
		"the cloud answers":   {time.Second, time.Second, []string{"p filter"}},
		"the cloud is silent": {time.Hour, finishTime, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby))
				r.promise("a")
				r.starter.cloud = slow{r, c.takes}
				zero := time.Now()
				r.run(func() { r.starter.StartNode("c") })
				if diff := cmp.Diff(c.want, r.counted, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("starts counted (-want +got):\n%s", diff)
				}
				if took := time.Since(zero); took != c.ends {
					t.Errorf("ended after %s, want %s", took, c.ends)
				}
			})
		})
	}
}

func TestPublishingAgainWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationClaims, "a")))
		r.promise("a")
		r.run(func() { r.starter.StartNode("c") })
		r.want()
	})
}

// The cache still shows standby when the second pod joins: its intent is refused, and nothing is
// started twice.
func TestALaggingCacheStartsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("a")
		r.run(func() {
			r.starter.StartNode("c")
			synctest.Wait()
			r.cached.Store(nodeIn(v1alpha1.StateStandby))
			r.promise("b")
			<-time.After(gathering)
			r.starter.StartNode("c")
			synctest.Wait()
			r.cached.Store(nil)
			<-time.After(time.Second)
		})
		r.want("patch c starting claims a", "start i-c", "patch refused", "patch c starting claims a,b")
	})
}

func TestRefusalsThatPassAreTriedAgain(t *testing.T) {
	for name, refusal := range map[string]error{
		"the rate":            &provider.RateLimitError{Operation: "StartInstances"},
		"still stopping":      &provider.IncorrectStateError{ID: "i-c", State: provider.InstanceStopping, Op: "start"},
		"the call timed out":  context.DeadlineExceeded,
		"the cloud's trouble": errors.New("internal error"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby))
				r.promise("a")
				r.answer = func(n int) error {
					if n < 4 {
						return refusal
					}
					return nil
				}
				r.run(func() {
					r.starter.StartNode("c")
					<-time.After(time.Minute)
				})
				r.want("patch c starting claims a", "start i-c", "start i-c", "start i-c", "start i-c")
				if _, kept := r.view.ClaimOf("a"); !kept || len(r.counted) != 1 {
					t.Errorf("claim kept %v, counted %d times; want true and 1", kept, len(r.counted))
				}
			})
		})
	}
}

// The leader gives a start up while another replica still tries: that replica must not start the
// instance behind it.
func TestAStartThatWasGivenUpIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("a")
		r.answer = func(int) error { return &provider.RateLimitError{} }
		r.run(func() {
			r.starter.StartNode("c")
			synctest.Wait()
			r.cached.Store(r.node()) // this replica's cache goes on to show starting
			given := r.node()
			given.Labels[v1alpha1.LabelState] = string(v1alpha1.StateStandby)
			if err := r.api.Update(t.Context(), given); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute)
		})
		r.want("patch c starting claims a", "start i-c")
		if _, pending := r.starter.takeOpen("c"); pending {
			t.Error("the call is still remembered")
		}
	})
}

func TestRefusalsThatStayEndTheStart(t *testing.T) {
	for name, refusal := range map[string]error{
		"no instance":     &provider.InstanceNotFoundError{ID: "i-c"},
		"no such setting": &provider.InvalidConfigError{Field: "x"},
		"terminated":      &provider.IncorrectStateError{ID: "i-c", State: provider.InstanceTerminated, Op: "start"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby))
				r.promise("a", "b")
				r.answer = func(int) error { return refusal }
				began := time.Now()
				r.run(func() {
					r.starter.StartNode("c")
					<-time.After(time.Hour)
				})
				r.want("patch c starting claims a,b", "start i-c", "patch c standby claims ")
				if r.view.ClaimCount() != 0 {
					t.Errorf("%d claims left, want them to move", r.view.ClaimCount())
				}
				n := r.node()
				if got, want := n.Annotations[v1alpha1.AnnotationUnavailableUntil],
					began.Add(3*time.Minute).UTC().Format(time.RFC3339); got != want {
					t.Errorf("unavailable until %s, want %s", got, want)
				}
				if got := n.Annotations[v1alpha1.AnnotationStartFailures]; got != "1" {
					t.Errorf("%s failures, want 1", got)
				}
				if got := r.said(); len(got) != 1 || !strings.Contains(got[0], "StartFailed") ||
					!strings.Contains(got[0], refusal.Error()) {
					t.Errorf("events %q, want one StartFailed with the cloud's words", got)
				}
			})
		})
	}
}

// TestADeclinedStartIsNotHeldAgainstTheNode: what the cloud lacks, or has not finished, is no fault
// of the node. It backs off briefly, no strike is counted, and its claims move.
func TestADeclinedStartIsNotHeldAgainstTheNode(t *testing.T) {
	offered := func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelInstanceTypeStable] = "a", "m5.large"
	}
	for name, c := range map[string]struct {
		node    func(*corev1.Node)
		refusal error
		calls   int
		rest    time.Duration
		event   string
		counted Refusal
	}{
		"no capacity": {offered, &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a"}, 1,
			10 * time.Second, "InsufficientCapacity", RefusedCapacity},
		"no capacity, zone and type unknown": {func(*corev1.Node) {}, &provider.InsufficientCapacityError{Type: "m5.large",
			Zone: "a"}, 1, 3 * time.Minute, "InsufficientCapacity", RefusedCapacity},
		"still stopping after several tries": {offered, &provider.IncorrectStateError{ID: "i-c",
			State: provider.InstanceStopping, Op: "start"}, 5, 11500 * time.Millisecond, "StartFailed", RefusedStopping},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStandby, c.node, annotated(v1alpha1.AnnotationStartFailures, "2")))
				r.promise("x")
				r.answer = func(int) error { return c.refusal }
				began := time.Now()
				r.run(func() {
					r.starter.StartNode("c")
					<-time.After(time.Hour)
				})
				want := append([]string{"patch c starting claims x"}, slices.Repeat([]string{"start i-c"}, c.calls)...)
				r.want(append(want, "patch c standby claims ")...)
				n := r.node()
				if got := n.Annotations[v1alpha1.AnnotationStartFailures]; got != "2" {
					t.Errorf("%s strikes, want the 2 it had", got)
				}
				if got, want := n.Annotations[v1alpha1.AnnotationUnavailableUntil],
					began.Add(c.rest).UTC().Format(time.RFC3339); got != want {
					t.Errorf("unavailable until %s, want %s", got, want)
				}
				if got := r.said(); len(got) != 1 || !strings.Contains(got[0], c.event) ||
					!strings.Contains(got[0], c.refusal.Error()) {
					t.Errorf("events %q, want one %s with the cloud's words", got, c.event)
				}
				if !slices.Equal(r.homeless, []string{"x"}) || !slices.Equal(r.counted,
					[]string{"p refused " + string(c.counted)}) {
					t.Errorf("homeless %q, counted %q", r.homeless, r.counted)
				}
			})
		})
	}
}

// TestAnInstanceThatStopsStillIsWaitedForByABoundPod: no other node could take it.
func TestAnInstanceThatStopsStillIsWaitedForByABoundPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStarting))
		r.answer = func(n int) error {
			if n < 8 {
				return &provider.IncorrectStateError{ID: "i-c", State: provider.InstanceStopping, Op: "start"}
			}
			return nil
		}
		r.run(func() {
			r.starter.Resume("c", TriggerPending, time.Now())
			<-time.After(time.Hour)
		})
		r.want(slices.Repeat([]string{"start i-c"}, 8)...)
		if got := r.node().Labels[v1alpha1.LabelState]; got != "starting" {
			t.Errorf("state %s, want starting", got)
		}
	})
}

// TestANodePromisedBeforeItsOfferingWasRefusedIsNotTried: its claims go elsewhere without a call.
func TestANodePromisedBeforeItsOfferingWasRefusedIsNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby, func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelInstanceTypeStable] = "a", "m5.large"
		}))
		r.promise("x")
		r.view.MarkOfferingUnavailable(decide.Offering{Zone: "a", Type: "m5.large"}, time.Now())
		r.run(func() { r.starter.StartNode("c") })
		r.want()
		if !slices.Equal(r.homeless, []string{"x"}) {
			t.Errorf("homeless %q, want x", r.homeless)
		}
	})
}

func TestRestAfterAFailureDoubles(t *testing.T) {
	for failures, minutes := range map[int]int{0: 3, 1: 6, 2: 12, 3: 24, 4: 30, 9: 30, 63: 30} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStarting, annotated(v1alpha1.AnnotationStartFailures, fmt.Sprint(failures))))
				if err := r.starter.Fail(t.Context(), "c", true, "not running in time"); err != nil {
					t.Fatal(err)
				}
				want := time.Now().Add(time.Duration(minutes) * time.Minute).UTC().Format(time.RFC3339)
				if got := r.node().Annotations[v1alpha1.AnnotationUnavailableUntil]; got != want {
					t.Errorf("unavailable until %s, want %s", got, want)
				}
				r.end()
			})
		})
	}
}

func TestFailLeavesANodeThatHasMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateRunning))
		r.promise("a")
		// An error, or the caller would stop the instance of a node that runs.
		if err := r.starter.Fail(t.Context(), "c", true, "late"); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
		r.want()
		if got := r.said(); len(got) != 0 {
			t.Errorf("events %q", got)
		}
		r.end()
	})
}

// TestFailIsWrittenThoughClaimsAreToo: claims are published on the node between the read and the
// patch. The start is given up all the same: its caller stops the instance next, and without the
// intent a kubelet that reports late would open a node that goes down.
func TestFailIsWrittenThoughClaimsAreToo(t *testing.T) {
	for name, test := range map[string]struct {
		refused int
		written bool
	}{"once": {1, true}, "always": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateStarting))
				refusals := 0
				r.patching = func() error {
					if refusals++; refusals <= test.refused {
						return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch",
							schema.GroupResource{Resource: "nodes"}, "c", "test", 0, false)
					}
					return nil
				}
				err := r.starter.Fail(t.Context(), "c", true, "late")
				if written := r.node().Annotations[v1alpha1.AnnotationStopIntent] != ""; written != test.written ||
					(err == nil) != test.written {
					t.Errorf("intent written: %t, error %v", written, err)
				}
				if got := r.said(); len(got) != 1 {
					t.Errorf("events %q, want one", got)
				}
				r.end()
			})
		})
	}
}

func TestNothingToStart(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []*corev1.Node
		claim bool
		left  int
	}{
		"nobody claims the node any more":    {[]*corev1.Node{nodeIn(v1alpha1.StateStandby)}, false, 0},
		"the node runs":                      {[]*corev1.Node{nodeIn(v1alpha1.StateRunning)}, true, 1},
		"the node is on its way out":         {[]*corev1.Node{nodeIn(v1alpha1.StateTerminating)}, true, 1},
		"the Node is gone: its claims end":   {nil, true, 0},
		"the node warms up: nothing to call": {[]*corev1.Node{nodeIn(v1alpha1.StateWarmup)}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.nodes...)
				if c.claim {
					r.promise("a")
				}
				r.run(func() { r.starter.StartNode("c") })
				r.want()
				if r.view.ClaimCount() != c.left {
					t.Errorf("%d claims left, want %d", r.view.ClaimCount(), c.left)
				}
			})
		})
	}
}

// After a crash the intent stands: the cloud is asked again, and nothing is written.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStarting))
		r.run(func() { r.starter.Resume("c", TriggerPending, time.Now()) })
		r.want("start i-c")
		if diff := cmp.Diff([]string{"p pending"}, r.counted); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// The leader finds the start not carried out while this replica is still being refused: it is one
// start, the filter's.
func TestResumeKeepsTheTriggerOfACallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.promise("a")
		r.answer = func(n int) error {
			if n == 1 {
				return &provider.RateLimitError{}
			}
			return nil
		}
		r.run(func() {
			r.starter.StartNode("c")
			synctest.Wait()
			r.starter.Resume("c", TriggerPending, time.Now())
			<-time.After(time.Minute)
		})
		if diff := cmp.Diff([]string{"p filter"}, r.counted); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

func TestResumeOfANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.promise("a")
		r.run(func() { r.starter.Resume("c", TriggerPending, time.Now()) })
		r.want()
		if _, pending := r.starter.takeOpen("c"); pending || r.view.ClaimCount() != 0 {
			t.Errorf("remembered %v, %d claims; want neither", pending, r.view.ClaimCount())
		}
	})
}

func TestStartBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateStandby))
		r.run(func() {
			if err := r.starter.StartBound(t.Context(), r.node()); err != nil {
				t.Error(err)
			}
		})
		r.want("patch c starting claims ", "start i-c")
	})
}

func TestStartBoundOfANodeThatHasMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nodeIn(v1alpha1.StateTerminating))
		r.run(func() {
			if err := r.starter.StartBound(t.Context(), nodeIn(v1alpha1.StateStandby)); !apierrors.IsInvalid(err) {
				t.Errorf("error %v, want Invalid", err)
			}
		})
		r.want("patch refused")
	})
}

func TestInstanceOf(t *testing.T) {
	for id, want := range map[string]v1alpha1.InstanceID{
		"aws:///us-east-1a/i-0abc": "i-0abc", "kind://docker/kind/kind-worker": "kind-worker", "i-0abc": "i-0abc", "": "",
	} {
		n := &corev1.Node{}
		n.Spec.ProviderID = id
		if got := InstanceOf(n); got != want {
			t.Errorf("instance of %q is %q, want %q", id, got, want)
		}
	}
}

// hanging is a cloud that answers no call until it is released.
type hanging struct {
	*rig
	release chan struct{}
}

func (h hanging) StartInstance(ctx context.Context, id string) error {
	select {
	case <-h.release:
		return h.rig.StartInstance(ctx, id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestACloudThatHangsHoldsUpNoWrite: more calls hang than there are workers. Intents of other
// nodes, publications of further claims and cancelled drains go out all the same, and each call is
// made once.
func TestACloudThatHangsHoldsUpNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*corev1.Node
		var names []string
		for i := range 3 * workers {
			names = append(names, fmt.Sprintf("n-%03d", i))
			nodes = append(nodes, ofOneCPU(names[i]))
		}
		r := newPlacerRig(t, append(nodes, ofOneCPU("z-shared"), drainingOne("z-drained"))...)
		cloud := hanging{r.rig, make(chan struct{})}
		r.starter.cloud = cloud
		r.runBoth(func() {
			for _, name := range append(names, "z-shared") {
				r.claim(t, name, "first-on-"+name)
				r.starter.StartNode(v1alpha1.NodeName(name))
			}
			<-time.After(time.Second)
			r.claim(t, "z-shared", "second-on-z-shared")
			r.starter.StartNode("z-shared")
			r.claim(t, "z-drained", "on-z-drained")
			r.starter.StartNode("z-drained")
			<-time.After(time.Second)
			for _, name := range names {
				r.wantState(t, name, v1alpha1.StateStarting, "first-on-"+name)
			}
			r.wantState(t, "z-shared", v1alpha1.StateStarting, "first-on-z-shared,second-on-z-shared")
			r.wantState(t, "z-drained", v1alpha1.StateRunning, "")
			close(cloud.release)
			<-time.After(time.Minute)
		})
		for _, name := range append(names, "z-shared") {
			if n := r.starts("i-" + name); n != 1 {
				t.Errorf("%d calls to start i-%s, want one", n, name)
			}
		}
		if n := r.starts("i-z-drained"); n != 0 {
			t.Errorf("the node whose drain was cancelled was started %d times", n)
		}
	})
}

// claim claims room on the node for a pod without requests.
func (r *placerRig) claim(t *testing.T, node, pod string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod, UID: types.UID(pod)}}
	if d := r.view.Decide(p, [][]byte{[]byte(node)}, &cluster.Candidates{}, time.Now()); d.Claim == nil {
		t.Errorf("set-up: no claim on %s: %q", node, d.Refused)
	}
}

func (r *placerRig) wantState(t *testing.T, node string, state v1alpha1.NodeState, claims string) {
	t.Helper()
	n := &corev1.Node{}
	r.read(node, n)
	if got := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]); got != state {
		t.Errorf("%s is %s, want %s", node, got, state)
	}
	if got := n.Annotations[v1alpha1.AnnotationClaims]; got != claims {
		t.Errorf("%s has the claims %q, want %q", node, got, claims)
	}
}
