package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// warned are the warnings of the examples, each by the words it begins with. An example without an
// entry has none.
func warned() map[string][]string {
	return map[string][]string{
		"seeds/readme-awsnodeclass": {"spec.iamInstanceProfile: the account number"},
		"seeds/cloud-providers-nodepool": {
			`spec.preWarm.completionMode: SelfStop, but the user data of AWSNodeClass "production-nodes" has no poweroff`,
		},
		"seeds/scaling-policies-startup-taints-external": {
			"spec.template.startupTaints[0]: node.cilium.io/agent-not-ready=true:NoSchedule is not in the user data",
		},
		"edges/class-hibernation": {"spec.metadataOptions.httpEndpoint: most bootstrap scripts need"},
		"edges/class-volumes":     {"spec.blockDeviceMappings[8].deleteOnTermination: with false"},
		"edges/pool-everything-set": {
			`spec.preWarm.completionMode: ControllerStop, but the user data`,
			`spec.template.startupTaints[0]: node.cilium.io/agent-not-ready=true:NoSchedule is not in the user data`,
		},
		"edges/pool-durations-as-go-writes-them": {"spec.scaleDown.drainTimeout: 1.5s is less"},
		"edges/pool-smallest": {
			"spec.maxNodeRuntime: 1m0s is so short", "spec.preWarm.timeout: 1s", "spec.scaleUp.readyTimeout: 1s",
			"spec.scaleDown.drainTimeout: 1s", "spec.disruption.expireAfter: 10m0s",
			"spec.disruption.terminationGracePeriod: 0s",
		},
	}
}

// TestExamplesAreAccepted holds the examples of the seeds, and the edges of every field, to what
// the webhook says of them in a cluster with the classes of the seeds.
func TestExamplesAreAccepted(t *testing.T) {
	classes := seedClasses(t)
	expected := warned()
	for _, path := range examples(t) {
		name := strings.TrimSuffix(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			errs, warnings := judgeFile(t, path, classes)
			if len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if diff := cmp.Diff(expected[name], beginnings(warnings, expected[name])); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			delete(expected, name)
		})
	}
	for name := range expected {
		t.Errorf("no example is called %s", name)
	}
}

// beginnings cuts each warning to the expected words where it begins with them.
func beginnings(warnings admission.Warnings, expected []string) []string {
	var cut []string
	for _, warning := range warnings {
		for _, want := range expected {
			if strings.HasPrefix(warning, want) {
				warning = want
			}
		}
		cut = append(cut, warning)
	}
	return cut
}

func examples(t testing.TB) []string {
	t.Helper()
	var paths []string
	for folder, least := range map[string]int{"seeds": 20, "edges": 11} {
		found, err := filepath.Glob("../crds/testdata/" + folder + "/*.yaml")
		if err != nil || len(found) < least {
			t.Fatalf("%d files in %s, error %v", len(found), folder, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func seedClasses(t testing.TB) map[string]*v1alpha1.AWSNodeClass {
	t.Helper()
	classes := map[string]*v1alpha1.AWSNodeClass{}
	for _, path := range examples(t) {
		class := &v1alpha1.AWSNodeClass{}
		if strings.Contains(path, "/seeds/") && decodeFile(t, path, class) == "AWSNodeClass" {
			classes[class.Name] = class
		}
	}
	return classes
}

func decodeFile(t testing.TB, path string, into any) (kind string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head := struct{ Kind string }{}
	if err := yaml.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return head.Kind
}

func judgeFile(t *testing.T, path string, classes map[string]*v1alpha1.AWSNodeClass) (errs []string,
	warnings admission.Warnings) {
	t.Helper()
	class, pool, kind := &v1alpha1.AWSNodeClass{}, &v1alpha1.NodePool{}, &v1alpha1.KindNodeClass{}
	if decodeFile(t, path, &map[string]any{}) == v1alpha1.KindKindNodeClass {
		decodeFile(t, path, kind)
		found, warnings := ValidateKindNodeClass(kind, KindNodeClassContext{})
		return texts(found.ToAggregate()), warnings
	}
	if strings.Contains(filepath.Base(path), "class") || decodeFile(t, path, &map[string]any{}) == "AWSNodeClass" {
		decodeFile(t, path, class)
		DefaultAWSNodeClass(class)
		found, warnings := ValidateAWSNodeClass(class, AWSNodeClassContext{})
		return texts(found.ToAggregate()), warnings
	}
	decodeFile(t, path, pool)
	DefaultNodePool(pool)
	around := NodePoolContext{}
	if class := classes[pool.Spec.Template.NodeClassRef.Name]; class != nil { // a nil class in the interface would be one
		around.Class = class
	}
	found, warnings := ValidateNodePool(pool, around)
	return texts(found.ToAggregate()), warnings
}

func texts(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}
