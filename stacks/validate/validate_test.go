package validate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

type edit struct{ file, old, replacement string }

// TestRules has a row for each rule: what is wrong, and what the only problem says. The rules about
// one of the two conventions are named by it.
func TestRules(t *testing.T) {
	const class, sets = "cluster-class/templates/class.yaml", "cluster-addon/sets/"
	for name, c := range map[string]struct {
		edits []edit
		// want are what each problem contains.
		want       []string
		convention string
	}{
		"nothing is wrong": {},
		"a dash in the stack's name": {edits: []edit{{"csctl.yaml", "ferrol", "fer-rol"}},
			want: []string{`csctl.yaml: config.clusterStackName "fer-rol" must have 1 to 63 lower-case letters and digits`}},
		"no metadata": {edits: []edit{{"metadata.yaml", "clusterStack: v1\n", "\n"}},
			want: []string{`metadata.yaml: versions.clusterStack: version "" must be v and a number`}},
		"another folder than csctl.yaml says": {edits: []edit{{"csctl.yaml", "type: docker", "type: aws"}, {"cluster-class/Chart.yaml", "docker-", "aws-"}},
			want: []string{"csctl.yaml: config: provider.type, clusterStackName and the minor of kubernetesVersion say that the folder must be providers/aws/ferrol/1-27"}, convention: "staged"},
		"an unknown file": {edits: []edit{{"README.md", "", "x\n"}},
			want: []string{"README.md: only these may be in the folder"}},
		"node-images": {edits: []edit{{"node-images/build.sh", "", "x\n"}},
			want: []string{"node-images: must be node-image"}},
		"both conventions": {edits: []edit{{"cluster-addon-values.yaml", "", "values: |\n"}},
			want: []string{"clusteraddon.yaml: must be there and cluster-addon-values.yaml not"}, convention: "staged"},
		"the class chart's name": {edits: []edit{{"cluster-class/Chart.yaml", "1-27", "1-28"}},
			want: []string{`cluster-class/Chart.yaml: name "docker-ferrol-1-28-cluster-class" must be docker-ferrol-1-27-cluster-class`}},
		"the addon chart's name": {edits: []edit{{"cluster-addon/Chart.yaml", "ferrol", "other"}},
			want: []string{`cluster-addon/Chart.yaml: name "docker-other-1-27-cluster-addon" must be docker-ferrol-1-27-cluster-addon`}, convention: "one chart"},
		"the class chart's Kubernetes": {edits: []edit{{"cluster-class/Chart.yaml", "version: v0", "version: v0\nappVersion: v1.27.2"}},
			want: []string{"cluster-class/Chart.yaml: appVersion v1.27.2 must be v1.27.3"}},
		"a chart without a version": {edits: []edit{{"cluster-class/Chart.yaml", "version: v0", ""}},
			want: []string{"cluster-class/Chart.yaml: version must be set"}},
		"an addon without a chart": {edits: []edit{{"cluster-addon/new/values.yaml", "", "a: 1\n"}, {"clusteraddon.yaml", "- name: sets", "- {name: new, action: apply}\n    - name: sets"}},
			want: []string{"cluster-addon/new/Chart.yaml: is missing"}, convention: "staged"},
		"a version that the content does not require": {edits: []edit{{"metadata.yaml", "nodeImage: v1", "nodeImage: v2"}},
			want: []string{"metadata.yaml: version v2 of nodeImage must be v1 (changed since the last release: ): run stratos stack bump --write"}},
		"another patch in metadata.yaml": {edits: []edit{{"metadata.yaml", "v1.27.3", "v1.27.4"}},
			want: []string{"metadata.yaml: versions.kubernetes v1.27.4 must be v1.27.3"}},
		"a dependency from a repository": {edits: []edit{{sets + "Chart.yaml", "file://../", "https://example.com/"}},
			want: []string{`cluster-addon/sets/Chart.yaml: dependencies[0] own: repository "https://example.com/`}, convention: "staged"},
		"an unknown token": {edits: []edit{{class, "NodeImageVersion", "NodeimageVersion"}},
			want: []string{`cluster-class/templates/class.yaml:6: "<< .NodeimageVersion >>" must be one of << .ClusterClassVersion >>`}},
		"a heredoc": {edits: []edit{{"node-image/build.sh", "exit 0", "cat << EOF\nEOF"}},
			want: []string{`node-image/build.sh:2: "<< EOF" must be one of`}},
		"a stage without a folder": {edits: []edit{{"clusteraddon.yaml", "- name: cni", "- {name: nocni, action: apply}\n    - name: cni"}},
			want: []string{`addonStages.AfterControlPlaneInitialized[0].name "nocni": cluster-addon/nocni must be there`,
				`addonStages.BeforeClusterUpgrade[0].name "nocni": cluster-addon/nocni must be there`}, convention: "staged"},
		"a stage twice": {edits: []edit{{"clusteraddon.yaml", "- name: cni", "- {name: sets, action: apply}\n    - name: cni"}},
			want: []string{`AfterControlPlaneInitialized[2].name "sets" is there twice`, `BeforeClusterUpgrade[2].name "sets" is there twice`}, convention: "staged"},
		"a folder without a stage": {edits: []edit{{"cluster-addon/more/Chart.yaml", "", "name: more\nversion: v0\n"}},
			want: []string{"cluster-addon/more: must be a stage in clusteraddon.yaml"}, convention: "staged"},
		"hooks that differ": {edits: []edit{{"clusteraddon.yaml", "BeforeClusterUpgrade: *stages", "BeforeClusterUpgrade: [{name: cni, action: apply}]"}},
			want: []string{"clusteraddon.yaml: addonStages: AfterControlPlaneInitialized and BeforeClusterUpgrade must have the same stages"}, convention: "staged"},
		"a hook that the operator does not run": {edits: []edit{{"clusteraddon.yaml", "BeforeClusterUpgrade", "AfterClusterUpgrade"}},
			want: []string{"clusteraddon.yaml: addonStages.AfterClusterUpgrade: the operator runs no such hook"}, convention: "staged"},
		"CEL that does not compile": {edits: []edit{{"clusteraddon.yaml", "set.metadata", "other.metadata"}},
			want: []string{"AfterControlPlaneInitialized[1].waitForPostCondition.conditions", "BeforeClusterUpgrade[1].waitForPostCondition.conditions"}, convention: "staged"},
		"CEL that is no bool": {edits: []edit{{"clusteraddon.yaml", `set.metadata.name == "sets"`, "1 + 1"}},
			want: []string{`conditions "1 + 1" must be a bool, and is of the type int`, `"1 + 1" must be a bool`}, convention: "staged"},
		"an object without a kind": {edits: []edit{{"clusteraddon.yaml", "kind: ConfigMap, ", ""}},
			want: []string{"waitForPostCondition.objects[0] must have key, apiVersion, kind and name", "objects[0] must have key"}, convention: "staged"},
		".helmignore": {edits: []edit{{"cluster-class/.helmignore", "", "*.md\n"}},
			want: []string{"cluster-class/.helmignore: must not be there"}},
		"values without the key": {edits: []edit{{"cluster-addon/cni/overwrite.yaml", "values: |", "vals: |"}},
			want: []string{"cluster-addon/cni/overwrite.yaml: must have the key values"}, convention: "staged"},
		"values without the key, one chart": {edits: []edit{{"cluster-addon-values.yaml", "values: |", "vals: |"}},
			want: []string{"cluster-addon-values.yaml: must have the key values"}, convention: "one chart"},
		"values that are no template": {edits: []edit{{"cluster-addon/cni/overwrite.yaml", "}}", "| toYaml2 }}"}},
			want: []string{`cluster-addon/cni/overwrite.yaml: must be a Go template with the functions of slim-sprig: template: values:2: function "toYaml2" not defined`}, convention: "staged"},
		"a path of v1beta1 alone": {edits: []edit{{"cluster-addon/cni/overwrite.yaml", "controlPlaneEndpoint.host", "topology.class"}},
			want: []string{"cluster-addon/cni/overwrite.yaml:2: .Cluster.spec.topology.class must be a path that a Cluster has in v1beta1 and in v1beta2"}, convention: "staged"},
		"a Helm hook": {edits: []edit{{sets + "templates/set.yaml", "  name: sets", "  name: sets\n  annotations: {helm.sh/hook: test}"}},
			want: []string{"cluster-addon/sets/templates/set.yaml:5: helm.sh/hook must not be there"}, convention: "staged"},
		"another namespace": {edits: []edit{{sets + "templates/set.yaml", "kube-system", "default"}},
			want: []string{"cluster-addon/sets/templates/set.yaml:5: namespace default must be kube-system"}, convention: "staged"},
		"one name for objects of two kinds": {edits: []edit{{"cluster-class/templates/more.yaml", "", "kind: DockerClusterTemplate\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Version }}\n"}},
			want: []string{"cluster-class/templates/more.yaml: DockerClusterTemplate has the name {{ .Release.Name }}-{{ .Chart.Version }} of ClusterClass in cluster-class/templates/class.yaml"}},
		"two schedulers": {edits: []edit{{class, "", "kind: KubeSchedulerConfiguration\nextenders: []\n"}, {sets + "Chart.yaml", "name: own", "name: stratos"}},
			want: []string{"cluster-class/templates/class.yaml: must have no KubeSchedulerConfiguration with extenders"}, convention: "staged"},
		"the class's scheduler alone": {edits: []edit{{class, "", "kind: KubeSchedulerConfiguration\nextenders: []\n"}, {sets + "Chart.yaml", "name: own", "name: stratos"},
			{sets + "values.yaml", "", "stratos: {scheduler: {enabled: false}}\n"}}, convention: "staged"},
		"an older minor": {edits: []edit{{"node-image/image.json", "node-", "kubelet-v1.26.4-"}, {class, "", "# kube 1.26\n"}},
			want: []string{"cluster-class/templates/class.yaml:7: 1.26 is of an older minor than 1.27", "node-image/image.json:1: v1.26 is of an older minor than 1.27"}},
	} {
		for convention, staged := range map[string]bool{"staged": true, "one chart": false} {
			if c.convention != "" && c.convention != convention {
				continue
			}
			t.Run(convention+"/"+name, func(t *testing.T) {
				folder := stackstest.Write(t, staged)
				for _, e := range c.edits {
					stackstest.Edit(t, folder, e.file, e.old, e.replacement)
				}
				problems := Folder(folder)
				if len(problems) != len(c.want) {
					t.Errorf("%d problems, want %d", len(problems), len(c.want))
				}
				for i, problem := range problems {
					if i >= len(c.want) || !strings.Contains(problem.Error(), c.want[i]) ||
						!strings.HasPrefix(problem.Error(), folder) {
						t.Errorf("problem %d: %v", i, problem)
					}
				}
			})
		}
	}
}

