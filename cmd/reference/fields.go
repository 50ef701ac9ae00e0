package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/stratos-sh/stratos/crds"
)

// fieldTable is a table of the fields below the paths of a kind, such as spec.preWarm. Fields of
// several paths must be the same, and are shown once. Those below a path that is covered have a
// table of their own.
func fieldTable(kind string, paths []string, covered map[string]bool) (string, error) {
	all, err := crds.All()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Names.Kind == kind })
	if i < 0 {
		return "", fmt.Errorf("no kind %s", kind)
	}
	root := *all[i].Spec.Versions[0].Schema.OpenAPIV3Schema
	var table string
	for _, path := range paths {
		s, err := at(root, path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", kind, err)
		}
		f := &fields{covered: covered, path: path}
		if path == "spec" {
			// The rules that several fields must meet have no other row.
			s.XValidations = slices.Concat(s.XValidations, root.XValidations)
			f.row(path, s, true)
		}
		f.below("", s)
		if table != "" && table != f.text.String() {
			return "", fmt.Errorf("%s: %s has other fields than %s", kind, path, paths[0])
		}
		table = f.text.String()
	}
	return "| field | type | default | limits | meaning |\n|---|---|---|---|---|\n" + table, nil
}

// at is the schema of a dotted path; of a list, that of its elements.
func at(s apiextensionsv1.JSONSchemaProps, path string) (apiextensionsv1.JSONSchemaProps, error) {
	for name := range strings.SplitSeq(path, ".") {
		next, ok := s.Properties[name]
		if !ok {
			return s, fmt.Errorf("no field %s in %s", name, path)
		}
		s = next
		if s.Items != nil {
			s = *s.Items.Schema
		}
	}
	return s, nil
}

// fields writes the rows of the fields below path.
type fields struct {
	covered map[string]bool
	path    string
	text    bytes.Buffer
}

// below writes the rows of the schema's fields, those first that are required.
func (f *fields) below(prefix string, s apiextensionsv1.JSONSchemaProps) {
	required := func(name string) bool { return slices.Contains(s.Required, name) }
	names := slices.SortedFunc(maps.Keys(s.Properties), func(a, b string) int {
		if required(a) != required(b) {
			return map[bool]int{true: -1, false: 1}[required(a)]
		}
		return cmp.Compare(a, b)
	})
	for _, name := range names {
		field := s.Properties[name]
		f.row(prefix+name, field, required(name))
		plain := strings.ReplaceAll(f.path+"."+prefix+name, "[]", "")
		if f.covered[plain] || name == "conditions" { // these are metav1.Condition, as everywhere
			continue
		}
		f.below(prefix+name+".", field)
		if field.Items != nil {
			f.below(prefix+name+"[].", *field.Items.Schema)
		}
	}
}

func (f *fields) row(name string, s apiextensionsv1.JSONSchemaProps, required bool) {
	initial := ""
	if required {
		initial = "required"
	}
	if s.Default != nil && string(s.Default.Raw) != "{}" {
		initial = "`" + strings.Trim(string(s.Default.Raw), `"`) + "`"
	}
	fmt.Fprintf(&f.text, "| `%s` | %s | %s | %s | %s |\n", name, typeOf(s), initial, strings.Join(limits(s), "; "),
		meaning(s.Description))
}

// address finds an address in a text, which would become a link.
var address = regexp.MustCompile(`https?://[^\s,]*[^\s,.]`)

func meaning(description string) string {
	return address.ReplaceAllString(cell(description), "`$0`")
}

// quantity is how the pattern of a resource.Quantity begins.
const quantity = `^(\+|-)?(([0-9]+`

// typeOf is the type in the words of kubectl explain.
func typeOf(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString && strings.HasPrefix(s.Pattern, quantity):
		return "quantity"
	case s.XIntOrString:
		return "integer or string"
	case s.Items != nil:
		return "[]" + typeOf(*s.Items.Schema)
	case s.AdditionalProperties != nil:
		return "map of " + typeOf(*s.AdditionalProperties.Schema)
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// limits are the rules that the API server enforces on a field, and on each element of a list or a
// map.
func limits(s apiextensionsv1.JSONSchemaProps) []string {
	found := slices.DeleteFunc([]string{
		span(s.Minimum, s.Maximum, ""), span(s.MinLength, s.MaxLength, " characters"),
		span(s.MinItems, s.MaxItems, " items"), span(s.MinProperties, s.MaxProperties, " keys"),
	}, func(limit string) bool { return limit == "" })
	var values []string
	for _, value := range s.Enum {
		values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
	}
	if len(values) > 0 {
		found = append(found, strings.Join(values, ", "))
	}
	switch {
	case s.XListType != nil && *s.XListType == "set":
		found = append(found, "each once")
	case len(s.XListMapKeys) > 0:
		found = append(found, "each `"+strings.Join(s.XListMapKeys, "` and `")+"` once")
	}
	if s.Pattern != "" && !s.XIntOrString {
		found = append(found, "`"+strings.ReplaceAll(s.Pattern, "|", `\|`)+"`")
	}
	for _, rule := range s.XValidations {
		found = append(found, cell(rule.Message))
	}
	var each []string
	if s.Items != nil {
		each = limits(*s.Items.Schema)
	} else if s.AdditionalProperties != nil {
		each = limits(*s.AdditionalProperties.Schema)
	}
	if len(each) > 0 {
		found = append(found, "each: "+strings.Join(each, "; "))
	}
	return found
}

// span is from least to most, of which each may be missing.
func span[N int64 | float64](least, most *N, unit string) string {
	switch {
	case least == nil && most == nil:
		return ""
	case least == nil:
		return fmt.Sprint("at most ", *most, unit)
	case most == nil:
		return fmt.Sprint("at least ", *least, unit)
	}
	return fmt.Sprint(*least, " to ", *most, unit)
}
