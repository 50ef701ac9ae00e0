package crds

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Missing is the problem of a definition that is not on the server.
const Missing = "is missing"

// Problems says what is wrong with the definitions found on a server, by their names: missing, not
// established, or with other versions or schemas than those of this program. Others' definitions
// are passed over.
func Problems(found []unstructured.Unstructured) (map[string]string, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	problems := map[string]string{}
	for _, own := range all {
		n := slices.IndexFunc(found, func(u unstructured.Unstructured) bool { return u.GetName() == own.Name })
		if n < 0 {
			problems[own.Name] = Missing
			continue
		}
		there := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[n].Object, there); err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition %s: %w", own.Name, err)
		}
		if problem := problemOf(own, there, &found[n]); problem != "" {
			problems[own.Name] = problem
		}
	}
	return problems, nil
}

func problemOf(own, there *apiextensionsv1.CustomResourceDefinition, raw *unstructured.Unstructured) string {
	if done, why := established(raw); !done {
		return "is not established: " + why
	}
	for i := range own.Spec.Versions {
		want := &own.Spec.Versions[i]
		n := slices.IndexFunc(there.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == want.Name
		})
		switch {
		case n < 0 || !there.Spec.Versions[n].Served:
			return "does not serve " + want.Name
		case !apiequality.Semantic.DeepEqual(want.Schema, there.Spec.Versions[n].Schema):
			return "has another schema of " + want.Name + " than this version of Stratos"
		}
	}
	return ""
}
