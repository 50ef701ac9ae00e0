package helm

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/minors"
)

// tree is the repository, seen from this package's folder.
const tree = Tree("../..")

// leastSets is how many sets the project has to render.
const leastSets = 12

func sets(t *testing.T) []Set {
	t.Helper()
	all, err := tree.Sets()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < leastSets {
		t.Fatalf("%d sets of values, want at least %d", len(all), leastSets)
	}
	return all
}

func set(t *testing.T, name string) Set {
	t.Helper()
	for _, s := range sets(t) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no set %q", name)
	return Set{}
}

// objectsOf renders the set by Helm 4.
func objectsOf(t *testing.T, s Set) []*unstructured.Unstructured {
	t.Helper()
	output, err := Helm4.Render(tree.ChartDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := output.Objects()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the objects of a kind.
func find(objects []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

func TestChartRendersTheSameInHelm3And4(t *testing.T) {
	for _, s := range sets(t) {
		golden, err := os.ReadFile(tree.RenderedFile(s.Name))
		if err != nil {
			t.Fatal(err)
		}
		for _, major := range Majors() {
			t.Run(s.Name+"/"+major.String(), func(t *testing.T) {
				output, err := major.Render(tree.ChartDir(), s)
				if err != nil {
					t.Fatal(err)
				}
				got, err := output.Canonical(s)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(golden), got); diff != "" {
					t.Errorf("%s (-kept +rendered; make generate writes it anew):\n%s", tree.RenderedFile(s.Name), diff)
				}
			})
		}
	}
}

func TestChartLints(t *testing.T) {
	for _, s := range sets(t) {
		for _, major := range Majors() {
			t.Run(s.Name+"/"+major.String(), func(t *testing.T) {
				found, err := major.Lint(tree.ChartDir(), s)
				if err != nil {
					t.Fatal(err)
				}
				for _, complaint := range found {
					t.Error(complaint)
				}
			})
		}
	}
}

// TestLintComplains shows that what TestChartLints asks can answer.
func TestLintComplains(t *testing.T) {
	for _, major := range Majors() {
		found, err := major.Lint(tree.ChartDir(), Set{Namespace: "n", Kubernetes: "v1.37.2",
			Values: map[string]any{"clusterName": "c", "replicaCount": "two"}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(found, "\n"), "replicaCount") {
			t.Errorf("%s does not complain of replicaCount: %q", major, found)
		}
	}
}

// TestSchedulerConfigurationIsTheGenerators: the chart fills in names, and nothing else of what
// decides how the scheduler asks.
func TestSchedulerConfigurationIsTheGenerators(t *testing.T) {
	compared := 0
	for _, s := range sets(t) {
		objects := objectsOf(t, s)
		deployment := find(objects, "Deployment")[0]
		for _, config := range find(objects, "ConfigMap") {
			got, found, err := unstructured.NestedString(config.Object, "data", "scheduler.yaml")
			if err != nil || !found {
				continue
			}
			if _, changed, _ := unstructured.NestedFieldNoCopy(s.Values, "scheduler", "plugins"); changed {
				continue // package charts has a test of its own for it
			}
			compared++
			options := extender.SchedulerConfigOptions{
				Wiring: extender.WiringDedicated, KubernetesMinor: s.Kubernetes, LeaderElect: true,
				SchedulerName: schedulerName(s), LeaseName: deployment.GetName() + "-scheduler", LeaseNamespace: s.Namespace,
				ExtenderURL: extenderURL(s),
			}
			if minors := minors.Supported(); extender.Untested(s.Kubernetes) != "" {
				options.KubernetesMinor = minors[len(minors)-1]
			}
			if strings.HasPrefix(options.ExtenderURL, "https:") {
				const folder = "/etc/stratos/scheduler-client/"
				options.TLS = extender.SchedulerTLS{CAFile: folder + "ca.crt", CertFile: folder + "tls.crt",
					KeyFile: folder + "tls.key", ServerName: deployment.GetName() + "-webhook." + s.Namespace + ".svc"}
			}
			want, err := extender.SchedulerConfig(options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("set %s (-stratos scheduler-config +chart):\n%s", s.Name, diff)
			}
		}
	}
	if compared < len(minors.Supported()) {
		t.Errorf("%d configurations were compared, want one for each of %q", compared, minors.Supported())
	}
}

func schedulerName(s Set) string {
	name, found, err := unstructured.NestedString(s.Values, "scheduler", "name")
	if err != nil || !found {
		return "stratos-scheduler"
	}
	return name
}

// extenderURL is where the scheduler of the set finds the extender of its pod.
func extenderURL(s Set) string {
	scheme := "http"
	if on, _, _ := unstructured.NestedBool(s.Values, "hostNetwork"); on {
		scheme = "https"
	}
	port, found, err := unstructured.NestedFieldNoCopy(s.Values, "ports", "extender")
	if err != nil || !found {
		port = 9444
	}
	return fmt.Sprintf("%s://127.0.0.1:%v", scheme, port)
}

func TestReadmeWantsADescriptionOfEachValue(t *testing.T) {
	_, err := Readme([]byte("# -- Known.\nknown: 1\nouter:\n  inner: 2\nempty: {}\n"))
	for _, want := range []string{"outer.inner", "empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}
