package nominate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// rig is a Nominator over an API server in memory. What the cluster state shows is up to the test:
// see shows.
type rig struct {
	t         *testing.T
	api       client.WithWatch
	state     *cluster.State
	nominator *Nominator

	// mu guards the fields below.
	mu sync.Mutex
	// writing, if set, is called before each write of the Nominator, with its number from 1.
	writing func(ctx context.Context, n int) error
	// written, if set, is called beside what follows each accepted one.
	written func(pod string)
	// asked counts the Nominator's writes, results what came of them.
	asked   int
	results []Result
	logged  []string
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	r := &rig{t: t, state: cluster.New(decide.NewClaims(), time.Now)}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Pod{}).WithReturnManagedFields().
		WithIndex(&corev1.Pod{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: r.patch}).Build()
	r.restart(change...)
	r.state.SetPool(scalertest.NodePool(9, 0))
	return r
}

// restart makes the Nominator anew.
func (r *rig) restart(change ...func(*Options)) {
	o := Options{
		State: r.state, Live: r.api, Writer: r.api, Enabled: true, ExtenderSchedulers: []string{"with-extender"},
		Now: time.Now,
		Count: func(result Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.results = append(r.results, result)
		},
		Log: funcr.New(func(_, args string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.logged = append(r.logged, args)
		}, funcr.Options{}),
	}
	for _, f := range change {
		f(&o)
	}
	r.nominator = New(o)
	r.t.Cleanup(r.nominator.queue.ShutDown)
}

// pass lets time pass on the clock of the synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of the synctest bubble moves, no time passes
}

// patch is the API server's side of a write, as far as the test changes it.
func (r *rig) patch(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption) error {
	options := &client.SubResourcePatchOptions{}
	options.ApplyOptions(opts)
	if options.FieldManager == v1alpha1.FieldManagerNomination {
		r.mu.Lock()
		r.asked++
		n, writing := r.asked, r.writing
		r.mu.Unlock()
		if writing != nil {
			if err := writing(ctx, n); err != nil {
				return err
			}
		}
	}
	if err := c.SubResource(sub).Patch(ctx, o, p, opts...); err != nil {
		return err
	}
	if r.written != nil {
		go r.written(o.GetName())
	}
	return nil
}

// node shows a node of the pool with 4 cpu.
func (r *rig) node(name string, state v1alpha1.NodeState, taints ...corev1.Taint) v1alpha1.NodeName {
	r.state.SetNode(scalertest.NodeIn(state, func(n *corev1.Node) {
		n.Name, n.UID = name, types.UID("uid-"+name)
		n.Spec.Taints = append(n.Spec.Taints, taints...)
	}))
	return v1alpha1.NodeName(name)
}

// pod creates a pending pod that asks for a cpu, and shows it.
func (r *rig) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	r.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	for _, f := range change {
		f(p)
	}
	if err := r.api.Create(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
	return r.shows(name)
}

// claimed is pod with a claim on one of the nodes shown.
func (r *rig) claimed(name string, change ...func(*corev1.Pod)) {
	r.t.Helper()
	p := r.pod(name, change...)
	if d := r.state.Place(p, time.Now()); d.Claim == nil {
		r.t.Fatalf("set-up: no claim: %v %v", d.Kind, d.Refused)
	}
}

// live is the pod as the API server has it.
func (r *rig) live(name string) *corev1.Pod {
	r.t.Helper()
	p := &corev1.Pod{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// shows has the cluster state see the pod as the API server has it.
func (r *rig) shows(name string) *corev1.Pod {
	r.t.Helper()
	p := r.live(name)
	r.state.SetPod(p)
	return p
}

// changes changes the pod as another client does. The cluster state does not see it yet.
func (r *rig) changes(name string, f func(*corev1.Pod)) {
	r.t.Helper()
	p := r.live(name)
	was := p.DeepCopy()
	f(p)
	if err := r.api.Status().Patch(r.t.Context(), p, client.MergeFrom(was), client.FieldOwner("other")); err != nil {
		r.t.Fatal(err)
	}
}

// binds binds the pod as a scheduler does.
func (r *rig) binds(name, node string) {
	r.t.Helper()
	p := r.live(name)
	was := p.DeepCopy()
	p.Spec.NodeName = node
	if err := r.api.Patch(r.t.Context(), p, client.MergeFrom(was)); err != nil {
		r.t.Fatal(err)
	}
}

// opens asks until the node may open.
func (r *rig) opens(node v1alpha1.NodeName) {
	for wait := r.nominator.BeforeOpening(r.t.Context(), node); wait > 0; {
		pass(wait)
		wait = r.nominator.BeforeOpening(r.t.Context(), node)
	}
}

func nominatedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func refused(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "x"}}
}

