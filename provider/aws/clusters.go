package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/userdata"
)

const (
	// describeCluster is the one call to EKS.
	describeCluster limiter.Operation = "DescribeCluster"
	// clusterHolds is how long an answer of EKS serves all classes: what it says changes in years.
	clusterHolds = 5 * time.Minute
	// clusterRetry is how long a refusal of EKS serves all classes: they are resolved again after it.
	clusterRetry = 30 * time.Second
)

// clusters finds what nodes need to know of the cluster that they join. All classes share it,
// whatever their region: the cluster is where Stratos itself is.
type clusters struct {
	client *eks.Client
	region string
	// name is the cluster that classes mean that name none.
	name string
	// info is what kubeadm publishes of the cluster; nil where it cannot be read.
	info func(ctx context.Context) (v1alpha1.BootstrapCluster, error)

	// turn lets one caller at a time ask EKS, and guards answers. It is a channel so that a caller can
	// give up.
	turn    chan struct{}
	answers map[source]clusterAnswer
}

// source is where a cluster is described: by EKS under a name, or by kubeadm in the cluster itself.
type source struct {
	kubeadm bool
	name    string
}

func sourceOf(family v1alpha1.BootstrapFamily, name string) source {
	if family == v1alpha1.FamilyKubeadm {
		return source{kubeadm: true} // it knows one cluster
	}
	return source{name: name}
}

// clusterAnswer is what a source said of a cluster.
type clusterAnswer struct {
	cluster v1alpha1.BootstrapCluster
	err     error
	until   time.Time
}

func newClusters(o Options) *clusters {
	limits := map[limiter.Operation]limiter.Limit{describeCluster: limitsOf(o.Limits)[limiter.DescribeInstances]}
	calls := o.Calls.Under(limiter.New(limits))
	return &clusters{
		client: eks.NewFromConfig(o.Config, func(e *eks.Options) {
			e.Retryer = retryer()
			e.APIOptions = append(e.APIOptions, limited(calls))
		}),
		region: o.Config.Region, name: o.ClusterName, info: o.ClusterInfo,
		turn: make(chan struct{}, 1), answers: map[source]clusterAnswer{},
	}
}

// resolve returns what new instances of the class need of their cluster, nil where the class
// has no bootstrap. EKS is asked for what the class leaves out, or what kubeadm has published is
// read. Where there is no answer, what was said before stands in the class's status.
func (c *clusters) resolve(ctx context.Context, class *v1alpha1.AWSNodeClass) (*v1alpha1.BootstrapStatus, error) {
	if class.Spec.Bootstrap == nil {
		return nil, nil
	}
	family := class.Spec.BootstrapFamily()
	if family == "" {
		return nil, wrong("spec.bootstrap.family", "must be set: amiSelector has no alias that says it")
	}
	cluster := class.Spec.Bootstrap.Cluster.Or(v1alpha1.BootstrapCluster{Name: c.name})
	if len(cluster.Missing(family)) > 0 {
		from := sourceOf(family, cluster.Name)
		said, err := c.describe(ctx, from)
		if err != nil {
			before := class.Status.Bootstrap
			if !before.IsComplete() || sourceOf(before.Family, before.Cluster.Name) != from {
				return nil, err
			}
			said = before.Cluster
		}
		cluster = cluster.Or(said)
	}
	for _, problem := range userdata.CheckCluster(userdata.Cluster(cluster)) {
		return nil, wrong("spec."+problem.Field, "%s", problem.Reason)
	}
	return &v1alpha1.BootstrapStatus{Family: family, Cluster: cluster}, nil
}

