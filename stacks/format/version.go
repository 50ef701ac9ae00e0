package format

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is the version of a stack, an addon layer or a node image: v1, v2, or a number with a
// channel and a label, such as v0-sha.hipstsw.
type Version struct {
	Number         int
	Channel, Label string
}

var versionText = regexp.MustCompile(`^v(0|[1-9]\d{0,8})(?:-(\w+)\.(\w+))?$`)

// ParseVersion reads a version as metadata.yaml and charts have it, with a dot before the label.
func ParseVersion(text string) (Version, error) {
	parts := versionText.FindStringSubmatch(text)
	if parts == nil {
		return Version{}, fmt.Errorf("version %q must be v and a number, or that with -channel.label, such as v2 or v0-sha.hipstsw", text)
	}
	number, err := strconv.Atoi(parts[1])
	return Version{Number: number, Channel: parts[2], Label: parts[3]}, err
}

func (v Version) String() string { return v.join(".") }

// Dashed is the version as tags and names of releases have it, with a dash before the label.
func (v Version) Dashed() string { return v.join("-") }

func (v Version) join(separator string) string {
	text := "v" + strconv.Itoa(v.Number)
	if v.Channel == "" {
		return text
	}
	return text + "-" + v.Channel + separator + v.Label
}

// IsStable reports whether the version is one of the channel stable.
func (v Version) IsStable() bool { return v.Channel == "" }

// Next is the version of the next stable release.
func (v Version) Next() Version { return Version{Number: v.Number + 1} }

// Compare orders versions: numbers as numbers, and a version with a label before the one without.
func (v Version) Compare(other Version) int {
	if v.IsStable() != other.IsStable() && v.Number == other.Number {
		if v.IsStable() {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(v.Number, other.Number), strings.Compare(v.Channel, other.Channel),
		compareLabels(v.Label, other.Label))
}

func compareLabels(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	if errA == nil && errB == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// Minor is a minor version of Kubernetes.
type Minor struct{ Major, Minor int }

// String is the minor as folders and tags have it, such as 1-37.
func (m Minor) String() string { return fmt.Sprintf("%d-%d", m.Major, m.Minor) }

// Dotted is the minor as a ClusterStack has it, such as 1.37.
func (m Minor) Dotted() string { return fmt.Sprintf("%d.%d", m.Major, m.Minor) }

// Compare orders minors by their numbers.
func (m Minor) Compare(other Minor) int {
	return cmp.Or(cmp.Compare(m.Major, other.Major), cmp.Compare(m.Minor, other.Minor))
}

var minorText = regexp.MustCompile(`^(\d{1,4})-(\d{1,4})$`)

// ParseMinor reads a minor as folders and tags have it.
func ParseMinor(text string) (Minor, error) {
	parts := minorText.FindStringSubmatch(text)
	if parts == nil {
		return Minor{}, fmt.Errorf("%q must be the minor version of Kubernetes with a dash, such as 1-37", text)
	}
	return minorOf(parts[1], parts[2])
}

func minorOf(major, minor string) (Minor, error) {
	x, err := strconv.Atoi(major)
	if err != nil {
		return Minor{}, err
	}
	y, err := strconv.Atoi(minor)
	return Minor{Major: x, Minor: y}, err
}

var kubernetesText = regexp.MustCompile(`^v(\d{1,4})\.(\d{1,4})\.\d+$`)

// MinorOf is the minor of a version of Kubernetes with its patch, such as v1.37.2.
func MinorOf(kubernetes string) (Minor, error) {
	parts := kubernetesText.FindStringSubmatch(kubernetes)
	if parts == nil {
		return Minor{}, fmt.Errorf("%q must be a version of Kubernetes with its patch, such as v1.37.2", kubernetes)
	}
	return minorOf(parts[1], parts[2])
}

// Tag names a release.
type Tag struct {
	Provider, Stack string
	Minor           Minor
	Version         Version
}

// Base is what all releases of a stack for one minor begin with, such as aws-stratos-1-37.
func (t Tag) Base() string { return t.Provider + "-" + t.Stack + "-" + t.Minor.String() }

func (t Tag) String() string { return t.Base() + "-" + t.Version.Dashed() }

// ClassName is the name of the release's ClusterClass.
func (t Tag) ClassName() string { return t.Base() + "-" + t.Version.String() }

// Compare orders tags by provider, stack, minor and version.
func (t Tag) Compare(other Tag) int {
	return cmp.Or(strings.Compare(t.Provider, other.Provider), strings.Compare(t.Stack, other.Stack),
		t.Minor.Compare(other.Minor), t.Version.Compare(other.Version))
}

// ParseTag reads the tag of a release, which has five parts, or seven with a channel.
func ParseTag(text string) (Tag, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 5 && len(parts) != 7 || parts[0] == "" || parts[1] == "" {
		return Tag{}, fmt.Errorf("tag %q must have 5 or 7 parts with dashes between them, such as aws-stratos-1-37-v1 or aws-stratos-1-37-v0-sha-hipstsw", text)
	}
	minor, err := ParseMinor(parts[2] + "-" + parts[3])
	if err != nil {
		return Tag{}, fmt.Errorf("tag %q: %w", text, err)
	}
	version := parts[4]
	if len(parts) == 7 {
		version += "-" + parts[5] + "." + parts[6]
	}
	v, err := ParseVersion(version)
	if err != nil {
		return Tag{}, fmt.Errorf("tag %q: %w", text, err)
	}
	return Tag{Provider: parts[0], Stack: parts[1], Minor: minor, Version: v}, nil
}