func never(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) }

func withExtender(p *corev1.Pod) { p.Spec.SchedulerName = "with-extender" }

// want checks the node that the pod is nominated to, and what came of the writes.
func (r *rig) want(pod, node string, results ...Result) {
	r.t.Helper()
	if got := r.live(pod).Status.NominatedNodeName; got != node {
		r.t.Errorf("pod %s is nominated to %q, want %q", pod, got, node)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(results, r.results); diff != "" {
		r.t.Errorf("results (-want +got):\n%s", diff)
	}
}

// run has the workers work while f runs. It returns when nothing is left to do but wait for time.
func (r *rig) run(f func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() { done <- r.nominator.Start(ctx) }()
	f()
	synctest.Wait()
	stop()
	if err := <-done; err != nil {
		r.t.Errorf("Start ended with %v", err)
	}
}

// TestTheFieldIsWrittenOnlyWhileItIsEmptyAndTheClaimStands: between decision and write the pod may
// change in every way.
func TestTheFieldIsWrittenOnlyWhileItIsEmptyAndTheClaimStands(t *testing.T) {
	for name, c := range map[string]struct {
		pod []func(*corev1.Pod)
		// meanwhile happens before the first write arrives.
		meanwhile func(*rig)
		node      string
		asked     int
		results   []Result
	}{
		"as decided": {node: "c", asked: 1, results: []Result{Written}},
		"another client has changed the pod": {
			meanwhile: func(r *rig) { r.changes("x", refused) }, node: "c", asked: 2, results: []Result{Written}},
		"the scheduler has nominated it elsewhere": {
			meanwhile: func(r *rig) { r.changes("x", nominatedTo("other")) }, node: "other", asked: 1},
		"the scheduler has nominated it here": {
			meanwhile: func(r *rig) { r.changes("x", nominatedTo("c")) }, node: "c", asked: 1},
		"it is bound": {meanwhile: func(r *rig) { r.binds("x", "other") }, asked: 1},
		"its claim is lost": {
			meanwhile: func(r *rig) { r.changes("x", refused); r.state.StartFailed("c") }, asked: 1},
		"another pod has its name": {meanwhile: func(r *rig) {
			p := r.live("x")
			if err := r.api.Delete(r.t.Context(), p); err != nil {
				r.t.Fatal(err)
			}
			p.UID, p.ResourceVersion = "another", ""
			if err := r.api.Create(r.t.Context(), p); err != nil {
				r.t.Fatal(err)
			}
			r.changes("x", refused) // the API server gives it a version of its own; this one counts from 1
		}, asked: 1},
		"its scheduler has the extender": {pod: []func(*corev1.Pod){withExtender}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				node := r.node("c", v1alpha1.StateStandby)
				r.claimed("x", c.pod...)
				r.pod("taker")
				r.writing = func(_ context.Context, n int) error {
					if n == 1 && c.meanwhile != nil {
						c.meanwhile(r)
					}
					return nil
				}
				r.opens(node)
				r.want("x", c.node, c.results...)
				if r.asked != c.asked {
					t.Errorf("%d writes were sent, want %d", r.asked, c.asked)
				}
			})
		})
	}
}

