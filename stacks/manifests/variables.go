package manifests

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/format"
)

// Variable is a variable of a ClusterClass.
type Variable struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Schema   struct {
		OpenAPIV3Schema struct {
			Type        string `json:"type"`
			Pattern     string `json:"pattern"`
			Default     any    `json:"default"`
			Example     any    `json:"example"`
			Description string `json:"description"`
		} `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// Value is the value of a variable, as a Cluster has it.
type Value struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// Variables are those of the ClusterClass among the objects of a class.
func Variables(class []byte) ([]Variable, error) {
	for _, document := range format.Documents(string(class)) {
		var object struct {
			Kind string `json:"kind"`
			Spec struct {
				Variables []Variable `json:"variables"`
			} `json:"spec"`
		}
		if document.Kind != "ClusterClass" {
			continue
		}
		if err := yaml.Unmarshal([]byte(document.Text), &object); err != nil {
			return nil, fmt.Errorf("ClusterClass: %w", err)
		}
		return object.Spec.Variables, nil
	}
	return nil, errors.New("the class has no ClusterClass")
}

// Values are the given values, each as name=value, and the defaults of the other variables. The
// defaults are there because templates of addons read the variables of the Cluster.
func Values(all []Variable, given []string) ([]Value, error) {
	named := map[string]string{}
	var problems []error
	for _, each := range given {
		name, value, is := strings.Cut(each, "=")
		known := slices.ContainsFunc(all, func(v Variable) bool { return v.Name == name })
		_, twice := named[name]
		switch {
		case !is:
			problems = append(problems, fmt.Errorf("variable %q must be name=value", each))
		case !known:
			problems = append(problems, fmt.Errorf("variable %s must be one of %s", name, namesOf(all)))
		case twice:
			problems = append(problems, fmt.Errorf("variable %s is there twice", name))
		}
		named[name] = value
	}
	var values []Value
	for _, variable := range all {
		text, is := named[variable.Name]
		value := variable.Schema.OpenAPIV3Schema.Default
		var err error
		switch {
		case is:
			value, err = variable.parse(text)
		case value == nil && variable.Required:
			err = fmt.Errorf("variable %s must be set, such as %v: %s", variable.Name,
				variable.Schema.OpenAPIV3Schema.Example, variable.Schema.OpenAPIV3Schema.Description)
		}
		problems = append(problems, err)
		if value != nil {
			values = append(values, Value{variable.Name, value})
		}
	}
	return values, errors.Join(problems...)
}

func namesOf(all []Variable) string {
	var names []string
	for _, v := range all {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}

// parse reads a value of the variable's type. Cluster API checks what else the schema says.
func (v *Variable) parse(text string) (any, error) {
	schema := v.Schema.OpenAPIV3Schema
	if schema.Type == "string" {
		pattern, err := regexp.Compile(schema.Pattern)
		if err != nil {
			return nil, fmt.Errorf("variable %s: pattern of the class: %w", v.Name, err)
		}
		if !pattern.MatchString(text) {
			return nil, fmt.Errorf("variable %s %q must match %s, such as %v", v.Name, text, schema.Pattern, schema.Example)
		}
		return text, nil
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("variable %s %q must be YAML of the type %s: %w", v.Name, text, schema.Type, err)
	}
	if typeOf(value, schema.Type) != schema.Type {
		return nil, fmt.Errorf("variable %s %q must be of the type %s", v.Name, text, schema.Type)
	}
	return value, nil
}

// typeOf is the type of a value in a schema's words. A whole number is also a number.
func typeOf(value any, want string) string {
	switch value := value.(type) {
	case bool:
		return "boolean"
	case float64:
		if want == "integer" && value == float64(int64(value)) {
			return want
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "string"
	}
}
