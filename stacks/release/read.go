package release

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/bump"
	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/nodeimage"
	"github.com/stratos-sh/stratos/stacks/source"
)

// Check returns the problems of a release: what the operator would not find or would refuse.
func Check(tag string, all files.Files) []error {
	t, err := format.ParseTag(tag)
	if err != nil {
		return []error{err}
	}
	metadata, err := format.ParseMetadata(all[format.MetadataFile].Data)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", format.MetadataFile, err)}
	}
	var problems []error
	if metadata.Versions.ClusterStack != t.Version.String() {
		problems = append(problems, fmt.Errorf("%s: versions.clusterStack %s must be %s, as in the tag %s", format.MetadataFile,
			metadata.Versions.ClusterStack, t.Version, tag))
	}
	if minor, err := format.MinorOf(metadata.Versions.Kubernetes); err != nil || minor != t.Minor {
		problems = append(problems, fmt.Errorf("%s: versions.kubernetes %s must be of the minor %s, as in the tag %s",
			format.MetadataFile, metadata.Versions.Kubernetes, t.Minor.Dotted(), tag))
	}
	if _, err := format.ParseHashes(all[format.HashesFile].Data); err != nil {
		problems = append(problems, fmt.Errorf("%s: %w", format.HashesFile, err))
	}
	if images, there := all[format.NodeImagesFile]; there && t.Provider == nodeimage.Provider {
		if _, err := nodeimage.ParseImages(images.Data, &metadata.Versions); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", format.NodeImagesFile, err))
		}
	}
	return append(problems, checkArchives(t, metadata.Versions, all)...)
}

// Open is the release in memory that the files of a release's folder are.
func Open(tag string, all files.Files) (*Release, error) {
	if problems := Check(tag, all); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	r := &Release{Files: all}
	t, errTag := format.ParseTag(tag)
	metadata, errMetadata := format.ParseMetadata(all[format.MetadataFile].Data)
	hashes, errHashes := format.ParseHashes(all[format.HashesFile].Data)
	if err := errors.Join(errTag, errMetadata, errHashes); err != nil {
		return nil, err
	}
	r.Tag, r.Hashes = t, *hashes
	// csctl writes none there.
	r.Hashes.Versions = &metadata.Versions
	return r, nil
}

func checkArchives(tag format.Tag, versions format.Versions, all files.Files) []error {
	class := archiveName(tag, format.ClassFolder, versions.ClusterStack)
	addon := archiveName(tag, format.AddonFolder, versions.Components.ClusterAddon)
	problems := checkChart(all, class, tag.Base()+"-"+format.ClassFolder, versions.ClusterStack)
	stages, isStaged := all[format.StagesFile]
	_, hasValues := all[format.AddonValuesFile]
	switch {
	case isStaged == hasValues:
		problems = append(problems, fmt.Errorf("%s: must be there and %s not, or the other way round", format.StagesFile, format.AddonValuesFile))
	case hasValues:
		problems = append(problems, checkChart(all, addon, tag.Base()+"-"+format.AddonFolder, versions.Components.ClusterAddon)...)
	default:
		problems = append(problems, checkStages(stages.Data, all, addon)...)
	}
	allowed := []string{class, addon, format.StagesFile, format.AddonValuesFile, format.MetadataFile, format.HashesFile,
		format.NodeImagesFile}
	for _, name := range all.Names() {
		if !slices.Contains(allowed, name) {
			problems = append(problems, fmt.Errorf("%s: only these may be in the release %s: %s", name, tag,
				strings.Join(allowed, ", ")))
		}
	}
	return problems
}

func checkChart(all files.Files, archive, name, version string) []error {
	unpacked, err := unpack(all, archive)
	if err != nil {
		return []error{err}
	}
	var chart chartMetadata
	text, there := unpacked[path.Join(name, format.ChartFile)]
	if !there {
		return []error{fmt.Errorf("%s: must have %s", archive, path.Join(name, format.ChartFile))}
	}
	if err := yaml.Unmarshal(text.Data, &chart); err != nil {
		return []error{fmt.Errorf("%s: %s: %w", archive, format.ChartFile, err)}
	}
	if chart.Name != name || chart.Version != version {
		return []error{fmt.Errorf("%s: %s: name %s and version %s must be %s and %s", archive, format.ChartFile, chart.Name,
			chart.Version, name, version)}
	}
	return nil
}

func unpack(all files.Files, archive string) (files.Files, error) {
	file, there := all[archive]
	if !there {
		return nil, fmt.Errorf("%s: is missing", archive)
	}
	unpacked, err := files.Unpack(file.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	return unpacked, errors.Join(source.CheckTokens(unpacked)...)
}

func checkStages(text []byte, all files.Files, archive string) []error {
	stages, err := format.ParseStages(text)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", format.StagesFile, err)}
	}
	unpacked, err := unpack(all, archive)
	if err != nil {
		return []error{err}
	}
	var problems []error
	for _, stage := range stages.AddonStages[format.HookAfterControlPlane] {
		if _, there := unpacked[path.Join(stage.Name, format.ChartFile)]; !there {
			problems = append(problems, fmt.Errorf("%s: must have %s, for the stage %s", archive, path.Join(stage.Name, format.ChartFile), stage.Name))
		}
	}
	return problems
}

