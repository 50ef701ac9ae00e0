package userdata

import (
	"encoding/base64"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// strictJoinConfiguration has the fields of kubeadm.k8s.io/v1beta4 that Stratos writes, and no
// other.
type strictJoinConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Discovery  struct {
		File struct {
			KubeConfigPath string `json:"kubeConfigPath"`
		} `json:"file"`
		TLSBootstrapToken string `json:"tlsBootstrapToken"`
	} `json:"discovery"`
	NodeRegistration struct {
		Name             string         `json:"name"`
		Taints           []corev1.Taint `json:"taints"`
		KubeletExtraArgs []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"kubeletExtraArgs"`
	} `json:"nodeRegistration"`
}

// strictDiscovery is a kubeconfig with a cluster and nothing else.
type strictDiscovery struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Clusters   []struct {
		Name    string `json:"name"`
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
}

// filesIn are the files that the script writes, by their paths.
func filesIn(t *testing.T, script string) map[string]installedFile {
	t.Helper()
	files := map[string]installedFile{}
	for rest := script; ; {
		_, after, found := strings.Cut(rest, "\nwrite /")
		if !found {
			return files
		}
		line, after, _ := strings.Cut(after, "\n")
		words := strings.Fields(line)
		text, after, closed := strings.Cut(after, "END_OF_FILE\n")
		if len(words) != 3 || words[2] != "<<'END_OF_FILE'" || !closed {
			t.Fatalf("cannot read %q in\n%s", line, script)
		}
		files["/"+words[0]] = installedFile{"/" + words[0], words[1], text}
		rest = "\n" + after
	}
}

// checkStateFile wants the file by which systemd-tmpfiles removes the state files of the kubelet at
// boot, and only then.
func checkStateFile(t *testing.T, script string) {
	t.Helper()
	f := filesIn(t, script)["/etc/tmpfiles.d/stratos-kubelet-state.conf"]
	var lines []string
	for line := range strings.Lines(f.text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	want := []string{"r! /var/lib/kubelet/cpu_manager_state\n", "r! /var/lib/kubelet/memory_manager_state\n"}
	if diff := cmp.Diff(want, lines); diff != "" || f.mode != "0644" {
		t.Errorf("mode %s and lines (-want +got):\n%s", f.mode, diff)
	}
}

func checkJoinFiles(t *testing.T, script string, c Cluster, k Kubelet) {
	t.Helper()
	checkStateFile(t, script)
	files := filesIn(t, script)
	var join, want strictJoinConfiguration
	if err := yaml.UnmarshalStrict([]byte(files["/etc/stratos/join.yaml"].text), &join); err != nil {
		t.Fatalf("%v in\n%s", err, script)
	}
	want.APIVersion, want.Kind = "kubeadm.k8s.io/v1beta4", "JoinConfiguration"
	want.Discovery.File.KubeConfigPath, want.Discovery.TLSBootstrapToken = "/etc/stratos/cluster.conf", PlaceholderToken
	want.NodeRegistration.Name, want.NodeRegistration.Taints = "@NAME@", uniqueTaints(k.Taints)
	for _, arg := range [][2]string{
		{"provider-id", "@PROVIDER_ID@"}, {"node-labels", labelsFlag(k.Labels)}, {"max-pods", "58"},
	} {
		want.NodeRegistration.KubeletExtraArgs = append(want.NodeRegistration.KubeletExtraArgs, struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		}{arg[0], arg[1]})
	}
	if diff := cmp.Diff(want, join); diff != "" {
		t.Errorf("the join configuration (-want +got):\n%s", diff)
	}
	var discovery strictDiscovery
	if err := yaml.UnmarshalStrict([]byte(files["/etc/stratos/cluster.conf"].text), &discovery); err != nil {
		t.Fatalf("%v in\n%s", err, script)
	}
	ca, _ := decodeCA(c.CertificateAuthority)
	if len(discovery.Clusters) != 1 || discovery.Kind != "Config" || discovery.Clusters[0].Cluster.Server != c.Endpoint ||
		string(discovery.Clusters[0].Cluster.CA) != string(ca) {
		t.Errorf("the kubeconfig for discovery is %+v", discovery)
	}
	for path, f := range files {
		if strings.Contains(f.text, PlaceholderToken) && f.mode != "0600" {
			t.Errorf("%s holds the token with mode %s", path, f.mode)
		}
	}
}

func TestCheckKubeadm(t *testing.T) {
	tests := map[string]struct {
		user     string
		args     []string
		refused  []string
		warnings []string
	}{
		"nothing":        {},
		"a script":       {user: "#!/bin/sh\necho\n"},
		"a cloud-config": {user: "#cloud-config\nwrite_files: []\nruncmd: [[echo]]\n"},
		"flags of the kubelet, with an external cloud provider": {
			args: []string{"--v=4", "--cloud-provider=external", "--config-dir=/etc/kubelet.d", "--node-ip=::"}},
		"a NodeConfig": {user: nodeConfigWith("  {}\n"),
			refused: []string{"userData: a NodeConfig is for images of AL2023: with the family Kubeadm nothing reads it"}},
		"a NodeConfig among other parts": {user: multipartOf("\n#!/bin/sh\n", "Content-Type: application/node.eks.aws\n\n"+nodeConfigWith("  {}\n")),
			refused: []string{"userData: part 2: a NodeConfig is for images of AL2023"}},
		"kubeadm join in a script":   {user: "#!/bin/sh\nkubeadm join x\n", refused: []string{"userData: kubeadm join is not allowed"}},
		"kubeadm init in a script":   {user: "#!/bin/sh\nkubeadm --v=5 init\n", refused: []string{"userData: kubeadm init is not allowed"}},
		"kubeadm init in runcmd":     {user: "#cloud-config\nruncmd:\n- [kubeadm, init]\n", refused: []string{"userData: kubeadm init"}},
		"kubeadm that only pulls":    {user: "#!/bin/sh\nkubeadm config images pull\n"},
		"a script that runs nodeadm": {user: "#!/bin/sh\nnodeadm init\n", refused: []string{"userData: nodeadm init"}},
		"TOML":                       {user: "[settings]\n", refused: []string{"userData: none of what can be merged: MIME multipart, a script"}},
		"base64":                     {user: base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")), refused: []string{"userData: encoded with base64 or gzip"}},
		"more than EC2 takes":        {user: "#!/bin/sh\n" + strings.Repeat("#", MaxBytes), refused: []string{"userData: EC2 allows 16384"}},
		"flags for every kubelet":    {user: "#!/bin/sh\necho KUBELET_EXTRA_ARGS=--v=4 >/etc/default/kubelet\n", warnings: []string{"userData: use spec.bootstrap.kubeletExtraArgs"}},
		"such flags in a comment":    {user: "#!/bin/sh\n# no KUBELET_EXTRA_ARGS\n"},
		"flags that kubeadm needs": {args: []string{"--config=/x", "--kubeconfig=/x", "--bootstrap-kubeconfig=/x", "--cert-dir=/x"},
			refused: []string{"bootstrap.kubeletExtraArgs[0]: the files of kubeadm", "bootstrap.kubeletExtraArgs[1]: the files of kubeadm",
				"bootstrap.kubeletExtraArgs[2]: the files of kubeadm", "bootstrap.kubeletExtraArgs[3]: the files of kubeadm"}},
		"flags that Stratos sets": {args: []string{"--node-labels=a=b", "--max-pods=5", "--register-with-taints=a=b:NoSchedule",
			"--hostname-override=x", "--provider-id=x", "--register-node=false", "--v"},
			refused: []string{"bootstrap.kubeletExtraArgs[0]: set spec.template.labels", "bootstrap.kubeletExtraArgs[1]: spec.bootstrap.maxPods",
				"bootstrap.kubeletExtraArgs[2]: set taints", "bootstrap.kubeletExtraArgs[3]: from the metadata service",
				"bootstrap.kubeletExtraArgs[4]: from the metadata service", "bootstrap.kubeletExtraArgs[5]: Stratos needs the Node",
				"bootstrap.kubeletExtraArgs[6]: --name=value"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused, warnings := CheckKubeadm(test.user, test.args)
			check(t, "refused", refused, test.refused)
			check(t, "warnings", warnings, test.warnings)
			for _, p := range append(refused, warnings...) {
				if strings.Contains(p.Reason, "nodeadm") && !strings.Contains(test.user, "nodeadm") {
					t.Errorf("an image of kubeadm has no nodeadm: %s", p.Reason)
				}
			}
			k := testKubelet()
			k.ExtraArgs = test.args
			if _, err := byKubeadm(testCluster(), k, test.user); (err == nil) != (len(test.refused) == 0) {
				t.Errorf("the launch says %v", err)
			}
		})
	}
}

func TestALaunchByKubeadmNamesWhatIsMissing(t *testing.T) {
	for token, good := range map[string]bool{
		PlaceholderToken: true, "": false, "abcdef": false, "ABCDEF.0123456789abcdef": false, "abcdef.0123456789abcde": false,
		"abcdef.0123456789abcdef\n": false, " " + PlaceholderToken: false, "abcdef-0123456789abcdef": false,
	} {
		_, err := Kubeadm(testCluster(), testKubelet(), token, "")
		if (err == nil) != good {
			t.Errorf("%q: %v", token, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "spec.bootstrap: the bootstrap token of the launch") ||
			len(token) > 5 && strings.Contains(err.Error(), token)) {
			t.Errorf("%q: %v", token, err)
		}
	}
	_, err := Kubeadm(Cluster{Name: "c", ServiceCIDR: "::/0"}, Kubelet{}, PlaceholderToken, "")
	if err == nil || !strings.Contains(err.Error(), "spec.bootstrap.cluster.endpoint: it is not known") ||
		!strings.Contains(err.Error(), "spec.bootstrap.cluster.certificateAuthority: it is not known") {
		t.Errorf("got %v", err)
	}
}

// machine is a folder in place of the root of a file system, and commands that play those of an
// image.
type machine struct {
	t    *testing.T
	root string
	env  []string
}

// newMachine boots a machine for the first time: cloud-init has run the script of Stratos.
func newMachine(t *testing.T) *machine {
	t.Helper()
	text, err := byKubeadm(testCluster(), testKubelet(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, root: t.TempDir()}
	m.env = []string{"PATH=" + m.path("bin") + ":" + os.Getenv("PATH"), "ROOT=" + m.root}
	m.write("bin/systemctl", `#!/bin/sh
echo "systemctl $*" >>"$ROOT/commands"
if [ "$1" = stop ] && [ -n "${ON_STOP:-}" ]; then sh -c "$ON_STOP"; fi
`)
	m.write("bin/curl", `#!/bin/sh
[ -z "${NO_METADATA:-}" ] || exit 22
session="X-aws-ec2-metadata-token: session" data=http://metadata/latest/meta-data
case "$*" in
*"PUT"*"X-aws-ec2-metadata-token-ttl-seconds: "*" http://metadata/latest/api/token") echo session ;;
*"$session $data/local-hostname") echo "IP-10-0-0-1.Example.com other.example.com" ;;
*"$session $data/placement/availability-zone") echo eu-west-1a ;;
*"$session $data/instance-id") echo i-0123456789abcdef0 ;;
*) exit 22 ;;
esac
`)
	// As the checks before the join, and as the kubelet, which writes its kubeconfig first.
	m.write("bin/kubeadm", `#!/bin/sh
