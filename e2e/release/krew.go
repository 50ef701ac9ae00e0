package release

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	homepage     = "https://github.com/stratos-sh/stratos"
	krewManifest = "stratos.yaml"
)

// krewPlugin is the manifest by which krew installs the plugin
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Caveats          string         `json:"caveats"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// writeKrewManifest writes the manifest for the archives in the folder.
func (s source) writeKrewManifest(folder string, platforms []platform) error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]string{"name": "stratos"},
		Spec: krewSpec{
			Version: s.version, Homepage: homepage,
			ShortDescription: "Explain pending pods and manage pools of stopped nodes",
			Description: "Says why pods are pending, shows the pools of Stratos and their nodes, pauses pools\n" +
				"and has nodes replaced.\n",
			Caveats: "For completion, put " + completeName + " of the plugin's folder on PATH as well.\n",
		},
	}
	for _, p := range platforms {
		name := pluginArchive(s.version, p)
		sum, err := sha256Of(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": p.os, "arch": p.arch}},
			URI:      homepage + "/releases/download/" + s.version + "/" + name,
			SHA256:   sum,
			Bin:      pluginName + p.exe(),
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, krewManifest), text, 0o644)
}
