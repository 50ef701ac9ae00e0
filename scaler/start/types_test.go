package start

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
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

// typed is a pool of stopped nodes of type a, whose class falls back to b and then c, with a cloud
// that has types. The cluster state sees each write at once.
type typed struct {
	t       *testing.T
	state   *cluster.State
	starter *Starter
	placer  *Placer
	api     client.WithWatch
	pods    int
	patches sync.Mutex

	mu sync.Mutex // guards what follows
	// calls are those to the cloud; kinds are the instances' types.
	calls []string
	at    []time.Time // of each call
	kinds map[string]string
	// started is the type that the cloud last started an instance as.
	started string
	// dry are the offerings of which the cloud has none, as zone/type; quota are the types that
	// share a quota, which is used up; noChange and noStart answer a change of an instance to a
	// type, and its start as that.
	dry               map[string]bool
	quota             []string
	noChange, noStart func(id, kind string) error
	// set are the reservations that instances are set to, of which roomLeft instances may start in
	// one; notSet answers a change of that.
	set      map[string]v1alpha1.CapacityReservation
	roomLeft int
	notSet   func(id string) error
	// shows is the type that the cloud's reads show of every instance; "" for its own.
	shows string
	// stops is how many calls find the instance stopping.
	stops int
	// unread is how many reads are refused.
	unread int
	// written is called after each write to a Node.
	written func()
	// lags: the cluster state is told later of what is written, unseen.
	lags   bool
	unseen []*corev1.Node
}

func newTyped(t *testing.T, nodes ...*corev1.Node) *typed {
	r := &typed{t: t, state: cluster.New(decide.NewClaims(), time.Now), kinds: map[string]string{}, dry: map[string]bool{},
		noChange: func(string, string) error { return nil }, noStart: func(string, string) error { return nil },
		set: map[string]v1alpha1.CapacityReservation{}, notSet: func(string) error { return nil }}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.NodePoolSpec{PoolSize: 10}}
	pool.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "k"}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool)
	for _, n := range nodes {
		b = b.WithObjects(n)
		r.kinds[string(InstanceOf(n))] = n.Labels[corev1.LabelInstanceTypeStable]
	}
	r.api = b.WithInterceptorFuncs(interceptor.Funcs{Patch: r.patch}).Build()
	recorder := events.NewFakeRecorder(1000)
	r.starter = New(Options{Reader: r.api, Live: r.api, Writer: r.api, Cloud: r, State: r.state, Events: recorder,
		Now: time.Now, Log: logr.Discard(), Count: func(v1alpha1.PoolName, Trigger) {},
		Refused: func(v1alpha1.PoolName, Refusal) {}})
	r.placer = NewPlacer(r.state, r.starter, recorder, time.Now)
	r.state.Listen(cluster.Listener{ClaimsLost: r.placer.Reschedule, NamesOutdated: r.starter.StartNode})
	r.state.SetNodeClass(classOf("a", "b", "c"))
	r.state.SetPool(pool)
	for _, n := range nodes {
		r.see(n.Name)
	}
	return r
}

// classOf is a class of which all the types are usable.
func classOf(first string, others ...string) *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "k"}}
	c.Spec.InstanceType, c.Spec.FallbackInstanceTypes = first, others
	for _, kind := range append([]string{first}, others...) {
		c.Status.InstanceTypes = append(c.Status.InstanceTypes, v1alpha1.InstanceTypeStatus{Type: kind, Usable: true})
	}
	return c
}

// stopped is a standby node of a type in a zone, with room for so many pods.
func stopped(name, zone, kind string, pods int64) *corev1.Node {
	n := nodeIn(v1alpha1.StateStandby)
	n.Name, n.UID, n.Spec.ProviderID = name, types.UID("uid-"+name), "fake:///"+zone+"/i-"+name
	n.Labels[corev1.LabelTopologyZone] = zone
	v1alpha1.SetInstanceType(n.Labels, kind)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
	return n
}

func (r *typed) see(name string) {
	r.t.Helper()
	n := &corev1.Node{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		r.t.Fatal(err)
	}
	r.state.SetNode(n)
}

func (r *typed) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	r.patches.Lock() // of two at once the fake API server refuses one, which a real one makes one after the other
	err := c.Patch(ctx, o, p, opts...)
	r.patches.Unlock()
	if err != nil && strings.Contains(err.Error(), "test failed") { // which the fake API server returns as it is
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, o.GetName(), nil)
	}
	if err != nil {
		return err
	}
	if r.lags {
		n := &corev1.Node{}
		r.unseen = append(r.unseen, n)
		return c.Get(ctx, client.ObjectKeyFromObject(o), n)
	}
	r.see(o.GetName())
	if r.written != nil {
		r.written()
	}
	return nil
}

