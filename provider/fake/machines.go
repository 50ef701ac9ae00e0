package fake

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	// callTimeout ends one API call of a machine; a kubelet gives up after the same time.
	callTimeout = 10 * time.Second
	// byNodeIndex indexes pods by spec.nodeName.
	byNodeIndex = "node"
)

// MachinesOptions configure Machines. Zero fields take the default.
type MachinesOptions struct {
	// Client reaches the cluster. Its own rate limit should be off (QPS -1), else kubelets wait for
	// each other.
	Client kubernetes.Interface
	// LeasePeriod is how often a kubelet renews its lease, default 10 s; HeartbeatPeriod how often it
	// reports its status without a change, default 5 min.
	LeasePeriod, HeartbeatPeriod time.Duration
	// CloudLoop is the period of the cloud controller, default 5 s.
	CloudLoop time.Duration
	// PlayNodeController plays kube-controller-manager's node life-cycle controller too, for clusters
	// without one: Ready=Unknown GracePeriod (default 50 s) after the last sign of life, and the
	// taints that follow from conditions.
	PlayNodeController bool
	GracePeriod        time.Duration
	// Workers bounds the requests in flight, default 32.
	Workers int
	// Log is where failures of API calls go. The zero value discards them.
	Log logr.Logger
}

func (o MachinesOptions) withDefaults() MachinesOptions {
	pick := func(d *time.Duration, fallback time.Duration) {
		if *d <= 0 {
			*d = fallback
		}
	}
	pick(&o.LeasePeriod, 10*time.Second)
	pick(&o.HeartbeatPeriod, 5*time.Minute)
	pick(&o.CloudLoop, 5*time.Second)
	pick(&o.GracePeriod, 50*time.Second)
	if o.Workers <= 0 {
		o.Workers = 32
	}
	return o
}

// Power is a cloud as its machines and controllers see it. simcloud.Cloud has it, so machines run
// behind whatever API stands before that.
type Power interface {
	// Guest is the machine inside the instance; false for none. GuestIDs are all instances, sorted.
	Guest(id v1alpha1.InstanceID) (simcloud.Guest, bool)
	GuestIDs() []v1alpha1.InstanceID
	// Observe makes o the one that is told when power comes and goes; nil for none.
	Observe(o simcloud.Observer)
	// ShutDown is the guest powering itself off in that boot.
	ShutDown(id v1alpha1.InstanceID, bootNumber int)
	// Truth is the state of the instance with that provider id, which begins with ProviderPrefix;
	// false for none.
	Truth(providerID string) (provider.InstanceState, bool)
	ProviderPrefix() string
	Times() Times
	// Cluster is the one that the machines join.
	Cluster() v1alpha1.BootstrapCluster
	InstanceType(name string) (InstanceType, bool)
}

var _ Power = (*simcloud.Cloud)(nil)

// Machines plays the machines of a cloud towards Kubernetes: kubelets, CNI, user data, and the
// cloud controller.
//
// There is no goroutine and no watch per machine. Each machine, pod and lease is a key in a
// delaying queue; working on a key brings the API to where it should be by now and returns when to
// do so again.
type Machines struct {
	power  Power
	o      MachinesOptions
	queue  workqueue.TypedRateLimitingInterface[key]
	leases workqueue.TypedRateLimitingInterface[key]
	nodes  cache.SharedIndexInformer
	pods   cache.SharedIndexInformer
	podSeq atomic.Uint32

	// mu guards the two indexes of the machines.
	mu     sync.Mutex
	byID   map[v1alpha1.InstanceID]*machine
	byNode map[v1alpha1.NodeName]*machine
}

// key is one piece of work: a pod or a Node's taints where their names are set, else a machine.
type key struct {
	machine v1alpha1.InstanceID
	node    v1alpha1.NodeName
	pod     types.NamespacedName
	uid     types.UID
}

// What kubelets, the cloud controller and the node controller may do. The chart grants these
// permissions only where the fake cloud runs in the Stratos process.
//
// +kubebuilder:rbac:roleName=fake,groups="",resources=nodes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:roleName=fake,groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:roleName=fake,groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:roleName=fake,groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:roleName=fake,namespace=kube-node-lease,groups=coordination.k8s.io,resources=leases,verbs=get;create;update

// NewMachines returns the machines of a cloud. Start runs them, once; at most one Machines per
// cloud at a time, and one cloud per cluster, since the cloud controller deletes Nodes whose
// instance it does not know by its provider id.
func NewMachines(power Power, o MachinesOptions) *Machines {
	m := &Machines{
		power:  power,
		o:      o.withDefaults(),
		byID:   map[v1alpha1.InstanceID]*machine{},
		byNode: map[v1alpha1.NodeName]*machine{},
	}
	m.queue, m.leases = newQueue(), newQueue()
	// Pods that are bound nowhere are no kubelet's business; a real kubelet's watch has such a
	// selector too.
	bound := informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	})
	m.pods = informers.NewSharedInformerFactoryWithOptions(o.Client, 0, bound).Core().V1().Pods().Informer()
	m.nodes = informers.NewSharedInformerFactory(o.Client, 0).Core().V1().Nodes().Informer()
	return m
}

func newQueue() workqueue.TypedRateLimitingInterface[key] {
	return workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](50*time.Millisecond, 5*time.Second))
}

