package check

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Gatherer reads the cluster.
type Gatherer struct {
	Client client.Client
	Server discovery.ServerVersionInterface
	// Namespace is that of Stratos.
	Namespace string
}

// The other reads are permitted to Stratos itself. A dry run takes the permission of what it plays.
//
// +kubebuilder:rbac:roleName=check,groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list
// +kubebuilder:rbac:roleName=check,groups=apps,resources=deployments,verbs=list
// +kubebuilder:rbac:roleName=check,groups=karpenter.sh,resources=nodepools,verbs=list
// +kubebuilder:rbac:roleName=check,groups=stratos.sh,resources=nodepools,verbs=create
// +kubebuilder:rbac:roleName=check,groups="",resources=configmaps,resourceNames=aws-auth,verbs=get

// Gather reads everything once. What cannot be read is an error in its place among the facts, so
// that each check says for itself what it lacks.
func (g Gatherer) Gather(ctx context.Context) Facts {
	f := Facts{Namespace: g.Namespace}
	deployments := &appsv1.DeploymentList{}
	err := g.Client.List(ctx, deployments)
	f.Deployments = Read[[]appsv1.Deployment]{deployments.Items, err}
	f.Installation = installationOf(f.Deployments.Value, g.Namespace)
	f.User.Value, f.User.Err = g.user(ctx)
	f.Server.Value, f.Server.Err = g.version()
	f.Definitions = g.unstructured(ctx, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinitionList"})
	f.Admission = g.admission(ctx)
	f.KarpenterPools = g.unstructured(ctx, schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1",
		Kind: "NodePoolList"})
	if isAbsent(f.KarpenterPools.Err) {
		f.KarpenterPools.Err = nil
	}

	sets, nodes := &appsv1.DaemonSetList{}, &corev1.NodeList{}
	pools := &v1alpha1.NodePoolList{}
	err = g.Client.List(ctx, sets)
	f.DaemonSets = Read[[]appsv1.DaemonSet]{sets.Items, err}
	err = g.Client.List(ctx, nodes)
	f.Nodes = Read[[]corev1.Node]{nodes.Items, err}
	f.Pods.Value, f.Pods.Err = g.podsOf(ctx, f.Installation.SchedulerNames)
	err = g.Client.List(ctx, pools)
	f.Pools = Read[[]v1alpha1.NodePool]{pools.Items, err}
	f.Classes.Value, f.Classes.Err = g.classes(ctx, f.Installation.CloudProvider)
	g.leases(ctx, &f)
	return f
}

// podsOf reads the pods that name one of the schedulers. Those of others say nothing about Stratos,
// and in a large cluster they are most of what could be read.
func (g Gatherer) podsOf(ctx context.Context, schedulers []string) ([]corev1.Pod, error) {
	var found []corev1.Pod
	for _, name := range schedulers {
		pods := &corev1.PodList{}
		if err := g.Client.List(ctx, pods, client.MatchingFields{"spec.schedulerName": name}); err != nil {
			return nil, err
		}
		found = append(found, pods.Items...)
	}
	return found, nil
}

func (g Gatherer) user(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := g.Client.Create(ctx, review)
	return review.Status.UserInfo.Username, err
}

func (g Gatherer) version() (string, error) {
	info, err := g.Server.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// unstructured lists objects of whose types this program has no Go type.
func (g Gatherer) unstructured(ctx context.Context, kind schema.GroupVersionKind) Read[[]unstructured.Unstructured] {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err := g.Client.List(ctx, list)
	return Read[[]unstructured.Unstructured]{list.Items, err}
}

// isAbsent reports whether the API server does not know the type.
func isAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// invalidImage is refused by Stratos's webhook and by no rule of the definitions.
const invalidImage = "a//b"

// admission asks by a dry run for a NodePool that Stratos's webhook refuses.
func (g Gatherer) admission(ctx context.Context) error {
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{GenerateName: "stratos-check-"}}
	pool.Spec.PoolSize = 1
	pool.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: "stratos-check"}
	pool.Spec.PreWarm.ImagesToPull = []string{invalidImage}
	return g.Client.Create(ctx, pool, client.DryRunAll)
}

// classes are those of all kinds. The chart brings KindNodeClass, and the permission to read it,
// with its cloud alone.
func (g Gatherer) classes(ctx context.Context, cloud string) ([]v1alpha1.NodeClass, error) {
	aws, kind := &v1alpha1.AWSNodeClassList{}, &v1alpha1.KindNodeClassList{}
	err, errKind := g.Client.List(ctx, aws), error(nil)
	if cloud == v1alpha1.CloudKind || cloud == "" {
		errKind = g.Client.List(ctx, kind)
	}
	if cloud == "" && isAbsent(errKind) {
		errKind = nil
	}
	var all []v1alpha1.NodeClass
	for i := range aws.Items {
		all = append(all, &aws.Items[i])
	}
	for i := range kind.Items {
		all = append(all, &kind.Items[i])
	}
	return all, errors.Join(err, errKind)
}

// leases reads the leases of the namespace until each is held and renewed, for at most twice the
// time after which another replica may take one: a leader may be ending just now.
func (g Gatherer) leases(ctx context.Context, f *Facts) {
	names := leaseNames(f.Installation)
	first, err := g.readLeases(ctx, names)
	f.Leases = Read[[]coordinationv1.Lease]{first, err}
	if err != nil {
		return
	}
	deadline, tick := time.After(2*longestOf(first)), time.NewTicker(readAgain)
	defer tick.Stop()
	for {
		now, err := g.readLeases(ctx, names)
		if err == nil {
			f.Leases.Value, f.Renewed = now, renewedSince(first, now)
		}
		if !slices.ContainsFunc(names, func(name string) bool {
			return !hasHolder(f.Leases.Value, name) || !slices.Contains(f.Renewed, name)
		}) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// readAgain is the time between two reads of leases. Their holders renew them every second.
const readAgain = 500 * time.Millisecond

// longestOf is the longest time after which another replica may take one of the leases.
func longestOf(leases []coordinationv1.Lease) time.Duration {
	longest := 5 * time.Second // where there is none yet
	for i := range leases {
		if s := leases[i].Spec.LeaseDurationSeconds; s != nil {
			longest = max(longest, time.Duration(*s)*time.Second)
		}
	}
	return longest
}

// readLeases reads those that exist, one by one: Stratos may read its own leases alone.
func (g Gatherer) readLeases(ctx context.Context, names []string) ([]coordinationv1.Lease, error) {
	var found []coordinationv1.Lease
	for _, name := range names {
		lease := coordinationv1.Lease{}
		err := g.Client.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: name}, &lease)
		switch {
		case err == nil:
			found = append(found, lease)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return found, nil
}

func renewedSince(before, now []coordinationv1.Lease) []string {
	var names []string
	for i := range now {
		at := now[i].Spec.RenewTime
		n := slices.IndexFunc(before, func(l coordinationv1.Lease) bool { return l.Name == now[i].Name })
		if at != nil && (n < 0 || !at.Equal(before[n].Spec.RenewTime)) {
			names = append(names, now[i].Name)
		}
	}
	return names
}
