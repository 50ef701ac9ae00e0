package scaler

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/metrics"
	"github.com/stratos-sh/stratos/scaler/node"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/pending"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/start"
)

// Times of the product. Tests here see what they bring about, as users do.
const (
	launchRetry   = 5 * time.Second
	slotRetention = inventory.SweepEvery + inventory.FastFor
	explainAfter  = 2 * time.Second
	warnAgain     = time.Hour
	refusalHolds  = 5 * time.Minute
	regionGrace   = 30 * time.Second
	resolveRetry  = 30 * time.Second
	resolveEvery  = 5 * time.Minute
	// marksAtOnce is how many instances one sweep marks as this cluster's.
	marksAtOnce = 20
)

func epoch() time.Time { return scalertest.Epoch() }

// rig is the scaler's two controllers over an API server in memory and a scripted cloud. What both
// are asked to change goes to one log, in order.
type rig struct {
	t         *testing.T
	api       client.WithWatch
	inventory *inventory.Inventory
	ledger    *decide.Claims
	events    *events.FakeRecorder
	nodes     *node.Reconciler
	pools     *pool.Reconciler
	demand    *pending.Demand
	turns     *pool.Disruptions
	// homeless are the claims that were handed back for another placement.
	homeless []decide.Claim
	now      time.Time

	// patching and the answers stand for faults; nil is none.
	patching  func() error
	admitting func(*corev1.Pod) error // may change the pod
	statusing func() error
	// statusingPod is called before each write to a pod's status.
	statusingPod func(*corev1.Pod) error
	launching    func(n int) error
	stopping     error
	// starting is what StartInstance answers.
	starting error
	// starts is where nodes wait for the Starter's next step.
	starts workqueue.TypedRateLimitingInterface[v1alpha1.NodeName]
	// terminating is what TerminateInstance answers.
	terminating error
	evicting    error
	// answering is what an eviction is answered, where it is set.
	answering func(pod string, e *policyv1.Eviction) error
	// refusing is what the deletion of a Secret is answered.
	refusing error
	listed   []*provider.Instance
	listing  error                         // in addition to what is listed
	known    map[string]*provider.Instance // what GetInstance answers with

	cloud *classCloud

	mu       sync.Mutex // guards what follows: launches come from several goroutines
	log      []string
	launches []provider.LaunchRequest
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{t: t, inventory: inventory.New(), ledger: decide.NewClaims(), demand: pending.NewDemand(),
		turns:  pool.NewDisruptions(),
		events: events.NewFakeRecorder(1000), cloud: &classCloud{}, now: epoch(), known: map[string]*provider.Instance{}}
	pod := func(f func(*corev1.Pod) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{f(o.(*corev1.Pod))} }
	}
	r.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Node{},
		&corev1.Pod{}, &v1alpha1.NodePool{}, &v1alpha1.AWSNodeClass{}).
		WithIndex(&corev1.Node{}, inventory.IndexProviderID,
			func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&corev1.Node{}, inventory.IndexManaged,
			func(o client.Object) []string { return []string{string(inventory.ManagedInstance(o.(*corev1.Node)))} }).
		WithIndex(&storagev1.VolumeAttachment{}, inventory.IndexAttachment,
			func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }).
		WithIndex(&corev1.Pod{}, inventory.IndexPodNode, pod(inventory.NodeOfPod)).
		WithIndex(&corev1.Pod{}, "spec.nodeName", pod(func(p *corev1.Pod) string { return p.Spec.NodeName })).
		WithInterceptorFuncs(interceptor.Funcs{Create: r.create, Patch: r.patch, Delete: r.delete, SubResourceCreate: r.evict,
			SubResourcePatch: r.patchStatus}).Build()
	metrics, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	clock, failures, starts := func() time.Time { return r.now }, &pool.WarmupFailures{}, &pool.StartTimes{}
	r.starts = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[v1alpha1.NodeName](time.Nanosecond, time.Nanosecond),
	)
	seen := cluster.New(r.ledger, clock)
	seen.Listen(cluster.Listener{ClaimsLost: func(claims []decide.Claim) { r.homeless = append(r.homeless, claims...) }})
	for _, o := range objects {
		if set, ok := o.(*appsv1.DaemonSet); ok {
			seen.SetDaemonSet(set)
		}
	}
	r.nodes = &node.Reconciler{
		Reader: r.api, Live: r.api, Client: r.api, Cloud: r, Owner: inventory.Owner{Cluster: "here", UID: "uid-here"},
		Namespace: "stratos", State: seen, Events: r.events, Metrics: metrics,
		Now: clock, Born: epoch(), Inventory: r.inventory, Poke: func() {},
		Demand: r.demand, Disruptions: r.turns, Warmups: failures, Starts: starts,
		Classes: nodeclass.Kinds{Reader: r.api, Served: []nodeclass.Kind{nodeclass.AWSNodeClasses(r.cloud)}},
		Starter: start.New(start.Options{
			Reader: r.api, Live: r.api, Writer: r.api, Cloud: r, State: seen, Events: r.events, Now: clock,
			Log: logr.Discard(), Calls: r.starts,
			Count: func(pool v1alpha1.PoolName, trigger start.Trigger) {
				r.note("count " + string(pool) + " " + string(trigger))
			},
			Refused: func(v1alpha1.PoolName, start.Refusal) {},
		}),
	}
	r.pools = &pool.Reconciler{
		Client: r.api, Cloud: r, Owner: inventory.Owner{Cluster: "here", UID: "uid-here"}, Launcher: r,
		Classes:        nodeclass.Kinds{Reader: r.api, Served: []nodeclass.Kind{nodeclass.AWSNodeClasses(r.cloud)}},
		LaunchesAtOnce: pool.LaunchesAtOnce,
		Events:         r.events, Metrics: metrics, Now: clock, Inventory: r.inventory,
		State: seen, Demand: r.demand, Disruptions: r.turns, Warmups: failures, Starts: starts,
		Namespace: "stratos",
		Poke:      func() {}, Wake: func(_ context.Context, id v1alpha1.InstanceID) { r.note("wake " + string(id)) },
		LookAgain: func(pod client.ObjectKey) { r.note("look at " + pod.Name) },
	}
	return r
}