// pend has a pod ask, as a scheduler does.
func (r *typed) pend(change ...func(*corev1.Pod)) {
	r.t.Helper()
	r.pods++
	name := fmt.Sprintf("pod-%d", r.pods)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, f := range change {
		f(p)
	}
	r.state.SetPod(p)
	r.placer.Place(p)
}

func (r *typed) call(format string, args ...any) {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	r.at = append(r.at, time.Now())
}

func (r *typed) StartInstance(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	zone := id[len("i-"):][:1]
	r.call("start %s as %s", id, r.kinds[id])
	if err := r.stillStops(); err != nil {
		return err
	}
	if r.set[id].Binding() != "" {
		if r.roomLeft--; r.roomLeft < 0 {
			return &provider.InsufficientCapacityError{Type: r.kinds[id], Zone: zone, Reservation: true, Err: errors.New("full")}
		}
		return r.noStart(id, r.kinds[id])
	}
	full := slices.Contains(r.quota, r.kinds[id])
	if full || r.dry[zone+"/"+r.kinds[id]] {
		return &provider.InsufficientCapacityError{Type: r.kinds[id], Zone: zone, Quota: full,
			Err: errors.New("none left")}
	}
	if err := r.noStart(id, r.kinds[id]); err != nil {
		return err
	}
	r.started = r.kinds[id]
	return nil
}

func (r *typed) stillStops() error {
	if r.stops--; r.stops >= 0 {
		return &provider.IncorrectStateError{State: provider.InstanceStopping}
	}
	return nil
}

func (r *typed) SharesQuota(one, other string) bool {
	return slices.Contains(r.quota, one) && slices.Contains(r.quota, other)
}

func (r *typed) ChangeInstanceType(_ context.Context, id, kind string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call("change %s to %s", id, kind)
	if err := r.stillStops(); err != nil {
		return err
	}
	if err := r.noChange(id, kind); err != nil {
		return err
	}
	r.kinds[id] = kind
	return nil
}

func (r *typed) GetInstance(_ context.Context, id string) (*provider.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unread--; r.unread >= 0 {
		return nil, &provider.RateLimitError{Operation: "DescribeInstances", Err: errors.New("slow down")}
	}
	kind := r.kinds[id]
	if r.shows != "" {
		kind = r.shows
	}
	return &provider.Instance{ID: v1alpha1.InstanceID(id), Type: kind}, nil
}

// run has Starter and Placer work while f runs, until nothing is left to do now.
func (r *typed) run(f func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.starter.Start(ctx) })
	wg.Go(func() { _ = r.placer.Start(ctx) })
	f()
	synctest.Wait()
	stop()
	wg.Wait()
}

func (r *typed) want(calls ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(calls, r.calls); diff != "" {
		r.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// is checks state, type and remaining intent to change it of a Node.
func (r *typed) is(name string, state v1alpha1.NodeState, kind string) {
	r.t.Helper()
	n := &corev1.Node{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		r.t.Fatal(err)
	}
	got := []string{n.Labels[v1alpha1.LabelState], n.Labels[corev1.LabelInstanceType],
		n.Labels[corev1.LabelInstanceTypeStable], n.Annotations[v1alpha1.AnnotationUnavailableUntil]}
	if diff := cmp.Diff([]string{string(state), kind, kind, ""}, got); diff != "" {
		r.t.Errorf("node %s (-want +got):\n%s", name, diff)
	}
}

// The cloud has none of the node's type in its zone: the node starts as the next type, at once.
func TestARefusedNodeStartsAsAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.dry["x/a"] = true
		began := time.Now()
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", "change i-x1 to b", "start i-x1 as b")
		r.is("x1", v1alpha1.StateStarting, "b")
		if took := time.Since(began); took > 0 {
			t.Errorf("it waited for %s", took)
		}
	})
}

// A claim that ends because its node turns out smaller is named there no more: its pod has a node
// of its own by then.
func TestANodeThatTurnsOutSmallerNamesWhatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 2), stopped("x2", "x", "b", 2))
		r.dry["x/a"] = true
		r.run(func() {
			r.pend()
			r.pend()
			synctest.Wait()
			n := &corev1.Node{}
			if err := r.api.Get(t.Context(), client.ObjectKey{Name: "x2"}, n); err != nil {
				t.Fatal(err)
			}
			n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
			if err := r.api.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			<-time.After(gathering)
			r.see("x2")
			<-time.After(gathering) // claims that were just written are written again only after that
		})
		r.names("x2", "pod-1")
		r.names("x1", "pod-2")
	})
}