// The cluster state shows it already: no write is sent at all.
func TestNoWriteIsSentWhereNoneIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		then   func(r *rig)
		node   string
	}{
		"the scheduler has nominated it": {then: func(r *rig) {
			r.changes("x", nominatedTo("other"))
			r.shows("x")
		}, node: "other"},
		"it is being bound":   {then: func(r *rig) { r.binds("x", "c"); r.shows("x") }},
		"nominations are off": {change: func(o *Options) { o.Enabled = false }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if c.change != nil {
				r.restart(c.change)
			}
			node := r.node("c", v1alpha1.StateStandby)
			r.claimed("x")
			r.pod("taker")
			if c.then != nil {
				c.then(r)
			}
			r.opens(node)
			r.want("x", c.node)
			if r.asked != 0 {
				t.Errorf("%d writes were sent, want none", r.asked)
			}
		})
	}
}

// Pods with preemptionPolicy Never are nominated when the Node shows the claims, the others when
// the node opens, each once.
func TestEachPodIsNominatedOnceAndInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		node := r.node("c", v1alpha1.StateStandby)
		r.claimed("patient", never)
		r.claimed("other")
		r.pod("taker")
		r.run(func() { r.nominator.ClaimsWritten(node) })
		r.want("patient", "c", Written)
		r.want("other", "", Written)
		r.opens(node)
		r.want("other", "c", Written, Written)
		// The scheduler takes the field away at a failed attempt: it would do so again.
		r.changes("other", nominatedTo(""))
		r.shows("other")
		r.opens(node)
		r.want("other", "", Written, Written)
	})
}

// TestALostNominationIsWrittenAgainOnceTheNodeRuns: nodes that open have the scheduler try pods
// whose own node opens a moment later. While it is closed each nomination would be lost.
func TestALostNominationIsWrittenAgainOnceTheNodeRuns(t *testing.T) {
	for name, c := range map[string]struct {
		then    func(*rig)
		node    string
		results []Result
	}{
		"the node stays closed": {then: func(*rig) {}},
		"the node runs":         {then: func(r *rig) { r.node("c", v1alpha1.StateRunning) }, node: "c", results: []Result{Written}},
		"the node runs, and the scheduler takes it away once more": {then: func(r *rig) {
			r.node("c", v1alpha1.StateRunning)
			pass(lostTime * 3)
			r.changes("x", nominatedTo(""))
			r.shows("x")
			r.nominator.Check("uid-x")
		}, results: []Result{Written}},
		"the scheduler has nominated it": {then: func(r *rig) {
			r.node("c", v1alpha1.StateRunning)
			r.changes("x", nominatedTo("d"))
			r.shows("x")
		}, node: "d"},
		"the claim is lost": {then: func(r *rig) { r.state.StartFailed("c") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.node("c", v1alpha1.StateStarting)
				r.claimed("x")
				r.pod("taker")
				r.opens("c")
				r.want("x", "c", Written)
				r.results = nil
				pass(time.Second)
				r.changes("x", nominatedTo(""))
				r.shows("x")
				r.run(func() {
					r.nominator.Check("uid-x")
					pass(lostTime*3 + lostTime/2) // between two looks at the pod, and not at the moment of one
					c.then(r)
					pass(time.Minute)
				})
				r.want("x", c.node, c.results...)
			})
		})
	}
}

// TestANominationFollowsItsClaim: one without its claim hides the pod from Karpenter and keeps room
// on the wrong node.
func TestANominationFollowsItsClaim(t *testing.T) {
	off := func(o *Options) { o.Enabled = false }
	hasExtender := func(o *Options) { o.ExtenderSchedulers = []string{corev1.DefaultSchedulerName} }
	for name, c := range map[string]struct {
		change func(*Options)
		// then happens after the pod was nominated to node c, where it had its claim.
		then    func(*rig)
		node    string
		results []Result
	}{
		"its claim stands":  {node: "c"},
		"its claim is gone": {then: func(r *rig) { r.state.StartFailed("c") }, results: []Result{Cleared}},
		"its claim is on another node, which does not start": {
			then: func(r *rig) { r.moves("x") }, results: []Result{Cleared}},
		"its claim is on another node, which starts": {then: func(r *rig) {
			r.moves("x")
			r.nominator.ClaimsWritten("d")
		}, node: "d", results: []Result{Written}},
		"the scheduler has nominated it since": {then: func(r *rig) {
			r.state.StartFailed("c")
			r.changes("x", nominatedTo("e"))
		}, node: "e"},
		"it is bound, and keeps the field as in 1.34": {then: func(r *rig) {
			r.state.StartFailed("c")
			r.binds("x", "e")
		}, node: "c"},
		"another client has changed the pod": {then: func(r *rig) {
			r.state.StartFailed("c")
			r.changes("x", refused)
		}, results: []Result{Cleared}},
		"nominations are off now":            {change: off, results: []Result{Cleared}},
		"its scheduler has the extender now": {change: hasExtender, results: []Result{Cleared}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.node("c", v1alpha1.StateStandby)
				r.claimed("x", never)
				r.run(func() { r.nominator.ClaimsWritten("c") })
				r.shows("x")
				if c.change == nil {
					c.change = func(*Options) {}
				}
				r.restart(c.change)
				r.results = nil
				r.run(func() {
					if c.then != nil {
						c.then(r)
					}
					r.nominator.Check("uid-x")
					pass(2 * moveTime)
				})
				r.want("x", c.node, c.results...)
			})
		})
	}
}

