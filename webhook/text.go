package webhook

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// namesShown bounds a list of names in a message: the API server cuts warnings at 256 characters.
const namesShown = 3

// warn says of a field what a person should look at.
func warn(path *field.Path, format string, args ...any) admission.Warnings {
	return admission.Warnings{path.String() + ": " + fmt.Sprintf(format, args...)}
}

// namesOf lists the names in their order, the first ones where there are many.
func namesOf(names []string) string {
	return v1alpha1.FirstNames(slices.Sorted(slices.Values(names)), namesShown)
}

// countNodes is "1 node", "2 nodes".
func countNodes(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
