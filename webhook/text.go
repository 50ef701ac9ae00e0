package webhook

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// namesShown bounds a list of names in a message: the API server cuts warnings at 256 characters.
const namesShown = 3

// warn says of a field what a person should look at.
func warn(path *field.Path, format string, args ...any) admission.Warnings {
	return admission.Warnings{path.String() + ": " + fmt.Sprintf(format, args...)}
}

// namesOf lists the names in their order, the first ones where there are many.
func namesOf(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - namesShown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesShown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// count is "1 node", "2 nodes".
func count(n int32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
