package admission

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// fault is a row of webhook/testdata/faults.yaml: one fault over a good object, which the CRD's own
// rules accept.
type fault struct {
	Kind    string         `json:"kind"`
	Refused bool           `json:"refused"`
	Change  map[string]any `json:"change"`
	Field   string         `json:"field"`
	Says    []string       `json:"says"`
}

const faultsFolder = "../../../webhook/testdata"

// TestSixtyFaults applies faulty objects, one fault each: those that only the webhook knows with
// kubectl, as a person does, and those that the CRDs' own rules know, with the webhook up, out of
// reach, and absent.
func TestSixtyFaults(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	faults := read[map[string]fault](t, "faults.yaml")
	if len(faults) < 60 {
		t.Fatalf("%d faults, want at least 60", len(faults))
	}
	static := assert.Examples(t, "faulty", 100)
	if err := g.client.Create(t.Context(), good(t, "AWSNodeClass", nil)); err != nil {
		t.Fatal(err)
	}
	t.Run("the webhook's own", func(t *testing.T) { g.applyFaults(t, faults) })
	t.Run("static ones beside the webhook", func(t *testing.T) { g.refuseStatic(t, static) })
	t.Run("user data that is long in bytes", g.testLongUserData)
	g.stratos.Process.Kill()
	t.Run("any object while the webhook is down", func(t *testing.T) { g.testDown(t, static) })
	g.unregister(t)
	t.Run("static ones without the webhook", func(t *testing.T) { g.refuseStatic(t, static) })
	t.Run("the webhook's own without it", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(faults)) {
			if err := g.client.Create(t.Context(), faulty(t, faults[name], "free"), client.DryRunAll); err != nil {
				t.Errorf("%s: the CRD refuses this by itself, so the row shows nothing of the webhook: %v", name, err)
			}
		}
	})
}

// applyFaults applies all with one kubectl. It prints an object's warnings before what became of
// the object.
func (g *site) applyFaults(t *testing.T, faults map[string]fault) {
	folder, names := t.TempDir(), slices.Sorted(maps.Keys(faults))
	for i, name := range names {
		data, err := yaml.Marshal(faulty(t, faults[name], objectName(i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, objectName(i)+".yaml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := assert.Kubectl(t, g.ControlPlane, "apply", "-f", folder) // it fails, because of those that are refused
	lines := strings.Split(out, "\n")
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			checkAnswer(t, faults[name], refusalOf(lines, objectName(i)), warningsOf(lines, objectName(i)))
		})
	}
}

func objectName(i int) string { return fmt.Sprintf("fault-%03d", i) }

// refusalOf is kubectl's error about the object, empty if there is none.
func refusalOf(lines []string, name string) string {
	for _, line := range lines {
		if strings.Contains(line, "denied the request") && strings.Contains(line, `"`+name+`" is invalid`) {
			return line
		}
	}
	return ""
}

// warningsOf are those above the line that says that the object was created.
func warningsOf(lines []string, name string) []string {
	end := slices.IndexFunc(lines, func(l string) bool { return strings.HasSuffix(l, "/"+name+" created") })
	if end < 0 {
		return nil
	}
	begin := end
	for begin > 0 && strings.HasPrefix(lines[begin-1], "Warning: ") {
		begin--
	}
	return lines[begin:end]
}

func checkAnswer(t *testing.T, f fault, refusal string, warnings []string) {
	t.Helper()
	message := refusal
	if !f.Refused {
		if refusal != "" || len(warnings) != 1 {
			t.Fatalf("refused: %q, warned: %q; want one warning", refusal, warnings)
		}
		message = warnings[0]
	}
	for _, want := range append([]string{f.Field + ": "}, f.Says...) {
		if !strings.Contains(strings.ReplaceAll(message, `\"`, `"`), want) {
			t.Errorf("%q does not say %q", message, want)
		}
	}
}

// refuseStatic wants the schema's own words: our defaulting, which comes first, must not put Go's
// in their place.
func (g *site) refuseStatic(t *testing.T, faults map[string]assert.Example) {
	for name, f := range faults {
		err := g.client.Create(t.Context(), f.DeepCopy())
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), f.Want) {
			t.Errorf("%s: want it refused as invalid with %q, got: %v", name, f.Want, err)
		}
		if err != nil && strings.Contains(err.Error(), "webhook") {
			t.Errorf("%s: the webhook speaks where the CRD's own rule should: %v", name, err)
		}
	}
}

// testDown: the mutating webhook is asked before the schema, so while it is down its error is all
// that people see, whatever else is wrong.
func (g *site) testDown(t *testing.T, faults map[string]assert.Example) {
	g.awaitUnreached(t)
	for _, name := range slices.Sorted(maps.Keys(faults))[:3] {
		err := g.client.Create(t.Context(), faults[name].DeepCopy())
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testLongUserData counts bytes where the schema counts characters.
func (g *site) testLongUserData(t *testing.T) {
	change := map[string]any{"metadata": map[string]any{"name": "long"},
		"spec": map[string]any{"userData": "#!/bin/bash\n#" + strings.Repeat("ä", 10000) + "\npoweroff\n"}}
	err := g.client.Create(t.Context(), good(t, "AWSNodeClass", change))
	if err == nil || !strings.Contains(err.Error(), "spec.userData: Too long: may not be more than 16384 bytes") {
		t.Errorf("20 KiB of user data: %v", err)
	}
}

func read[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(faultsFolder, file))
	if err != nil {
		t.Fatal(err)
	}
	var into T
	if err := yaml.UnmarshalStrict(text, &into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return into
}

// good is the good object of the kind, with a change merged in.
func good(t *testing.T, kind string, change map[string]any) *unstructured.Unstructured {
	t.Helper()
	object := read[map[string]map[string]any](t, "good.yaml")[kind]
	return &unstructured.Unstructured{Object: merge(object, change)}
}

// faulty is the object of a row under a name of its own. Its pool keeps no standby nodes, so that
// the warned ones launch nothing.
func faulty(t *testing.T, f fault, name string) *unstructured.Unstructured {
	t.Helper()
	object := good(t, f.Kind, f.Change)
	object.SetName(name)
	if f.Kind == "NodePool" {
		object.Object = merge(object.Object, map[string]any{"spec": map[string]any{
			"minStandby": int64(0), "template": map[string]any{"labels": map[string]any{v1alpha1.LabelPool: nil}},
		}})
	}
	return object
}

// merge applies a JSON merge patch.
func merge(object, change map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	for key, value := range change {
		below, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isMap:
			inside, _ := object[key].(map[string]any)
			object[key] = merge(inside, below)
		default:
			object[key] = value
		}
	}
	return object
}
