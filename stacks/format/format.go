// Package format holds the files of a cluster stack: what csctl and the cluster-stack operator read
// and write. It turns bytes into values and back, and knows no folder.
package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The files and folders of a stack.
const (
	ConfigFile      = "csctl.yaml"
	MetadataFile    = "metadata.yaml"
	HashesFile      = "hashes.json"
	StagesFile      = "clusteraddon.yaml"
	AddonValuesFile = "cluster-addon-values.yaml"
	ClassFolder     = "cluster-class"
	AddonFolder     = "cluster-addon"
	NodeImageFolder = "node-image"
	ChartFile       = "Chart.yaml"
	// NodeImagesFile is in releases alone.
	NodeImagesFile = "node-images.yaml"
)

// The versions of the files' formats.
const (
	ConfigAPIVersion   = "csctl.clusterstack.x-k8s.io/v1alpha1"
	MetadataAPIVersion = "metadata.clusterstack.x-k8s.io/v1alpha1"
	StagesAPIVersion   = "clusteraddonconfig.x-k8s.io/v1alpha1"
	AddonAPIVersion    = "clusteraddons.clusterstack.x-k8s.io/v1alpha1"
)

// Config is csctl.yaml.
type Config struct {
	APIVersion string       `json:"apiVersion"`
	Config     ConfigFields `json:"config"`
}

// ConfigFields is the field config of csctl.yaml.
type ConfigFields struct {
	// KubernetesVersion has its patch, such as v1.37.2.
	KubernetesVersion string         `json:"kubernetesVersion"`
	ClusterStackName  string         `json:"clusterStackName"`
	Provider          ConfigProvider `json:"provider"`
}

// ConfigProvider says who provides the machines. With a Config csctl calls the plugin csctl-<type>.
type ConfigProvider struct {
	Type       string         `json:"type"`
	APIVersion string         `json:"apiVersion,omitempty"`
	Config     map[string]any `json:"config,omitempty"`
}

// plainName has no dash: a tag is split at its dashes.
var plainName = regexp.MustCompile(`^[a-z0-9]{1,63}$`)

// ParseConfig reads csctl.yaml. The error names each field that csctl or the operator would refuse.
func ParseConfig(text []byte) (*Config, error) {
	c := &Config{}
	if err := decodeStrict(text, c); err != nil {
		return nil, err
	}
	var problems []error
	if c.APIVersion != ConfigAPIVersion {
		problems = append(problems, fmt.Errorf("apiVersion %q must be %s", c.APIVersion, ConfigAPIVersion))
	}
	if _, err := MinorOf(c.Config.KubernetesVersion); err != nil {
		problems = append(problems, fmt.Errorf("config.kubernetesVersion: %w", err))
	}
	for _, name := range []struct{ field, value string }{
		{"config.clusterStackName", c.Config.ClusterStackName}, {"config.provider.type", c.Config.Provider.Type}} {
		if !plainName.MatchString(name.value) {
			problems = append(problems, fmt.Errorf("%s %q must have 1 to 63 lower-case letters and digits; "+
				"no dash, because a tag is split at its dashes", name.field, name.value))
		}
	}
	return c, errors.Join(problems...)
}

// TagOf is the tag of the stack's release with the version.
func (c *Config) TagOf(v Version) (Tag, error) {
	minor, err := MinorOf(c.Config.KubernetesVersion)
	return Tag{Provider: c.Config.Provider.Type, Stack: c.Config.ClusterStackName, Minor: minor, Version: v}, err
}

// decodeStrict refuses keys that are not known, twice there, or in another case: csctl and the
// operator would ignore them.
func decodeStrict(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(asJSON, into)
	return errors.Join(append(unknown, err)...)
}

// Metadata is metadata.yaml.
type Metadata struct {
	APIVersion string   `json:"apiVersion"`
	Versions   Versions `json:"versions"`
}

// Versions are those of a stack and of its components. The class has that of the stack.
type Versions struct {
	ClusterStack string            `json:"clusterStack"`
	Kubernetes   string            `json:"kubernetes"`
	Components   ComponentVersions `json:"components"`
}

// ComponentVersions are those that can differ from the stack's.
type ComponentVersions struct {
	ClusterAddon string `json:"clusterAddon"`
	NodeImage    string `json:"nodeImage"`
}

// ParseMetadata reads metadata.yaml. All four versions are required, because the operator parses
// each.
func ParseMetadata(text []byte) (*Metadata, error) {
	m := &Metadata{}
	if err := decodeStrict(text, m); err != nil {
		return nil, err
	}
	var problems []error
	if m.APIVersion != MetadataAPIVersion {
		problems = append(problems, fmt.Errorf("apiVersion %q must be %s", m.APIVersion, MetadataAPIVersion))
	}
	return m, errors.Join(append(problems, m.Versions.Check())...)
}

// Check names each version that is missing or malformed.
func (v *Versions) Check() error {
	var problems []error
	if _, err := MinorOf(v.Kubernetes); err != nil {
		problems = append(problems, fmt.Errorf("versions.kubernetes: %w", err))
	}
	for _, version := range []struct{ field, value string }{
		{"versions.clusterStack", v.ClusterStack}, {"versions.components.clusterAddon", v.Components.ClusterAddon},
		{"versions.components.nodeImage", v.Components.NodeImage}} {
		if _, err := ParseVersion(version.value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", version.field, err))
		}
	}
	return errors.Join(problems...)
}

// Text is metadata.yaml as csctl writes it.
func (v *Versions) Text() []byte {
	return fmt.Appendf(nil, `apiVersion: %s
versions:
    clusterStack: %s
    kubernetes: %s
    components:
        clusterAddon: %s
        nodeImage: %s
`, MetadataAPIVersion, v.ClusterStack, v.Kubernetes, v.Components.ClusterAddon, v.Components.NodeImage)
}

// Hashes is hashes.json. Its first four keys are csctl's, of the packed folder; csctl ignores the
// others.
type Hashes struct {
	ClusterStack       string `json:"clusterStack"`
	ClusterAddonDir    string `json:"clusterAddonDir"`
	ClusterAddonValues string `json:"clusterAddonValues"`
	NodeImageDir       string `json:"nodeImageDir,omitempty"`
	// Versions are those of the release, nil before the first one.
	Versions *Versions `json:"versions,omitempty"`
	// Content has the hash of each part of the folder, by which the next version is chosen.
	Content map[string]string `json:"content,omitempty"`
}

// ParseHashes reads the hashes.json of a release, which has no versions where csctl made it.
func ParseHashes(text []byte) (*Hashes, error) {
	h := &Hashes{}
	if err := decodeStrict(text, h); err != nil {
		return nil, err
	}
	if h.Versions == nil {
		return h, nil
	}
	return h, h.Versions.Check()
}

// ParseLastRelease reads the hashes.json of a stack's folder. {} is that of a stack without a
// release.
func ParseLastRelease(text []byte) (*Hashes, error) {
	h, err := ParseHashes(text)
	if err == nil && h.Versions == nil && (h.ClusterStack != "" || h.Content != nil) {
		err = errors.New("versions is missing: hashes.json must be {}, or what create --record writes")
	}
	return h, err
}

// Text is hashes.json as it is written.
func (h *Hashes) Text() ([]byte, error) {
	text, err := json.MarshalIndent(h, "", "  ")
	return append(text, '\n'), err
}