// moves moves the pod's claim from node c to node d.
func (r *rig) moves(pod string) {
	r.node("d", v1alpha1.StateStandby)
	r.state.BackOffNode("c", time.Now().Add(time.Hour))
	r.state.StartFailed("c")
	if d := r.state.Place(r.state.PendingPod(types.UID("uid-"+pod)), time.Now()); d.Claim == nil || d.Claim.Node != "d" {
		r.t.Fatalf("set-up: no claim on node d: %v %v", d.Claim, d.Refused)
	}
}

// A write that the API server does not answer delays an opening by WriteTime once, and none after
// it; one that it refuses delays none.
func TestNoOpeningWaitsLongForNominations(t *testing.T) {
	hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	deny := func(context.Context, int) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("a policy"))
	}
	for name, c := range map[string]struct {
		writing         func(context.Context, int) error
		waits, again    time.Duration
		results, second []Result
	}{
		"no answer": {hang, gatherTime + answerTime, 0, []Result{Slow, Slow}, []Result{Skipped, Skipped}},
		"a refusal": {deny, gatherTime, gatherTime, []Result{Refused, Refused}, []Result{Refused, Refused}},
		"no API server": {func(context.Context, int) error { return errors.New("connection refused") }, gatherTime,
			gatherTime, []Result{Failed, Failed}, []Result{Failed, Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				node := r.node("c", v1alpha1.StateStandby)
				r.claimed("x")
				r.claimed("y")
				r.pod("other")
				r.writing = c.writing
				opens := func(waits time.Duration, results ...Result) {
					t.Helper()
					before := time.Now()
					r.opens(node)
					if took := time.Since(before); took != waits {
						t.Errorf("the node stayed closed for %v, want %v", took, waits)
					}
					pass(WriteTime) // until the write has ended
					synctest.Wait()
					r.want("x", "", results...)
				}
				opens(c.waits, c.results...)
				opens(c.again, slices.Concat(c.results, c.second)...)
				if len(r.logged) != 1 || !strings.Contains(r.logged[0], "cause") {
					t.Errorf("log lines %q, want one that names the cause", r.logged)
				}
				pass(slowFor)
				r.writing, r.results = nil, nil
				r.opens(node)
				r.want("x", "c", Written, Written)
			})
		})
	}
}