// agents is a DaemonSet that takes 100m of each node that runs.
func agents() *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "agent"}}
	set.Spec.Template.Spec.Containers = boundPod("agent", needing("100m")).Spec.Containers
	return set
}

func (r *rig) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, what)
}

// patch answers as the API server does: a test that fails is 422.
func (r *rig) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	if r.patching != nil {
		if err := r.patching(); err != nil {
			return err
		}
	}
	data, dataErr := p.Data(o) // before the answer is read into o
	if dataErr != nil {
		return dataErr
	}
	err := c.Patch(ctx, o, p, opts...)
	if err != nil && strings.Contains(err.Error(), "test") {
		err = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch",
			schema.GroupResource{Resource: "nodes"}, o.GetName(), err.Error(), 0, false)
	}
	switch node, ok := o.(*corev1.Node); {
	case err != nil:
		r.note("patch refused")
	case ok && node.Annotations[v1alpha1.AnnotationStopAsked] != "":
		r.note("asked " + o.GetName())
	case ok && node.Annotations[v1alpha1.AnnotationStopIntent] != "":
		r.note("intent " + o.GetName())
	case ok:
		r.note("patch " + o.GetName() + " " + o.GetLabels()[v1alpha1.LabelState])
	case strings.Contains(string(data), `"finalizers":["`):
		r.note(fmt.Sprintf("finalizer, spec sent: %v", strings.Contains(string(data), `"spec"`)))
	case strings.Contains(string(data), `"finalizers"`): // its removal is seen by the object being gone
	default:
		r.note("reserve " + o.GetAnnotations()[v1alpha1.AnnotationLaunches])
	}
	return err
}

// create admits pods as the API server does.
func (r *rig) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if pod, ok := o.(*corev1.Pod); ok && r.admitting != nil {
		if err := r.admitting(pod); err != nil {
			return err
		}
	}
	return c.Create(ctx, o, opts...)
}

func (r *rig) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	how := "delete "
	if grace := (&client.DeleteOptions{}).ApplyOptions(opts).GracePeriodSeconds; grace != nil && *grace == 0 {
		how = "delete-now "
	}
	if _, ok := o.(*corev1.Secret); ok && r.refusing != nil {
		return r.refusing
	}
	r.note(how + o.GetName())
	return c.Delete(ctx, o, opts...)
}

