package oracles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// cloudInitPackages are those of Debian that the reader of user data imports. They are unpacked
// into the cache and not installed.
func cloudInitPackages() []string {
	return []string{"cloud-init", "python3-certifi", "python3-chardet", "python3-charset-normalizer",
		"python3-configobj", "python3-idna", "python3-requests", "python3-six", "python3-urllib3", "python3-yaml"}
}

// cloudInit returns the folder of cloud-init's packages. apt keeps its lists in a folder of the
// test, so that the machine stays as it is.
func cloudInit(t *testing.T) string {
	t.Helper()
	folder := cached(t, "cloud-init", func(folder string) error {
		work := t.TempDir()
		apt := []string{"-qq", "-o", "Dir::State::Lists=" + work, "-o", "Dir::Cache=" + work, "-o", "APT::Sandbox::User=root"}
		if _, err := run(exec.Command("apt-get", append(apt, "update")...)); err != nil {
			return err
		}
		download := exec.Command("apt-get", append(append(apt, "download"), cloudInitPackages()...)...)
		download.Dir = work
		if _, err := run(download); err != nil {
			return err
		}
		packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
		if err != nil || len(packages) != len(cloudInitPackages()) {
			return errors.Join(err, fmt.Errorf("apt-get downloaded %q", packages))
		}
		for _, path := range packages {
			if _, err := run(exec.Command("dpkg-deb", "--extract", path, folder)); err != nil {
				return err
			}
		}
		return nil
	})
	return filepath.Join(folder, "usr", "lib", "python3", "dist-packages")
}

// delivered is a part as cloud-init hands it to a handler.
type delivered struct {
	Type string
	Body string
}

// deliver reads user data by cloud-init, without any other package of the machine.
func deliver(t *testing.T, userData string) []delivered {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatalf("NOT RUN: cloud-init: %v", err)
	}
	cmd := exec.Command("python3", "-I", "-S", "-B", "testdata/cloudinit/read.py", cloudInit(t))
	cmd.Stdin = strings.NewReader(userData)
	out, err := run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var parts []delivered
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var part struct {
			Type string
			Body []byte
		}
		if err := decoder.Decode(&part); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, delivered{part.Type, string(part.Body)})
	}
	return parts
}

const typeNodeConfig = "application/node.eks.aws"

// ownScript is how a script of Stratos begins.
const ownScript = "#!/bin/sh\n# Written by Stratos.\n"

// userParts are the parts of the user in their order, with the types that cloud-init sees. A user's
// text that is no MIME is one part with all bytes of it.
func userParts(t *testing.T, g golden) []delivered {
	t.Helper()
	switch first, _, _ := strings.Cut(g.user, "\n"); {
	case g.user == "":
		return nil
	case first == "#cloud-config":
		return []delivered{{"text/cloud-config", g.user}}
	case first == "#cloud-boothook":
		return []delivered{{"text/cloud-boothook", g.user}}
	case strings.HasPrefix(first, "#!"):
		return []delivered{{"text/x-shellscript", g.user}}
	}
	switch g.name {
	case "mime":
		config := delivered{typeNodeConfig, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n" +
			"    config:\n      shutdownGracePeriod: 30s"}
		parts := []delivered{
			{"text/x-shellscript", "#!/bin/bash\necho first\n"}, config,
			{"text/cloud-config", "#cloud-config\npackages: [tcpdump]\n"},
			{"text/cloud-boothook", "#cloud-boothook\necho a part without a type"},
		}
		if !strings.Contains(g.user, typeNodeConfig) { // that of the family Kubeadm has none
			parts = slices.Delete(parts, 1, 2)
		}
		return parts
	case "encoded":
		return []delivered{
			{"text/cloud-config", "#cloud-config\npackages: [strace]\n"},
			{"text/x-shellscript", "#!/bin/sh\necho 'Grüße = świat'\n"},
			{"text/cloud-boothook", "#cloud-boothook\n#!/bin/sh\necho first\n"},
		}
	case "nodeconfig":
		return []delivered{{typeNodeConfig, g.user}}
	case "nodeconfigs":
		first, second, _ := strings.Cut(g.user, "---\n")
		return []delivered{{typeNodeConfig, first}, {typeNodeConfig, "---\n" + second}}
	}
	t.Fatalf("it is not known what cloud-init shall make of the parts of %s", g.name)
	return nil
}

func TestCloudInitDeliversEachByteOfTheUserInOrder(t *testing.T) {
	for _, g := range goldens(t, "al2023") {
		t.Run(g.name, func(t *testing.T) {
			parts := deliver(t, g.text)
			last := len(parts) - 1
			if last < 1 || parts[0].Type != "text/x-shellscript" || !strings.HasPrefix(parts[0].Body, ownScript) {
				t.Fatalf("the script of Stratos is not the first part: %q", parts)
			}
			if parts[last].Type != typeNodeConfig ||
				!strings.HasPrefix(parts[last].Body, "# Written by Stratos.\n") {
				t.Fatalf("the NodeConfig of Stratos is not the last part: %q", parts)
			}
			if diff := cmp.Diff(userParts(t, g), parts[1:last], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the user's parts (-want +got):\n%s", diff)
			}
		})
	}
}
