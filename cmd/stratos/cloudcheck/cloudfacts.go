package cloudcheck

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/check"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

// CloudAPI asks the cloud by calls that change nothing. An operation that a policy does not allow
// is a provider.UnauthorizedError.
type CloudAPI interface {
	Identity(ctx context.Context) (string, error)
	Launch(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) error
	Instances(ctx context.Context, tags map[string]string) ([]*provider.Instance, error)
	Operate(ctx context.Context, op limiter.Operation, i *provider.Instance) error
	// AuthenticationMode is how principals enter the cluster of EKS.
	AuthenticationMode(ctx context.Context, cluster string) (string, error)
	// Role is that of the instances of the class, "" for none.
	Role(ctx context.Context, class *v1alpha1.AWSNodeClass) (string, error)
	// AccessEntry is the type of the principal's access entry, "" where there is none.
	AccessEntry(ctx context.Context, cluster, principal string) (string, error)
}

// CloudFacts are the answers of the cloud.
type CloudFacts struct {
	Identity check.Read[string]
	// Launches are the dry runs of RunInstances, one for each class of the cloud.
	Launches []Launch
	// Instance is one of ours, nil where there is none; Operations are dry runs on it.
	Instance   check.Read[*provider.Instance]
	Operations map[limiter.Operation]error
	// TypeChange and Reserve are dry runs of what changes a stopped instance.
	TypeChange, Reserve StoppedChange
	// Cluster is the name by which EKS was asked, Mode its authentication mode.
	Cluster string
	Mode    check.Read[string]
	// NeedsEKS: a class leaves out what only EKS says.
	NeedsEKS bool
	// Joins are the classes whose instances join by their role.
	Joins []Join
	// AWSAuth are the ARNs of the roles that the ConfigMap aws-auth lets in as nodes.
	AWSAuth check.Read[[]string]
	// Keys are the classes that name a KMS key.
	Keys []string
}

// Launch is the answer to the dry run of a class.
type Launch struct {
	Class string
	// IsResolved: the class is Ready, so the dry run was made.
	IsResolved bool
	Err        error
}

// StoppedChange is the answer to the dry run of a change of a stopped instance.
type StoppedChange struct {
	// Needed: a class asks for it.
	Needed bool
	// Instance is a stopped one of a pool of such a class, nil where there is none.
	Instance *provider.Instance
	Err      error
}

// Join is how the instances of a class enter the cluster.
type Join struct {
	Class       string
	Role, Entry check.Read[string]
}

// operations are those on an instance of ours, in the order of their lines.
func operations() []limiter.Operation {
	return []limiter.Operation{limiter.StartInstances, limiter.StopInstances, limiter.TerminateInstances,
		limiter.CreateTags}
}

// Gather asks the cloud about the classes that were read.
func Gather(ctx context.Context, reader client.Reader, api CloudAPI, f *check.Facts) CloudFacts {
	c := CloudFacts{Cluster: f.Installation.ClusterName, Operations: map[limiter.Operation]error{}}
	c.Identity.Value, c.Identity.Err = api.Identity(ctx)
	tags := tagsOf(ctx, reader, f)
	for _, class := range f.Classes.Value {
		if aws, is := class.(*v1alpha1.AWSNodeClass); is {
			c.aboutClass(ctx, api, f, aws, tags)
		}
	}
	instances, err := api.Instances(ctx, map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: f.Installation.ClusterName,
	})
	c.Instance.Err = err
	for _, i := range instances {
		if i.State == provider.InstanceRunning || i.State == provider.InstanceStopped {
			c.Instance.Value = i
		}
	}
	if c.Instance.Value != nil {
		for _, op := range operations() {
			c.Operations[op] = api.Operate(ctx, op, c.Instance.Value)
		}
	}
	c.TypeChange = aboutStopped(ctx, api, f, instances, limiter.ModifyInstanceAttribute,
		func(s *v1alpha1.AWSNodeClassSpec) bool { return len(s.FallbackInstanceTypes) > 0 })
	c.Reserve = aboutStopped(ctx, api, f, instances, limiter.ModifyInstanceCapacityReservationAttributes,
		func(s *v1alpha1.AWSNodeClassSpec) bool { return s.CapacityReservation != nil })
	c.Mode.Value, c.Mode.Err = api.AuthenticationMode(ctx, c.Cluster)
	for i := range c.Joins {
		if join := &c.Joins[i]; join.Role.Value != "" && c.Mode.Err == nil && c.Mode.Value != modeConfigMap {
			join.Entry.Value, join.Entry.Err = api.AccessEntry(ctx, c.Cluster, join.Role.Value)
		}
	}
	c.AWSAuth.Value, c.AWSAuth.Err = awsAuth(ctx, reader)
	return c
}

