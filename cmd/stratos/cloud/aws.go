package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/aws"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/price"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// ec2 makes the provider that keeps instances in EC2. Its limits are those of each region, so it
// gets them and not a limiter.
func ec2(
	ctx context.Context, clusterName string, config *rest.Config, prices *price.Book,
	limits, resources map[limiter.Operation]limiter.Limit,
	calls *limiter.Calls, registerer prometheus.Registerer,
) (*Cloud, error) {
	loaded, err := aws.Load(ctx)
	if err != nil {
		return nil, err
	}
	sizes, err := aws.BatchSizes(registerer)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client for regions in use: %w", err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the cluster's version: %w", err)
	}
	cloud := aws.New(aws.Options{
		Config: loaded, ClusterName: clusterName, Calls: calls, Limits: limits, Resources: resources, BatchSize: sizes,
		Prices:      prices,
		Regions:     func(ctx context.Context) ([]string, error) { return regionsInUse(ctx, reader) },
		ClusterInfo: func(ctx context.Context) (v1alpha1.BootstrapCluster, error) { return clusterInfo(ctx, reader) },
		NodeImages:  func(ctx context.Context) (map[string]string, error) { return nodeImages(ctx, reader) },
		Minor:       func(context.Context) (string, error) { return minorOf(server) },
	})
	return &Cloud{Provider: cloud, Classes: []nodeclass.Kind{nodeclass.AWSNodeClasses(cloud)}}, nil
}

// +kubebuilder:rbac:roleName=bootstrap,namespace=kube-public,groups="",resources=configmaps,resourceNames=cluster-info,verbs=get

// clusterInfo is what kubeadm publishes for machines that join: endpoint and certificate authority
// of the cluster.
func clusterInfo(ctx context.Context, reader client.Reader) (v1alpha1.BootstrapCluster, error) {
	var none v1alpha1.BootstrapCluster
	published := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	if err := reader.Get(ctx, key, published); err != nil {
		return none, err
	}
	config, err := clientcmd.Load([]byte(published.Data["kubeconfig"]))
	if err != nil {
		return none, fmt.Errorf("the kubeconfig in it cannot be read: %w", err)
	}
	for _, cluster := range config.Clusters { // kubeadm publishes one
		return v1alpha1.BootstrapCluster{
			Endpoint:             cluster.Server,
			CertificateAuthority: base64.StdEncoding.EncodeToString(cluster.CertificateAuthorityData),
		}, nil
	}
	return none, errors.New("its kubeconfig has no cluster")
}

// regionOfZone is the region that the name of a zone begins with, that of local zones
// (us-west-2-lax-1a) included.
var regionOfZone = regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+`)

// regionsInUse are the regions that classes name, "" for those that name none, and those in which
// nodes of pools are: a class may have been changed since. It needs the permissions to list
// awsnodeclasses and nodes, which the scaler has.
func regionsInUse(ctx context.Context, reader client.Reader) ([]string, error) {
	classes := &v1alpha1.AWSNodeClassList{}
	if err := reader.List(ctx, classes); err != nil {
		return nil, err
	}
	nodes := &metav1.PartialObjectMetadataList{} // the labels are enough, and every few minutes all Nodes are much
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := reader.List(ctx, nodes, client.HasLabels{v1alpha1.LabelPool}); err != nil {
		return nil, err
	}
	var names []string
	for i := range classes.Items {
		names = append(names, classes.Items[i].Spec.Region)
	}
	for i := range nodes.Items {
		if name := regionOfZone.FindString(nodes.Items[i].Labels[corev1.LabelTopologyZone]); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// nodeImages are the node images that control-plane Nodes name, by the Node's name. It needs the
// permission to list nodes, which the scaler has.
func nodeImages(ctx context.Context, reader client.Reader) (map[string]string, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := reader.List(ctx, nodes, client.HasLabels{v1alpha1.LabelControlPlane}); err != nil {
		return nil, err
	}
	images := map[string]string{}
	for i := range nodes.Items {
		images[nodes.Items[i].Name] = nodes.Items[i].Labels[v1alpha1.LabelNodeImage]
	}
	return images, nil
}

// leadingDigits: managed clusters write their minor as 33+.
var leadingDigits = regexp.MustCompile(`^[0-9]+`)

func minorOf(server discovery.ServerVersionInterface) (string, error) {
	info, err := server.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.Major + "." + leadingDigits.FindString(info.Minor), nil
}