// The scheduler's watch of nodes may be ahead of its watch of pods, and ours tells how late the
// latter is.
func TestANodeOpensWhenItsNominationsMayHaveBeenSeen(t *testing.T) {
	for name, c := range map[string]struct {
		// meanwhile happens once the nominations are written.
		meanwhile func(*rig)
		closed    time.Duration
	}{
		"shown one after another": {meanwhile: func(r *rig) {
			pass(50 * time.Millisecond)
			r.shows("x")
			pass(50 * time.Millisecond)
			r.shows("y")
		}, closed: 2 * 100 * time.Millisecond},
		"shown late": {meanwhile: func(r *rig) {
			pass(300 * time.Millisecond)
			r.shows("x")
			r.shows("y")
		}, closed: 2 * 300 * time.Millisecond},
		"one is bound meanwhile": {meanwhile: func(r *rig) {
			r.shows("x")
			pass(50 * time.Millisecond)
			r.binds("y", "other")
			r.shows("y")
		}, closed: 50*time.Millisecond + settleTime},
		"the scheduler has cleared one": {meanwhile: func(r *rig) {
			r.changes("x", nominatedTo(""))
			r.shows("x")
			r.shows("y")
		}, closed: settleTime},
		"more pods get claims on it": {meanwhile: func(r *rig) {
			r.shows("x")
			r.shows("y")
			pass(50 * time.Millisecond)
			r.claimed("z")
		}, closed: settleTime},
		"one is not shown":    {meanwhile: func(r *rig) { r.shows("y") }, closed: mostClosed},
		"the watch is broken": {meanwhile: func(*rig) {}, closed: mostClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				node := r.node("c", v1alpha1.StateStandby)
				r.claimed("x")
				r.claimed("y")
				r.pod("extended", withExtender)
				r.pod("other")
				pass(r.nominator.BeforeOpening(t.Context(), node)) // until its group begins
				before := time.Now()
				r.nominator.BeforeOpening(t.Context(), node)
				r.want("x", "c", Written, Written)
				var done sync.WaitGroup
				done.Go(func() { c.meanwhile(r) })
				r.opens(node)
				done.Wait()
				if took := time.Since(before); took < c.closed || took > c.closed+3*seenEvery {
					t.Errorf("the node stayed closed for %v, want %v", took, c.closed)
				}
				// Another opening waits anew.
				r.claimed("later")
				if r.nominator.BeforeOpening(t.Context(), node) == 0 {
					t.Error("another opening waits for nothing")
				}
			})
		})
	}
}

