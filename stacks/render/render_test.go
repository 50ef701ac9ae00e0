package render

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

const cluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one}
spec:
  controlPlaneEndpoint: {host: one.example.com, port: 6443000}
  topology:
    classRef: {name: docker-ferrol-1-27-v1}
    version: v1.27.3
`

func standIn(t *testing.T) Helm {
	t.Helper()
	stackstest.Helm(t)
	helm, err := FindHelm()
	if err != nil {
		t.Fatal(err)
	}
	return helm
}

func releaseOf(t *testing.T, staged bool, edits ...string) *release.Release {
	t.Helper()
	folder := stackstest.Write(t, staged)
	for i := 0; i < len(edits); i += 3 {
		stackstest.Edit(t, folder, edits[i], edits[i+1], edits[i+2])
	}
	r, err := release.Create(stackstest.Open(t, folder), release.Stable, format.Versions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse(t *testing.T, text string) Objects {
	t.Helper()
	objects, err := ParseObjects([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

var temporary = regexp.MustCompile(`/\S*/unpacked/`)

// TestHelmIsCalledAsByTheOperator: name of the release, chart, namespace, version and values.
func TestHelmIsCalledAsByTheOperator(t *testing.T) {
	helm := standIn(t)
	const flags = "template --include-crds --kube-version v1.27.3 cluster-addon "
	for convention, c := range map[string]struct {
		staged bool
		want   map[string]string
	}{
		"staged": {true, map[string]string{"cni": flags + "cni --namespace kube-system -f -\nhost: \"one.example.com\"\n",
			"sets": flags + "sets --namespace kube-system\n"}},
		"one chart": {false, map[string]string{"docker-ferrol-1-27-cluster-addon": flags +
			"docker-ferrol-1-27-cluster-addon --namespace kube-system -f -\nhost: \"one.example.com\"\n"}},
	} {
		r := releaseOf(t, c.staged)
		class, err := helm.Class(t.Context(), r, "teams")
		if err != nil {
			t.Fatal(err)
		}
		const want = "template docker-ferrol-1-27 docker-ferrol-1-27-cluster-class --namespace teams\n"
		if diff := cmp.Diff(want, temporary.ReplaceAllString(string(class), "")); diff != "" {
			t.Errorf("%s: class: %s", convention, diff)
		}
		stages, err := helm.Addons(t.Context(), r, parse(t, cluster), "")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, stage := range stages {
			got[stage.Name] = temporary.ReplaceAllString(string(stage.Objects), "")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: addons: %s", convention, diff)
		}
	}
}

// TestWhatCannotBeRendered has a row for each reason, and what the error says of it.
func TestWhatCannotBeRendered(t *testing.T) {
	helm := standIn(t)
	for name, c := range map[string]struct {
		cluster, overwrite, want string
	}{
		"nothing is wrong":                {},
		"another class":                   {cluster: strings.Replace(cluster, "-v1}", "-v2}", 1), want: `spec.topology.classRef.name "docker-ferrol-1-27-v2" of the Cluster one must be docker-ferrol-1-27-v1`},
		"another class of v1beta1":        {cluster: strings.Replace(cluster, "classRef: {name: docker-ferrol-1-27-v1}", "class: other", 1), want: `spec.topology.class "other" of the Cluster one must be docker-ferrol-1-27-v1`},
		"another version":                 {cluster: strings.Replace(cluster, "v1.27.3", "v1.27.4", 1), want: `spec.topology.version "v1.27.4" of the Cluster one must be v1.27.3`},
		"a path that is not there":        {overwrite: "values: \"{{ .Cluster.spec.none.host }}\"\n", want: `stage cni: template: values:1:20: executing "values" at <.Cluster.spec.none`},
		"no control plane is given":       {overwrite: "values: \"{{ .ControlPlane.spec }}\"\n", want: `map has no entry for key "ControlPlane"`},
		"no key values":                   {overwrite: "vals: |\n  a: 1\n", want: "must have the key values with a text"},
		"a function of the operator":      {overwrite: "values: \"{{ .Cluster.metadata.name | upper }}\"\n"},
		"the environment of this process": {overwrite: "values: \"{{ env `HOME` }}\"\n", want: `function "env" not defined`},
	} {
		t.Run(name, func(t *testing.T) {
			var edits []string
			if c.overwrite != "" {
				edits = []string{"cluster-addon/cni/overwrite.yaml",
					"values: |\n  host: \"{{ .Cluster.spec.controlPlaneEndpoint.host }}\"\n", c.overwrite}
			}
			text := cluster
			if c.cluster != "" {
				text = c.cluster
			}
			stages, err := helm.Addons(t.Context(), releaseOf(t, true, edits...), parse(t, text), "")
			if c.want == "" {
				if err != nil || len(stages) != 2 {
					t.Errorf("%d stages, error %v", len(stages), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestWhatHelmSaysIsInTheError(t *testing.T) {
	helm := standIn(t)
	if _, err := helm.template(t.Context(), nil, "a", "/no/chart"); err == nil ||
		!strings.Contains(err.Error(), "helm template: exit status 1: no chart /no/chart") {
		t.Errorf("error %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := FindHelm(); err == nil || !strings.Contains(err.Error(), "helm must be on PATH") {
		t.Errorf("error %v", err)
	}
}

// TestObjectsThatTheOperatorCannotApply has a row for each; the stand-in for helm prints the
// values.
func TestObjectsThatTheOperatorCannotApply(t *testing.T) {
	helm := standIn(t)
	const object = "\n  ---\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: a\n"
	for name, c := range map[string]struct{ metadata, want string }{
		"no namespace":      {},
		"kube-system":       {metadata: "    namespace: kube-system\n"},
		"another namespace": {"    namespace: kube-public\n", `stage cni: ConfigMap a: metadata.namespace "kube-public" must be left out or be kube-system`},
		"a hook": {"    annotations: {helm.sh/hook: post-install}\n",
			"stage cni: ConfigMap a: metadata.annotations must not have helm.sh/hook"},
	} {
		t.Run(name, func(t *testing.T) {
			r := releaseOf(t, true, "cluster-addon/cni/overwrite.yaml",
				"values: |\n  host: \"{{ .Cluster.spec.controlPlaneEndpoint.host }}\"\n", "values: |"+object+c.metadata)
			_, err := helm.Addons(t.Context(), r, parse(t, cluster), "")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestParseObjects(t *testing.T) {
	const more = "---\n{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, spec: {a: 1}}\n" +
		"---\n{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, spec: {b: 1}}\n---\n# nothing\n---\n" +
		"{apiVersion: stratos.sh/v1alpha1, kind: NodePool}\n"
	objects := parse(t, cluster+more)
	out, err := objects.values([]byte("values: \"{{ .Cluster.spec.controlPlaneEndpoint.port }} {{ .ControlPlane.spec.a }} {{ .InfraCluster.spec.b }}\"\n"))
	if err != nil || string(out) != "6443000 1 1" || len(objects) != 3 {
		t.Errorf("values %q of %d objects, error %v", out, len(objects), err)
	}
	for text, want := range map[string]string{
		more:                        "an object of the kind Cluster",
		cluster + "---\n" + cluster: "document 2: a second Cluster",
		"a: b: c\n":                 "document 1: ",
	} {
		if _, err := ParseObjects([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
