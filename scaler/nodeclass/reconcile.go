// Package nodeclass resolves node classes, reports their status, and launches instances of them.
package nodeclass

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/conflict"
	"github.com/stratos-sh/stratos/scaler/inventory"
)

const (
	// resolveEvery is how old what the cloud said of a class may grow: a newer image is found within
	// it.
	resolveEvery = 5 * time.Minute
	// resolveRetry is how soon a cloud that could not answer is asked again.
	resolveRetry = 30 * time.Second
	// resolveTimeout bounds one look at the cloud, so that a class of a region that does not answer
	// does not hold up the others for long.
	resolveTimeout = time.Minute
	// classWorkers: a cloud may take seconds to answer, so one class must not wait for another.
	classWorkers = 4
)

// Reconciler keeps the status of the node classes of one kind: what the cloud finds for their spec,
// and who uses them. It runs on the leader.
type Reconciler struct {
	Client client.Client
	Kind   Kind
	Events events.EventRecorder
	Now    func() time.Time

	// mu guards looks.
	mu sync.Mutex
	// looks are the last looks at the cloud by the class's name, in memory: who leads anew asks anew.
	looks map[string]look
	// controlPlane counts the changes of control-plane Nodes that a class may follow.
	controlPlane atomic.Uint64
	// Regions are those of the cloud that do not answer; nil where that is not known.
	Regions *inventory.Regions
	// Woken queues all classes again; nil where nothing does.
	Woken <-chan event.TypedGenericEvent[struct{}]
	// FailedTypes are the fallback types of a class of that generation that are to be left out
	// because starts as them failed, with the reasons; nil where that is not known.
	FailedTypes func(class string, generation int64) map[string]string
}

// look is one look at the cloud for a class.
type look struct {
	uid        types.UID
	generation int64
	at         time.Time
	failed     error
	// controlPlane is the count of changes before the cloud was asked.
	controlPlane uint64
}

// Reconcile holds the class while pools refer to it, and has the cloud asked when what it said has
// grown old.
func (c *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	return conflict.Retry(c.step(ctx, req))
}

func (c *Reconciler) step(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	class := c.Kind.New()
	if err := c.Client.Get(ctx, req.NamespacedName, class); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.forget(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pools, err := UsersOf(ctx, c.Client, v1alpha1.NodeClassRef{Kind: c.Kind.Name, Name: req.Name})
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := c.hold(ctx, class, len(pools) > 0); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if class.GetDeletionTimestamp() != nil && len(pools) == 0 {
		return ctrl.Result{}, nil // no object is left to write to
	}
	before := class.DeepCopyObject()
	found := c.resolve(ctx, class)
	c.leaveOutFailed(before, class)
	c.conditions(class, pools, found)
	if err := c.report(ctx, class, before); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: max(time.Second, c.due(class, found).Sub(c.Now()))}, nil
}

// UsersOf returns the names of the pools that refer to the class, sorted. One that is being deleted
// is among them: its instances are still to be found where the class says.
func UsersOf(ctx context.Context, reader client.Reader, ref v1alpha1.NodeClassRef) ([]string, error) {
	list := &v1alpha1.NodePoolList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Spec.Template.NodeClassRef == ref {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// hold sets the finalizer of a class that is in use and takes it from one that is not, so that no
// class outlives Stratos by it. The finalizers alone are sent, for the reasons of
// pools.writeFinalizers.
func (c *Reconciler) hold(ctx context.Context, class v1alpha1.NodeClass, used bool) error {
	before, ok := class.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", class)
	}
	changed := false
	switch {
	// the API server takes no new finalizer of an object that is being deleted
	case used && class.GetDeletionTimestamp() == nil:
		changed = controllerutil.AddFinalizer(class, v1alpha1.FinalizerInUse)
	case !used:
		changed = controllerutil.RemoveFinalizer(class, v1alpha1.FinalizerInUse)
	}
	if !changed {
		return nil
	}
	return c.Client.Patch(ctx, class, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// resolve asks the cloud if that is due, and returns the last look. What an earlier look found
// stands when one fails.
func (c *Reconciler) resolve(ctx context.Context, class v1alpha1.NodeClass) look {
	c.mu.Lock()
	if c.looks == nil {
		c.looks = map[string]look{}
	}
	last, known := c.looks[class.GetName()]
	c.mu.Unlock()
	same := last.uid == class.GetUID() && last.generation == class.GetGeneration()
	if known && same && c.Now().Before(c.due(class, last)) {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	last = look{uid: class.GetUID(), generation: class.GetGeneration(), controlPlane: c.controlPlane.Load()}
	last.failed, last.at = c.Kind.Resolve(ctx, class), c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks[class.GetName()] = last
	return last
}

// next is when the cloud is to be asked again.
func (l look) next() time.Time {
	if l.failed != nil {
		return l.at.Add(resolveRetry)
	}
	return l.at.Add(resolveEvery)
}

func (c *Reconciler) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.looks, name)
}

func (c *Reconciler) conditions(class v1alpha1.NodeClass, pools []string, found look) {
	observed, conditions := class.StatusParts()
	set := func(kind string, status metav1.ConditionStatus, reason v1alpha1.Reason, message string) {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: status, Reason: string(reason), Message: message, ObservedGeneration: class.GetGeneration(),
		})
	}
	f, failing := c.unavailable(class)
	if found.failed != nil {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, provider.ConditionReason(found.failed), found.failed.Error())
	} else if *observed = found.generation; failing {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRegionUnavailable, f.Message())
	} else {
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonResolved,
			"the cloud has everything that the class names")
	}
	if found.failed == nil {
		setInstanceTypes(class, set)
	}
	if len(pools) > 0 {
		const shown = 10 // a message is no inventory
		set(v1alpha1.ConditionInUse, metav1.ConditionTrue, v1alpha1.ReasonReferred,
			"kept for NodePool "+v1alpha1.FirstNames(pools, shown))
	} else {
		set(v1alpha1.ConditionInUse, metav1.ConditionFalse, v1alpha1.ReasonNotReferred, "no NodePool refers to it")
	}
}

