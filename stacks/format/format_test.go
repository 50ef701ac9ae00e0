package format

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]struct {
		version Version
		dashed  string
		err     bool
	}{
		"v1":             {version: Version{Number: 1}, dashed: "v1"},
		"v0-sha.hipstsw": {version: Version{Channel: "sha", Label: "hipstsw"}, dashed: "v0-sha-hipstsw"},
		"v1-beta.3":      {version: Version{Number: 1, Channel: "beta", Label: "3"}, dashed: "v1-beta-3"},
		"":               {err: true},
		"1":              {err: true},
		"v01":            {err: true},
		"v1.2.3":         {err: true},
		"v1-beta":        {err: true},
		"v1-beta-3":      {err: true},
		"v1-beta.3.4":    {err: true},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseVersion(text)
			if (err != nil) != want.err {
				t.Fatalf("error %v, want one: %t", err, want.err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), `"`+text+`"`) || !strings.Contains(err.Error(), "such as v2") {
					t.Errorf("the error does not say what is wrong and what is allowed: %v", err)
				}
				return
			}
			if got != want.version || got.String() != text || got.Dashed() != want.dashed {
				t.Errorf("got %+v, %s, %s", got, got, got.Dashed())
			}
		})
	}
}

func TestVersionsInOrder(t *testing.T) {
	want := []string{"v0-git.1", "v0-sha.9", "v0-sha.10", "v0-sha.abc",
		"v1-beta.2", "v1-beta.10", "v1", "v2-beta.1", "v2", "v10"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b string) int {
		x, errA := ParseVersion(a)
		y, errB := ParseVersion(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		return x.Compare(y)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseTag(t *testing.T) {
	for text, want := range map[string]struct{ class, err string }{
		"docker-ferrol-1-27-v1":             {class: "docker-ferrol-1-27-v1"},
		"docker-ferrol-1-27-v0-sha-hipstsw": {class: "docker-ferrol-1-27-v0-sha.hipstsw"},
		"aws-stratos-1-37-v12":              {class: "aws-stratos-1-37-v12"},
		"docker-fer-rol-1-27-v1":            {err: "5 or 7 parts"},
		"docker-ferrol-1-27-v1-beta":        {err: "5 or 7 parts"},
		"-ferrol-1-27-v1":                   {err: "5 or 7 parts"},
		"docker-ferrol-1-x-v1":              {err: "such as 1-37"},
		"docker-ferrol-1-27-latest":         {err: "version"},
		"latest":                            {err: "5 or 7 parts"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseTag(text)
			if want.err != "" {
				if err == nil || !strings.Contains(err.Error(), want.err) {
					t.Errorf("error %v, want %q", err, want.err)
				}
				return
			}
			if err != nil || got.String() != text || got.ClassName() != want.class {
				t.Errorf("got %s, class %s, error %v", got, got.ClassName(), err)
			}
		})
	}
}

const config = `apiVersion: csctl.clusterstack.x-k8s.io/v1alpha1
config:
  kubernetesVersion: v1.27.3
  clusterStackName: ferrol
  provider:
    type: docker
    apiVersion: docker.csctl.clusterstack.x-k8s.io/v1alpha1
    config: {method: get}
`

// TestParseConfig has a row for each field, and what the error says of it.
func TestParseConfig(t *testing.T) {
	for name, c := range map[string]struct{ old, new, err string }{
		"as documented":          {},
		"another format":         {old: "csctl.clusterstack", new: "other", err: "apiVersion"},
		"no patch":               {old: "v1.27.3", new: "v1.27", err: "config.kubernetesVersion"},
		"a dash in the stack":    {old: "ferrol", new: "fer-rol", err: `config.clusterStackName "fer-rol"`},
		"no name":                {old: "ferrol", new: `""`, err: "config.clusterStackName"},
		"a dash in the provider": {old: "type: docker", new: "type: do-cker", err: `config.provider.type "do-cker"`},
		"a mistyped field":       {old: "clusterStackName", new: "clusterstackname", err: "clusterstackname"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig([]byte(strings.Replace(config, c.old, c.new, 1)))
			if c.err == "" {
				if err != nil || got.Config.Provider.Config["method"] != "get" {
					t.Errorf("got %+v, error %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// seedMetadata is the example of the project's seed.
const seedMetadata = `apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions:
  clusterStack: v3
  kubernetes: v1.27.3
  components:
    clusterAddon: v2
    nodeImage: v1
`

func TestParseMetadata(t *testing.T) {
	got, err := ParseMetadata([]byte(seedMetadata))
	if err != nil {
		t.Fatal(err)
	}
	want := Versions{ClusterStack: "v3", Kubernetes: "v1.27.3",
		Components: ComponentVersions{ClusterAddon: "v2", NodeImage: "v1"}}
	if got.Versions != want {
		t.Errorf("got %+v", got.Versions)
	}
	again, err := ParseMetadata(got.Versions.Text())
	if err != nil || again.Versions != want {
		t.Errorf("written and read again: %+v, error %v", again, err)
	}
	for old, field := range map[string]string{
		"clusterStack: v3": "versions.clusterStack", "kubernetes: v1.27.3": "versions.kubernetes",
		"clusterAddon: v2": "versions.components.clusterAddon", "nodeImage: v1": "versions.components.nodeImage",
		"metadata.": "apiVersion",
	} {
		key, _, _ := strings.Cut(old, ":")
		bad := strings.Replace(seedMetadata, old, key+`: "x"`, 1)
		if old == "metadata." {
			bad = strings.Replace(seedMetadata, old, "", 1)
		}
		if _, err := ParseMetadata([]byte(bad)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestParseLastRelease(t *testing.T) {
	for name, c := range map[string]struct {
		text, err string
		released  bool
	}{
		"no release yet": {text: "{}"},
		"of a release":   {text: `{"clusterStack":"a","versions":{"clusterStack":"v1","kubernetes":"v1.27.3","components":{"clusterAddon":"v1","nodeImage":"v1"}},"content":{"csctl.yaml":"h1:x"}}`, released: true},
		"csctl's alone":  {text: `{"clusterStack":"a","clusterAddonDir":"b","clusterAddonValues":""}`, err: "versions is missing"},
		"a mistyped key": {text: `{"contents":{}}`, err: "contents"},
		"a version that is not": {text: `{"versions":{"clusterStack":"1","kubernetes":"v1.27.3","components":{"clusterAddon":"v1","nodeImage":"v1"}}}`,
			err: "versions.clusterStack"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseLastRelease([]byte(c.text))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || (got.Versions != nil) != c.released {
				t.Fatalf("got %+v, error %v", got, err)
			}
		})
	}
}

const stages = `apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1
clusterAddonVersion: clusteraddons.clusterstack.x-k8s.io/v1alpha1
addonStages:
  AfterControlPlaneInitialized:
    - name: cni
      action: apply
    - name: metrics-server
      action: apply
      waitForPostCondition:
        objects: [{key: ms, apiVersion: apps/v1, kind: Deployment, name: metrics-server, namespace: kube-system}]
        conditions: ms.spec.replicas == 1
`

func TestParseStages(t *testing.T) {
	for name, c := range map[string]struct{ old, new, err string }{
		"as documented":    {},
		"another format":   {old: "clusteraddonconfig", new: "other", err: "apiVersion"},
		"another addon":    {old: "clusteraddons.", new: "other.", err: "clusterAddonVersion"},
		"a hook not run":   {old: "AfterControlPlaneInitialized", new: "AfterClusterUpgrade", err: "addonStages.AfterClusterUpgrade"},
		"no name":          {old: "name: cni", new: `name: ""`, err: "addonStages.AfterControlPlaneInitialized[0].name"},
		"another action":   {old: "action: apply", new: "action: replace", err: `addonStages.AfterControlPlaneInitialized[0].action "replace"`},
		"a mistyped field": {old: "conditions:", new: "condition:", err: "condition"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseStages([]byte(strings.Replace(stages, c.old, c.new, 1)))
			if c.err == "" {
				if err != nil || got.AddonStages[HookAfterControlPlane][1].WaitForPostCondition.Objects[0].Key != "ms" {
					t.Errorf("got %+v, error %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