// describe returns what the source says of the cluster, or has said lately.
func (c *clusters) describe(ctx context.Context, from source) (v1alpha1.BootstrapCluster, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return v1alpha1.BootstrapCluster{}, words(ctx.Err())
	}
	now := time.Now()
	if last, ok := c.answers[from]; ok && now.Before(last.until) {
		return last.cluster, last.err
	}
	maps.DeleteFunc(c.answers, func(_ source, a clusterAnswer) bool { return !now.Before(a.until) })
	ask := c.askEKS
	if from.kubeadm {
		ask = c.published
	}
	cluster, err := ask(ctx, from.name)
	if ctx.Err() != nil {
		return cluster, err // it says nothing to the others
	}
	holds := clusterHolds
	if err != nil {
		holds = clusterRetry
	}
	c.answers[from] = clusterAnswer{cluster: cluster, err: err, until: now.Add(holds)}
	return cluster, err
}

// published is what kubeadm has published of the cluster. The error says what to do.
func (c *clusters) published(ctx context.Context, _ string) (v1alpha1.BootstrapCluster, error) {
	var found v1alpha1.BootstrapCluster
	err := errors.New("no cluster is read here")
	if c.info != nil {
		found, err = c.info(ctx)
	}
	if err == nil && len(found.Missing(v1alpha1.FamilyKubeadm)) > 0 {
		err = errors.New("endpoint or certificate authority is missing in it")
	}
	if err != nil {
		return found, fmt.Errorf("%s is not complete: set endpoint and certificateAuthority, or let Stratos read the "+
			"ConfigMap kube-public/cluster-info of kubeadm (bootstrapTokens.enabled of the chart): %w", fieldCluster, err)
	}
	return found, nil
}

// askEKS asks EKS. The error says what to do.
func (c *clusters) askEKS(ctx context.Context, name string) (v1alpha1.BootstrapCluster, error) {
	var none v1alpha1.BootstrapCluster
	if c.region == "" {
		return none, wrong(fieldCluster, "is not complete, and without AWS_REGION where Stratos runs EKS cannot be asked")
	}
	if name == "" {
		return none, wrong(fieldCluster+".name", "must be set: Stratos runs without a cluster name")
	}
	out, err := c.client.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)})
	if err != nil {
		return none, c.refused(name, err)
	}
	found := clusterOf(out.Cluster)
	found.Name = name
	if len(found.Missing("")) > 0 {
		status := types.ClusterStatus("")
		if out.Cluster != nil {
			status = out.Cluster.Status
		}
		return none, wrong(fieldCluster, "is not complete, and EKS does not say all of cluster %q, which is %s", name, status)
	}
	return found, nil
}

const fieldCluster = "spec.bootstrap.cluster"

// refused words why EKS did not answer.
func (c *clusters) refused(name string, err error) error {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return subject{operation: string(describeCluster)}.typed(err)
	}
	switch said.ErrorCode() {
	case codeNoResource:
		return wrong(fieldCluster+".name", "EKS has no cluster %q in %s: correct it, or set endpoint, certificateAuthority "+
			"and serviceCIDR too", name, c.region)
	case "AccessDeniedException":
		return fmt.Errorf("%s is not complete: permit eks:DescribeCluster, or set endpoint, certificateAuthority and "+
			"serviceCIDR: %w", fieldCluster, words(err))
	}
	return subject{operation: string(describeCluster)}.typed(err)
}

// clusterOf reads an answer. The service range is that of the cluster's IP family.
func clusterOf(c *types.Cluster) v1alpha1.BootstrapCluster {
	var out v1alpha1.BootstrapCluster
	if c == nil {
		return out
	}
	out.Endpoint = aws.ToString(c.Endpoint)
	if c.CertificateAuthority != nil {
		out.CertificateAuthority = aws.ToString(c.CertificateAuthority.Data)
	}
	if network := c.KubernetesNetworkConfig; network != nil {
		out.ServiceCIDR = aws.ToString(network.ServiceIpv4Cidr)
		if network.IpFamily == types.IpFamilyIpv6 {
			out.ServiceCIDR = aws.ToString(network.ServiceIpv6Cidr)
		}
	}
	return out
}
