package release

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const notesFile = "release-notes.md"

// writeNotes writes what the release's page says: the section of the changelog, how to install it,
// and how to verify it.
func (s source) writeNotes(folder, imageDigest string, trial bool) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# Stratos %s\n\n", s.version)
	if trial {
		fmt.Fprintf(&text, "**%s**\n\n", strings.TrimSpace(trialText))
	}
	fmt.Fprintf(&text, "%s\n\n## Install\n\n", s.notes)
	fmt.Fprintf(&text, "```sh\nhelm install stratos oci://ghcr.io/stratos-sh/charts/stratos --version %s \\\n"+
		"  --namespace stratos-system --create-namespace --set clusterName=my-cluster\n```\n\n", s.chartVersion())
	fmt.Fprintf(&text, "The chart installs the image `ghcr.io/stratos-sh/stratos@%s`.\n\n", imageDigest)
	fmt.Fprintf(&text, "Built from commit %s with %s. [How to verify it](%s/blob/%s/docs/release.md#verify-a-release)\n",
		s.commit, runtime.Version(), homepage, s.version)
	return os.WriteFile(filepath.Join(folder, notesFile), []byte(text.String()), 0o644)
}