// A node that opens has the scheduler try all pods, and those nominated to a closed node lose that.
func TestNodesThatAreReadyTogetherOpenTogether(t *testing.T) {
	const (
		late = 800 * time.Millisecond // how much later our watch shows a nomination to nodes d and e
		step = gatherTime - 10*time.Millisecond
	)
	type times map[v1alpha1.NodeName]time.Duration
	for name, c := range map[string]struct {
		// ready is when each is to be opened; negative: then, but that is given up at once.
		ready                 times
		wantBegun, wantOpened times
	}{
		"one": {times{"a": 0}, times{"a": gatherTime}, times{"a": gatherTime + settleTime}},
		"one after another": {times{"a": 0, "b": gatherTime / 2, "c": gatherTime},
			times{"a": 2 * gatherTime, "b": 2 * gatherTime, "c": 2 * gatherTime},
			times{"a": 2*gatherTime + settleTime, "b": 2*gatherTime + settleTime, "c": 2*gatherTime + settleTime}},
		"one is shown late": {times{"a": 0, "d": 0}, times{"a": gatherTime, "d": gatherTime},
			times{"a": gatherTime + 2*late, "d": gatherTime + 2*late}},
		"while others are on their way": {times{"a": 0, "b": gatherTime + settleTime/2},
			times{"a": gatherTime, "b": 2*gatherTime + settleTime},
			times{"a": gatherTime + settleTime, "b": 2*gatherTime + 2*settleTime}},
		"while one on its way is late": {times{"d": 0, "b": gatherTime + late/2},
			times{"d": gatherTime, "b": gatherTime + late/2 + mostHeld},
			times{"d": gatherTime + 2*late, "b": gatherTime + 2*late}},
		"while others on their way are late too": {times{"d": 0, "e": gatherTime + late/2},
			times{"d": gatherTime, "e": gatherTime + late/2 + mostHeld},
			times{"d": gatherTime + 2*late, "e": gatherTime + late/2 + mostHeld + 2*late}},
		"without a pause": {times{"a": 0, "b": step, "c": 2 * step, "d": 3 * step, "e": 4 * step},
			times{"a": mostHeld, "b": mostHeld, "c": mostHeld, "d": mostHeld, "e": mostHeld},
			times{"a": mostHeld + 2*late, "b": mostHeld + 2*late, "c": mostHeld + 2*late, "d": mostHeld + 2*late,
				"e": mostHeld + 2*late}},
		"one is not opened after all": {times{"a": 0, "b": -1}, times{"a": gatherTime}, times{"a": answerTime}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for node := range c.ready {
					r.node(string(node), v1alpha1.StateStandby)
				}
				pods := map[v1alpha1.NodeName]string{}
				for i := range c.ready {
					pod := "pod-" + string(i)
					r.claimed(pod, func(p *corev1.Pod) {
						p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3")
					})
					claim, _ := r.state.ClaimOf(types.UID("uid-" + pod))
					pods[claim.Node] = pod
				}
				r.pod("other")
				var mu sync.Mutex
				begun, opened := times{}, times{}
				start := time.Now()
				r.written = func(pod string) {
					claim, _ := r.state.ClaimOf(types.UID("uid-" + pod))
					mu.Lock()
					begun[claim.Node] = time.Since(start)
					mu.Unlock()
					if claim.Node == "d" || claim.Node == "e" {
						pass(late)
					}
					r.shows(pod)
				}
				var all sync.WaitGroup
				for node, at := range c.ready {
					all.Go(func() {
						pass(at)
						if at < 0 {
							r.nominator.BeforeOpening(t.Context(), node)
							return
						}
						r.opens(node)
						mu.Lock()
						defer mu.Unlock()
						opened[node] = time.Since(start)
					})
				}
				all.Wait()
				within := cmpopts.EquateApprox(0, float64(3*seenEvery))
				asFloats := cmp.Transformer("float", func(d time.Duration) float64 { return float64(d) })
				if diff := cmp.Diff(c.wantBegun, begun, asFloats, within); diff != "" {
					t.Errorf("nominations are sent (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.wantOpened, opened, asFloats, within); diff != "" {
					t.Errorf("nodes open (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Where nothing is to be nominated right before the opening, a node opens while others are held.
func TestOnlyNodesWithNominationsToComeAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		// meanwhile happens before the node is asked about once more.
		meanwhile func(*rig)
		waits     []time.Duration
	}{
		"nominated before":   {never, nil, []time.Duration{0, 0}},
		"the scheduler asks": {withExtender, nil, []time.Duration{0, 0}},
		"neither":            {func(*corev1.Pod) {}, func(*rig) {}, []time.Duration{gatherTime, gatherTime}},
		"its pod ends meanwhile": {func(*corev1.Pod) {}, func(r *rig) { r.state.DeletePod(r.live("x")) },
			[]time.Duration{gatherTime, 0}},
		"no other pod waits now": {func(*corev1.Pod) {}, func(r *rig) { r.binds("other", "d"); r.shows("other") },
			[]time.Duration{gatherTime, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				node := r.node("c", v1alpha1.StateStandby)
				r.claimed("x", c.change)
				r.pod("other")
				if keepsNomination(r.live("x")) {
					r.run(func() { r.nominator.ClaimsWritten(node) })
					r.shows("x")
				}
				waits := []time.Duration{r.nominator.BeforeOpening(t.Context(), node)}
				if c.meanwhile != nil {
					c.meanwhile(r)
				}
				waits = append(waits, r.nominator.BeforeOpening(t.Context(), node))
				if diff := cmp.Diff(c.waits, waits); diff != "" {
					t.Errorf("waits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Pods that are alike, each with a claim, may take each other's room: none needs a node more for
// it. In a burst of one workload no node is held, and no pod nominated.
func TestPodsAreNominatedWhereOthersMayCostANodeMore(t *testing.T) {
	asking := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu) }
	}
	placed := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
	}
	taint := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	tolerating := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}}
	}
	type changes []func(*corev1.Pod)
	for name, c := range map[string]struct {
		taints []corev1.Taint
		// on has a claim on the node, beside the pod x of 3 cpu that tolerates the taint, if it is set.
		on func(*corev1.Pod)
		// others have claims on another node.
		others changes
		// unclaimed has none, if it is set.
		unclaimed func(*corev1.Pod)
		// all are changed this way.
		all  func(*corev1.Pod)
		wait time.Duration
	}{
		"no other pod":                         {},
		"one like it":                          {others: changes{asking("3")}},
		"one like it without a claim":          {unclaimed: asking("3"), wait: gatherTime},
		"one that asks for less":               {others: changes{asking("2")}, wait: gatherTime},
		"one like it, and one of each kind":    {others: changes{asking("3"), asking("1")}, wait: gatherTime},
		"one like it, where another is beside": {on: asking("1"), others: changes{asking("3")}, wait: gatherTime},
		"pods that are like no other":          {others: changes{asking("3")}, all: placed, wait: gatherTime},
		"one that the node is too small for":   {unclaimed: asking("5")},
		"one that a selector keeps off": {unclaimed: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}},
		"one that a taint keeps off": {taints: []corev1.Taint{taint}, unclaimed: asking("3")},
		"one that tolerates it":      {taints: []corev1.Taint{taint}, unclaimed: tolerating, wait: gatherTime},
		"one with a gate": {unclaimed: func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
		}},
		"one whose scheduler asks":              {others: changes{withExtender}},
		"one whose scheduler asks, unclaimed":   {unclaimed: withExtender},
		"one whose scheduler asks is beside it": {on: withExtender, others: changes{asking("3")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				all := func(*corev1.Pod) {}
				if c.all != nil {
					all = c.all
				}
				pool := scalertest.NodePool(9, 0)
				pool.Spec.Template.Taints = c.taints
				r.state.SetPool(pool)
				node := r.node("c", v1alpha1.StateStandby, c.taints...)
				r.claimed("x", asking("3"), tolerating, all)
				if c.on != nil {
					r.claimed("on", tolerating, c.on, all)
				}
				for i, other := range c.others {
					r.node(fmt.Sprint("d", i), v1alpha1.StateStandby)
					r.claimed(fmt.Sprint("other-", i), tolerating, other, all)
				}
				if c.unclaimed != nil {
					r.pod("unclaimed", c.unclaimed, all)
				}
				if wait := r.nominator.BeforeOpening(t.Context(), node); wait != c.wait {
					t.Errorf("the wait is %v, want %v", wait, c.wait)
				}
				if c.wait == 0 {
					r.want("x", "")
				}
			})
		})
	}
}

