package assert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/webhook"
)

// What the rendered charts call things.
const (
	ReleaseNamespace = "stratos-system"
	ServiceAccount   = "stratos"
	// StratosContainer and SchedulerContainer are the containers of a Stratos pod.
	StratosContainer   = "stratos"
	SchedulerContainer = "scheduler"
)

// Chart is what Helm makes of one set of values.
type Chart struct {
	// Objects begin with the namespace, which helm makes for the release.
	Objects []*unstructured.Unstructured
}

// ReadChart reads charts/testdata/rendered, which make verify holds to the chart. Tests run in
// their package's folder, e2e/suites/<suite>. Hooks are no part of an installation.
func ReadChart(t *testing.T, set string) *Chart {
	t.Helper()
	rendered, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "testdata", "rendered", set+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(
		append([]byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+ReleaseNamespace+"}}\n---\n"), rendered...),
	)
	if err != nil {
		t.Fatalf("set %s: %v", set, err)
	}
	isHook := func(o *unstructured.Unstructured) bool { return o.GetAnnotations()["helm.sh/hook"] != "" }
	return &Chart{Objects: slices.DeleteFunc(objects, isHook)}
}

// ReadWebhooks are the configurations of webhooks that make generate writes, as a chart of their
// own.
func ReadWebhooks(t *testing.T) *Chart {
	t.Helper()
	objects, err := decode(webhook.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	return &Chart{Objects: objects}
}

// decode returns the objects of a list of YAML documents, in order.
func decode(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// Apply applies the objects as helm does, but for those of the kinds, and waits until definitions
// among them are served.
func (c *Chart) Apply(t *testing.T, r *framework.Rig, but ...string) {
	t.Helper()
	for _, o := range c.Objects {
		if slices.Contains(but, o.GetKind()) {
			continue
		}
		o = o.DeepCopy()
		if err := r.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o),
			client.FieldOwner("helm")); err != nil {
			t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := r.AwaitTrue(t.Context(), o, "Established"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// read converts the one object of the kind that has the name; the name "" is that of any.
func (c *Chart) read(t *testing.T, kind, name string, into any) {
	t.Helper()
	at := slices.IndexFunc(c.Objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && (name == "" || o.GetName() == name)
	})
	if at < 0 {
		t.Fatalf("the chart has no %s %s", kind, name)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Objects[at].Object, into); err != nil {
		t.Fatal(err)
	}
}

// Deployment is the chart's only one.
func (c *Chart) Deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	c.read(t, "Deployment", "", d)
	return d
}

// Container returns a container of the Stratos pod, a sidecar too; nil where it has none of that
// name.
func (c *Chart) Container(t *testing.T, name string) *corev1.Container {
	t.Helper()
	pod := c.Deployment(t).Spec.Template.Spec
	all := slices.Concat(pod.InitContainers, pod.Containers)
	at := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// SchedulerConfig is the configuration that the chart mounts into the scheduler's container, with
// the addresses of a process in place of those of a pod: where its extender is, and a kubeconfig.
func (c *Chart) SchedulerConfig(t *testing.T, extenderURL string) []byte {
	t.Helper()
	mounted := &corev1.ConfigMap{}
	c.read(t, "ConfigMap", "stratos-scheduler", mounted)
	text := mounted.Data["scheduler.yaml"]
	for old, replacement := range map[string]string{
		"urlPrefix: http://127.0.0.1:9444\n": "urlPrefix: " + extenderURL + "\n",
		"clientConnection:\n":                "clientConnection:\n  kubeconfig: " + controlplane.KubeconfigPlaceholder + "\n",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("the scheduler's configuration has not one %q:\n%s", old, text)
		}
		text = strings.Replace(text, old, replacement, 1)
	}
	return []byte(text)
}

// AnswerAt has the API server ask for admission at the address: here no Service leads anywhere. It
// goes before Apply.
func (c *Chart) AnswerAt(t *testing.T, address string, ca []byte) {
	t.Helper()
	found := 0
	for _, o := range c.Objects {
		webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range webhooks {
			found++
			if err := point(w, address, ca); err != nil {
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
		if len(webhooks) > 0 {
			o.Object["webhooks"] = webhooks
		}
	}
	if found == 0 {
		t.Fatal("the chart has no webhook")
	}
}

func point(hook any, address string, ca []byte) error {
	fields, ok := hook.(map[string]any)
	if !ok {
		return fmt.Errorf("a webhook is a %T", hook)
	}
	path, found, err := unstructured.NestedString(fields, "clientConfig", "service", "path")
	if err != nil || !found {
		return errors.Join(err, errors.New("no path of a Service"))
	}
	fields["clientConfig"] = map[string]any{"url": "https://" + address + path, "caBundle": encode(ca)}
	return nil
}
