package nodeimage

import (
	"errors"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/stacks/format"
)

// ImagesAPIVersion is the format of node-images.yaml.
const ImagesAPIVersion = "aws.infrastructure.clusterstack.x-k8s.io/v1alpha1"

// Images is node-images.yaml.
type Images struct {
	APIVersion string  `json:"apiVersion"`
	Images     []Image `json:"awsNodeImages"`
}

// Image is an image of EC2.
type Image struct {
	Name              string `json:"name"`
	BaseOS            string `json:"baseOS"`
	Architecture      string `json:"architecture"`
	KubernetesVersion string `json:"kubernetesVersion"`
	NodeImageVersion  string `json:"nodeImageVersion"`
	// Owner is an account, or self: the account of the cluster.
	Owner string `json:"owner"`
	// AMIs are the ids by region, of images that this release has built.
	AMIs map[string]string `json:"amis,omitempty"`
}

// imagesOf lists an image per base and architecture.
func imagesOf(c *Config, v *format.Versions) *Images {
	all := &Images{APIVersion: ImagesAPIVersion}
	for _, base := range c.Bases {
		for _, architecture := range c.Architectures {
			all.Images = append(all.Images, Image{Name: NameOf(base, architecture, v), BaseOS: base, Architecture: architecture,
				KubernetesVersion: v.Kubernetes, NodeImageVersion: v.Components.NodeImage, Owner: c.Owner})
		}
	}
	return all
}

var amiID = regexp.MustCompile(`^ami-[0-9a-f]+$`)

// ParseImages reads node-images.yaml of a release with these versions. The error names each field
// that is wrong.
func ParseImages(text []byte, v *format.Versions) (*Images, error) {
	all := &Images{}
	if err := yaml.UnmarshalStrict(text, all); err != nil {
		return nil, err
	}
	var problems []error
	if all.APIVersion != ImagesAPIVersion {
		problems = append(problems, fmt.Errorf("apiVersion %q must be %s", all.APIVersion, ImagesAPIVersion))
	}
	if len(all.Images) == 0 {
		problems = append(problems, errors.New("awsNodeImages must have at least one image"))
	}
	for i := range all.Images {
		for _, problem := range all.Images[i].check(v) {
			problems = append(problems, fmt.Errorf("awsNodeImages[%d].%s", i, problem))
		}
	}
	return all, errors.Join(problems...)
}

func (i *Image) check(v *format.Versions) []string {
	var problems []string
	for _, field := range []struct{ name, value, want string }{
		{"kubernetesVersion", i.KubernetesVersion, v.Kubernetes}, {"nodeImageVersion", i.NodeImageVersion, v.Components.NodeImage},
		{"name", i.Name, NameOf(i.BaseOS, i.Architecture, v)}} {
		if field.value != field.want {
			problems = append(problems, fmt.Sprintf("%s %q must be %s", field.name, field.value, field.want))
		}
	}
	if !owner.MatchString(i.Owner) {
		problems = append(problems, fmt.Sprintf("owner %q must be an account's 12 digits or self", i.Owner))
	}
	for at, id := range i.AMIs {
		if !region.MatchString(at) || !amiID.MatchString(id) {
			problems = append(problems, fmt.Sprintf("amis: %s: %s must be the id of an image by an AWS region", at, id))
		}
	}
	return problems
}

// Text is node-images.yaml.
func (i *Images) Text() ([]byte, error) { return yaml.Marshal(i) }
