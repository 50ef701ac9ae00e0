// Package cluster is the kind cluster that e2e/kind/kind.sh has brought up, as the suite sees it:
// the API server, the node containers in Docker, and the registry that the nodes pull from.
package cluster

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Names of the release that kind.sh installs.
const (
	ReleaseNamespace = "stratos-system"
	Release          = "stratos"
)

// Patience is how long anything may take: a guard against hanging, never a measure.
const Patience = 20 * time.Minute

const pollInterval = 500 * time.Millisecond

// Cluster is the cluster.
type Cluster struct {
	// Name is kind's name of it.
	Name string
	// State is the folder of kind.sh for this cluster.
	State string
	// Logs is the folder that results and logs are kept in.
	Logs string
	// Helm is the path of the program.
	Helm string
	// DaemonPID is the Docker daemon's where it is our own, else "".
	DaemonPID string
	// Lives is how often a node comes up where a test repeats that, Rounds in how many rounds
	// latencies are measured.
	Lives, Rounds int

	Client client.WithWatch
	Config *rest.Config

	registry, webImage, agentImage string
}

// New finds the cluster by what kind.sh put into the environment.
func New(t *testing.T) *Cluster {
	t.Helper()
	l := &Cluster{
		Name: required(t, "STRATOS_KIND_CLUSTER"), State: required(t, "STRATOS_KIND_STATE"),
		Logs: required(t, "STRATOS_KIND_LOGS"),
		Helm: required(t, "STRATOS_KIND_HELM"), DaemonPID: os.Getenv("STRATOS_KIND_DAEMON"),
		registry: required(t, "STRATOS_KIND_REGISTRY"), webImage: required(t, "STRATOS_KIND_WEB_IMAGE"),
		agentImage: required(t, "STRATOS_KIND_AGENT_IMAGE"),
	}
	l.Lives, l.Rounds = atLeast(t, "STRATOS_KIND_LIVES", 2), atLeast(t, "STRATOS_KIND_ROUNDS", 1)
	config, err := clientcmd.BuildConfigFromFlags("", required(t, "KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	l.Config = config
	if l.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return l
}

func atLeast(t *testing.T, name string, least int) int {
	t.Helper()
	n, err := strconv.Atoi(required(t, name))
	if err != nil || n < least {
		t.Fatalf("%s is %q; it must be a number, at least %d", name, os.Getenv(name), least)
	}
	return n
}

func required(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: these tests run in the cluster of e2e/kind/kind.sh, by make e2e-kind-test", name)
	}
	return value
}

// Await asks until the condition holds, at the end of a test too. An error of the condition is what
// is said if it never does.
func Await(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), pollInterval, Patience, true,
		func(ctx context.Context) (bool, error) {
			done, err := condition(ctx)
			last = err
			return done && err == nil, nil
		})
	if err != nil {
		t.Fatalf("%s: %v; last: %v", what, err, last)
	}
}

// Create creates the objects and deletes them when the test ends. What only ends with its pods, a
// DaemonSet or a namespace, is not waited for: pods of a node that has been removed stay for a
// minute, until kube-controller-manager collects them. No test uses such a name again.
func (l *Cluster) Create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := l.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
		t.Cleanup(func() { l.remove(t, o) })
	}
}

// remove deletes the object and, where nothing holds it, waits until it is gone, so that the next
// test begins without it.
func (l *Cluster) remove(t *testing.T, o client.Object) {
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	err := client.IgnoreNotFound(l.Client.Delete(ctx, o, client.PropagationPolicy("Foreground")))
	if err != nil {
		t.Errorf("delete %T %s: %v", o, o.GetName(), err)
		return
	}
	switch o.(type) {
	case *appsv1.DaemonSet, *corev1.Namespace:
		return
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
		return err != nil && client.IgnoreNotFound(err) == nil, nil
	})
	if err != nil {
		t.Errorf("%T %s is still there: %v", o, o.GetName(), err)
	}
}
