// Package validate checks the folder of a cluster stack by the rules of csctl, of the cluster-stack
// operator, and of upgrades that work. Each problem names the file, the key and what is allowed.
package validate

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/nodeimage"
	"github.com/stratos-sh/stratos/stacks/source"
)

// rules returns each rule. A problem begins with a path from the stack's folder.
func rules() []func(*source.Stack) []string {
	return []func(*source.Stack) []string{checkFolder, checkMembers, checkConvention, checkClassChart, checkAddonCharts,
		checkVersions, checkTokens, checkStages, checkHooksAgree, checkConditions, checkIgnoreFiles, checkValues,
		checkObjects, checkClassNames, checkNodeImages, checkOneScheduler, checkOldMinors}
}

// Folder returns the problems of a stack's folder. Where a file cannot be read or parsed, these are
// the only ones.
func Folder(folder string) []error {
	s, err := source.Open(folder)
	if err != nil {
		return []error{err}
	}
	var problems []error
	for _, check := range rules() {
		for _, problem := range check(s) {
			problems = append(problems, fmt.Errorf("%s%c%s", filepath.Clean(folder), filepath.Separator, problem))
		}
	}
	return problems
}

// checkFolder: the folder says what the stack is for, and so does csctl.yaml.
func checkFolder(s *source.Stack) []string {
	whole, err := filepath.Abs(s.Folder)
	if err != nil {
		return []string{err.Error()}
	}
	tag, err := s.Config.TagOf(format.Version{})
	if err != nil {
		return []string{err.Error()}
	}
	want := path.Join("providers", tag.Provider, tag.Stack, tag.Minor.String())
	if strings.HasSuffix(filepath.ToSlash(whole), "/"+want) {
		return nil
	}
	return []string{fmt.Sprintf("%s: config: provider.type, clusterStackName and the minor of kubernetesVersion say that the folder must be %s",
		format.ConfigFile, want)}
}

// checkMembers: csctl hashes every file, and reads no other than these.
func checkMembers(s *source.Stack) []string {
	allowed := []string{format.ConfigFile, format.MetadataFile, format.HashesFile, format.StagesFile,
		format.AddonValuesFile, format.ClassFolder, format.AddonFolder, format.NodeImageFolder}
	found := map[string]bool{}
	var problems []string
	for _, name := range s.Files.Names() {
		first, _, _ := strings.Cut(name, "/")
		if slices.Contains(allowed, first) || found[first] {
			continue
		}
		found[first] = true
		if first == "node-images" {
			problems = append(problems, "node-images: must be node-image, because csctl hashes that folder and would miss each change of this one")
			continue
		}
		problems = append(problems, first+": only these may be in the folder, because csctl hashes every file: "+strings.Join(allowed, ", "))
	}
	return problems
}

// checkConvention: a release has the addons in one of the two ways.
func checkConvention(s *source.Stack) []string {
	_, hasValues := s.Files[format.AddonValuesFile]
	if s.IsStaged() == hasValues {
		return []string{fmt.Sprintf("%s: must be there and %s not, or the other way round", format.StagesFile, format.AddonValuesFile)}
	}
	return nil
}

type chartNames struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

// checkChartName: the operator finds a chart by its file's name, which is the chart's.
func checkChartName(s *source.Stack, folder, want string) []string {
	name := path.Join(folder, format.ChartFile)
	file, there := s.Files[name]
	if !there {
		return []string{name + ": is missing"}
	}
	var chart chartNames
	if err := yaml.Unmarshal(file.Data, &chart); err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	if want != "" && chart.Name != want {
		return []string{fmt.Sprintf("%s: name %q must be %s", name, chart.Name, want)}
	}
	if chart.Version == "" {
		return []string{name + ": version must be set, to any version: v0 says that a release has its own"}
	}
	kubernetes := s.Config.Config.KubernetesVersion
	_, err := format.MinorOf(chart.AppVersion)
	if err == nil && folder == format.ClassFolder && chart.AppVersion != kubernetes {
		return []string{fmt.Sprintf("%s: appVersion %s must be %s, as config.kubernetesVersion in %s", name, chart.AppVersion,
			kubernetes, format.ConfigFile)}
	}
	return nil
}

func base(s *source.Stack) string {
	tag, err := s.Config.TagOf(format.Version{})
	if err != nil {
		return ""
	}
	return tag.Base()
}

func checkClassChart(s *source.Stack) []string {
	return checkChartName(s, format.ClassFolder, base(s)+"-"+format.ClassFolder)
}