// Start runs until the context ends. It continues what an earlier Machines of the same Cloud left.
func (m *Machines) Start(ctx context.Context) error {
	if err := m.watch(); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer m.queue.ShutDown()
	defer m.leases.ShutDown()
	running.Go(func() { m.nodes.RunWithContext(ctx) })
	running.Go(func() { m.pods.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), m.nodes.HasSynced, m.pods.HasSynced) {
		return nil
	}
	m.power.Observe(m)
	defer m.power.Observe(nil)
	for _, id := range m.power.GuestIDs() {
		m.PowerChanged(id)
	}
	for range m.o.Workers {
		running.Go(func() { m.work(ctx, m.queue, m.sync) })
	}
	// Leases have workers of their own, so that 2000 renewals never stand before a boot.
	for range max(1, m.o.Workers/4) {
		running.Go(func() { m.work(ctx, m.leases, m.renew) })
	}
	running.Go(func() { every(ctx, m.o.CloudLoop, m.runCloudController) })
	if m.o.PlayNodeController {
		running.Go(func() { every(ctx, m.o.CloudLoop, m.runNodeController) })
	}
	<-ctx.Done()
	return nil
}

// every runs f once per period until the context ends.
func every(ctx context.Context, period time.Duration, f func(context.Context)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f(ctx)
		}
	}
}

// work takes keys until the queue is shut down. f returns when to come back; 0 for never.
func (m *Machines) work(ctx context.Context, q workqueue.TypedRateLimitingInterface[key],
	f func(context.Context, key) (time.Duration, error)) {
	for {
		k, down := q.Get()
		if down {
			return
		}
		again, err := f(ctx, k)
		switch {
		case err != nil && ctx.Err() == nil:
			m.o.Log.V(1).Info("fake machine's call failed, will retry", "instance", k.machine, "pod", k.pod, "error",
				err.Error())
			q.AddRateLimited(k)
		case again > 0:
			q.Forget(k)
			q.AddAfter(k, again)
		default:
			q.Forget(k)
		}
		q.Done(k)
	}
}

func (m *Machines) sync(ctx context.Context, k key) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch {
	case k.pod.Name != "":
		return m.syncPod(ctx, k)
	case k.node != "":
		return 0, m.syncNodeTaints(ctx, k.node)
	}
	return m.syncMachine(ctx, k.machine)
}

// watch connects the informers to the queue.
func (m *Machines) watch() error {
	for _, informer := range []cache.SharedIndexInformer{m.nodes, m.pods} {
		if err := informer.SetTransform(slim); err != nil {
			return fmt.Errorf("fake machines: %w", err)
		}
	}
	err := m.pods.AddIndexers(cache.Indexers{byNodeIndex: func(o any) ([]string, error) {
		if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("fake machines: %w", err)
	}
	_, err = m.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { m.podSeen(nil, o) },
		UpdateFunc: m.podSeen,
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			m.podGone(o)
		},
	})
	if err != nil {
		return fmt.Errorf("fake machines: %w", err)
	}
	if !m.o.PlayNodeController {
		return nil
	}
	_, err = m.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { m.nodeSeen(o) },
		UpdateFunc: func(_, o any) { m.nodeSeen(o) },
	})
	return err
}

// slim drops what no machine reads: half of an object's memory is managed fields.
func slim(o any) (any, error) {
	if accessor, err := meta.Accessor(o); err == nil {
		accessor.SetManagedFields(nil)
	}
	return o, nil
}

// podSeen queues a pod of ours, unless the update is the echo of our own status report.
func (m *Machines) podSeen(before, after any) {
	pod, ok := after.(*corev1.Pod)
	if !ok || m.onNode(v1alpha1.NodeName(pod.Spec.NodeName)) == nil {
		return
	}
	if old, ok := before.(*corev1.Pod); ok && old.UID == pod.UID && old.Spec.NodeName == pod.Spec.NodeName &&
		(old.DeletionTimestamp == nil) == (pod.DeletionTimestamp == nil) && !finished(pod) {
		return
	}
	m.queue.Add(podKey(pod))
}

// podGone gives the room of a pod that is gone back.
func (m *Machines) podGone(o any) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	if mach := m.onNode(v1alpha1.NodeName(pod.Spec.NodeName)); mach != nil {
		mach.release(pod.UID, false)
	}
}

func podKey(pod *corev1.Pod) key {
	return key{pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, uid: pod.UID}
}

func (m *Machines) onNode(name v1alpha1.NodeName) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byNode[name]
}

func (m *Machines) machine(id v1alpha1.InstanceID) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[id]
}

// PowerChanged implements simcloud.Observer.
func (m *Machines) PowerChanged(id v1alpha1.InstanceID) {
	g, ok := m.power.Guest(id)
	if !ok {
		return
	}
	m.mu.Lock()
	mach := m.byID[id]
	var lastSign time.Time
	if mach != nil && mach.isAnother(g) {
		lastSign = mach.signed()
		delete(m.byNode, mach.name)
		mach = nil
	}
	if mach == nil {
		size, _ := m.power.InstanceType(g.Type)
		mach = newMachine(g, size, m.power.Cluster())
		mach.lastSign = lastSign
		if mach.script.refusal != "" {
			m.o.Log.Info("fake machine does not join", "instance", id, "reason", mach.script.refusal)
		}
		m.byID[id], m.byNode[mach.name] = mach, mach
	}
	if g.Ended {
		delete(m.byID, id)
		delete(m.byNode, mach.name)
	}
	m.mu.Unlock()
	mach.setPower(m.power)
	m.queue.Add(key{machine: id})
}

// Quiet implements simcloud.Observer.
func (m *Machines) Quiet(id v1alpha1.InstanceID) {
	if mach := m.machine(id); mach != nil {
		mach.quiet()
	}
}
