package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/bootstraptoken"
)

// Kind is a kind of node class that the running provider serves.
type Kind struct {
	// Name is the kind that NodePools refer to, such as AWSNodeClass.
	Name string
	// New returns an empty class of the kind, NewList an empty list of such.
	New     func() v1alpha1.NodeClass
	NewList func() client.ObjectList
	// Launch launches an instance of the class. Errors: the provider's InvalidConfig,
	// InsufficientCapacity and RateLimit.
	Launch func(ctx context.Context, class v1alpha1.NodeClass, req provider.LaunchRequest) (*provider.Instance, error)
	// Resolve asks the cloud what the class's spec stands for and writes it into the class's status,
	// but for the parts that all classes have. After an error the status is as it was. Errors:
	// InvalidConfig, RateLimit.
	Resolve func(ctx context.Context, class v1alpha1.NodeClass) error
}

// KindOf makes a ClassKind of functions that know their class.
func KindOf[C v1alpha1.NodeClass](
	name string, create func() C, list client.ObjectList,
	launch func(ctx context.Context, class C, req provider.LaunchRequest) (*provider.Instance, error),
	resolve func(ctx context.Context, class C) error,
) Kind {
	return Kind{
		Name:    name,
		New:     func() v1alpha1.NodeClass { return create() },
		NewList: func() client.ObjectList { return list.DeepCopyObject().(client.ObjectList) },
		Launch: func(ctx context.Context, class v1alpha1.NodeClass, req provider.LaunchRequest) (*provider.Instance, error) {
			own, ok := class.(C)
			if !ok {
				return nil, fmt.Errorf("%T is no %s", class, name)
			}
			return launch(ctx, own, req)
		},
		Resolve: func(ctx context.Context, class v1alpha1.NodeClass) error {
			own, ok := class.(C)
			if !ok {
				return fmt.Errorf("%T is no %s", class, name)
			}
			return resolve(ctx, own)
		},
	}
}

// AWSCloud is a cloud that launches from AWSNodeClass: EC2, and the fake one.
type AWSCloud interface {
	LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance,
		error)
	// ResolveNodeClass returns what the class's spec stands for; the observed generation and
	// conditions are the caller's.
	ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error)
}

// AWSNodeClasses is the kind AWSNodeClass, served by the cloud.
func AWSNodeClasses(cloud AWSCloud) Kind {
	return KindOf(v1alpha1.KindAWSNodeClass, func() *v1alpha1.AWSNodeClass { return &v1alpha1.AWSNodeClass{} },
		&v1alpha1.AWSNodeClassList{},
		cloud.LaunchInstance,
		func(ctx context.Context, class *v1alpha1.AWSNodeClass) error {
			found, err := cloud.ResolveNodeClass(ctx, class)
			if err != nil {
				return err
			}
			found.ObservedGeneration, found.Conditions = class.Status.ObservedGeneration, class.Status.Conditions
			class.Status = *found.DeepCopy() // some of it is changed, and the cloud may remember what it found
			return nil
		})
}

// ErrNotServed: the running provider launches nothing from classes of this kind.
var ErrNotServed = errors.New("not served by the running cloud provider")

// Kinds are the kinds that the running provider serves, and where their classes are read.
type Kinds struct {
	Reader client.Reader
	Served []Kind
	// Tokens are for classes whose instances join by a bootstrap token; nil where there are none.
	Tokens *bootstraptoken.Tokens
}

// Get reads a class. Errors: errNotServed, and the API server's (the class does not exist).
func (k Kinds) Get(ctx context.Context, ref v1alpha1.NodeClassRef) (v1alpha1.NodeClass, Kind, error) {
	var names []string
	for _, kind := range k.Served {
		if kind.Name == ref.Kind {
			class := kind.New()
			return class, kind, k.Reader.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
		}
		names = append(names, kind.Name)
	}
	return nil, Kind{}, fmt.Errorf("%s is %w, which launches from %s", ref.Kind, ErrNotServed,
		strings.Join(names, ", "))
}

// Launcher launches instances of the class that a pool refers to.
type Launcher interface {
	Launch(ctx context.Context, ref v1alpha1.NodeClassRef, req provider.LaunchRequest) (*provider.Instance, error)
}

// Launch implements launcher. Errors: the API server's (the class does not exist), and the
// provider's.
func (k Kinds) Launch(ctx context.Context, ref v1alpha1.NodeClassRef,
	req provider.LaunchRequest) (*provider.Instance, error) {
	class, kind, err := k.Get(ctx, ref)
	if errors.Is(err, ErrNotServed) {
		return nil, &provider.InvalidConfigError{Field: "spec.template.nodeClassRef.kind", Reason: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	// Of this very object, not of one that is read before or after: the tags say what the instance was
	// launched from.
	req.Tags = maps.Clone(req.Tags)
	maps.Copy(req.Tags, origin{class: class.SpecHash(), ami: class.ResolvedImage()}.Annotations())
	if own, ok := class.(bootstrapping); ok && own.NeedsBootstrapToken() {
		return k.launchWithToken(ctx, kind, class, req)
	}
	return kind.Launch(ctx, class, req)
}

// bootstrapping is a class that may need a bootstrap token for each of its instances.
type bootstrapping interface{ NeedsBootstrapToken() bool }

// launchWithToken makes the token before the cloud is asked: an instance may boot before the answer
// is here. It is deleted where this request and, as its Secret was not there, every earlier one is
// sure to have launched nothing. What cannot be deleted expires.
func (k Kinds) launchWithToken(ctx context.Context, kind Kind, class v1alpha1.NodeClass,
	req provider.LaunchRequest) (*provider.Instance, error) {
	token, made, err := k.Tokens.Create(ctx, req.ClientToken)
	if err != nil {
		return nil, err
	}
	req.Registration.BootstrapToken, req.Tags[bootstraptoken.Tag] = token.String(), token.ID
	instance, err := kind.Launch(ctx, class, req)
	if err != nil && made && provider.LaunchedNothing(err) {
		err = errors.Join(err, k.Tokens.Delete(ctx, token.ID))
	}
	return instance, err
}

// promising is a class whose status says what one instance has, and the labels that follow from it.
type promising interface {
	Promised() (capacity corev1.ResourceList, labels map[string]string)
}

// PromisedBy is a node of the pool as its class describes it, nil where the class says nothing.
func PromisedBy(ctx context.Context, classes Kinds, pool *v1alpha1.NodePool) *corev1.Node {
	class, _, err := classes.Get(ctx, pool.Spec.Template.NodeClassRef)
	if err != nil {
		return nil
	}
	p, ok := class.(promising)
	if !ok {
		return nil
	}
	capacity, labels := p.Promised()
	if len(capacity) == 0 {
		return nil
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Allocatable: capacity}}
	n.Name, n.Labels = pool.Name+"-promised", labels
	maps.Copy(n.Labels, pool.Spec.Template.Labels)
	n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelState] = pool.Name, string(v1alpha1.StateStandby)
	n.Spec.Taints = pool.Spec.Template.Taints
	return n
}
