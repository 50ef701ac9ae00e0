package ec2

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/simcloud"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

// stackFolder is the stack for the minor of the control plane, in a copy of stacks/.
const stackFolder = "stacks/providers/aws/stratos/1-37"

// TestStackPool: the scheduler with the configuration of the cluster stack's addon starts a node of
// the pool that `stratos stack manifests` prints. The pool's image is that of the control plane's
// label, its subnets and security groups are found by the tags of Cluster API's provider.
func TestStackPool(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "tls.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("key of the tokens ", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := assert.NewRig(t, framework.Options{NoScheduler: true,
		ControlPlane: controlplane.Options{APIServerArgs: []string{"--enable-bootstrap-token-auth=true"}},
		Provider:     framework.ProviderAWS, Cloud: assert.FastCloud(),
		Stratos: []string{"--bootstrap-token-key-file=" + key},
	})
	run := stackCommand(t, r)
	folder := filepath.Join(stackstest.CopyWithSmallCharts(t, "../../.."), stackFolder)
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	text := run("manifests", "cluster", "--name=e2e", "--variable=imageOwner=123456789012",
		"--variable=region=us-east-1", "--variable=workerInstanceType=m5.large", folder)
	if err := os.WriteFile(cluster, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config := addonSchedulerConfig(t, run("render", "addons", "--filename="+cluster, "--stage=stratos", folder))
	checkOneExtender(t, config)
	startAddonScheduler(t, r, config)

	node := assert.Ordinary("control-plane", 2, corev1.Taint{Key: v1alpha1.LabelControlPlane, Effect: corev1.TaintEffectNoSchedule})
	node.Labels[v1alpha1.LabelControlPlane], node.Labels[v1alpha1.LabelNodeImage] = "", "ubuntu-24.04-1.37.2-v1"
	assert.Join(t, r, node)
	pool := objectsOf(t, run("manifests", "pool", "--filename="+cluster, "--kubeconfig="+joiners(t), "--name=workers"))
	assert.Create(t, r, assert.Objects(pool)...)
	assert.AwaitAllStandby(t, r, "workers", 2)
	for id, view := range assert.PoolInstances(t, r, "workers") {
		if got := view.Tags["stratos.sh/ami"]; got != "ami-0123456789abcdfa4" {
			t.Errorf("instance %s has the image %s", id, got)
		}
	}
	pod := framework.Pod("served", "cpu", "1")
	served := assert.Serve(t, r, pod)
	if started := r.Recorder.Starting(pod.UID); !slices.Equal(started, []string{served}) {
		t.Errorf("the scheduler was told that %q start for the pod, which runs on %s", started, served)
	}
	if assert.PoolNodes(t, r, "workers")[served] == nil {
		t.Errorf("the pod runs on %s, which is no node of the pool", served)
	}
}

// withHelm is the environment in which helm is that of the module e2e/helm.
func withHelm(t *testing.T) []string {
	t.Helper()
	find := exec.CommandContext(t.Context(), "go", "tool", "-n", "helm.sh/helm/v4/cmd/helm")
	find.Dir = "../../helm"
	found, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(strings.TrimSpace(string(found)), filepath.Join(bin, "helm")); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// stackCommand runs `stratos stack` and returns what it prints.
func stackCommand(t *testing.T, r *framework.Rig) func(words ...string) []byte {
	t.Helper()
	env := withHelm(t)
	return func(words ...string) []byte {
		t.Helper()
		var complaints bytes.Buffer
		cmd := r.Command(t.Context(), append([]string{"stack"}, words...)...)
		cmd.Env, cmd.Stderr = env, &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("stratos stack %q: %v\n%s", words, err, complaints.String())
		}
		return out
	}
}

func objectsOf(t *testing.T, manifest []byte) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+string(manifest), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			found = append(found, o)
		}
	}
	return found
}

// addonSchedulerConfig is the only scheduler configuration among the objects of the addon.
func addonSchedulerConfig(t *testing.T, manifest []byte) []byte {
	t.Helper()
	var found []string
	for _, o := range objectsOf(t, manifest) {
		if text, is, _ := unstructured.NestedString(o.Object, "data", "scheduler.yaml"); is {
			found = append(found, text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d scheduler configurations", len(found))
	}
	return []byte(found[0])
}

// checkOneExtender: there is one extender, which the scheduler asks over loopback.
func checkOneExtender(t *testing.T, config []byte) {
	t.Helper()
	decoded := schedulerv1.KubeSchedulerConfiguration{}
	if err := yaml.UnmarshalStrict(config, &decoded); err != nil {
		t.Fatal(err)
	}
	if all := decoded.Extenders; len(all) != 1 || all[0].URLPrefix != addonExtender || all[0].Ignorable {
		t.Errorf("extenders %+v", all)
	}
	if len(decoded.Profiles) != 1 || *decoded.Profiles[0].SchedulerName != v1alpha1.SchedulerName {
		t.Errorf("profiles %+v", decoded.Profiles)
	}
}

// addonExtender is where the scheduler's container asks the extender of its own pod.
const addonExtender = "http://127.0.0.1:9444"

// startAddonScheduler starts kube-scheduler with the configuration as it is, but for what its pod
// would give it: the credentials, the lease, and the port of the extender.
func startAddonScheduler(t *testing.T, r *framework.Rig, config []byte) {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal(config, &fields); err != nil {
		t.Fatal(err)
	}
	fields["leaderElection"] = map[string]any{"leaderElect": false}
	fields["clientConnection"].(map[string]any)["kubeconfig"] = controlplane.KubeconfigPlaceholder
	local, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	local = bytes.ReplaceAll(local, []byte(addonExtender), []byte(r.ExtenderURL()))
	if _, err := r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: "addon-scheduler",
		ConfigYAML: local}); err != nil {
		t.Fatal(err)
	}
}

// joiners is a kubeconfig of the cluster that the played machines join.
func joiners(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "e2e"
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e"}
	ca, err := base64.StdEncoding.DecodeString(simcloud.ClusterCA())
	if err != nil {
		t.Fatal(err)
	}
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: simcloud.ClusterEndpoint, CertificateAuthorityData: ca}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