// aboutClass asks what concerns one class.
func (c *CloudFacts) aboutClass(ctx context.Context, api CloudAPI, f *check.Facts, class *v1alpha1.AWSNodeClass,
	tags map[string]string) {
	launch := Launch{Class: class.Name,
		IsResolved: meta.IsStatusConditionTrue(class.Status.Conditions, v1alpha1.ConditionReady)}
	if launch.IsResolved {
		launch.Err = api.Launch(ctx, class, requestOf(f, class, tags))
	}
	c.Launches = append(c.Launches, launch)
	if slices.ContainsFunc(class.Spec.BlockDeviceMappings, func(m v1alpha1.BlockDeviceMapping) bool {
		return m.KMSKeyID != ""
	}) {
		c.Keys = append(c.Keys, class.Name)
	}
	if class.NeedsBootstrapToken() {
		return
	}
	if b := class.Spec.Bootstrap; b != nil {
		c.Cluster = cmp.Or(b.Cluster.Name, c.Cluster)
		named := b.Cluster.Or(v1alpha1.BootstrapCluster{Name: c.Cluster})
		c.NeedsEKS = c.NeedsEKS || len(named.Missing(class.Spec.BootstrapFamily())) > 0
	}
	join := Join{Class: class.Name}
	join.Role.Value, join.Role.Err = api.Role(ctx, class)
	c.Joins = append(c.Joins, join)
}

// aboutStopped asks whether a stopped instance may be changed by the operation, where a class needs
// that.
func aboutStopped(ctx context.Context, api CloudAPI, f *check.Facts, instances []*provider.Instance,
	op limiter.Operation, needs func(*v1alpha1.AWSNodeClassSpec) bool) StoppedChange {
	var found StoppedChange
	classes, pools := map[string]bool{}, map[string]bool{}
	for _, class := range f.Classes.Value {
		if aws, is := class.(*v1alpha1.AWSNodeClass); is && needs(&aws.Spec) {
			classes[aws.Name] = true
		}
	}
	for i := range f.Pools.Value {
		ref := f.Pools.Value[i].Spec.Template.NodeClassRef
		pools[f.Pools.Value[i].Name] = ref.Kind == v1alpha1.KindAWSNodeClass && classes[ref.Name]
	}
	found.Needed = len(classes) > 0
	for _, i := range instances {
		if i.State == provider.InstanceStopped && pools[i.Tags[v1alpha1.LabelPool]] {
			found.Instance = i
		}
	}
	if found.Instance != nil {
		found.Err = api.Operate(ctx, op, found.Instance)
	}
	return found
}

// tagsOf are those of every instance of ours.
func tagsOf(ctx context.Context, reader client.Reader, f *check.Facts) map[string]string {
	system := &corev1.Namespace{}
	tags := map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: f.Installation.ClusterName,
		v1alpha1.LabelState: string(v1alpha1.StateWarmup),
	}
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err == nil {
		tags[v1alpha1.TagClusterUID] = string(system.UID)
	}
	return tags
}

// requestOf is a launch for a pool of the class, or for none where no pool refers to it.
func requestOf(f *check.Facts, class *v1alpha1.AWSNodeClass, tags map[string]string) provider.LaunchRequest {
	req := provider.LaunchRequest{Tags: maps.Clone(tags)}
	for i := range f.Pools.Value {
		pool := &f.Pools.Value[i]
		if ref := pool.Spec.Template.NodeClassRef; ref.Kind == v1alpha1.KindAWSNodeClass && ref.Name == class.Name {
			req.Registration = provider.RegistrationOf(pool)
			req.Tags[v1alpha1.LabelPool] = pool.Name
		}
	}
	return req
}

// nodesGroup is the group of Kubernetes in which nodes are.
const nodesGroup = "system:nodes"

// awsAuth reads which roles the ConfigMap aws-auth lets in as nodes.
func awsAuth(ctx context.Context, reader client.Reader) ([]string, error) {
	published := &corev1.ConfigMap{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "aws-auth"}, published)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var mapped []struct {
		RoleARN string   `json:"rolearn"`
		Groups  []string `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(published.Data["mapRoles"]), &mapped); err != nil {
		return nil, fmt.Errorf("mapRoles of the ConfigMap kube-system/aws-auth: %w", err)
	}
	var roles []string
	for _, m := range mapped {
		if slices.Contains(m.Groups, nodesGroup) {
			roles = append(roles, m.RoleARN)
		}
	}
	return roles, nil
}

// withoutPath is the ARN of a role as aws-auth wants it.
func withoutPath(role string) string {
	before, path, found := strings.Cut(role, ":role/")
	if !found {
		return role
	}
	return before + ":role/" + path[strings.LastIndex(path, "/")+1:]
}
