package nodeimage

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is a root folder in which the scripts lie at /node-image.
type machine struct {
	root string
	image
	checksums map[string]string
}

func newMachine(t *testing.T, base string, i image) machine {
	t.Helper()
	m := machine{root: newRoot(t, base, i), image: i}
	if err := os.CopyFS(filepath.Join(m.root, "node-image"), os.DirFS(i.folder)); err != nil {
		t.Fatal(err)
	}
	var folder string
	folder, m.checksums = mirror(t, i)
	if err := os.CopyFS(filepath.Join(m.root, "mirror"), os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return m
}

// setChecksums writes the checksums of the mirror into programs.txt, and another one for a program.
func (m machine) setChecksums(t *testing.T, wrong string) {
	t.Helper()
	var text strings.Builder
	for _, p := range m.programs {
		sum := m.checksums[p.name]
		if p.name == wrong {
			sum = strings.Repeat("0", len(sum))
		}
		fmt.Fprintf(&text, "%s %s %s %s %s\n", p.name, p.version, architecture, sum, p.address)
	}
	m.write(t, "/node-image/programs.txt", text.String(), 0o644)
}

func (m machine) write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

const folderMirror = "NODE_IMAGE_MIRROR=/mirror"

// run runs a command in the root folder, without network.
func (m machine) run(env []string, args ...string) (string, error) {
	return run(m.command("--net", env, args...))
}

// command runs in a namespace of its own for mounts, because kubeadm reads /proc, and in the others
// that the flags of unshare say.
func (m machine) command(flags string, env []string, args ...string) *exec.Cmd {
	const script = `mount -t proc proc "$0/proc" && exec chroot "$0" env -i "$@"`
	all := []string{"--mount", "sh", "-c", script, m.root, "PATH=/stand-ins:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return exec.Command("unshare", slices.Concat(strings.Fields(flags), all, env, args)...)
}

// entry is a file of the tree but for its times.
type entry struct {
	Mode     fs.FileMode
	UID, GID uint32
	Checksum string
}

// tree returns all files below the root folder.
func (m machine) tree(t *testing.T) map[string]entry {
	t.Helper()
	all := map[string]entry{}
	err := filepath.WalkDir(m.root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		e := entry{Mode: info.Mode(), UID: owner.Uid, GID: owner.Gid}
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			e.Checksum = fmt.Sprintf("%x", sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			if e.Checksum, err = os.Readlink(file); err != nil {
				return err
			}
		}
		all[strings.TrimPrefix(file, m.root)] = e
		return nil
	})
	if err != nil || len(all) < 1000 {
		t.Fatalf("the tree has %d files, error %v", len(all), err)
	}
	return all
}

// installed are the files of each program.
func installed() map[string][]string {
	return map[string][]string{
		"runc": {"/usr/local/bin/runc"}, "kubelet": {"/usr/local/bin/kubelet"}, "kubeadm": {"/usr/local/bin/kubeadm"},
		"ecr-credential-provider": {"/usr/local/bin/ecr-credential-provider"},
		"containerd":              {"/usr/local/bin/containerd", "/usr/local/bin/containerd-shim-runc-v2", "/usr/local/bin/ctr"},
		"cni-plugins":             {"/opt/cni/bin/loopback", "/opt/cni/bin/host-local", "/opt/cni/bin/portmap", "/opt/cni/bin/bandwidth"},
		"aws-cli":                 {"/usr/local/bin/aws", "/usr/local/aws-cli"},
	}
}

// TestScripts runs the scripts of each stack in a root folder of each distribution, in the order of
// a build.
func TestScripts(t *testing.T) {
	for _, i := range images(t) {
		for base := range distributions() {
			t.Run(i.name+"/"+base, func(t *testing.T) {
				m := newMachine(t, base, i)
				m.refusesAnUnknownChecksum(t)
				m.refusesAWrongChecksum(t)
				m.setChecksums(t, "")
				if out, err := m.run([]string{folderMirror}, "sh", "/node-image/install.sh"); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				m.hasVersions(t)
				m.hasUnits(t)
				m.hasSettings(t)
				m.installsNothingTwice(t)
				m.pulls(t)
				m.cleans(t)
			})
		}
	}
}

// refusesAnUnknownChecksum: with programs.txt of the tree nothing is installed.
func (m machine) refusesAnUnknownChecksum(t *testing.T) {
	t.Helper()
	before := m.tree(t)
	_, err := m.run([]string{folderMirror}, "sh", "/node-image/install.sh")
	if err == nil || !strings.Contains(err.Error(), `for amd64 is "-" and must be the SHA-256 of https://`) {
		t.Errorf("a checksum is unknown: error %v", err)
	}
	if diff := cmp.Diff(before, m.tree(t)); diff != "" {
		t.Errorf("a checksum is unknown, and these files changed:\n%s", diff)
	}
}

// refusesAWrongChecksum: each program in turn, of which nothing is installed then.
func (m machine) refusesAWrongChecksum(t *testing.T) {
	t.Helper()
	inOrder := []string{"runc", "kubelet", "kubeadm", "ecr-credential-provider", "containerd", "cni-plugins", "aws-cli"}
	if len(inOrder) != len(m.programs) {
		t.Errorf("programs.txt has %d programs", len(m.programs))
	}
	for _, name := range inOrder {
		m.setChecksums(t, name)
		_, err := m.run([]string{folderMirror}, "sh", "/node-image/install.sh")
		says := fmt.Sprintf("install.sh: %s from https://.* has the checksum %s, and 0{64} in programs.txt", name,
			m.checksums[name])
		if err == nil || !regexp.MustCompile(says).MatchString(err.Error()) {
			t.Errorf("a wrong checksum of %s: error %v", name, err)
		}
		for _, file := range installed()[name] {
			if _, err := os.Lstat(filepath.Join(m.root, file)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a wrong checksum of %s: %s is there, error %v", name, file, err)
			}
		}
	}
}

func (m machine) hasVersions(t *testing.T) {
	t.Helper()
	version := map[string]string{}
	for _, p := range m.programs {
		version[p.name] = strings.TrimPrefix(p.version, "v")
		for _, file := range installed()[p.name] {
			info, err := os.Stat(filepath.Join(m.root, file))
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	for command, want := range map[string]string{
		"kubelet --version": "Kubernetes v" + version["kubelet"], "kubeadm version -o short": "v" + version["kubeadm"],
		"containerd --version": "containerd github.com/containerd/containerd/v2 " + version["containerd"],
		"ctr --version":        "ctr github.com/containerd/containerd/v2 " + version["containerd"],
		"runc --version":       "runc version " + version["runc"], "aws --version": "aws-cli/" + version["aws-cli"],
	} {
		if out, err := m.run(nil, strings.Fields(command)...); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s prints %q, want %s, error %v", command, out, want, err)
		}
	}
}

// hasUnits: systemd of the distribution has no word against them, and starts them at boot.
func (m machine) hasUnits(t *testing.T) {
	t.Helper()
	for unit, want := range map[string]string{"containerd.service": "enabled", "kubelet.service": "enabled",
		"swap.target": "masked", "apt-daily.timer": "masked", "apt-daily-upgrade.timer": "masked"} {
		out, _ := m.run(nil, "sh", "-c", "systemctl is-enabled "+unit+" || true")
		if strings.TrimSpace(out) != want {
			t.Errorf("%s is %q, want %s", unit, out, want)
		}
	}
	for _, unit := range []string{"containerd.service", "kubelet.service"} {
		verify := m.command("--net", nil, "systemd-analyze", "verify", "/etc/systemd/system/"+unit)
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify %s: %v\n%s", unit, err, out)
		}
	}
}

var pauseImage = regexp.MustCompile(`(?m)^ *sandbox = '(registry.k8s.io/pause:[0-9.]+)'$`)

// hasSettings: containerd reads its configuration, and has kubeadm's sandbox image.
func (m machine) hasSettings(t *testing.T) {
	t.Helper()
	dump, err := m.run(nil, "containerd", "config", "dump")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := m.run(nil, "kubeadm", "config", "images", "list", "--kubernetes-version", m.kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	pause := append(pauseImage.FindStringSubmatch(dump), "", "none")[1]
	if !strings.Contains(listed, pause+"\n") {
		t.Errorf("the sandbox image is %s, and the images of kubeadm are\n%s", pause, listed)
	}
	if !strings.Contains(dump, "SystemdCgroup = true") || strings.Contains(dump, "SystemdCgroup = false") {
		t.Errorf("systemd does not own the cgroups:\n%s", dump)
	}
	for file, want := range map[string]string{"/etc/modules-load.d/kubernetes.conf": "\nbr_netfilter\n",
		"/etc/sysctl.d/99-kubernetes.conf": "\nnet.ipv4.ip_forward = 1\n"} {
		if text := readFile(t, filepath.Join(m.root, file)); !strings.Contains(text, want) {
			t.Errorf("%s is\n%s", file, text)
		}
	}
}

// installsNothingTwice: a second run, with the programs from an address, changes no file.
func (m machine) installsNothingTwice(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(http.FileServer(http.Dir(filepath.Join(m.root, "mirror"))))
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	m.write(t, "/authority.pem", string(authority), 0o644)
	m.write(t, "/etc/fstab", "/dev/sda1 / ext4 defaults 0 1\n", 0o644)
	before := m.tree(t)
	env := []string{"NODE_IMAGE_MIRROR=" + server.URL, "CURL_CA_BUNDLE=/authority.pem"}
	if out, err := run(m.command("", env, "sh", "/node-image/install.sh")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(before, m.tree(t)); diff != "" {
		t.Errorf("files that a second run changed:\n%s", diff)
	}
}

// pulls: images of kubeadm and of the addons. Those of ECR need a password, and so a profile.
func (m machine) pulls(t *testing.T) {
	t.Helper()
	m.write(t, "/stand-ins/ctr", "#!/bin/sh\necho \"$*\" >>/pulled\n", 0o755)
	m.write(t, "/stand-ins/aws", "#!/bin/sh\n[ \"$*\" = 'ecr get-login-password --region eu-west-1' ] && echo password\n", 0o755)
	listed, err := m.run(nil, "kubeadm", "config", "images", "list", "--kubernetes-version", m.kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Fields(listed)
	for line := range strings.Lines(readFile(t, filepath.Join(m.folder, "images.txt"))) {
		if !strings.HasPrefix(line, "#") {
			wanted = append(wanted, strings.ReplaceAll(strings.TrimSpace(line), "@REGION@", "eu-west-1"))
		}
	}
	for _, ecr := range []string{"", "yes"} {
		var want []string
		for _, image := range wanted {
			switch fromECR := strings.Contains(image, ".dkr.ecr.eu-west-1."); {
			case !fromECR:
				want = append(want, "--namespace k8s.io images pull "+image)
			case ecr != "":
				want = append(want, "--namespace k8s.io images pull --user AWS:password "+image)
			}
		}
		env := []string{"NODE_IMAGE_REGION=eu-west-1", "NODE_IMAGE_ECR=" + ecr}
		if _, err := m.run(env, "sh", "/node-image/pull.sh"); err != nil {
			t.Fatal(err)
		}
		pulled := filepath.Join(m.root, "pulled")
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(readFile(t, pulled)), "\n")); diff != "" {
			t.Errorf("NODE_IMAGE_ECR=%q: calls of ctr (-want +got):\n%s", ecr, diff)
		}
		if err := os.Remove(pulled); err != nil {
			t.Fatal(err)
		}
	}
}

// cleans: nothing of this machine is left, what was installed is, and a second run changes nothing.
func (m machine) cleans(t *testing.T) {
	t.Helper()
	const secret = "of this machine alone"
	for _, file := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/ssh/ssh_host_ed25519_key",
		"/root/.ssh/authorized_keys", "/home/ubuntu/.ssh/authorized_keys", "/home/admin/.bash_history", "/root/.aws/credentials",
		"/var/lib/cloud/instances/i-1/user-data.txt", "/var/lib/cloud/seed/nocloud/user-data", "/var/log/cloud-init.log",
		"/var/log/journal/1/system.journal", "/var/log/apt/history.log", "/var/lib/systemd/random-seed",
		"/etc/netplan/50-cloud-init.yaml", "/etc/sudoers.d/90-cloud-init-users", "/var/lib/dhcp/dhclient.leases",
		"/tmp/script.sh", "/tmp/.hidden/file", "/var/tmp/file"} {
		m.write(t, file, secret, 0o600)
	}
	before := m.tree(t)
	if out, err := m.run(nil, "sh", "/node-image/clean.sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := m.tree(t)
	found := 0
	checksum := fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))
	for file, e := range before {
		if e.Checksum == checksum {
			found++
		}
		_, left := after[file]
		switch {
		case left && after[file].Checksum == checksum, left && strings.Contains(file, "/ssh_host_"),
			left && strings.HasPrefix(file, "/var/log/") && e.Mode.IsRegular():
			t.Errorf("%s is left", file)
		case !left && strings.HasPrefix(file, "/usr/"), !left && strings.HasPrefix(file, "/opt/"):
			t.Errorf("%s is gone", file)
		}
	}
	if id := after["/etc/machine-id"]; found != 19 || !id.Mode.IsRegular() || id.Checksum != fmt.Sprintf("%x", sha256.Sum256(nil)) {
		t.Errorf("%d files had the secret; the machine id is %v", found, id)
	}
	if _, err := m.run(nil, "sh", "/node-image/clean.sh"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, m.tree(t)); diff != "" {
		t.Errorf("files that a second run changed:\n%s", diff)
	}
}