func TestALinkIsAProblem(t *testing.T) {
	folder := stackstest.Write(t, true)
	if err := os.Symlink("values.yaml", filepath.Join(folder, "cluster-class", "more.yaml")); err != nil {
		t.Fatal(err)
	}
	if problems := Folder(folder); len(problems) != 1 ||
		!strings.Contains(problems[0].Error(), "cluster-class/more.yaml must be a file") {
		t.Errorf("problems %v", problems)
	}
}

// TestACopyForANewMinor: the places that say the old minor are listed, of each older sibling.
func TestACopyForANewMinor(t *testing.T) {
	folder := stackstest.Write(t, true)
	next := filepath.Join(filepath.Dir(folder), "1-28")
	if err := os.CopyFS(next, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, problem := range Folder(next) {
		all = append(all, strings.TrimPrefix(problem.Error(), next+"/"))
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"csctl.yaml: config: ",
		"csctl.yaml:3: v1.27 is of an older minor than 1.28", "metadata.yaml:4: v1.27 is of an older minor than 1.28",
		"cluster-class/Chart.yaml:2: 1-27 is of an older minor than 1.28"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if problems := Folder(folder); len(problems) != 0 {
		t.Errorf("the older folder: %v", problems)
	}
}

// TestTheStacksOfTheProject: what the repository has is valid.
func TestTheStacksOfTheProject(t *testing.T) {
	folders, err := source.Find("..")
	if err != nil || len(folders) < 2 {
		t.Fatalf("folders %v, error %v", folders, err)
	}
	for _, folder := range folders {
		for _, problem := range Folder(folder) {
			t.Error(problem)
		}
	}
}
