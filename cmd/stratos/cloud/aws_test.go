package cloud

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func TestRegionsInUse(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	class := func(name, region string) client.Object {
		return &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.AWSNodeClassSpec{Region: region}}
	}
	node := func(name, zone string, pool bool) client.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		if pool {
			n.Labels[v1alpha1.LabelPool] = "p"
		}
		return n
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		class("a", "eu-west-1"), class("b", ""), class("c", "eu-west-1"),
		node("moved", "us-gov-east-1b", true), node("local", "us-west-2-lax-1a", true),
		node("not-ours", "ap-south-1a", false), node("elsewhere", "rack-7", true),
	).Build()
	got, err := regionsInUse(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "eu-west-1", "us-gov-east-1", "us-west-2"}, got); diff != "" {
		t.Errorf("regions (-want +got):\n%s", diff)
	}
}

func TestNodeImagesAreReadFromControlPlaneNodes(t *testing.T) {
	const image = "ubuntu-24.04-1.37.2-v1"
	node := func(name string, labels map[string]string) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	reader := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		node("cp-1", map[string]string{"node-role.kubernetes.io/control-plane": "",
			"node.cluster.x-k8s.io/stratos-node-image": image}),
		node("cp-2", map[string]string{"node-role.kubernetes.io/control-plane": ""}),
		node("worker", map[string]string{"node.cluster.x-k8s.io/stratos-node-image": "a-1.99.0-v1"}),
	).Build()
	got, err := nodeImages(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"cp-1": image, "cp-2": ""}, got); diff != "" {
		t.Errorf("node images (-want +got):\n%s", diff)
	}
}

type server version.Info

func (s server) ServerVersion() (*version.Info, error) { i := version.Info(s); return &i, nil }

func TestMinorOfAManagedCluster(t *testing.T) {
	if got, err := minorOf(server{Major: "1", Minor: "33+"}); got != "1.33" || err != nil {
		t.Errorf("minor %q, %v", got, err)
	}
}

// parsed are the options of a command line.
func parsed(t *testing.T, args ...string) *options.Options {
	t.Helper()
	o := &options.Options{}
	fs := pflag.NewFlagSet("stratos", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	o.Complete(fs)
	return o
}

// TestTheCloudIsTheOneThatWasChosen: each provider registers its metrics once and says which
// classes it serves.
func TestTheCloudIsTheOneThatWasChosen(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	for _, name := range []string{v1alpha1.CloudAWS, v1alpha1.CloudFake} {
		o := parsed(t, "--cluster-name=test", "--cloud-provider="+name)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		cloud, err := New(t.Context(), o, &rest.Config{Host: "http://127.0.0.1:1"}, prometheus.NewRegistry())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(cloud.Classes) != 1 || cloud.Classes[0].Name != v1alpha1.KindAWSNodeClass || cloud.Provider == nil ||
			(cloud.Beside == nil) != (name == v1alpha1.CloudAWS) {
			t.Errorf("%s: %+v", name, cloud)
		}
	}
}
