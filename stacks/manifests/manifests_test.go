package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
)

const class = `---
# Source: templates
apiVersion: example.com/v1
kind: DockerClusterTemplate
metadata:
  name: a
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: b
spec:
  variables:
  - {name: owner, required: true, schema: {openAPIV3Schema: {type: string, pattern: '^[0-9]{3}$', example: "123",
      description: Who owns it.}}}
  - {name: size, required: true, schema: {openAPIV3Schema: {type: integer, default: 40}}}
  - {name: share, schema: {openAPIV3Schema: {type: number}}}
  - {name: public, schema: {openAPIV3Schema: {type: boolean, default: false}}}
  - {name: zones, schema: {openAPIV3Schema: {type: array}}}
`

// TestValues: given values have the type of the schema, the others are the defaults.
func TestValues(t *testing.T) {
	variables, err := Variables([]byte(class))
	if err != nil || len(variables) != 5 {
		t.Fatalf("%d variables, error %v", len(variables), err)
	}
	for name, c := range map[string]struct {
		given []string
		want  []Value
		err   string
	}{
		"the one without a default": {given: []string{"owner=012"},
			want: []Value{{"owner", "012"}, {"size", float64(40)}, {"public", false}}},
		"one of each type": {given: []string{"owner=012", "size=50", "share=0.5", "public=true", "zones=[a, b]"},
			want: []Value{{"owner", "012"}, {"size", float64(50)}, {"share", 0.5}, {"public", true},
				{"zones", []any{"a", "b"}}}},
		"nothing":         {err: "variable owner must be set, such as 123: Who owns it."},
		"another pattern": {given: []string{"owner=1"}, err: `variable owner "1" must match ^[0-9]{3}$, such as 123`},
		"another name":    {given: []string{"owner=012", "owners=1"}, err: "variable owners must be one of owner, size, share, public, zones"},
		"no value":        {given: []string{"owner"}, err: `variable "owner" must be name=value`},
		"twice":           {given: []string{"owner=012", "owner=013"}, err: "variable owner is there twice"},
		"a part of one":   {given: []string{"owner=012", "size=1.5"}, err: `variable size "1.5" must be of the type integer`},
		"a text":          {given: []string{"owner=012", "public=maybe"}, err: `variable public "maybe" must be of the type boolean`},
		"no YAML":         {given: []string{"owner=012", "zones=[a"}, err: `variable zones "[a" must be YAML of the type array`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Values(variables, c.given)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
	if _, err := Variables([]byte("kind: Secret\nmetadata:\n  name: a\n")); err == nil {
		t.Error("no ClusterClass is no error")
	}
}

// TestObjects: a version with a label is in the channel custom, and the class has it with a dot.
func TestObjects(t *testing.T) {
	const text = `apiVersion: clusterstack.x-k8s.io/v1alpha1
kind: ClusterStack
metadata:
  name: aws-stratos-1-37
  namespace: teams
spec:
  autoSubscribe: false
  channel: {channel}
  kubernetesVersion: "1.37"
  name: stratos
  noProvider: true
  provider: aws
  versions:
  - {version}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: one
  namespace: teams
spec:
  topology:
    classRef:
      name: aws-stratos-1-37-{version}
    controlPlane:
      replicas: 3
    variables:
    - name: owner
      value: "012"
    version: v1.37.2
`
	for tag, c := range map[string]struct{ channel, version string }{
		"aws-stratos-1-37-v2": {"stable", "v2"}, "aws-stratos-1-37-v0-sha-abc": {"custom", "v0-sha.abc"}} {
		parsed, err := format.ParseTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		r := &release.Release{Tag: parsed, Hashes: format.Hashes{Versions: &format.Versions{Kubernetes: "v1.37.2"}}}
		stack, err := ClusterStack(r, "teams")
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := Cluster(r, Options{Namespace: "teams", Cluster: "one", ControlPlaneReplicas: 3,
			Values: []Value{{"owner", "012"}}})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("{channel}", c.channel, "{version}", c.version).Replace(text)
		if diff := cmp.Diff(want, string(stack)+"---\n"+string(cluster)); diff != "" {
			t.Errorf("%s: %s", tag, diff)
		}
		_, err = Cluster(r, Options{ControlPlaneReplicas: 2})
		if err == nil || !strings.Contains(err.Error(), "2 must be odd") {
			t.Errorf("error %v", err)
		}
	}
}
