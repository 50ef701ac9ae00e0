package subcommand

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/stacks/render"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// TestStackRender: a stack, the same packed, and its release give the same objects, stage by stage.
func TestStackRender(t *testing.T) {
	stackstest.Helm(t)
	folder, out := stackstest.Write(t, true), t.TempDir()
	if _, err := runStack("pack", "-o", out+"/packed", folder); err != nil {
		t.Fatal(err)
	}
	if _, err := runStack("create", "-o", out, folder); err != nil {
		t.Fatal(err)
	}
	cluster := filepath.Join(out, "cluster.yaml")
	stackstest.Edit(t, out, "cluster.yaml", "", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: one}\n"+
		"spec: {controlPlaneEndpoint: {host: h}, topology: {classRef: {name: docker-ferrol-1-27-v1}, version: v1.27.3}}\n")
	temporary := regexp.MustCompile(`/\S*/unpacked/`)
	run := func(want string, words ...string) {
		t.Helper()
		printed, err := runStack(words...)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		if diff := cmp.Diff(want, temporary.ReplaceAllString(printed, "")); diff != "" {
			t.Errorf("%q: %s", words, diff)
		}
	}
	const call = "template --include-crds --kube-version v1.27.3 cluster-addon "
	const sets = `# Stage sets: apply
# Must be true after it: set.metadata.name == "sets"
#   set is v1 ConfigMap kube-system/sets
` + call + "sets --namespace kube-system\n"
	for _, from := range []string{folder, out + "/packed", out + "/docker-ferrol-1-27-v1"} {
		run("template docker-ferrol-1-27 docker-ferrol-1-27-cluster-class --namespace teams\n", "render", "class", "-n", "teams", from)
		run("# Stage cni: apply\n"+call+"cni --namespace kube-system -f -\nhost: \"h\"\n"+sets,
			"render", "addons", "-f", cluster, from)
		run(sets, "render", "addons", "-f", cluster, "--stage", "sets", from)
	}
	for want, words := range map[string][]string{
		`stage "none" must be one of cni, sets`:                 {"addons", "-f", cluster, "--stage", "none", folder},
		`required flag(s) "filename" not set`:                   {"addons", folder},
		"-f: open " + out + "/none: no such file":               {"addons", "-f", out + "/none", folder},
		"an object of the kind Cluster":                         {"addons", "-f", folder + "/csctl.yaml", folder},
		out + ": must be a release, or a stack with csctl.yaml": {"class", out},
	} {
		if _, err := runStack(append([]string{"render"}, words...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", words, err, want)
		}
	}
	t.Setenv("PATH", out)
	if _, err := runStack("render", "class", folder); err == nil || !strings.Contains(err.Error(), "helm must be on PATH") {
		t.Errorf("without helm: error %v", err)
	}
}