func checkAddonCharts(s *source.Stack) []string {
	if !s.IsStaged() {
		return checkChartName(s, format.AddonFolder, base(s)+"-"+format.AddonFolder)
	}
	var problems []string
	for _, name := range s.Files.Folders(format.AddonFolder) {
		problems = append(problems, checkChartName(s, path.Join(format.AddonFolder, name), "")...)
	}
	return problems
}

func checkVersions(s *source.Stack) []string {
	want, rows, err := s.Next()
	if err != nil {
		return strings.Split(strings.ReplaceAll(err.Error(), s.Folder+string(filepath.Separator), ""), "\n")
	}
	var problems []string
	if now := s.Metadata.Versions.Kubernetes; now != want.Kubernetes {
		problems = append(problems, fmt.Sprintf("%s: versions.kubernetes %s must be %s, as in %s: run stratos stack bump --write %s",
			format.MetadataFile, now, want.Kubernetes, format.ConfigFile, s.Folder))
	}
	for _, r := range rows {
		if r.Now != r.Want {
			problems = append(problems, fmt.Sprintf("%s: version %s of %s must be %s (changed since the last release: %s): run stratos stack bump --write %s",
				format.MetadataFile, r.Now, r.Component, r.Want, strings.Join(r.Changed, ", "), s.Folder))
		}
	}
	return problems
}

func checkTokens(s *source.Stack) []string {
	var problems []string
	for _, err := range source.CheckTokens(s.Files) {
		problems = append(problems, err.Error())
	}
	return problems
}

// checkNodeImages: what create and csctl's plugin would refuse. Plugins of other providers have
// rules of their own.
func checkNodeImages(s *source.Stack) []string {
	if !nodeimage.IsSet(s.Config) || s.Config.Config.Provider.Type != nodeimage.Provider {
		return nil
	}
	if _, err := nodeimage.ParseConfig(s.Config); err != nil {
		var problems []string
		for problem := range strings.SplitSeq(err.Error(), "\n") {
			problems = append(problems, format.ConfigFile+": "+problem)
		}
		return problems
	}
	return nil
}

// checkIgnoreFiles: an archive has every file, whereas Helm, and with it csctl, leaves out what the
// file names.
func checkIgnoreFiles(s *source.Stack) []string {
	var problems []string
	for _, chart := range s.Charts() {
		if name := path.Join(chart, ".helmignore"); s.Files[name].Data != nil {
			problems = append(problems, name+": must not be there: a release has every file of the chart")
		}
	}
	return problems
}

// ownFiles are the files of the charts, without those of the charts that they depend on.
func ownFiles(s *source.Stack, chart string) files.Files {
	own := s.Files.Below(chart)
	own.Remove("charts")
	return own
}

func lineOf(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// minorOf is the minor that the folder is for, by its name: in a copy for a new minor csctl.yaml
// still says the old one.
func minorOf(s *source.Stack) (format.Minor, error) {
	if whole, err := filepath.Abs(s.Folder); err == nil {
		if minor, err := format.ParseMinor(filepath.Base(whole)); err == nil {
			return minor, nil
		}
	}
	return format.MinorOf(s.Config.Config.KubernetesVersion)
}

// checkOldMinors: a new minor is a copy of the folder of the minor before it.
func checkOldMinors(s *source.Stack) []string {
	minor, err := minorOf(s)
	if err != nil {
		return []string{err.Error()}
	}
	olds := []format.Minor{{Major: minor.Major, Minor: minor.Minor - 1}}
	siblings, err := filepath.Glob(filepath.Join(s.Folder, "..", "*", format.ConfigFile))
	if err != nil {
		return []string{err.Error()}
	}
	for _, sibling := range siblings {
		old, err := format.ParseMinor(filepath.Base(filepath.Dir(sibling)))
		if err == nil && old.Compare(minor) < 0 && !slices.Contains(olds, old) {
			olds = append(olds, old)
		}
	}
	var problems []string
	for _, old := range olds {
		says := regexp.MustCompile(fmt.Sprintf(`(^|[^\d.])v?%d[.-]%d\b`, old.Major, old.Minor))
		for _, name := range s.Files.Names() {
			if name == format.HashesFile || strings.Contains(name, "/charts/") {
				continue
			}
			text := string(s.Files[name].Data)
			for _, at := range says.FindAllStringIndex(text, -1) {
				found := strings.TrimSpace(strings.TrimLeft(text[at[0]:at[1]], "\"'(:=@/-"))
				problems = append(problems, fmt.Sprintf("%s:%d: %s is of an older minor than %s", name, lineOf(text, at[1]), found, minor.Dotted()))
			}
		}
	}
	return problems
}
