package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Tree is the repository's root, seen from wherever the caller runs.
type Tree string

// ChartDir is the chart's folder.
func (t Tree) ChartDir() string { return t.path("charts", "stratos") }

// CRDsChartDir is the folder of the chart that has the definitions alone.
func (t Tree) CRDsChartDir() string { return t.path("charts", "stratos-crds") }

// RenderedFile is where the render of a set is kept.
func (t Tree) RenderedFile(set string) string {
	return t.path("charts", "testdata", "rendered", set+".yaml")
}

func (t Tree) path(parts ...string) string {
	return filepath.Join(append([]string{string(t)}, parts...)...)
}

// Set is one way to install the chart: the values of charts/testdata/values/<name>.yaml, and what
// the command line and the cluster add.
type Set struct {
	Name string `json:"-"`
	// Values are what -f gives.
	Values map[string]any `json:"-"`

	Release    string `json:"release"`
	Namespace  string `json:"namespace"`
	Kubernetes string `json:"kubernetes"`
}

// Sets reads all sets, in the order of their names. Those that charts/testdata/sets.yaml does not
// mention are a release called stratos in stratos-system, on Kubernetes 1.37.
func (t Tree) Sets() ([]Set, error) {
	files, err := filepath.Glob(t.path("charts", "testdata", "values", "*.yaml"))
	if err != nil {
		return nil, err
	}
	special := map[string]Set{}
	if err := readYAML(t.path("charts", "testdata", "sets.yaml"), &special); err != nil {
		return nil, err
	}
	slices.Sort(files)
	var sets []Set
	for _, file := range files {
		set := Set{Name: strings.TrimSuffix(filepath.Base(file), ".yaml"), Release: "stratos", Namespace: "stratos-system",
			Kubernetes: "v1.37.2"}
		set.overrideBy(special[set.Name])
		if err := readYAML(file, &set.Values); err != nil {
			return nil, err
		}
		sets = append(sets, set)
		delete(special, set.Name)
	}
	for name := range special {
		return nil, fmt.Errorf("charts/testdata/sets.yaml: %q has no file in charts/testdata/values", name)
	}
	return sets, nil
}

func (s *Set) overrideBy(special Set) {
	for to, from := range map[*string]string{&s.Release: special.Release, &s.Namespace: special.Namespace,
		&s.Kubernetes: special.Kubernetes} {
		if from != "" {
			*to = from
		}
	}
}

func readYAML(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// copyOfValues: Helm writes into what it is given.
func (s Set) copyOfValues() map[string]any {
	return runtime.DeepCopyJSON(s.Values)
}

func texts(errs []error) []string {
	out := make([]string, len(errs))
	for i, err := range errs {
		out[i] = err.Error()
	}
	return out
}