// TestStackManifestsCluster: the variables are those of the ClusterClass that helm renders.
func TestStackManifestsCluster(t *testing.T) {
	stackstest.Program(t, "helm", `cat <<END
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: c
spec:
  variables:
  - {name: imageOwner, required: true, schema: {openAPIV3Schema: {type: string}}}
  - {name: region, required: true, schema: {openAPIV3Schema: {type: string, default: eu-central-1}}}
END
`)
	folder := stackstest.Write(t, true)
	out, err := runStack("manifests", "cluster", "--name", "one", "-n", "teams", "--variable",
		"imageOwner=123456789012", folder)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render.ParseObjects([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"imageOwner": "123456789012", "region": "eu-central-1"}
	if diff := cmp.Diff(want, objects.Variables()); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{"metadata name": "one", "metadata namespace": "teams",
		"spec topology version": "v1.27.3", "spec topology classRef name": "docker-ferrol-1-27-v1"} {
		if got := objects.Field(strings.Fields(path)...); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if out, err := runStack("manifests", "clusterstack", "-n", "teams", folder); err != nil ||
		!strings.Contains(out, "kind: ClusterStack\nmetadata:\n  name: docker-ferrol-1-27\n  namespace: teams\n") {
		t.Errorf("printed %s, error %v", out, err)
	}
	for want, words := range map[string][]string{
		"variable imageOwner must be set": {folder},
		"2 must be odd":                   {"--variable", "imageOwner=1", "--control-plane-replicas", "2", folder},
		"must be a release, or a stack":   {"--variable", "imageOwner=1", t.TempDir()},
	} {
		words = append([]string{"manifests", "cluster", "--name", "one"}, words...)
		if _, err := runStack(words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", words, err, want)
		}
	}
}

// TestStackManifestsPool: class and pool of a Cluster, which admission accepts.
func TestStackManifestsPool(t *testing.T) {
	out := t.TempDir()
	const cluster = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one}
spec:
  topology:
    variables:
    - {name: region, value: eu-west-1}
    - {name: imageOwner, value: "123456789012"}
    - {name: nodeInstanceProfile, value: nodes.cluster-api-provider-aws.sigs.k8s.io}
    - {name: workerRootVolumeSize, value: 40}
    - {name: workerInstanceType, value: m6g.large}
`
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: one, user: b}}]\n" +
		"users: [{name: b}]\nclusters: [{name: one, cluster: {server: '" + simcloud.ClusterEndpoint +
		"', certificate-authority-data: " + simcloud.ClusterCA() + "}}]\n"
	stackstest.Edit(t, out, "cluster.yaml", "", cluster)
	stackstest.Edit(t, out, "kubeconfig", "", kubeconfig)
	stackstest.Edit(t, out, "other.yaml", "", strings.Replace(cluster, "name: region", "name: zone", 1))
	stackstest.Edit(t, out, "http", "", strings.Replace(kubeconfig, "https://", "http://", 1))
	run := func(words ...string) (string, error) {
		return runStack(append([]string{"manifests", "pool", "-f", out + "/cluster.yaml", "--kubeconfig",
			out + "/kubeconfig"}, words...)...)
	}
	text, err := run()
	if err != nil {
		t.Fatal(err)
	}
	found, err := objectsOfFile(strings.NewReader(text))
	if err != nil || len(found.classes) != 1 || len(found.pools) != 1 {
		t.Fatalf("%d classes and %d pools, error %v", len(found.classes), len(found.pools), err)
	}
	const tag = "sigs.k8s.io/cluster-api-provider-aws/"
	ofRole := func(role v1alpha1.TagValue) v1alpha1.SelectorTerm {
		return v1alpha1.SelectorTerm{Tags: map[string]v1alpha1.TagValue{tag + "cluster/one": "owned", tag + "role": role}}
	}
	got := found.classes[0].Spec
	want := v1alpha1.AWSNodeClassSpec{Region: "eu-west-1", InstanceType: "m6g.large",
		NodeImage:             &v1alpha1.NodeImage{FromCluster: true, Owner: "123456789012"},
		SubnetSelector:        []v1alpha1.SelectorTerm{ofRole("private")},
		SecurityGroupSelector: []v1alpha1.SelectorTerm{ofRole("node"), ofRole("lb")},
		IAMInstanceProfile:    "nodes.cluster-api-provider-aws.sigs.k8s.io",
		BlockDeviceMappings:   got.BlockDeviceMappings, MetadataOptions: got.MetadataOptions,
		Bootstrap: &v1alpha1.Bootstrap{Family: v1alpha1.FamilyKubeadm, Cluster: v1alpha1.BootstrapCluster{
			Endpoint: simcloud.ClusterEndpoint, CertificateAuthority: simcloud.ClusterCA()}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if ref := found.pools[0].Spec.Template.NodeClassRef; ref.Name != "workers" || ref.Kind != v1alpha1.KindAWSNodeClass {
		t.Errorf("the pool refers to %+v", ref)
	}
	for want, words := range map[string][]string{
		"spec.topology.variables of the Cluster one must have region": {"-f", out + "/other.yaml"},
		"--kubeconfig: ":                             {"--kubeconfig", out + "/none"},
		"spec.bootstrap.cluster.endpoint":            {"--kubeconfig", out + "/http"},
		"--min-standby 6 must be 0 to --pool-size 5": {"--min-standby", "6"},
	} {
		if _, err := run(words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", words, err, want)
		}
	}
}