// A node whose drain or stop goes on is opened at once. Its nominations are on their way, and the
// next group begins after them.
func TestANodeThatCannotStayClosedIsNominatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, node := range []string{"c", "d"} {
			r.node(node, v1alpha1.StateStandby)
			for i := range 4 {
				r.claimed(fmt.Sprintf("%s-%d", node, i))
			}
		}
		r.pod("other")
		claim, _ := r.state.ClaimOf("uid-c-0")
		first, second := claim.Node, v1alpha1.NodeName("d")
		if first == second {
			second = "c"
		}
		r.nominator.BeforeOpening(t.Context(), first)
		pass(gatherTime / 2)
		r.nominator.BeforeOpening(t.Context(), second)
		pass(gatherTime - time.Millisecond)
		r.writing = func(context.Context, int) error { pass(gatherTime / 2); return nil }
		r.nominator.AtOpening(t.Context(), first)
		if wait := r.nominator.BeforeOpening(t.Context(), second); wait != gatherTime {
			t.Errorf("after the opening of another the wait is %v, want %v", wait, gatherTime)
		}
		pass(gatherTime)
		r.want("c-0", string(first), Written, Written, Written, Written)
		r.writing = nil
		r.nominator.BeforeOpening(t.Context(), second)
		r.want("d-0", string(second), slices.Repeat([]Result{Written}, 8)...)
	})
}

// A write that no opening waits for is tried again, and a refused one is not.
func TestAFailedNominationIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		asked int
		node  string
	}{
		"no API server": {errors.New("connection refused"), 3, "c"},
		"a refusal":     {apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("a policy")), 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				node := r.node("c", v1alpha1.StateStandby)
				r.claimed("x", never)
				r.writing = func(_ context.Context, n int) error {
					if n < 3 {
						return c.fails
					}
					return nil
				}
				r.run(func() {
					r.nominator.ClaimsWritten(node)
					pass(time.Minute)
				})
				if got := r.live("x").Status.NominatedNodeName; got != c.node || r.asked != c.asked {
					t.Errorf("nominated to %q after %d writes, want %q after %d", got, r.asked, c.node, c.asked)
				}
			})
		})
	}
}
