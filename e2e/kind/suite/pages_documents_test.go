package suite

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// foreignFields are the fields that the pages use in documents of programs that cannot run here, by
// those programs' own documentation. A field that is no text has its type behind a colon.
func foreignFields() map[string]string {
	return map[string]string{
		"eksctl.io/v1alpha5 ClusterConfig": `metadata.name metadata.region metadata.version
			accessConfig.authenticationMode addons.name
			managedNodeGroups.name managedNodeGroups.instanceType managedNodeGroups.desiredCapacity:float64`,
		"kind.x-k8s.io/v1alpha4 Cluster": `networking.serviceSubnet nodes.role nodes.image
			nodes.extraMounts.hostPath nodes.extraMounts.containerPath nodes.extraMounts.readOnly:bool`,
		"controlplane.cluster.x-k8s.io/v1beta1 KubeadmControlPlane": `metadata.name
			spec.kubeadmConfigSpec.files.path spec.kubeadmConfigSpec.files.owner
			spec.kubeadmConfigSpec.files.permissions spec.kubeadmConfigSpec.files.contentFrom.secret.name
			spec.kubeadmConfigSpec.files.contentFrom.secret.key spec.kubeadmConfigSpec.postKubeadmCommands`,
	}
}

// checkFields wants a document to have exactly the fields of its kind.
func checkFields(text string) error {
	document := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &document); err != nil {
		return fmt.Errorf("%w in\n%s", err, text)
	}
	kind := fmt.Sprintf("%v %v", document["apiVersion"], document["kind"])
	found := map[string]bool{}
	fields(document, "", found)
	want := strings.Fields(foreignFields()[kind] + " apiVersion kind")
	slices.Sort(want)
	if difference := cmp.Diff(want, slices.Sorted(maps.Keys(found))); difference != "" {
		return fmt.Errorf("the fields of %s (-want +got):\n%s", kind, difference)
	}
	return nil
}

// fields collects the paths of the values, without the indices of lists.
func fields(value any, path string, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, under := range v {
			fields(under, strings.TrimPrefix(path+"."+name, "."), into)
		}
	case []any:
		for _, entry := range v {
			fields(entry, path, into)
		}
	case string:
		into[path] = true
	default:
		into[fmt.Sprintf("%s:%T", path, value)] = true
	}
}

var separator = regexp.MustCompile(`(?m)^---\n`)

// checkRead checks what a page left behind and the cluster could not see: policies, and files of
// programs that cannot run.
func checkRead(folder string) error {
	var errs []error
	for pattern, check := range map[string]func(string) error{
		"home/cluster.yaml": checkFields, "home/kind.yaml": checkFields, // of eksctl and kind
		"home/*.json": checkPolicy,
	} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, document := range separator.Split(string(text), -1) {
				errs = append(errs, check(document))
			}
		}
	}
	return errors.Join(errs...)
}

// checkBlock checks a block that is not run.
func (r *reader) checkBlock(t *testing.T, b block) error {
	t.Helper()
	switch {
	case b.language == "sh":
		return nil
	case b.language != "yaml":
		return fmt.Errorf("a block in %q is neither run nor checked: use sh or yaml", b.language)
	case strings.Contains(b.text, "\nkind: KubeSchedulerConfiguration\n"):
		printed := cluster.MustDocker(t, "exec", r.node, "cat", "/etc/kubernetes/stratos/scheduler.yaml")
		if printed != strings.TrimSpace(b.text) {
			return fmt.Errorf("stratos scheduler-config has printed another configuration:\n%s", printed)
		}
		return nil
	case strings.Contains(b.text, "\nkind: KubeadmControlPlane\n"):
		return errors.Join(checkFields(b.text), r.checkMachineFiles(t, b.text))
	case strings.HasPrefix(b.text, "\ncontainers:"):
		b.text = "apiVersion: v1\nkind: Pod\nmetadata: {name: part}\nspec:" + strings.ReplaceAll(b.text, "\n", "\n  ")
	}
	file := filepath.Join(t.TempDir(), "block.yaml")
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		return err
	}
	if out, err := kubectl(t.Context(), "apply", "--dry-run=server", "--warnings-as-errors", "-f", file); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// checkMachineFiles wants each file to come from its key of the Secret that the page made.
func (r *reader) checkMachineFiles(t *testing.T, text string) error {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: "default", Name: "my-cluster-stratos-scheduler"}
	if err := r.l.Client.Get(t.Context(), key, secret); err != nil {
		return err
	}
	for file := range secret.Data {
		from := fmt.Sprintf("contentFrom: {secret: {name: %s, key: %s}}", key.Name, file)
		if !regexp.MustCompile("path: /etc/kubernetes/stratos/" + regexp.QuoteMeta(file) + ",.* " + from).MatchString(text) {
			return fmt.Errorf("no file %s from %s", file, from)
		}
	}
	if files := strings.Count(text, "contentFrom:"); files != len(secret.Data) {
		return fmt.Errorf("%d files, want one for each of the %d keys", files, len(secret.Data))
	}
	return nil
}
