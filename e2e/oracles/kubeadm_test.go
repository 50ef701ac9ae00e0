package oracles

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// TestKubeadmFilesAreValid runs the script of the first part, and lets others read what it writes.
func TestKubeadmFilesAreValid(t *testing.T) {
	kubeadm := filepath.Join(nodePrograms(t), "kubeadm")
	for _, g := range goldens(t, "kubeadm") {
		t.Run(g.name, func(t *testing.T) {
			parts := deliver(t, g.text)
			if len(parts) == 0 || parts[0].Type != "text/x-shellscript" {
				t.Fatalf("the first part is not the script of Stratos: %q", parts)
			}
			if diff := cmp.Diff(userParts(t, g), parts[1:], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the user's parts (-want +got):\n%s", diff)
			}
			root := t.TempDir()
			writeFiles(t, parts[0].Body, root)
			checkDiscovery(t, filepath.Join(root, "etc", "stratos", "cluster.conf"))
			checkJoin(t, kubeadm, root)
			checkUnit(t, root)
			if _, err := run(exec.Command("sh", "-n", filepath.Join(root, "usr", "local", "sbin", "stratos-join"))); err != nil {
				t.Error(err)
			}
		})
	}
}

// nodePrograms returns the folder with the kubeadm that e2e/controlplane pins.
func nodePrograms(t *testing.T) string {
	t.Helper()
	build := exec.Command("go", "run", "./cmd/controlplane", "build", "-node")
	build.Dir = "../controlplane"
	out, err := run(build)
	if err != nil {
		t.Fatalf("NOT RUN: kubeadm: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// writeFiles runs the script as cloud-init does, but that its files go below the root and systemctl
// does nothing.
func writeFiles(t *testing.T, script, root string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(script, "\nwrite /etc/stratos/join.yaml ") {
		t.Fatalf("the script writes its files in another way:\n%s", script)
	}
	cmd := exec.Command("sh", "-s")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(script, "\nwrite /", "\nwrite "+root+"/"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if _, err := run(cmd); err != nil {
		t.Fatal(err)
	}
}

func checkDiscovery(t *testing.T, path string) {
	t.Helper()
	var config clientcmdv1.Config
	if err := yaml.UnmarshalStrict([]byte(readFile(t, path)), &config); err != nil {
		t.Fatal(err)
	}
	certificates, err := base64.StdEncoding.DecodeString(ca)
	if err != nil {
		t.Fatal(err)
	}
	cluster := clientcmdv1.Cluster{Server: endpoint, CertificateAuthorityData: certificates}
	want := []clientcmdv1.NamedCluster{{Cluster: cluster}}
	if diff := cmp.Diff(want, config.Clusters); diff != "" {
		t.Errorf("the discovery file's clusters (-want +got):\n%s", diff)
	}
}

// checkJoin lets kubeadm validate the file with the node's name in it. kubeadm decodes strictly,
// and wants the discovery file to be there.
func checkJoin(t *testing.T, kubeadm, root string) {
	t.Helper()
	path := filepath.Join(root, "etc", "stratos", "join.yaml")
	text := strings.NewReplacer("/etc/stratos/", root+"/etc/stratos/", "@NAME@", "ip-10-0-0-7.ec2.internal",
		"@PROVIDER_ID@", "aws:///eu-west-1a/i-0123456789abcdef0").Replace(readFile(t, path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(exec.Command(kubeadm, "config", "validate", "--config", path)); err != nil {
		t.Errorf("%v of\n%s", err, text)
	}
}

// checkUnit wants no word of systemd-analyze about the unit and its drop-ins. It only warns of
// unknown settings, and also of other units of the machine.
func checkUnit(t *testing.T, root string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Fatalf("NOT RUN: systemd-analyze: %v", err)
	}
	folder := t.TempDir()
	for _, from := range []string{"etc/systemd/system", "run/systemd/system"} {
		if err := os.CopyFS(folder, os.DirFS(filepath.Join(root, from))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, "stratos-join.service")
	unit := strings.ReplaceAll(readFile(t, path), "ExecStart=/", "ExecStart="+root+"/")
	if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), "stratos-join") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
