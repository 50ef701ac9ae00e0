package cluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// SetupWithManager feeds the cluster state from informers, on every replica. nil informers are the
// manager's cache; a test hands in ones that lag.
func (s *State) SetupWithManager(mgr manager.Manager, informers cache.Informers) error {
	if informers == nil {
		informers = mgr.GetCache()
	}
	return mgr.Add(&feed{state: s, informers: informers})
}

// feed passes informer events on to the cluster state.
type feed struct {
	state     *State
	informers cache.Informers
}

// NeedLeaderElection is false: every replica has a view.
func (f *feed) NeedLeaderElection() bool { return false }

// The cluster state watches these, in all namespaces.
//
// +kubebuilder:rbac:groups="",resources=namespaces;nodes;pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims;persistentvolumes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;replicasets;statefulsets,verbs=list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list;watch
// +kubebuilder:rbac:groups=stratos.sh,resources=awsnodeclasses;nodepools,verbs=list;watch

// Start registers with the informers and returns when ctx ends.
func (f *feed) Start(ctx context.Context) error {
	v := f.state
	var synced []func() bool
	for _, watch := range []struct {
		object client.Object
		to     toolscache.ResourceEventHandler
	}{
		{&v1alpha1.NodePool{}, eventsTo(v.SetPool, func(p *v1alpha1.NodePool) { v.DeletePool(v1alpha1.PoolName(p.Name)) })},
		{&v1alpha1.AWSNodeClass{}, eventsTo(v.SetNodeClass, func(c *v1alpha1.AWSNodeClass) { v.DeleteNodeClass(c.Name) })},
		{&corev1.Node{}, eventsTo(v.SetNode, func(n *corev1.Node) { v.DeleteNode(v1alpha1.NodeName(n.Name)) })},
		{&corev1.Pod{}, eventsTo(v.SetPod, v.DeletePod)},
		{&appsv1.DaemonSet{}, eventsTo(v.SetDaemonSet, v.DeleteDaemonSet)},
		{&corev1.Namespace{}, eventsTo(v.SetNamespace, v.DeleteNamespace)},
		{&corev1.PersistentVolumeClaim{}, eventsTo(v.SetClaim, v.DeleteClaim)},
		{&corev1.PersistentVolume{}, eventsTo(v.SetVolume, v.DeleteVolume)},
		{&storagev1.StorageClass{}, eventsTo(v.SetClass, v.DeleteClass)},
		{&appsv1.ReplicaSet{}, ownersTo[*appsv1.ReplicaSet](v)},
		{&appsv1.StatefulSet{}, ownersTo[*appsv1.StatefulSet](v)},
		{&batchv1.Job{}, ownersTo[*batchv1.Job](v)},
		{&corev1.ResourceQuota{}, eventsTo(v.SetQuota, v.DeleteQuota)},
	} {
		informer, err := f.informers.GetInformer(ctx, watch.object)
		if err != nil {
			return fmt.Errorf("view: watch %T: %w", watch.object, err)
		}
		registration, err := informer.AddEventHandler(watch.to)
		if err != nil {
			return fmt.Errorf("view: listen to %T: %w", watch.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	v.setSynced(func() bool { return !slices.ContainsFunc(synced, func(s func() bool) bool { return !s() }) })
	<-ctx.Done()
	return nil
}

// ownersTo passes the owners of one kind on to the cluster state.
func ownersTo[T client.Object](v *State) toolscache.ResourceEventHandler {
	return eventsTo(func(o T) { v.SetOwner(o) }, func(o T) { v.DeleteOwner(o) })
}

// eventsTo adapts two typed functions to an informer.
func eventsTo[T client.Object](set, gone func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if object, ok := o.(T); ok {
				set(object)
			}
		},
		UpdateFunc: func(was, o any) {
			object, ok := o.(T)
			if !ok {
				return
			}
			// A watch that was interrupted shows an object that was made anew under its name as an update of
			// the one before.
			if before, ok := was.(T); ok && before.GetUID() != object.GetUID() {
				gone(before)
			}
			set(object)
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			if object, ok := o.(T); ok {
				gone(object)
			}
		},
	}
}