// report writes the status where it differs, and says in an event when the cloud begins to refuse.
func (c *Reconciler) report(ctx context.Context, class v1alpha1.NodeClass, was any) error {
	before, ok := was.(v1alpha1.NodeClass)
	if !ok || equality.Semantic.DeepEqual(before, class) {
		return nil
	}
	_, had := before.StatusParts()
	_, has := class.StatusParts()
	ready := meta.FindStatusCondition(*has, v1alpha1.ConditionReady)
	if !meta.IsStatusConditionFalse(*had, v1alpha1.ConditionReady) && ready.Status == metav1.ConditionFalse {
		c.Events.Eventf(class, nil, corev1.EventTypeWarning, ready.Reason, "Resolve", "%s", ready.Message)
	}
	c.reportCluster(before, class)
	c.reportInstanceTypes(before, class)
	return c.Client.Status().Patch(ctx, class, client.MergeFrom(before))
}

// joining is a class whose status says which cluster new instances join.
type joining interface {
	JoinedCluster() *v1alpha1.BootstrapCluster
}

// reportCluster says in an event that the cloud says something else of the cluster that new
// instances join. After a change of the spec it says nothing: what a user wrote is drift.
func (c *Reconciler) reportCluster(before, class v1alpha1.NodeClass) {
	was, ok := before.(joining)
	is, ok2 := class.(joining)
	observed, _ := before.StatusParts()
	if !ok || !ok2 || was.JoinedCluster() == nil || is.JoinedCluster() == nil || *observed != class.GetGeneration() {
		return
	}
	if changed := was.JoinedCluster().Changes(*is.JoinedCluster()); len(changed) > 0 {
		c.Events.Eventf(class, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonBootstrapChanged), "Resolve",
			"status.bootstrap.cluster has another %s; nodes that exist keep what they were launched with",
			strings.Join(changed, " and "))
	}
}

// +kubebuilder:rbac:groups=stratos.sh,resources=awsnodeclasses,verbs=list;watch;patch
// +kubebuilder:rbac:groups=stratos.sh,resources=awsnodeclasses/status,verbs=patch

// SetupWithManager registers the controller: it listens to the classes and to the pools that refer
// to them, and wakes by itself.
func (c *Reconciler) SetupWithManager(mgr manager.Manager) error {
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	b := ctrl.NewControllerManagedBy(mgr)
	if c.Woken != nil {
		b = b.WatchesRawSource(c.setupRegions(c.Woken))
	}
	return c.watchControlPlane(b).
		Named(strings.ToLower(c.Kind.Name)).
		For(c.Kind.New(), spec).
		Watches(&v1alpha1.NodePool{}, handler.EnqueueRequestsFromMapFunc(c.ofPool), spec).
		WithOptions(controller.Options{MaxConcurrentReconciles: classWorkers}).
		Complete(c)
}

// ofPool is asked for a pool as it was and as it is, so that a class that is referred to no more is
// looked at too.
func (c *Reconciler) ofPool(_ context.Context, o client.Object) []reconcile.Request {
	pool, ok := o.(*v1alpha1.NodePool)
	if !ok || pool.Spec.Template.NodeClassRef.Kind != c.Kind.Name {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: pool.Spec.Template.NodeClassRef.Name}}}
}
