package release

import (
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
)

// chartMetadata has the fields of Chart.yaml that Helm knows. When Helm packages a chart, it writes
// them anew and drops all others.
type chartMetadata struct {
	Name         string            `json:"name,omitempty"`
	Home         string            `json:"home,omitempty"`
	Sources      []string          `json:"sources,omitempty"`
	Version      string            `json:"version,omitempty"`
	Description  string            `json:"description,omitempty"`
	Keywords     []string          `json:"keywords,omitempty"`
	Maintainers  []chartMaintainer `json:"maintainers,omitempty"`
	Icon         string            `json:"icon,omitempty"`
	APIVersion   string            `json:"apiVersion,omitempty"`
	Condition    string            `json:"condition,omitempty"`
	Tags         string            `json:"tags,omitempty"`
	AppVersion   string            `json:"appVersion,omitempty"`
	Deprecated   bool              `json:"deprecated,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	KubeVersion  string            `json:"kubeVersion,omitempty"`
	Dependencies []chartDependency `json:"dependencies,omitempty"`
	Type         string            `json:"type,omitempty"`
}

type chartMaintainer struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
	URL   string `json:"url,omitempty"`
}

type chartDependency struct {
	Name         string   `json:"name"`
	Version      string   `json:"version,omitempty"`
	Repository   string   `json:"repository"`
	Condition    string   `json:"condition,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	Enabled      bool     `json:"enabled,omitempty"`
	ImportValues []any    `json:"import-values,omitempty"`
	Alias        string   `json:"alias,omitempty"`
}

var chartFiles = regexp.MustCompile(`^(?:charts/[^/]+/)*Chart\.yaml$`)

// packageChart is what `helm package` makes of a chart's folder with the version: an archive of one
// folder with the chart's name.
func packageChart(chart files.Files, version string) ([]byte, error) {
	out := files.Files{}
	out.Put("", chart)
	var name string
	for _, file := range chart.Names() {
		if !chartFiles.MatchString(file) {
			continue
		}
		var metadata chartMetadata
		if err := yaml.Unmarshal(chart[file].Data, &metadata); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if file == format.ChartFile {
			name, metadata.Version = metadata.Name, version
		}
		text, err := yaml.Marshal(metadata)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[file] = files.File{Data: text}
	}
	if name == "" {
		return nil, fmt.Errorf("%s: name must be set", format.ChartFile)
	}
	return out.Archive(name, false)
}
