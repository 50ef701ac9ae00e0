package nodeimage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/source"
)

// image is the folder node-image of a stack.
type image struct {
	// name is that of the stack's folder.
	name, folder string
	kubernetes   string
	programs     []program
}

// program is a line of programs.txt for the architecture of these tests.
type program struct{ name, version, address string }

const architecture = "amd64"

func images(t *testing.T) []image {
	t.Helper()
	folders, err := source.Find("../../../stacks")
	if err != nil {
		t.Fatal(err)
	}
	var all []image
	for _, folder := range folders {
		s, err := source.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		i := image{name: filepath.Base(folder), kubernetes: s.Config.Config.KubernetesVersion}
		if i.folder, err = filepath.Abs(filepath.Join(folder, format.NodeImageFolder)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(readFile(t, filepath.Join(i.folder, "programs.txt"))) {
			if words := strings.Fields(line); len(words) == 5 && words[2] == architecture {
				i.programs = append(i.programs, program{words[0], words[1], words[4]})
			}
		}
		all = append(all, i)
	}
	return all
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run returns the standard output. The error has the standard error.
func run(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", strings.Join(cmd.Args, " "), err, out, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// cached returns a folder in the cache that `make oracles` uses too. fill makes what is in it where
// it is missing, and the folder appears whole. A test without it fails and says that it was not
// run.
func cached(t *testing.T, name string, fill func(folder string) error) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(base, "stratos", "oracles", name)
	if _, err := os.Stat(target); err == nil {
		return target
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(target), "making-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	if err := errors.Join(os.Chmod(work, 0o755), fill(work)); err != nil {
		t.Fatalf("NOT RUN: %s: %v", name, err)
	}
	if err := os.Rename(work, target); err != nil {
		if _, there := os.Stat(target); there != nil { // another process may be first
			t.Fatal(err)
		}
	}
	return target
}

// debianPackages are unpacked and not installed.
func debianPackages() []string { return []string{"packer", "shellcheck", "mmdebstrap"} }

// tool returns the path of a program of Debian's packages. apt keeps its lists in a folder of the
// test, so that the machine stays as it is.
func tool(t *testing.T, name string) string {
	t.Helper()
	folder := cached(t, "nodeimage-tools", func(folder string) error {
		work := t.TempDir()
		apt := []string{"-qq", "-o", "Dir::State::Lists=" + work, "-o", "Dir::Cache=" + work, "-o", "APT::Sandbox::User=root"}
		if _, err := run(exec.Command("apt-get", append(apt, "update")...)); err != nil {
			return err
		}
		download := exec.Command("apt-get", append(append(apt, "download"), debianPackages()...)...)
		download.Dir = work
		if _, err := run(download); err != nil {
			return err
		}
		packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
		if err != nil || len(packages) != len(debianPackages()) {
			return errors.Join(err, fmt.Errorf("apt-get downloaded %q", packages))
		}
		for _, path := range packages {
			if _, err := run(exec.Command("dpkg-deb", "--extract", path, folder)); err != nil {
				return err
			}
		}
		return nil
	})
	return filepath.Join(folder, "usr", "bin", name)
}

// distribution is a base of the node image.
type distribution struct {
	suite, mirror, components string
}

func distributions() map[string]distribution {
	return map[string]distribution{
		"debian-12":    {"bookworm", "http://deb.debian.org/debian", "main"},
		"ubuntu-24.04": {"noble", "http://archive.ubuntu.com/ubuntu", "main,universe"},
	}
}

// The keys of Ubuntu's archive, which Debian has no package of. The checksum is of the package that
// has the key F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C.
const (
	keyringAddress  = "http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
	keyringChecksum = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
)

func ubuntuKeyring(t *testing.T) string {
	t.Helper()
	folder := cached(t, "nodeimage-ubuntu-keyring", func(folder string) error {
		response, err := http.Get(keyringAddress)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(data)); sum != keyringChecksum {
			return fmt.Errorf("%s has the checksum %s", keyringAddress, sum)
		}
		deb := filepath.Join(t.TempDir(), "keyring.deb")
		if err := os.WriteFile(deb, data, 0o600); err != nil {
			return err
		}
		_, err = run(exec.Command("dpkg-deb", "--extract", deb, folder))
		return err
	})
	return filepath.Join(folder, "usr", "share", "keyrings", "ubuntu-archive-keyring.gpg")
}

var packagesLine = regexp.MustCompile(`(?m)^\tpackages="([a-z0-9 -]+)"$`)

// newRoot returns a new root folder of the distribution, with the packages that install.sh wants,
// because it runs without network, and with those of a machine that write what clean.sh removes.
func newRoot(t *testing.T, base string, i image) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("NOT RUN: the scripts need another root folder, which only root can give them")
	}
	found := packagesLine.FindStringSubmatch(readFile(t, filepath.Join(i.folder, "install.sh")))
	if found == nil {
		t.Fatal("install.sh names its packages in another way")
	}
	packages := strings.Join(append(strings.Fields(found[1]), "systemd-sysv", "dbus", "openssh-server", "cloud-init"), ",")
	name := fmt.Sprintf("nodeimage-root-%s-%.4x", base, sha256.Sum256([]byte(packages)))
	archive := filepath.Join(cached(t, name, func(folder string) error {
		d := distributions()[base]
		args := []string{"--mode=root", "--variant=minbase", "--quiet", "--include=" + packages,
			"--components=" + d.components}
		if d.suite == "noble" {
			// Else apt reads it as a user to whom the cache may be closed.
			args = append(args, "--keyring="+ubuntuKeyring(t), `--aptopt=APT::Sandbox::User "root"`)
		}
		args = append(args, d.suite, filepath.Join(folder, "root.tar"), d.mirror)
		_, err := run(exec.Command(tool(t, "mmdebstrap"), args...))
		return err
	}), "root.tar")
	root := t.TempDir()
	unpack := exec.Command("tar", "--extract", "--preserve-permissions", "--file="+archive, "--directory="+root)
	if _, err := run(unpack); err != nil {
		t.Fatal(err)
	}
	return root
}
