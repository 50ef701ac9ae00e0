// Package nodeimage lists the node images of a release for EC2 in node-images.yaml, and builds them
// by the packer on PATH.
package nodeimage

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/stratos-sh/stratos/stacks/format"
)

// Provider is the provider whose node images these are, and ConfigAPIVersion the format of its
// configuration in csctl.yaml.
const (
	Provider         = "aws"
	ConfigAPIVersion = "aws.csctl.clusterstack.x-k8s.io/v1alpha1"
)

// Method is how a release gets its node images.
type Method string

// The methods.
const (
	// Get lists images that exist, by name and owner.
	Get Method = "get"
	// Build runs Packer and lists the images with their ids.
	Build Method = "build"
)

// Self is the owner of images that belong to the account of the cluster.
const Self = "self"

// Config is config.provider.config of csctl.yaml.
type Config struct {
	Method Method `json:"method"`
	// Bases and Architectures: there is an image for each of both.
	Bases         []string `json:"bases"`
	Architectures []string `json:"architectures"`
	// Regions are where images are built; none with Get.
	Regions []string `json:"regions,omitempty"`
	// Owner of the images with Get: an account, or self, which is the default.
	Owner string `json:"owner,omitempty"`
}

// IsSet reports whether csctl would call a plugin for the stack.
func IsSet(c *format.Config) bool { return len(c.Config.Provider.Config) > 0 }

var (
	baseName = regexp.MustCompile(`^[a-z0-9]+-[0-9]+(\.[0-9]+)?$`)
	region   = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)
	owner    = regexp.MustCompile(`^([0-9]{12}|self)$`)
)

// ParseConfig reads the provider's configuration of csctl.yaml. The error names each field that is
// wrong and what is allowed.
func ParseConfig(c *format.Config) (*Config, error) {
	provider := &c.Config.Provider
	if provider.Type != Provider {
		return nil, fmt.Errorf("config.provider.config must be empty: for the provider %s it is read by csctl-%s, which is "+
			"another program", provider.Type, provider.Type)
	}
	if provider.APIVersion != ConfigAPIVersion {
		return nil, fmt.Errorf("config.provider.apiVersion %q must be %s", provider.APIVersion, ConfigAPIVersion)
	}
	text, err := json.Marshal(provider.Config)
	if err != nil {
		return nil, err
	}
	parsed := &Config{Owner: Self}
	if unknown, err := kjson.UnmarshalStrict(text, parsed); err != nil || len(unknown) > 0 {
		return nil, fmt.Errorf("config.provider.config: %w", errors.Join(append(unknown, err)...))
	}
	var problems []error
	for _, problem := range parsed.check() {
		problems = append(problems, errors.New("config.provider.config."+problem))
	}
	return parsed, errors.Join(problems...)
}

func (c *Config) check() []string {
	problems := slices.Concat(
		checkList("bases", c.Bases, "a distribution with its version, such as ubuntu-24.04", baseName.MatchString),
		checkList("architectures", c.Architectures, "amd64 or arm64",
			func(a string) bool { return a == "amd64" || a == "arm64" }))
	if !owner.MatchString(c.Owner) {
		problems = append(problems, fmt.Sprintf("owner %q must be an account's 12 digits or self", c.Owner))
	}
	switch c.Method {
	case Get:
		if len(c.Regions) > 0 {
			problems = append(problems, "regions must be left out with the method get: an image is looked up by its name in the cluster's region")
		}
	case Build:
		problems = append(problems,
			checkList("regions", c.Regions, "an AWS region such as eu-central-1", region.MatchString)...)
		if c.Owner != Self {
			problems = append(problems, fmt.Sprintf("owner %q must be left out with the method build: the image belongs to the account that builds it", c.Owner))
		}
	default:
		problems = append(problems, fmt.Sprintf("method %q must be get or build", c.Method))
	}
	return problems
}

func checkList(field string, values []string, allowed string, is func(string) bool) []string {
	if len(values) == 0 {
		return []string{field + " must have at least one: " + allowed}
	}
	var problems []string
	for i, value := range values {
		switch {
		case !is(value):
			problems = append(problems, fmt.Sprintf("%s[%d] %q must be %s", field, i, value, allowed))
		case slices.Contains(values[:i], value):
			problems = append(problems, fmt.Sprintf("%s[%d] %q is there twice", field, i, value))
		}
	}
	return problems
}

// NameOf is the name of an image in EC2, by which the class and AWSNodeClasses look it up.
func NameOf(base, architecture string, v *format.Versions) string {
	return strings.Join([]string{"stratos-node", base, strings.TrimPrefix(v.Kubernetes, "v"), v.Components.NodeImage,
		architecture}, "-")
}
