package webhook

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// +kubebuilder:rbac:groups=stratos.sh,resources=nodepools,verbs=list;watch
// +kubebuilder:rbac:groups=stratos.sh,resources=awsnodeclasses,verbs=get;list;watch
// +kubebuilder:rbac:roleName=kind,groups=stratos.sh,resources=kindnodeclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// lookup reads what stands around the object of a request. The cache answers first. The API server
// is asked before a refusal that only a stale cache may have caused.
type lookup struct {
	cached client.Reader
	live   client.Reader
	// kinds are the node classes that are served. Others may have no definition here, and no
	// permission: a cache that is asked for one waits until it can be filled.
	kinds []string
}

// class returns nil where there is none: class and pool are often applied in one go, faster than
// the watch brings the first.
func (l lookup) class(ctx context.Context, ref v1alpha1.NodeClassRef) (v1alpha1.NodeClass, error) {
	if !slices.Contains(l.kinds, ref.Kind) {
		return nil, nil
	}
	class, key := classOf(ref.Kind), client.ObjectKey{Name: ref.Name}
	if l.cached.Get(ctx, key, class) == nil {
		return class, nil
	}
	switch err := l.live.Get(ctx, key, class); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return class, nil
}

// classOf returns an empty class of the kind. The CRD admits no other kinds than these.
func classOf(kind string) v1alpha1.NodeClass {
	if kind == v1alpha1.KindKindNodeClass {
		return &v1alpha1.KindNodeClass{}
	}
	return &v1alpha1.AWSNodeClass{}
}

// poolsOf lists the pools that use the class, by name.
func poolsOf(ctx context.Context, reader client.Reader, ref v1alpha1.NodeClassRef) ([]v1alpha1.NodePool, error) {
	list := &v1alpha1.NodePoolList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, err
	}
	pools := slices.DeleteFunc(list.Items, func(p v1alpha1.NodePool) bool { return p.Spec.Template.NodeClassRef != ref })
	slices.SortFunc(pools, func(a, b v1alpha1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	return pools, nil
}

// optedIn reports whether the namespace has the label. A namespace and its first pods are often
// applied in one go too.
func (l lookup) optedIn(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := l.cached.Get(ctx, client.ObjectKey{Name: name}, namespace); err == nil && hasOptedIn(namespace) {
		return true, nil
	}
	if err := l.live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, err
	}
	return hasOptedIn(namespace), nil
}

func hasOptedIn(namespace *corev1.Namespace) bool {
	return namespace.Labels[v1alpha1.LabelScheduler] == v1alpha1.SchedulerEnabled
}