// Diff says what an upgrade from one release to another changes.
type Diff struct {
	// Layers are the layers and versions that differ.
	Layers []string
	// Objects are the objects that differ, as the templates name them.
	Objects []string
	// Machines are the reasons for which machines are replaced; with none they stay.
	Machines []string
}

// Compare reads both releases. Templates are compared as they stand, without Helm: where a file of
// values differs, each object of its chart may change.
func Compare(before, after files.Files) (*Diff, error) {
	from, err := format.ParseMetadata(before[format.MetadataFile].Data)
	if err != nil {
		return nil, fmt.Errorf("first release: %s: %w", format.MetadataFile, err)
	}
	to, err := format.ParseMetadata(after[format.MetadataFile].Data)
	if err != nil {
		return nil, fmt.Errorf("second release: %s: %w", format.MetadataFile, err)
	}
	d := &Diff{}
	for _, each := range []struct{ layer, from, to string }{
		{"kubernetes", from.Versions.Kubernetes, to.Versions.Kubernetes},
		{"clusterStack", from.Versions.ClusterStack, to.Versions.ClusterStack},
		{"clusterAddon", from.Versions.Components.ClusterAddon, to.Versions.Components.ClusterAddon},
		{"nodeImage", from.Versions.Components.NodeImage, to.Versions.Components.NodeImage},
	} {
		if each.from != each.to {
			change := fmt.Sprintf("%s %s -> %s", each.layer, each.from, each.to)
			d.Layers = append(d.Layers, change)
			if each.layer == "kubernetes" || each.layer == "nodeImage" {
				d.Machines = append(d.Machines, change)
			}
		}
	}
	for _, layer := range []string{format.ClassFolder, format.AddonFolder} {
		if err := d.compareLayer(layer, before, after); err != nil {
			return nil, err
		}
	}
	if string(before[format.NodeImagesFile].Data) != string(after[format.NodeImagesFile].Data) {
		d.Objects = append(d.Objects, format.NodeImageFolder+": "+format.NodeImagesFile)
	}
	return d, nil
}

func (d *Diff) compareLayer(layer string, before, after files.Files) error {
	from, err := layerOf(before, layer)
	if err != nil {
		return fmt.Errorf("first release: %w", err)
	}
	to, err := layerOf(after, layer)
	if err != nil {
		return fmt.Errorf("second release: %w", err)
	}
	was, is := objectsOf(from), objectsOf(to)
	for _, object := range bump.Changed(was, is) {
		d.Objects = append(d.Objects, layer+": "+object)
		if layer == format.ClassFolder && makesMachines.MatchString(object) {
			d.Machines = append(d.Machines, object)
		}
	}
	return nil
}

// makesMachines are the objects of a class whose change replaces machines: the templates that
// machines are made from, and the class, whose patches change them.
var makesMachines = regexp.MustCompile(`^(\w*MachineTemplate|KubeadmConfigTemplate|KubeadmControlPlaneTemplate|ClusterClass|values\.yaml)\b`)

// layerOf unpacks the archive of a layer, without the folder with the chart's name that Helm's
// archives have.
func layerOf(all files.Files, layer string) (files.Files, error) {
	for _, name := range all.Names() {
		if !strings.Contains(name, "-"+layer+"-") || !strings.HasSuffix(name, ".tgz") {
			continue
		}
		unpacked, err := unpack(all, name)
		if err != nil {
			return nil, err
		}
		if top := topFolder(unpacked); strings.HasSuffix(top, "-"+layer) {
			return unpacked.Below(top), nil
		}
		return unpacked, nil
	}
	return nil, fmt.Errorf("the archive of %s is missing", layer)
}

// topFolder is the only folder at the top, "" where there are more.
func topFolder(all files.Files) string {
	top := ""
	for name := range all {
		first, _, _ := strings.Cut(name, "/")
		if top != "" && first != top {
			return ""
		}
		top = first
	}
	return top
}

// objectsOf are the objects of all charts by kind and name, and the files that are no templates by
// their path. The version of a chart is none: each release has another.
func objectsOf(all files.Files) map[string]string {
	found := map[string]string{}
	for _, name := range all.Names() {
		text := string(all[name].Data)
		if path.Base(name) == format.ChartFile {
			text = chartVersionLine.ReplaceAllString(text, "")
		}
		if !strings.Contains("/"+name, "/templates/") || path.Ext(name) != ".yaml" {
			found[name] = text
			continue
		}
		for i, document := range format.Documents(text) {
			key := fmt.Sprintf("%s, document %d", name, i+1)
			if document.Kind != "" {
				key = fmt.Sprintf("%s %s in %s", document.Kind, document.Name, name)
			}
			found[key] += document.Text
		}
	}
	return found
}

var chartVersionLine = regexp.MustCompile(`(?m)^version:.*$`)