func (r *rig) evict(_ context.Context, _ client.Client, sub string, o, body client.Object,
	opts ...client.SubResourceCreateOption) error {
	if len((&client.SubResourceCreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		sub = "dry-run " + sub
	}
	r.note(sub + " " + o.GetName())
	if e, ok := body.(*policyv1.Eviction); ok && r.answering != nil {
		return r.answering(o.GetName(), e)
	}
	return r.evicting
}

// patchStatus is not in the log: what a status says is read from the object.
func (r *rig) patchStatus(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption) error {
	if r.statusing != nil {
		if err := r.statusing(); err != nil {
			return err
		}
	}
	if pod, ok := o.(*corev1.Pod); ok && r.statusingPod != nil {
		if err := r.statusingPod(pod); err != nil {
			return err
		}
	}
	return c.SubResource(sub).Patch(ctx, o, p, opts...)
}

func (r *rig) StartInstance(_ context.Context, id string) error {
	r.note("start " + id)
	return r.starting
}

func (r *rig) StopInstance(_ context.Context, id string, force bool) error {
	r.note(map[bool]string{true: "force-stop ", false: "stop "}[force] + id)
	return r.stopping
}

func (r *rig) TerminateInstance(_ context.Context, id string) error {
	r.note("terminate " + id)
	return r.terminating
}

func (r *rig) GetInstanceState(context.Context, string) (provider.InstanceState, error) {
	panic("nobody asks for one state")
}

func (r *rig) GetInstance(_ context.Context, id string) (*provider.Instance, error) {
	r.note("get " + id)
	if i, ok := r.known[id]; ok {
		return i, nil
	}
	return nil, &provider.InstanceNotFoundError{ID: id}
}

func (r *rig) ListInstances(context.Context, map[string]string) ([]*provider.Instance, error) {
	return r.listed, r.listing
}

func (r *rig) UpdateInstanceTags(_ context.Context, id string, tags map[string]string) error {
	r.note("tag " + id + " " + tags[v1alpha1.LabelState])
	return nil
}

// Launch implements launcher. The instance's id is its client token, as for a cloud the same token
// is the same instance.
func (r *rig) Launch(_ context.Context, _ v1alpha1.NodeClassRef, req provider.LaunchRequest) (*provider.Instance,
	error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.launches = append(r.launches, req)
	r.log = append(r.log, "launch "+strconv.FormatInt(req.Number, 10))
	if r.launching != nil {
		if err := r.launching(len(r.launches)); err != nil {
			return nil, err
		}
	}
	return &provider.Instance{ID: v1alpha1.InstanceID(req.ClientToken), State: provider.InstancePending, Zone: req.Zone,
		Tags: req.Tags, LaunchTime: r.now}, nil
}

func (r *rig) want(log ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(log, r.log, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("what happened (-want +got):\n%s", diff)
	}
	r.log = nil
}

// sweep lets the inventory take in a list at the rig's time.
func (r *rig) sweep(list ...*provider.Instance) { r.inventory.Replace(list, r.now) }

func (r *rig) node(name string) *corev1.Node {
	r.t.Helper()
	n := &corev1.Node{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		r.t.Fatal(err)
	}
	return n
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

func (r *rig) promise(pod, node string) {
	r.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod, UID: types.UID(pod)}}
	n := &decide.Node{Node: fit.Node{Name: v1alpha1.NodeName(node), Allocatable: fit.Resources{Pods: 10}}, Pool: "p",
		State: v1alpha1.StateStandby}
	if d := r.ledger.Decide(decide.Ask{Pod: p, Nodes: []*decide.Node{n}}, r.now); d.Claim == nil {
		r.t.Fatalf("set-up: no claim: %q", d.Refused)
	}
}

// instance is "i-c" of pool "p", launched an hour ago.
func instance(state provider.InstanceState, change ...func(*provider.Instance)) *provider.Instance {
	i := &provider.Instance{
		ID: "i-c", ProviderID: "fake:///zone-a/i-c", State: state, LaunchTime: epoch().Add(-time.Hour),
		Tags: map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "here",
			v1alpha1.TagClusterUID: "uid-here", v1alpha1.LabelPool: "p"},
	}
	for _, f := range change {
		f(i)
	}
	return i
}

func called(id string) func(*provider.Instance) {
	return func(i *provider.Instance) { i.ID, i.ProviderID = v1alpha1.InstanceID(id), "fake:///zone-a/"+id }
}

func withTag(key, value string) func(*provider.Instance) {
	return func(i *provider.Instance) { i.Tags[key] = value }
}

// seenUp: that the node was Ready and its network up in this warm-up is written down.
func seenUp(n *corev1.Node) {
	n.Annotations[v1alpha1.AnnotationReadySeen], n.Annotations[v1alpha1.AnnotationNetworkSeen] = "2026-03-01T11:30:00Z",
		"2026-03-01T11:30:00Z"
}

// boundPod is a pod on node "c".
func boundPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: "c"}}
	for _, f := range change {
		f(p)
	}
	return p
}

func nodeIn(state v1alpha1.NodeState, change ...func(*corev1.Node)) *corev1.Node {
	return scalertest.NodeIn(state, change...)
}

func nodePool(size, least int32, change ...func(*v1alpha1.NodePool)) *v1alpha1.NodePool {
	return scalertest.NodePool(size, least, change...)
}

func annotated(key, value string) func(*corev1.Node) { return scalertest.Annotated(key, value) }

func markedAt(key string, t time.Time) func(*corev1.Node) { return scalertest.MarkedAt(key, t) }
