package nodeimage

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

func configOf(t *testing.T, provider string) *format.Config {
	t.Helper()
	c, err := format.ParseConfig([]byte("apiVersion: csctl.clusterstack.x-k8s.io/v1alpha1\nconfig:\n  kubernetesVersion: v1.37.2\n" +
		"  clusterStackName: stratos\n  provider: " + provider + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	getting  = "{type: aws, apiVersion: aws.csctl.clusterstack.x-k8s.io/v1alpha1, config: {method: get, bases: [ubuntu-24.04], architectures: [amd64, arm64]}}"
	building = "{type: aws, apiVersion: aws.csctl.clusterstack.x-k8s.io/v1alpha1, config: {method: build, bases: [debian-12], architectures: [amd64], regions: [eu-central-1, us-east-1]}}"
)

func versions() *format.Versions {
	return &format.Versions{ClusterStack: "v3", Kubernetes: "v1.37.2", Components: format.ComponentVersions{NodeImage: "v2"}}
}

func parse(t *testing.T, provider string) *Config {
	t.Helper()
	c, err := ParseConfig(configOf(t, provider))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestParseConfig has a row for each field, and what the error says of it.
func TestParseConfig(t *testing.T) {
	for name, c := range map[string]struct{ from, old, new, err string }{
		"get":                     {from: getting},
		"get of an account":       {from: getting, old: "get,", new: "get, owner: '123456789012',"},
		"build":                   {from: building},
		"another provider":        {from: getting, old: "type: aws", new: "type: docker", err: "config.provider.config must be empty: for the provider docker it is read by csctl-docker"},
		"another format":          {from: getting, old: "aws.csctl", new: "other", err: `config.provider.apiVersion "other.clusterstack.x-k8s.io/v1alpha1" must be aws.csctl.`},
		"a mistyped field":        {from: getting, old: "bases", new: "base", err: `unknown field "base"`},
		"another method":          {from: getting, old: "get", new: "import", err: `config.provider.config.method "import" must be get or build`},
		"no base":                 {from: getting, old: "[ubuntu-24.04]", new: "[]", err: "config.provider.config.bases must have at least one"},
		"a base without version":  {from: getting, old: "ubuntu-24.04", new: "ubuntu", err: `config.provider.config.bases[0] "ubuntu" must be a distribution with its version`},
		"another architecture":    {from: getting, old: "amd64", new: "x86_64", err: `config.provider.config.architectures[0] "x86_64" must be amd64 or arm64`},
		"an architecture twice":   {from: getting, old: "arm64", new: "amd64", err: `config.provider.config.architectures[1] "amd64" is there twice`},
		"regions of images there": {from: getting, old: "get,", new: "get, regions: [eu-central-1],", err: "config.provider.config.regions must be left out with the method get"},
		"an owner by name":        {from: getting, old: "get,", new: "get, owner: amazon,", err: `config.provider.config.owner "amazon" must be an account's 12 digits or self`},
		"an owner of a build":     {from: building, old: "build,", new: "build, owner: '123456789012',", err: `config.provider.config.owner "123456789012" must be left out with the method build`},
		"no region":               {from: building, old: ", regions: [eu-central-1, us-east-1]", new: "", err: "config.provider.config.regions must have at least one"},
		"a region that is none":   {from: building, old: "us-east-1", new: "us-east-1a", err: `config.provider.config.regions[1] "us-east-1a" must be an AWS region`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig(configOf(t, strings.Replace(c.from, c.old, c.new, 1)))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// TestGet: an image per base and architecture, by name and owner.
func TestGet(t *testing.T) {
	text, err := Create(t.Context(), parse(t, getting), versions(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: aws.infrastructure.clusterstack.x-k8s.io/v1alpha1
awsNodeImages:
- architecture: amd64
  baseOS: ubuntu-24.04
  kubernetesVersion: v1.37.2
  name: stratos-node-ubuntu-24.04-1.37.2-v2-amd64
  nodeImageVersion: v2
  owner: self
- architecture: arm64
  baseOS: ubuntu-24.04
  kubernetesVersion: v1.37.2
  name: stratos-node-ubuntu-24.04-1.37.2-v2-arm64
  nodeImageVersion: v2
  owner: self
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// packer is a stand-in that checks its arguments, and writes the manifest that the template's
// post-processor would write.
const packer = `test "$#" = 10 && test "$1" = build && test -f "${10}/image.pkr.hcl" || { echo "arguments: $*" >&2; exit 2; }
for word; do case $word in
region=*) region=${word#region=};; manifest=*) manifest=${word#manifest=};; base=*) base=${word#base=};;
architecture=*) architecture=${word#architecture=};;
esac; done
test "$base $architecture" = "debian-12 amd64" || exit 2
test ! -e "$manifest" || exit 3
echo "building in $region"
grep -q "no $region" "${10}/image.pkr.hcl" && { echo refused >&2; exit 1; }
id=ami-0123456789abcde$(printf %s "$region" | wc -c | tr -d ' ')
grep -q "odd manifest" "${10}/image.pkr.hcl" && id=none
echo '{"builds": [{"artifact_id": "'$region:$id'"}], "last_run_uuid": "x"}' > "$manifest"
`

// TestBuild: each image in each region, with the ids of Packer's manifest.
func TestBuild(t *testing.T) {
	stackstest.Program(t, "packer", packer)
	var progress bytes.Buffer
	template := files.Files{"image.pkr.hcl": {Data: []byte("x")}}
	text, err := Create(t.Context(), parse(t, building), versions(), template, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	images, err := ParseImages(text, versions())
	if err != nil {
		t.Fatal(err)
	}
	want := []Image{{Name: "stratos-node-debian-12-1.37.2-v2-amd64", BaseOS: "debian-12", Architecture: "amd64",
		KubernetesVersion: "v1.37.2", NodeImageVersion: "v2", Owner: "self",
		AMIs: map[string]string{"eu-central-1": "ami-0123456789abcde12", "us-east-1": "ami-0123456789abcde9"}}}
	if diff := cmp.Diff(want, images.Images); diff != "" {
		t.Error(diff)
	}
	if progress.String() != "building in eu-central-1\nbuilding in us-east-1\n" {
		t.Errorf("printed %q", progress.String())
	}
	for content, want := range map[string]string{
		"no us-east-1": "build stratos-node-debian-12-1.37.2-v2-amd64 in us-east-1: packer build: exit status 1; " +
			"deregister what was built before: ami-0123456789abcde12 in eu-central-1",
		"odd manifest": `builds must have the artifact_id eu-central-1:ami-..., and has ["eu-central-1:none"]`,
	} {
		template["image.pkr.hcl"] = files.File{Data: []byte(content)}
		if _, err := Create(t.Context(), parse(t, building), versions(), template, &progress); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Create(t.Context(), parse(t, building), versions(), nil, &progress); err == nil ||
		!strings.Contains(err.Error(), "node-image must have a Packer template") {
		t.Errorf("error %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Create(t.Context(), parse(t, building), versions(), template, &progress); err == nil ||
		!strings.Contains(err.Error(), "packer must be on PATH") {
		t.Errorf("error %v", err)
	}
}

// TestParseImages has a row for each field, and what the error says of it.
func TestParseImages(t *testing.T) {
	text, err := Create(t.Context(), parse(t, getting), versions(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct{ old, new string }{
		"apiVersion": {"aws.infrastructure", "other"},
		`awsNodeImages[0].kubernetesVersion "v1.37.1" must be v1.37.2`: {"v1.37.2", "v1.37.1"},
		`awsNodeImages[0].nodeImageVersion "v1" must be v2`:            {"nodeImageVersion: v2", "nodeImageVersion: v1"},
		`awsNodeImages[0].name "stratos-node-debian`:                   {"name: stratos-node-ubuntu", "name: stratos-node-debian"},
		`awsNodeImages[0].owner "amazon" must be`:                      {"owner: self", "owner: amazon"},
		"awsNodeImages[0].amis: eu-central-1: x must be":               {"owner: self", "owner: self\n  amis: {eu-central-1: x}"},
		`unknown field "ami"`:                                          {"owner: self", "owner: self\n  ami: x"},
	} {
		if _, err := ParseImages(bytes.Replace(text, []byte(c.old), []byte(c.new), 1), versions()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := ParseImages([]byte("apiVersion: "+ImagesAPIVersion+"\n"), versions()); err == nil ||
		!strings.Contains(err.Error(), "awsNodeImages must have at least one image") {
		t.Errorf("error %v", err)
	}
}
