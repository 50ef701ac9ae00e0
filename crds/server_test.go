package crds_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds"
)

// server does with an object what the API server does between the request and etcd, with the API
// server's own code: unknown fields, defaults, schema, list types, CEL.
type server struct {
	kinds map[string]kind
}

type kind struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// newServer builds a server from the embedded definitions. It fails where the API server would
// refuse a definition, which includes rules that do not compile and rules whose estimated cost is
// above the API server's budget.
func newServer(t *testing.T) *server {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{kinds: map[string]kind{}}
	for _, crd := range all {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal,
			nil); err != nil {
			t.Fatal(err)
		}
		internal.Status.StoredVersions = []string{internal.Spec.Versions[0].Name}
		if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
			t.Fatalf("the API server refuses %s: %v", crd.Name, errs.ToAggregate())
		}
		s.kinds[crd.Spec.Names.Kind] = newKind(t, internal)
	}
	return s
}

func newKind(t *testing.T, crd *apiextensions.CustomResourceDefinition) kind {
	t.Helper()
	// The conversion moves the schema of a sole version to the top.
	props := crd.Spec.Validation.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	return kind{structural: structural, schema: schema, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// create returns what the API server would say to the object, which it fills with defaults.
func (s *server) create(object map[string]any) field.ErrorList {
	k, ok := s.kinds[fmt.Sprint(object["kind"])]
	if !ok {
		return field.ErrorList{field.NotFound(field.NewPath("kind"), object["kind"])}
	}
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(object, k.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, field.Invalid(nil, path, "unknown field"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, k.structural)
	defaulting.Default(object, k.structural)
	errs = append(errs, validation.ValidateCustomResource(nil, object, k.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return errs // the API server does not evaluate rules after these
		default:
		}
	}
	ruleErrs, _ := k.rules.Validate(context.Background(), nil, k.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, ruleErrs...)
}

// readObject returns the object of a file and the file's first line.
func readObject(t *testing.T, path string) (map[string]any, string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := yaml.UnmarshalStrict(data, &object); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return wholeNumbers(object).(map[string]any), first
}

// wholeNumbers turns the float64 of sigs.k8s.io/yaml into the int64 that the API server's decoder
// yields.
func wholeNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wholeNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// yamlFiles returns the files of a folder under testdata, by name without suffix; at least least of
// them.
func yamlFiles(t *testing.T, folder string, least int) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < least {
		t.Fatalf("testdata/%s holds %d files, want at least %d", folder, len(paths), least)
	}
	files := map[string]string{}
	for _, path := range paths {
		files[strings.TrimSuffix(filepath.Base(path), ".yaml")] = path
	}
	return files
}
