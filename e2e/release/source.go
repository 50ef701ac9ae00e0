package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// semantic is a version of semver.org with a leading v, without build metadata: the tag of an OCI
// artefact admits no "+".
var semantic = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)` +
	`(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?$`)

func checkVersion(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("VERSION=%s is no version: use vMAJOR.MINOR.PATCH with an optional pre-release, "+
			"such as v0.2.0-rc.1", version)
	}
	return nil
}

// changelogSection returns the text below the heading of the version, up to the next version.
func changelogSection(changelog, version string) (string, error) {
	var section strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			if inside {
				break
			}
			first, _, _ := strings.Cut(strings.TrimSpace(heading), " ") // a date may follow
			inside = first == version
			continue
		}
		if inside {
			section.WriteString(line)
		}
	}
	text := strings.TrimSpace(section.String())
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section %q with text: write what is new for users", "## "+version)
	}
	return text, nil
}

// source is the checked commit that a release is built from.
type source struct {
	root, version string
	commit        string
	time          time.Time // of the commit
	notes         string    // the section of CHANGELOG.md
}

// openSource refuses a tree that a release cannot be built from.
func openSource(ctx context.Context, root, version string) (source, error) {
	if err := checkVersion(version); err != nil {
		return source{}, err
	}
	dirty, err := git(ctx, root, "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return source{}, err
	}
	if dirty != "" {
		return source{}, fmt.Errorf("the tree differs from its commit: commit or remove these files:\n%s", dirty)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return source{}, err
	}
	s := source{root: root, version: version}
	if s.notes, err = changelogSection(string(changelog), version); err != nil {
		return source{}, err
	}
	described, err := git(ctx, root, "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		return source{}, err
	}
	commit, stamp, found := strings.Cut(described, " ")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if !found || err != nil {
		return source{}, errors.Join(fmt.Errorf("git show printed %q", described), err)
	}
	s.commit, s.time = commit, time.Unix(seconds, 0).UTC()
	return s, nil
}

// chartVersion is the version without its v, as Helm has it.
func (s source) chartVersion() string { return strings.TrimPrefix(s.version, "v") }

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := command{dir: root, words: append([]string{"git"}, args...)}.run(ctx)
	return strings.TrimRight(out, "\n"), err
}