// names checks which claims a Node names.
func (r *typed) names(node string, want ...string) {
	r.t.Helper()
	n := &corev1.Node{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		r.t.Fatal(err)
	}
	if got := n.Annotations[v1alpha1.AnnotationClaims]; got != strings.Join(want, ",") {
		r.t.Errorf("node %s names %q, want %q", node, got, want)
	}
}

// A quota is the same for each type of its family: only a type of another quota helps.
func TestAQuotaThatIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.quota = []string{"a", "b"}
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", "change i-x1 to c", "start i-x1 as c")
		r.is("x1", v1alpha1.StateStarting, "c")
	})
}

// Several are refused at once: each type that is out is asked for by the calls that were under way
// already, and by none after.
func TestTypesThatAreOutAreNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1), stopped("x2", "x", "a", 1), stopped("x3", "x", "a", 1))
		r.dry["x/a"], r.dry["x/b"] = true, true
		r.run(func() {
			r.pend()
			synctest.Wait()
			r.pend()
			r.pend()
			synctest.Wait()
		})
		count := map[string]int{}
		for _, c := range r.calls {
			count[c[strings.LastIndex(c, " ")+1:]]++
		}
		if count["a"] != 1 || count["b"] != 2 || count["c"] != 6 {
			t.Errorf("calls %q; want one start as a, a change and a start for b, three of each for c", r.calls)
		}
		for _, name := range []string{"x1", "x2", "x3"} {
			r.is(name, v1alpha1.StateStarting, "c")
		}
	})
}

// Another standby node whose type is available comes before a change.
func TestAnotherZoneComesBeforeAChangeOfType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1), stopped("y1", "y", "a", 1))
		r.dry["x/a"] = true
		r.run(func() {
			r.pend()
			synctest.Wait()
			r.pend()
			synctest.Wait()
		})
		r.want("start i-x1 as a", "start i-y1 as a", "change i-x1 to b", "start i-x1 as b")
		r.is("x1", v1alpha1.StateStarting, "b")
		r.is("y1", v1alpha1.StateStarting, "a")
	})
}

// A pod that selects the type does not come to a node that becomes another one.
func TestAPodThatSelectsTheTypeMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 2), stopped("y1", "y", "a", 2))
		r.dry["x/a"] = true
		wantsA := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: "a"} }
		r.run(func() { r.pend(wantsA); synctest.Wait() })
		r.want("start i-x1 as a", "start i-y1 as a")
		r.is("x1", v1alpha1.StateStandby, "a")
	})
}

// A type that the cloud refuses for an instance is not tried on it again before its next stop.
func TestATypeThatIsRefusedForAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.dry["x/a"] = true
		r.noChange = func(_, kind string) error {
			if kind == "b" {
				return &provider.InvalidConfigError{Field: "instanceType", Reason: "too many interfaces"}
			}
			return nil
		}
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", "change i-x1 to b", "change i-x1 to c", "start i-x1 as c")
		r.is("x1", v1alpha1.StateStarting, "c")
	})
}

// The cloud finds some things wrong only at the start.
func TestAStartThatIsRefusedForTheNewType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.dry["x/a"] = true
		r.noStart = func(_, kind string) error {
			if kind == "b" {
				return &provider.InvalidConfigError{Field: "instance", Reason: "the type needs ENA"}
			}
			return nil
		}
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", "change i-x1 to b", "start i-x1 as b", "change i-x1 to c", "start i-x1 as c")
		r.is("x1", v1alpha1.StateStarting, "c")
	})
}

// The cloud's reads show a change only a while later: what it just accepted counts.
func TestAStartThatIsRefusedBeforeReadsShowTheType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.dry["x/a"], r.dry["x/c"], r.shows = true, true, "a"
		r.noStart = func(string, string) error {
			return &provider.InvalidConfigError{Field: "instance", Reason: "the type needs ENA"}
		}
		r.state.MarkOfferingUnavailable(decide.Offering{Zone: "x", Type: "c"}, time.Now())
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", "change i-x1 to b", "start i-x1 as b")
		n := &corev1.Node{}
		if err := r.api.Get(t.Context(), client.ObjectKey{Name: "x1"}, n); err != nil {
			t.Fatal(err)
		}
		if got := n.Labels[corev1.LabelInstanceTypeStable]; got != "b" || n.Annotations[v1alpha1.AnnotationStartFailures] != "" {
			t.Errorf("the Node says type %q, and annotations %v", got, n.Annotations)
		}
	})
}

