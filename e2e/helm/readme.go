package helm

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// described is what a comment begins with that describes the value below it.
const described = "# -- "

const readmeHead = `# Stratos

Code generated from values.yaml by make generate. DO NOT EDIT.

Keeps pools of cloud instances that were warmed up once and stopped, and starts them when pods
cannot be scheduled.

` + "```sh" + `
helm install stratos oci://ghcr.io/stratos-sh/charts/stratos \
  --namespace stratos-system --create-namespace \
  --set clusterName=my-cluster
` + "```" + `

It needs Kubernetes 1.34 or newer (1.33 without the scheduler in the pod) and, unless
` + "`certManager.enabled=false`" + `, cert-manager.
[docs/install.md](../../docs/install.md) has the ways to install, upgrade and uninstall,
[docs/rbac.md](../../docs/rbac.md) the reason of every permission,
[docs/scheduler.md](../../docs/scheduler.md) what the scheduler beside Stratos is for. Helm 3 and
Helm 4 render the same.

## Values

| value | default | meaning |
|---|---|---|
`

// Readme writes the chart's README from values.yaml: one row for each comment that begins with "#
// --". A value that no such comment describes, by itself or by a parent, is an error.
func Readme(values []byte) (string, error) {
	document := &yaml.Node{}
	if err := yaml.Unmarshal(values, document); err != nil {
		return "", err
	}
	rows, err := readmeRows("", document.Content[0])
	return readmeHead + strings.Join(rows, ""), err
}

func readmeRows(prefix string, mapping *yaml.Node) ([]string, error) {
	var rows []string
	var errs []error
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		meaning := meaningOf(key.HeadComment)
		switch {
		case meaning != "":
			text, err := inline(value)
			errs = append(errs, err)
			rows = append(rows, "| `"+name+"` | `"+text+"` | "+meaning+" |\n")
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			nested, err := readmeRows(name+".", value)
			errs = append(errs, err)
			rows = append(rows, nested...)
		default:
			errs = append(errs, fmt.Errorf("values.yaml: %s has no comment that begins with %q", name, described))
		}
	}
	return rows, errors.Join(errs...)
}

// meaningOf takes the last such comment: what stands above an empty line is about the file.
func meaningOf(comment string) string {
	i := strings.LastIndex(comment, described)
	if i < 0 {
		return ""
	}
	text := strings.ReplaceAll(comment[i+len(described):], "\n# ", " ")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", `\|`)
}

// inline writes a value in one line.
func inline(value *yaml.Node) (string, error) {
	flow := copyInFlowStyle(value)
	text, err := yaml.Marshal(flow)
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " "), err
}

func copyInFlowStyle(value *yaml.Node) *yaml.Node {
	flow := *value
	flow.HeadComment, flow.LineComment, flow.FootComment = "", "", ""
	flow.Content = nil
	if flow.Kind != yaml.ScalarNode {
		flow.Style = yaml.FlowStyle
	}
	for _, child := range value.Content {
		flow.Content = append(flow.Content, copyInFlowStyle(child))
	}
	return &flow
}
