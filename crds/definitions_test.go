package crds_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func schemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, crd := range all {
		out[crd.Spec.Names.Kind] = *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return out
}

func TestACallersChangeStaysItsOwn(t *testing.T) {
	mine, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	clear(mine[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties)
	again, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(again[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties) == 0 {
		t.Error("another caller's definition has no properties")
	}
}

// walk visits a schema and all below it; path is dotted, list elements are [], map values are *.
func walk(path string, s apiextensionsv1.JSONSchemaProps, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		walk(path+"."+name, s.Properties[name], visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", *s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+".*", *s.AdditionalProperties.Schema, visit)
	}
}

func TestTheDefaultsOfTheDefinitionsAreTheConstantsOfGo(t *testing.T) {
	want := map[string]string{
		"NodePool.spec.weight":                                        text(t, v1alpha1.DefaultWeight),
		"NodePool.spec.template.startupTaintRemoval":                  text(t, v1alpha1.DefaultStartupTaintRemoval),
		"NodePool.spec.preWarm":                                       "{}",
		"NodePool.spec.preWarm.timeout":                               duration(v1alpha1.DefaultPreWarmTimeout),
		"NodePool.spec.preWarm.timeoutAction":                         text(t, v1alpha1.DefaultTimeoutAction),
		"NodePool.spec.preWarm.imagePullPolicy":                       text(t, v1alpha1.DefaultImagePullPolicy),
		"NodePool.spec.scaleUp":                                       "{}",
		"NodePool.spec.scaleUp.readyTimeout":                          duration(v1alpha1.DefaultReadyTimeout),
		"NodePool.spec.scaleUp.anticipate":                            text(t, v1alpha1.DefaultAnticipate),
		"NodePool.spec.scaleDown":                                     "{}",
		"NodePool.spec.scaleDown.enabled":                             text(t, v1alpha1.DefaultScaleDownEnabled),
		"NodePool.spec.scaleDown.emptyNodeTTL":                        duration(v1alpha1.DefaultEmptyNodeTTL),
		"NodePool.spec.scaleDown.drainTimeout":                        duration(v1alpha1.DefaultDrainTimeout),
		"NodePool.spec.scaleDown.standbySurplusTTL":                   duration(v1alpha1.DefaultStandbySurplusTTL),
		"NodePool.spec.disruption":                                    "{}",
		"NodePool.spec.disruption.budget":                             text(t, v1alpha1.DefaultBudget),
		"NodePool.spec.disruption.drift":                              text(t, v1alpha1.DefaultDrift),
		"AWSNodeClass.spec.metadataOptions":                           "{}",
		"AWSNodeClass.spec.metadataOptions.httpTokens":                text(t, v1alpha1.DefaultHTTPTokens),
		"AWSNodeClass.spec.metadataOptions.httpEndpoint":              text(t, v1alpha1.DefaultHTTPEndpoint),
		"AWSNodeClass.spec.nodeImage.owner":                           text(t, v1alpha1.DefaultNodeImageOwner),
		"AWSNodeClass.spec.blockDeviceMappings[].volumeType":          text(t, v1alpha1.DefaultVolumeType),
		"AWSNodeClass.spec.metadataOptions.httpPutResponseHopLimit":   text(t, v1alpha1.DefaultHTTPPutResponseHopLimit),
		"AWSNodeClass.spec.blockDeviceMappings[].deleteOnTermination": text(t, v1alpha1.DefaultDeleteOnTermination),
	}
	got := map[string]string{}
	for kind, schema := range schemas(t) {
		walk(kind, schema, func(path string, s apiextensionsv1.JSONSchemaProps) {
			if s.Default == nil {
				return
			}
			got[path] = string(s.Default.Raw)
			// 10m and 10m0s are one duration; the definition carries the one that people write.
			var written string
			if json.Unmarshal(s.Default.Raw, &written) == nil {
				if d, err := time.ParseDuration(written); err == nil {
					got[path] = duration(d)
				}
			}
		})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-Go +definition):\n%s", diff)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func duration(d time.Duration) string { return "duration " + d.String() }

func TestEveryFieldExplainsItself(t *testing.T) {
	for kind, schema := range schemas(t) {
		walk(kind, schema, func(path string, s apiextensionsv1.JSONSchemaProps) {
			named := !strings.HasSuffix(path, "]") && !strings.HasSuffix(path, "*")
			if named && path != kind+".metadata" && len(s.Description) < 10 {
				t.Errorf("%s: kubectl explain says only %q", path, s.Description)
			}
		})
	}
}

// Without bounds a rule over a list, map or text costs more than the API server allows, and an
// object may grow to the size of a request.
func TestEveryListMapAndTextOfASpecIsBounded(t *testing.T) {
	for kind, schema := range schemas(t) {
		walk(kind+".spec", schema.Properties["spec"], func(path string, s apiextensionsv1.JSONSchemaProps) {
			switch {
			case s.Type == "array" && s.MaxItems == nil:
				t.Errorf("%s has no maxItems", path)
			case s.AdditionalProperties != nil && s.MaxProperties == nil:
				t.Errorf("%s has no maxProperties", path)
			case s.Type == "string" && s.MaxLength == nil && len(s.Enum) == 0:
				t.Errorf("%s has no maxLength", path)
			}
		})
	}
}

// A rule without an object that breaks it is a rule that was never seen to work.
func TestEveryRuleIsBrokenByAFaultyObject(t *testing.T) {
	s := newServer(t)
	var said strings.Builder
	for _, path := range yamlFiles(t, "faulty", 45) {
		object, _ := readObject(t, path)
		for _, err := range s.create(object) {
			said.WriteString(err.Error() + "\n")
		}
	}
	for kind, schema := range schemas(t) {
		walk(kind, schema, func(path string, s apiextensionsv1.JSONSchemaProps) {
			for _, rule := range s.XValidations {
				if !strings.Contains(said.String(), rule.Message) {
					t.Errorf("%s: no faulty object is refused with %q", path, rule.Message)
				}
			}
		})
	}
}

func TestAllDefinitionsAreClusterScopedAndListedTogether(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, crd := range all {
		names = append(names, crd.Name)
		if crd.Spec.Scope != apiextensionsv1.ClusterScoped {
			t.Errorf("%s has scope %s", crd.Name, crd.Spec.Scope)
		}
		if !slices.Contains(crd.Spec.Names.Categories, "stratos") {
			t.Errorf("%s is not in category stratos", crd.Name)
		}
		if sub := crd.Spec.Versions[0].Subresources; sub == nil || sub.Status == nil || sub.Scale != nil {
			t.Errorf("%s has subresources %v, want status only", crd.Name, sub)
		}
	}
	if diff := cmp.Diff([]string{"awsnodeclasses.stratos.sh", "kindnodeclasses.stratos.sh", "nodepools.stratos.sh"},
		names); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func TestTheStreamHoldsEveryDefinition(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var documents [][]byte
	for document := range bytes.SplitSeq(crds.YAML(), []byte("---\n")) {
		if len(bytes.TrimSpace(document)) > 0 {
			documents = append(documents, document)
		}
	}
	if len(documents) != len(all) {
		t.Fatalf("%d documents, want %d", len(documents), len(all))
	}
	for i, document := range documents {
		got := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(document, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all[i], got); diff != "" {
			t.Errorf("document %d (-All +YAML):\n%s", i, diff)
		}
	}
}
