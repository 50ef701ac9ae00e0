package helm

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// hang bounds a wait that ends by itself.
const hang = 2 * time.Minute

// fieldManager is Helm's own, whose place these tests take.
const fieldManager = "helm"

// cluster is a real control plane and what is asked of it.
type cluster struct {
	plane   *controlplane.ControlPlane
	config  *rest.Config
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// foreignDefinitions are the CustomResourceDefinitions of others whose objects the chart renders,
// as files of their modules.
func foreignDefinitions() map[string][]string {
	return map[string][]string{
		"github.com/cert-manager/cert-manager": {"deploy/crds/cert-manager.io_certificates.yaml",
			"deploy/crds/cert-manager.io_issuers.yaml"},
		"github.com/prometheus-operator/prometheus-operator": {
			"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		},
	}
}

// newCluster starts a control plane with the definitions of cert-manager and of the Prometheus
// operator.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterOf(t, "")
}

// newClusterOf is that of a Kubernetes minor; an empty one means the newest.
func newClusterOf(t *testing.T, minor string) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first start on a machine builds the binaries
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{Minor: minor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{plane: plane}
	if c.config, err = clientcmd.BuildConfigFromFlags("", plane.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	c.config.QPS = -1
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clientset.Discovery()))
	for module, definitions := range foreignDefinitions() {
		for _, file := range definitions {
			c.installDefinition(t, filepath.Join(moduleDir(t, module), file))
		}
	}
	return c
}

// moduleDir is where the go command keeps a module that go.mod requires.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

func (c *cluster) installDefinition(t *testing.T, file string) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	if err := readYAML(file, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := c.apply(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	c.waitEstablished(t, crd.GetName())
}

func (c *cluster) waitEstablished(t *testing.T, name string) {
	t.Helper()
	definitions := c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, hang, true,
		func(ctx context.Context) (bool, error) {
			crd, err := definitions.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions") // null at first
			return slices.ContainsFunc(conditions, func(c any) bool {
				condition, ok := c.(map[string]any)
				return ok && condition["type"] == "Established" && condition["status"] == "True"
			}), nil
		})
	if err != nil {
		t.Fatalf("definition %s: %v", name, err)
	}
}

// resource finds where an object is served.
func (c *cluster) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset() // its definition came after the discovery
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return c.dynamic.Resource(mapping.Resource), nil
}

// apply sends the object as kubectl apply --server-side --validate=strict does: an unknown field is
// an error, and so is a conflict.
func (c *cluster) apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := c.resource(object)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return resource.Patch(ctx, object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// applyAll applies the definitions first: other objects may be of their kinds.
func (c *cluster) applyAll(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	definitions, pods := find(objects, "CustomResourceDefinition"), find(objects, "Pod")
	others := without(without(objects, definitions), pods)
	for _, object := range slices.Concat(definitions, others, pods) { // a pod needs its account
		if _, err := c.apply(t.Context(), object); err != nil {
			t.Errorf("%s %s/%s: %v", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	for _, crd := range definitions {
		c.waitEstablished(t, crd.GetName())
	}
}

func without(objects, left []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return slices.Contains(left,
			o)
	})
}

// namespace makes the namespace of a release, as helm --create-namespace does.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(name)
	if _, err := c.apply(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
}

// remove deletes what a set brought, but not the definitions, which others have in common. A Job is
// there until its pods are orphaned, unless they are to be deleted too, and its template cannot be
// changed by the next set.
func (c *cluster) remove(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range without(objects, find(objects, "CustomResourceDefinition")) {
		resource, err := c.resource(object)
		if err != nil {
			t.Fatal(err)
		}
		err = resource.Delete(t.Context(), object.GetName(),
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		if err == nil {
			err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, hang, true,
				func(ctx context.Context) (bool, error) {
					if _, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
						return false, err
					}
					return true, nil
				})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("remove %s %s/%s: %v", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
}