echo "$1 $2" >>"$ROOT/commands"
kubernetes="$ROOT/etc/kubernetes"
for file in bootstrap-kubelet.conf kubelet.conf pki/ca.crt; do
	[ ! -e "$kubernetes/$file" ] || exit 1
done
mkdir -p "$kubernetes/pki" "$ROOT/var/lib/kubelet/pki"
cp -p "$3" "$ROOT/used.yaml"
echo >"$kubernetes/bootstrap-kubelet.conf"
echo >"$kubernetes/pki/ca.crt"
echo >"$kubernetes/kubelet.conf"
[ -z "${CUT_OFF:-}" ] || exit 1
echo >"$ROOT/var/lib/kubelet/pki/kubelet-client-current.pem"
rm "$kubernetes/bootstrap-kubelet.conf"
`)
	inRoot := regexp.MustCompile(`/(etc|usr|run|var)/`)
	m.write("bin/first-boot", inRoot.ReplaceAllString(readBack(t, text)[0].text(), m.root+"$0"))
	if out, err := m.run("bin/first-boot"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(m.path("run/stratos-join"), 0o700); err != nil { // as systemd does
		t.Fatal(err)
	}
	m.env = append(m.env, "STRATOS_METADATA=http://metadata")
	return m
}

// path is a path of the machine, without the slash at its beginning.
func (m *machine) path(path string) string { return filepath.Join(m.root, filepath.FromSlash(path)) }

func (m *machine) write(path, text string) {
	m.t.Helper()
	path = m.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) run(path string, env ...string) (string, error) {
	m.t.Helper()
	cmd := exec.Command(m.path(path))
	cmd.Env = slices.Concat(m.env, env)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// join runs what the unit runs.
func (m *machine) join(want bool, env ...string) {
	m.t.Helper()
	if out, err := m.run("usr/local/sbin/stratos-join", env...); (err == nil) != want {
		m.t.Fatalf("joined %t, want %t: %s", err == nil, want, out)
	}
}

// said returns the commands since the last call.
func (m *machine) said() []string {
	m.t.Helper()
	text, err := os.ReadFile(m.path("commands"))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.Remove(m.path("commands")); err != nil {
		m.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// isWaiting reports whether the unit's condition holds, so that it runs at the next boot.
func (m *machine) isWaiting() bool {
	_, err := os.Stat(m.path("etc/stratos/join.yaml"))
	return err == nil
}

func TestTheFirstBootInstallsTheUnit(t *testing.T) {
	m := newMachine(t)
	want := []string{"systemctl daemon-reload", "systemctl enable stratos-join.service",
		"systemctl start --no-block stratos-join.service"}
	if diff := cmp.Diff(want, m.said()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	for path, want := range map[string]fs.FileMode{
		"etc/stratos/join.yaml": 0o600, "etc/stratos/cluster.conf": 0o600, "usr/local/sbin/stratos-join": 0o755,
		"etc/tmpfiles.d/stratos-kubelet-state.conf":                 0o644,
		"etc/systemd/system/kubelet.service.d/stratos-order.conf":   0o644,
		"etc/systemd/system/stratos-join.service":                   0o644,
		"run/systemd/system/stratos-join.service.d/first-boot.conf": 0o644,
	} {
		info, err := os.Stat(m.path(path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	unit, err := os.ReadFile(m.path("etc/systemd/system/stratos-join.service"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ConditionPathExists=" + m.root + "/etc/stratos/join.yaml", "Restart=on-failure",
		"StartLimitIntervalSec=0", "ExecStart=" + m.root + "/usr/local/sbin/stratos-join"} {
		if !strings.Contains(string(unit), "\n"+line+"\n") {
			t.Errorf("the unit has no line %s:\n%s", line, unit)
		}
	}
}

func TestAMachineJoinsWithWhatItsMetadataSays(t *testing.T) {
	m := newMachine(t)
	m.said()
	m.join(true)
	want := []string{"systemctl enable kubelet", "systemctl stop kubelet", "join --config"}
	if diff := cmp.Diff(want, m.said()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(m.path("used.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var used strictJoinConfiguration
	if err := yaml.UnmarshalStrict(text, &used); err != nil {
		t.Fatal(err)
	}
	if got := used.NodeRegistration.Name; got != "ip-10-0-0-1.example.com" {
		t.Errorf("the node has the name %q", got)
	}
	if got := used.NodeRegistration.KubeletExtraArgs[0].Value; got != "aws:///eu-west-1a/i-0123456789abcdef0" {
		t.Errorf("the node has the provider ID %q", got)
	}
	if info, err := os.Stat(m.path("used.yaml")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file with the token has mode %v, %v", info.Mode(), err)
	}
	for _, path := range []string{"etc/stratos/join.yaml", "etc/stratos/cluster.conf"} {
		if _, err := os.Stat(m.path(path)); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}

func TestAJoinIsRepeatedUntilItHasSucceeded(t *testing.T) {
	const certificate = "var/lib/kubelet/pki/kubelet-client-current.pem"
	cutOff := func(m *machine) {
		m.join(false, "CUT_OFF=1") // the kubelet has its kubeconfig, but no certificate
	}
	for name, c := range map[string]struct {
		before func(*machine)
		env    string
		want   []string
	}{
		"the metadata service did not answer": {
			before: func(m *machine) { m.join(false, "NO_METADATA=1") },
			want:   []string{"systemctl enable kubelet", "systemctl stop kubelet", "join --config"}},
		"the join was cut off": {before: cutOff,
			want: []string{"systemctl enable kubelet", "systemctl stop kubelet", "join --config"}},
		"the join was cut off, and files were lost": {
			before: func(m *machine) {
				m.write("etc/kubernetes/kubelet.conf", "")
				m.write("etc/kubernetes/pki/ca.crt", "")
				m.write(certificate, "")
			},
			want: []string{"systemctl enable kubelet", "systemctl stop kubelet", "join --config"}},
		"the kubelet obtains its certificate while it is stopped": {before: cutOff,
			env:  "ON_STOP=echo >$ROOT/" + certificate,
			want: []string{"systemctl enable kubelet", "systemctl stop kubelet", "systemctl start kubelet"}},
		"the kubelet has obtained its certificate by itself": {
			before: func(m *machine) {
				cutOff(m)
				m.write(certificate, "x")
			},
			want: []string{"systemctl enable kubelet", "systemctl start kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.before(m)
			if !m.isWaiting() {
				t.Fatal("the join would not be repeated")
			}
			m.said()
			m.join(true, c.env)
			if diff := cmp.Diff(c.want, m.said()); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
			if m.isWaiting() {
				t.Error("the join would be repeated")
			}
		})
	}
}
