package render

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
)

// Objects are what the template of an addon's values knows: Cluster, and where they are given
// ControlPlane and InfraCluster.
type Objects map[string]any

// The keys of Objects.
const (
	Cluster      = "Cluster"
	ControlPlane = "ControlPlane"
	InfraCluster = "InfraCluster"
)

// ParseObjects reads a file with a Cluster of Cluster API. Its control plane and infrastructure
// cluster may be there too; other objects are left out.
func ParseObjects(text []byte) (Objects, error) {
	found := Objects{}
	for i, document := range format.Documents(string(text)) {
		object, err := parseObject(document.Text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		key := keyOf(object)
		if key == "" {
			continue
		}
		if found[key] != nil {
			return nil, fmt.Errorf("document %d: a second %s: one cluster is rendered at a time", i+1, object["kind"])
		}
		found[key] = object
	}
	if found[Cluster] == nil {
		return nil, errors.New("an object of the kind Cluster of cluster.x-k8s.io must be there")
	}
	return found, nil
}

// parseObject keeps whole numbers whole, as the operator's client does: a template would print a
// large float with an exponent.
func parseObject(text string) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	var object map[string]any
	err = kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &object)
	return object, err
}

func keyOf(object map[string]any) string {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	switch {
	case group == "cluster.x-k8s.io" && kind == Cluster:
		return Cluster
	case group == "controlplane.cluster.x-k8s.io" && strings.HasSuffix(kind, ControlPlane):
		return ControlPlane
	case group == "infrastructure.cluster.x-k8s.io" && strings.HasSuffix(kind, Cluster):
		return InfraCluster
	default:
		return ""
	}
}

// Field returns a field of the Cluster as text, "" where it is not there.
func (o Objects) Field(path ...string) string {
	value := o[Cluster]
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// Variables are those of the Cluster by their names.
func (o Objects) Variables() map[string]any {
	cluster, _ := o[Cluster].(map[string]any)
	spec, _ := cluster["spec"].(map[string]any)
	topology, _ := spec["topology"].(map[string]any)
	list, _ := topology["variables"].([]any)
	found := map[string]any{}
	for _, each := range list {
		variable, _ := each.(map[string]any)
		if name, is := variable["name"].(string); is {
			found[name] = variable["value"]
		}
	}
	return found
}

// check: the operator's webhook refuses a Cluster of another class or version than the release's.
func (o Objects) check(r *release.Release) error {
	var problems []error
	class, at := o.Field("spec", "topology", "classRef", "name"), "spec.topology.classRef.name"
	if v1beta1 := o.Field("spec", "topology", "class"); v1beta1 != "" {
		class, at = v1beta1, "spec.topology.class"
	}
	for _, field := range []struct{ at, value, want string }{{at, class, r.Tag.ClassName()},
		{"spec.topology.version", o.Field("spec", "topology", "version"), r.Hashes.Versions.Kubernetes}} {
		if field.value != field.want {
			problems = append(problems, fmt.Errorf("%s %q of the Cluster %s must be %s, as in the release %s",
				field.at, field.value, o.Field("metadata", "name"), field.want, r.Tag))
		}
	}
	return errors.Join(problems...)
}

// ParseValues reads the template of the values of an addon. It has the operator's functions without
// env and expandenv, which would read the environment of this process.
func ParseValues(text []byte) (*template.Template, error) {
	functions := sprig.TxtFuncMap()
	maps.DeleteFunc(functions, func(name string, _ any) bool { return name == "env" || name == "expandenv" })
	return template.New("values").Option("missingkey=error").Funcs(functions).Parse(string(text))
}

// values are the text of the template's key values.
func (o Objects) values(overwrite []byte) ([]byte, error) {
	parsed, err := ParseValues(overwrite)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any(o)); err != nil {
		return nil, err
	}
	var whole struct {
		Values *string `json:"values"`
	}
	if err := yaml.Unmarshal(out.Bytes(), &whole); err != nil {
		return nil, fmt.Errorf("what the template of the values makes: %w in:\n%s", err, out.String())
	}
	if whole.Values == nil {
		return nil, errors.New("the template of the values must have the key values with a text")
	}
	return []byte(*whole.Values), nil
}