// An instance that is of a fallback type already is no more at fault.
func TestAStartThatIsRefusedForATypeOfTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "b", 1))
		r.noStart = func(_, kind string) error {
			if kind == "b" {
				return &provider.InvalidConfigError{Field: "instance", Reason: "the type needs ENA"}
			}
			return nil
		}
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as b", "change i-x1 to a", "start i-x1 as a")
		r.is("x1", v1alpha1.StateStarting, "a")
	})
}

// A start that is asked for again after a passing error changes nothing again.
func TestAStartThatIsAskedForAgainChangesNoType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.dry["x/a"] = true
		asked := 0
		r.noStart = func(string, string) error {
			if asked++; asked < 3 {
				return &provider.RateLimitError{Operation: "StartInstances", Err: errors.New("slow down")}
			}
			return nil
		}
		r.run(func() { r.pend(); <-time.After(time.Minute) })
		r.want("start i-x1 as a", "change i-x1 to b", "start i-x1 as b", "start i-x1 as b", "start i-x1 as b")
	})
}

// A missing permission holds all changes back; the node is refused for capacity, as without types.
func TestChangesOfTypeThatAreNotAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1), stopped("x2", "x", "a", 1))
		r.dry["x/a"] = true
		r.noChange = func(string, string) error {
			return &provider.UnauthorizedError{Operation: "ModifyInstanceAttribute", Reason: "not allowed"}
		}
		r.run(func() { r.pend(); synctest.Wait(); r.pend(); synctest.Wait() })
		isStart := func(call string) bool { return strings.HasPrefix(call, "start") }
		if changes := slices.DeleteFunc(slices.Clone(r.calls), isStart); len(changes) != 1 {
			t.Errorf("calls %q, want one change", r.calls)
		}
	})
}

// While nothing has claimed it, a node becomes the first type of its class again.
func TestANodeReturnsToItsFirstType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "b", 1))
		r.run(func() { r.starter.ReturnType("x1", "a"); synctest.Wait() })
		r.want("change i-x1 to a")
		r.is("x1", v1alpha1.StateStandby, "a")
	})
}

// A start that comes first is not disturbed.
func TestANodeThatStartsDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "b", 1))
		r.run(func() {
			r.pend()
			synctest.Wait()
			r.starter.ReturnType("x1", "a")
			synctest.Wait()
		})
		r.want("start i-x1 as b")
		r.is("x1", v1alpha1.StateStarting, "b")
	})
}

// staleReader shows one Node as it was, until it has caught up.
type staleReader struct {
	client.Reader
	node    *corev1.Node
	current atomic.Bool
}

func (s *staleReader) Get(ctx context.Context, at client.ObjectKey, into client.Object,
	options ...client.GetOption) error {
	if n, ok := into.(*corev1.Node); ok && at.Name == s.node.Name && !s.current.Load() {
		s.node.DeepCopyInto(n)
		return nil
	}
	return s.Reader.Get(ctx, at, into, options...)
}

// TestAStartAfterAReturnIsRefusedAsTheTypeThatItIs: the instance was just made type a again, which
// the cloud has none of, and neither cache nor cluster state show that yet. The refusal counts for
// a, not for b, and the node starts as b.
func TestAStartAfterAReturnIsRefusedAsTheTypeThatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := stopped("x1", "x", "b", 1)
		r := newTyped(t, before)
		r.dry["x/a"] = true
		r.lags = true
		cache := &staleReader{Reader: r.api, node: before}
		r.starter.reader = cache
		r.run(func() {
			r.starter.ReturnType("x1", "a")
			synctest.Wait()
			r.pend()
			synctest.Wait()
			cache.current.Store(true)
			r.lags = false
			for _, n := range r.unseen {
				r.state.SetNode(n)
			}
			<-time.After(time.Minute)
		})
		for kind, want := range map[string]bool{"a": true, "b": false} {
			until := r.state.OfferingUnavailableUntil(decide.Offering{Zone: "x", Type: kind}, time.Now())
			if dry := !until.IsZero(); dry != want {
				t.Errorf("type %s is known to be out: %t, want %t", kind, dry, want)
			}
		}
		if r.started != "b" {
			t.Errorf("the node has started as %q, want b: %q", r.started, r.calls)
		}
	})
}

