// Package stackstest writes cluster stacks for tests: the seed's docker/ferrol/1-27, with stages or
// with one chart for all addons, which depends on a chart beside the folder stacks/ and on one of
// charts.lock.
package stackstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/source"
)

// Write writes a repository with the stack into a new folder and returns the stack's folder.
// {own} is charts/own, which the addons depend on; {fetched} is that of charts.lock.
func Write(t *testing.T, staged bool) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "repository")
	if err := repository(t, staged).WriteNew(root); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "stacks", filepath.FromSlash(stackFolder))
}

const stackFolder = "providers/docker/ferrol/1-27"

// Edit replaces text in a file of the stack, once, or appends it where old is "". A file that is
// not there is made. file is from the stack's folder.
func Edit(t *testing.T, folder, file, old, replacement string) {
	t.Helper()
	name := filepath.Join(folder, filepath.FromSlash(file))
	text, err := os.ReadFile(name)
	if err != nil && (old != "" || !os.IsNotExist(err)) {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", name, old)
	}
	edited := string(text) + replacement
	if old != "" {
		edited = strings.Replace(string(text), old, replacement, 1)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Program puts a shell script on PATH in place of the program that it has the name of.
func Program(t *testing.T, name, script string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "bin")
	program := files.Files{name: {Data: []byte("#!/bin/sh\n" + script), Executable: true}}
	if err := program.WriteNew(folder); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// Helm puts a helm on PATH that prints its arguments and its standard input. It fails where the
// chart that it should render is not there.
func Helm(t *testing.T) {
	t.Helper()
	Program(t, "helm", `for word; do case $word in
/*) test -f $word/Chart.yaml || { echo no chart $word >&2; exit 1; };;
esac; done
echo "$@"
case "$*" in *" -f -") cat;; esac
`)
}

// Open reads the stack's folder.
func Open(t *testing.T, folder string) *source.Stack {
	t.Helper()
	s, err := source.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func repository(t *testing.T, staged bool) files.Files {
	t.Helper()
	fetched := files.Files{}
	add(fetched, "", "Chart.yaml", "apiVersion: v2\nname: fetched\nversion: 1.2.3\n",
		"templates/set.yaml", configMap("fetched"))
	digest, err := fetched.Hash()
	if err != nil {
		t.Fatal(err)
	}
	all := files.Files{}
	all.Put("dist/stack-charts/fetched", fetched)
	add(all, "charts/own", "Chart.yaml", "apiVersion: v2\nname: own\nversion: 0.1.0\n", "values.yaml", "size: 1\n",
		"templates/set.yaml", configMap("own"))
	add(all, "stacks", source.LockFile, "folder: ../dist/stack-charts\ncharts:\n- name: fetched\n"+
		"  module: example.com/fetched\n  version: v1.2.3\n  path: charts/fetched\n  digest: "+digest+"\n")
	stack := files.Files{}
	add(stack, "", "csctl.yaml", config, "metadata.yaml", metadata, "hashes.json", "{}\n",
		"cluster-class/Chart.yaml", "apiVersion: v2\nname: docker-ferrol-1-27-cluster-class\ntype: application\nversion: v0\n",
		"cluster-class/values.yaml", "", "cluster-class/templates/class.yaml", class,
		"node-image/image.json", "{\"name\": \"node-<< .NodeImageVersion >>\"}\n",
		"node-image/build.sh", "#!/bin/sh\nexit 0\n")
	stack["node-image/build.sh"] = files.File{Data: stack["node-image/build.sh"].Data, Executable: true}
	if staged {
		add(stack, "", "clusteraddon.yaml", stages)
		add(stack, "cluster-addon/cni", "Chart.yaml", chart("cni", "fetched", "1.2.3",
			"../../../../../../../dist/stack-charts/fetched"),
			"overwrite.yaml", values)
		add(stack, "cluster-addon/sets", "Chart.yaml", chart("sets", "own", "0.1.0", "../../../../../../../charts/own"),
			"templates/set.yaml", configMap("sets"))
	} else {
		add(stack, "", "cluster-addon-values.yaml", values)
		add(stack, "cluster-addon", "Chart.yaml", chart("docker-ferrol-1-27-cluster-addon", "fetched", "1.2.3",
			"../../../../../../dist/stack-charts/fetched")+"- name: own\n  version: 0.1.0\n  repository: file://../../../../../../charts/own\n",
			"values.yaml", "", "templates/set.yaml", configMap("sets"))
	}
	all.Put("stacks/"+stackFolder, stack)
	return all
}

func add(to files.Files, folder string, namesAndTexts ...string) {
	added := files.Files{}
	for i := 0; i < len(namesAndTexts); i += 2 {
		added[namesAndTexts[i]] = files.File{Data: []byte(namesAndTexts[i+1])}
	}
	to.Put(folder, added)
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: kube-system\n"
}

func chart(name, dependency, version, folder string) string {
	return "apiVersion: v2\nname: " + name + "\ntype: application\nversion: v0\ndependencies:\n- name: " + dependency +
		"\n  version: " + version + "\n  repository: file://" + folder + "\n"
}

const (
	config = `apiVersion: csctl.clusterstack.x-k8s.io/v1alpha1
config:
  kubernetesVersion: v1.27.3
  clusterStackName: ferrol
  provider:
    type: docker
    apiVersion: docker.csctl.clusterstack.x-k8s.io/v1alpha1
`
	metadata = `apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions:
  clusterStack: v1
  kubernetes: v1.27.3
  components:
    clusterAddon: v1
    nodeImage: v1
`
	class = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: {{ .Release.Name }}-{{ .Chart.Version }}
  annotations:
    image: node-<< .NodeImageVersion >>
`
	values = "values: |\n  host: \"{{ .Cluster.spec.controlPlaneEndpoint.host }}\"\n"
	stages = `apiVersion: clusteraddonconfig.x-k8s.io/v1alpha1
clusterAddonVersion: clusteraddons.clusterstack.x-k8s.io/v1alpha1
addonStages:
  AfterControlPlaneInitialized: &stages
    - name: cni
      action: apply
    - name: sets
      action: apply
      waitForPostCondition:
        objects: [{key: set, apiVersion: v1, kind: ConfigMap, name: sets, namespace: kube-system}]
        conditions: set.metadata.name == "sets"
  BeforeClusterUpgrade: *stages
`
)

// ForAWS makes the stack one for EC2, with the configuration of its node images, such as
// {method: get, ...}.
func ForAWS(t *testing.T, folder, nodeImages string) {
	t.Helper()
	Edit(t, folder, "csctl.yaml", "type: docker\n    apiVersion: docker.",
		"type: aws\n    config: "+nodeImages+"\n    apiVersion: aws.")
	Edit(t, folder, "cluster-class/Chart.yaml", "docker-", "aws-")
}
