package helm

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestChartUpgrades takes one release through every wiring with Helm's own actions, as an
// administrator would: install, upgrades, the same once more, uninstall. Nothing waits, because
// no kubelet runs pods here.
func TestChartUpgrades(t *testing.T) {
	c := newCluster(t)
	const name, namespace = "stratos", "stratos-system"
	c.namespace(t, namespace)
	configuration := c.helm(t, namespace)
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.WaitStrategy = name, namespace, kube.HookOnlyStrategy
	chart, err := loader.LoadDir(tree.ChartDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := install.Run(chart, set(t, "default").copyOfValues()); err != nil {
		t.Fatal(err)
	}
	c.live(t, namespace, set(t, "default"))
	for _, next := range []string{"everything-on", "exposed", "existing-secret", "everything-off", "default", "default"} {
		upgrade := action.NewUpgrade(configuration)
		upgrade.Namespace, upgrade.WaitStrategy = namespace, kube.HookOnlyStrategy
		released, err := upgrade.Run(name, chart, set(t, next).copyOfValues())
		if err != nil {
			t.Fatalf("upgrade to %s: %v", next, err)
		}
		if accessor, err := release.NewAccessor(released); err != nil || accessor.Status() != "deployed" {
			t.Fatalf("upgrade to %s: status %v, error %v", next, accessor.Status(), err)
		}
		c.live(t, namespace, set(t, next))
	}
	uninstall := action.NewUninstall(configuration)
	uninstall.WaitStrategy, uninstall.DisableHooks = kube.HookOnlyStrategy, true // no kubelet runs them
	if _, err := uninstall.Run(name); err != nil {
		t.Fatal(err)
	}
	c.leavesOnlyDefinitions(t, objectsOf(t, set(t, "default")))
}

// helm is Helm's configuration for the cluster, with its releases in Secrets, as usual.
func (c *cluster) helm(t *testing.T, namespace string) *action.Configuration {
	t.Helper()
	kubeconfig := c.plane.Kubeconfig()
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	configuration := action.NewConfiguration()
	if err := configuration.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return configuration
}

// live wants every object of the set in the cluster, and no Service of another wiring left over.
func (c *cluster) live(t *testing.T, namespace string, s Set) {
	t.Helper()
	objects := objectsOf(t, s)
	for _, object := range objects {
		if _, err := c.get(t, object); err != nil && object.GetAnnotations()["helm.sh/hook"] == "" {
			t.Errorf("set %s: %s %s: %v", s.Name, object.GetKind(), object.GetName(), err)
		}
	}
	for _, gone := range []string{"stratos-extender", "stratos-webhook"} {
		service := &unstructured.Unstructured{}
		service.SetAPIVersion("v1")
		service.SetKind("Service")
		service.SetNamespace(namespace)
		service.SetName(gone)
		_, err := c.get(t, service)
		if (err == nil) != has(objects, service) {
			t.Errorf("set %s: Service %s: error %v, which is not what the chart renders", s.Name, gone, err)
		}
	}
}

func has(objects []*unstructured.Unstructured, wanted *unstructured.Unstructured) bool {
	for _, o := range find(objects, wanted.GetKind()) {
		if o.GetName() == wanted.GetName() {
			return true
		}
	}
	return false
}

func (c *cluster) get(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	resource, err := c.resource(object)
	if err != nil {
		return nil, err
	}
	return resource.Get(t.Context(), object.GetName(), metav1.GetOptions{})
}

func (c *cluster) leavesOnlyDefinitions(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		found, err := c.get(t, object)
		if object.GetKind() == "CustomResourceDefinition" {
			if err != nil {
				t.Errorf("uninstalling took the definition %s, and so every pool: %v", object.GetName(), err)
			}
			continue
		}
		if !apierrors.IsNotFound(err) && (found == nil || found.GetDeletionTimestamp() == nil) {
			t.Errorf("uninstalling leaves %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
