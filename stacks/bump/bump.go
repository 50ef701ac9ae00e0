// Package bump chooses the versions of a cluster stack from what has changed since its last
// release. It reads nothing.
package bump

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/stacks/format"
)

// Component is what has a version.
type Component string

// The components. The class has the version of the stack.
const (
	ClusterStack Component = "clusterStack"
	ClusterAddon Component = "clusterAddon"
	NodeImage    Component = "nodeImage"
)

// Row is the version of a component, and why it has it.
type Row struct {
	Component Component
	// Now is the version in metadata.yaml, Want the one that the content requires.
	Now, Want string
	// Changed are the parts that differ from the last release, in order.
	Changed []string
}

// componentOf is the component to which a part of the folder belongs.
func componentOf(part string) Component {
	folder, _, _ := strings.Cut(part, "/")
	switch folder {
	case format.AddonFolder, format.StagesFile, format.AddonValuesFile:
		return ClusterAddon
	case format.NodeImageFolder:
		return NodeImage
	default:
		return ClusterStack
	}
}

// Changed are the parts that were added, removed or changed between two contents, in order.
func Changed(before, now map[string]string) []string {
	differs := map[string]bool{}
	for part, hash := range now {
		differs[part] = before[part] != hash
	}
	for part, hash := range before {
		differs[part] = now[part] != hash
	}
	maps.DeleteFunc(differs, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(differs))
}

// Next returns the versions that the content must have and a row for each component. A component
// whose parts differ from the last release has the released version plus 1, however often they
// changed since; the stack has plus 1 when anything differs. Before the first release all are v1.
func Next(hashes *format.Hashes, content map[string]string, kubernetes string,
	now format.Versions) (format.Versions, []Row, error) {
	want := format.Versions{ClusterStack: "v1", Kubernetes: kubernetes,
		Components: format.ComponentVersions{ClusterAddon: "v1", NodeImage: "v1"}}
	changed := map[Component][]string{}
	if released := hashes.Versions; released != nil {
		want.ClusterStack, want.Components = released.ClusterStack, released.Components
		for _, part := range Changed(hashes.Content, content) {
			changed[ClusterStack] = append(changed[ClusterStack], part)
			if c := componentOf(part); c != ClusterStack {
				changed[c] = append(changed[c], part)
			}
		}
	}
	rows := []Row{
		{ClusterStack, now.ClusterStack, want.ClusterStack, changed[ClusterStack]},
		{ClusterAddon, now.Components.ClusterAddon, want.Components.ClusterAddon, changed[ClusterAddon]},
		{NodeImage, now.Components.NodeImage, want.Components.NodeImage, changed[NodeImage]},
	}
	for i := range rows {
		r := &rows[i]
		if len(r.Changed) == 0 {
			continue
		}
		version, err := format.ParseVersion(r.Want)
		if err != nil {
			return want, nil, fmt.Errorf("%s: versions: %w", format.HashesFile, err)
		}
		r.Want = version.Next().String()
	}
	want.ClusterStack = rows[0].Want
	want.Components = format.ComponentVersions{ClusterAddon: rows[1].Want, NodeImage: rows[2].Want}
	return want, rows, nil
}
