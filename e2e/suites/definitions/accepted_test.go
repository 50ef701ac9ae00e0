package definitions

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// poolDefaults are the defaults that users rely on, by path below spec, without the indexes of
// lists.
func poolDefaults() map[string]any {
	return map[string]any{
		"weight":                       int64(10),
		"template.startupTaintRemoval": "WhenNetworkReady",
		"preWarm.timeout":              "10m",
		"preWarm.timeoutAction":        "stop",
		"preWarm.imagePullPolicy":      "Required",
		"scaleUp.readyTimeout":         "5m",
		"scaleUp.anticipate":           "Replicas",
		"scaleDown.enabled":            true,
		"scaleDown.emptyNodeTTL":       "5m",
		"scaleDown.drainTimeout":       "5m",
		"scaleDown.standbySurplusTTL":  "24h",
		"disruption.budget":            "10%",
		"disruption.drift":             "Recycle",
	}
}

func classDefaults() map[string]any {
	return map[string]any{
		"metadataOptions.httpTokens":              "required",
		"metadataOptions.httpPutResponseHopLimit": int64(2),
		"metadataOptions.httpEndpoint":            "enabled",
		"blockDeviceMappings.volumeType":          "gp3",
		"blockDeviceMappings.deleteOnTermination": true,
	}
}

func TestSeedsAccepted(t *testing.T) {
	s := newServer(t)
	for folder, least := range map[string]int{"seeds": 20, "edges": 11} {
		for name, f := range assert.Examples(t, folder, least) {
			t.Run(folder+"/"+name, func(t *testing.T) {
				stored := f.DeepCopy()
				if err := s.client.Create(t.Context(), stored); err != nil {
					t.Fatalf("refused: %v", err)
				}
				// Several examples have the same name, as documents that stand for themselves do.
				defer func() {
					if err := s.client.Delete(t.Context(), stored); err != nil {
						t.Error(err)
					}
				}()
				if diff := cmp.Diff(withDefaults(t, f.Unstructured), specLeaves(t, stored)); diff != "" {
					t.Errorf("spec as stored (-what was written and the defaults +got):\n%s", diff)
				}
			})
		}
	}
}

// withDefaults is what the API server should store: what the object says, and the
// default of what it does not say.
func withDefaults(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	want := specLeaves(t, object)
	defaults := poolDefaults()
	switch object.GetKind() {
	case "AWSNodeClass":
		defaults = classDefaults()
	case "KindNodeClass":
		defaults = nil // it has none
	}
	for path, d := range defaults {
		for _, at := range places(path, want) {
			if _, said := want[at]; !said {
				want[at] = d
			}
		}
	}
	// An object that was written empty is no leaf any more once defaults are in it.
	for _, at := range slices.Collect(maps.Keys(want)) {
		if empty, ok := want[at].(map[string]any); ok && len(empty) == 0 && hasBelow(want, at+".") {
			delete(want, at)
		}
	}
	return want
}

// places are where a default belongs: its path, or, below a list, its path in each element that
// there is.
func places(path string, said map[string]any) []string {
	list, field, found := strings.Cut(path, "blockDeviceMappings.")
	if !found {
		return []string{path}
	}
	elements := map[string]bool{}
	for at := range said {
		if element, _, ok := strings.Cut(at, "]."); ok && strings.HasPrefix(at, list+"blockDeviceMappings[") {
			elements[element+"]."+field] = true
		}
	}
	return slices.Collect(maps.Keys(elements))
}

func hasBelow(values map[string]any, prefix string) bool {
	for at := range values {
		if strings.HasPrefix(at, prefix) {
			return true
		}
	}
	return false
}

func specLeaves(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	spec, found, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil || !found {
		t.Fatalf("no spec: %v", err)
	}
	values := map[string]any{}
	leaves("", spec, values)
	return values
}