// TestATypeThatAnotherProcessWroteIsCorrected: between the write that a node becomes type a again
// and the cloud's change, another process wrote the type that the cloud showed before. A start that
// is given up writes the one that it is; else it would be started as b without a change, and given
// up, in turn.
func TestATypeThatAnotherProcessWroteIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "b", 1))
		r.dry["x/a"] = true
		r.run(func() {
			r.starter.ReturnType("x1", "a")
			synctest.Wait()
			shown := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{`+
				`"node.kubernetes.io/instance-type":"b","beta.kubernetes.io/instance-type":"b"},`+
				`"annotations":{"stratos.sh/instance-type":null}}}`))
			x1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x1"}}
			if err := r.api.Patch(t.Context(), x1, shown); err != nil {
				t.Fatal(err)
			}
			r.askFor(5 * time.Second)
		})
		r.want("change i-x1 to a", "start i-x1 as a", "change i-x1 to b", "start i-x1 as b")
		r.is("x1", v1alpha1.StateStarting, "b")
	})
}

// TestATypeThatMayBeHadAgainEndsABackoff: a node backs off when the cloud refuses to start it as
// the only type that may be had. It starts as another one as soon as the cloud has that, as a node
// does whose class names one type.
func TestATypeThatMayBeHadAgainEndsABackoff(t *testing.T) {
	for name, c := range map[string]struct {
		others []string
		calls  []string
	}{
		"one type": {calls: []string{"start i-x1 as a", "start i-x1 as a"}},
		"the other type is refused": {others: []string{"b"}, calls: []string{"start i-x1 as a", "change i-x1 to b",
			"start i-x1 as b", "change i-x1 to a", "start i-x1 as a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTyped(t, stopped("x1", "x", "a", 1))
				r.state.SetNodeClass(classOf("a", c.others...))
				r.dry["x/a"] = true
				r.noStart = func(_, kind string) error {
					if kind == "b" {
						return &provider.InvalidConfigError{Field: "instance", Reason: "not this type"}
					}
					return nil
				}
				r.run(func() {
					r.askFor(20 * time.Second)
					r.dry["x/a"] = false
					r.state.MarkOfferingAvailable(decide.Offering{Zone: "x", Type: "a"}) // another node has started
					r.state.ExpireBackoffs(time.Now())
					r.askFor(20 * time.Second)
				})
				r.want(c.calls...)
			})
		})
	}
}

// TestAWarmUpThatIsRefusedShowsWhatIsOut: an instance that is to be warmed up once more is refused
// for want of its type. No pod is sent to another node for that type then, until a warm-up shows
// that the cloud has it again.
func TestAWarmUpThatIsRefusedShowsWhatIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warms := stopped("x2", "x", "a", 1)
		warms.Labels[v1alpha1.LabelState] = string(v1alpha1.StateWarmup)
		r := newTyped(t, stopped("x1", "x", "a", 1), warms)
		defer r.run(func() {})
		for _, out := range []bool{true, false} {
			r.dry["x/a"] = out
			if err := r.starter.WarmAgain(t.Context(), warms); provider.IsInsufficientCapacity(err) != out {
				t.Fatalf("out: %t, and the warm-up is answered by %v", out, err)
			}
			until := r.state.OfferingUnavailableUntil(decide.Offering{Zone: "x", Type: "a"}, time.Now())
			if known := !until.IsZero(); known != out {
				t.Errorf("out: %t, known to be: %t", out, known)
			}
		}
	})
}

// TestARefusedChangeIsNotAskedForAgain: the cloud refuses the change, and then does not say for a
// while what type the instance is.
func TestARefusedChangeIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTyped(t, stopped("x1", "x", "a", 1))
		r.dry["x/a"], r.unread = true, 3
		r.noChange = func(_, kind string) error {
			if kind == "b" {
				return &provider.InvalidConfigError{Field: "instanceType", Reason: "too many interfaces"}
			}
			return nil
		}
		r.run(func() { r.pend(); <-time.After(time.Minute) })
		r.want("start i-x1 as a", "change i-x1 to b", "change i-x1 to c", "start i-x1 as c")
	})
}

// TestAStartThatHasHappenedIsNotDeclined: a process before this one has made the instance the type
// and has started it. This one may not change types any more.
func TestAStartThatHasHappenedIsNotDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starting := stopped("x1", "x", "b", 1)
		starting.Labels[v1alpha1.LabelState] = string(v1alpha1.StateStarting)
		starting.Annotations[v1alpha1.AnnotationInstanceType] = "b"
		r := newTyped(t, starting)
		r.noChange = func(string, string) error { return &provider.UnauthorizedError{Operation: "Modify", Reason: "no"} }
		r.run(func() { r.starter.Resume("x1", TriggerPending, time.Now()); <-time.After(time.Minute) })
		r.want("change i-x1 to b", "start i-x1 as b")
		r.is("x1", v1alpha1.StateStarting, "b")
	})
}
