// Package render makes the objects of a release by the helm on PATH, with the arguments and the
// values that the cluster-stack operator gives it.
package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
)

// AddonNamespace is where the operator sends each object of an addon.
const AddonNamespace = "kube-system"

// addonRelease is the name that the operator gives the Helm release of each addon.
const addonRelease = "cluster-addon"

// OverwriteFile has the values of one stage.
const OverwriteFile = "overwrite.yaml"

// Helm is the path of the program.
type Helm string

// FindHelm looks for helm on PATH.
func FindHelm() (Helm, error) {
	path, err := exec.LookPath("helm")
	if err != nil {
		return "", fmt.Errorf("helm must be on PATH, version 3 or 4, because charts are rendered by it: %w", err)
	}
	return Helm(path), nil
}

// template runs `helm template`. values are those of a file, none where they are nil.
func (h Helm) template(ctx context.Context, values []byte, args ...string) ([]byte, error) {
	if values != nil {
		args = append(args, "-f", "-")
	}
	cmd := exec.CommandContext(ctx, string(h), append([]string{"template"}, args...)...)
	var complaints bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(values), &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("helm template: %w: %s", err, strings.TrimSpace(complaints.String()))
	}
	return out, nil
}

// Class returns the objects of the class, in the order of Helm. They name no namespace.
func (h Helm) Class(ctx context.Context, r *release.Release, namespace string) ([]byte, error) {
	folder, remove, err := unpack(r, r.ClassArchive())
	if err != nil {
		return nil, err
	}
	defer remove()
	chart := filepath.Join(folder, r.Tag.Base()+"-"+format.ClassFolder)
	return h.template(ctx, nil, r.Tag.Base(), chart, "--namespace", namespace)
}

// Stage is a stage of the addons with its objects.
type Stage struct {
	format.Stage
	// Objects are those of its chart, in the order of Helm, with those of the folders crds/.
	Objects []byte
}

// Addons returns the stages that the operator runs for a new cluster, in order, or the one that is
// named. Where the addons are one chart, that is the only stage.
func (h Helm) Addons(ctx context.Context, r *release.Release, objects Objects, only string) ([]Stage, error) {
	if err := objects.check(r); err != nil {
		return nil, err
	}
	folder, remove, err := unpack(r, r.AddonArchive())
	if err != nil {
		return nil, err
	}
	defer remove()
	stages, err := stagesOf(r, only)
	if err != nil {
		return nil, err
	}
	var all []Stage
	for _, stage := range stages {
		chart := filepath.Join(folder, stage.Name)
		overwrite := r.Files[format.AddonValuesFile].Data
		if overwrite == nil {
			overwrite, err = os.ReadFile(filepath.Join(chart, OverwriteFile))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		rendered, err := h.addon(ctx, r, chart, overwrite, objects)
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", stage.Name, err)
		}
		all = append(all, Stage{stage, rendered})
	}
	return all, nil
}

// stagesOf are the release's, or the one that is named.
func stagesOf(r *release.Release, only string) ([]format.Stage, error) {
	all := []format.Stage{{Name: r.Tag.Base() + "-" + format.AddonFolder, Action: "apply"}}
	if text, isStaged := r.Files[format.StagesFile]; isStaged {
		stages, err := format.ParseStages(text.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format.StagesFile, err)
		}
		all = stages.AddonStages[format.HookAfterControlPlane]
	}
	var names []string
	for _, stage := range all {
		if stage.Name == only {
			return []format.Stage{stage}, nil
		}
		names = append(names, stage.Name)
	}
	if only != "" {
		return nil, fmt.Errorf("stage %q must be one of %s", only, strings.Join(names, ", "))
	}
	return all, nil
}

func (h Helm) addon(ctx context.Context, r *release.Release, chart string, overwrite []byte,
	objects Objects) ([]byte, error) {
	var values []byte
	if overwrite != nil {
		var err error
		if values, err = objects.values(overwrite); err != nil {
			return nil, err
		}
	}
	rendered, err := h.template(ctx, values, "--include-crds", "--kube-version", r.Hashes.Versions.Kubernetes,
		addonRelease, chart, "--namespace", AddonNamespace)
	if err != nil {
		return nil, err
	}
	return rendered, checkObjects(rendered)
}

// checkObjects refuses what the operator cannot apply: it sends each object to kube-system, where
// the API server takes none that names another namespace, and it applies a hook as any other
// object.
func checkObjects(rendered []byte) error {
	var problems []error
	for _, document := range format.Documents(string(rendered)) {
		if document.Kind == "" {
			continue
		}
		var object struct {
			Metadata struct {
				Namespace   string            `json:"namespace"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document.Text), &object); err != nil {
			return fmt.Errorf("%s %s: %w", document.Kind, document.Name, err)
		}
		if namespace := object.Metadata.Namespace; namespace != "" && namespace != AddonNamespace {
			problems = append(problems, fmt.Errorf("%s %s: metadata.namespace %q must be left out or be %s, where the operator "+
				"sends every object", document.Kind, document.Name, namespace, AddonNamespace))
		}
		if _, is := object.Metadata.Annotations[hookAnnotation]; is {
			problems = append(problems, fmt.Errorf("%s %s: metadata.annotations must not have %s: the operator applies a hook "+
				"as any other object", document.Kind, document.Name, hookAnnotation))
		}
	}
	return errors.Join(problems...)
}

const hookAnnotation = "helm.sh/hook"

// unpack writes an archive of the release into a temporary folder, which remove removes.
func unpack(r *release.Release, archive string) (folder string, remove func(), err error) {
	all, err := files.Unpack(r.Files[archive].Data)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", archive, err)
	}
	work, err := os.MkdirTemp("", "stratos-stack-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(work) } // what is left is a temporary file
	folder = filepath.Join(work, "unpacked")
	if err := all.WriteNew(folder); err != nil {
		remove()
		return "", nil, err
	}
	return folder, remove, nil
}
