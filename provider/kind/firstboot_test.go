package kind

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a folder in which first-boot runs as on a node: its absolute paths lead there, and
// kubeadm is a stand-in that writes down how it was called and fails as often as it is told.
type machine struct{ root string }

func newMachine(t *testing.T, bootScript string, failures int) machine {
	t.Helper()
	m := machine{root: t.TempDir()}
	script, err := firstBootFiles.ReadFile("firstboot/first-boot")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/kind/", m.root+"/kind/", "/etc/kubernetes/",
		m.root+"/etc/kubernetes/").Replace(string(script))
	m.write(t, "kind/stratos/first-boot", text)
	m.write(t, "kind/stratos/join.json", `{"node-ip": "@ADDRESS@"}`)
	m.write(t, "kind/stratos/boot-script", bootScript)
	m.write(t, "etc/kubernetes/manifests/none", "")
	m.write(t, "failures", strings.Repeat("x", failures))
	m.write(t, "bin/hostname", "#!/bin/bash\necho lab-node\n")
	m.write(t, "bin/getent", "#!/bin/bash\necho '10.1.2.3  STREAM lab-node'\necho '10.1.2.3  DGRAM'\n")
	m.write(t, "bin/sleep", "#!/bin/bash\n")
	m.write(t, "bin/kubeadm", `#!/bin/bash
echo "kubeadm $*" >>"$ROOT/calls"
left="$(cat "$ROOT/failures")"
if [ -n "$left" ]; then printf '%s' "${left#x}" >"$ROOT/failures"; exit 1; fi
touch "$ROOT/etc/kubernetes/kubelet.conf"
`)
	return m
}

func (m machine) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (m machine) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// boot runs what the unit runs, under the unit's condition.
func (m machine) boot(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(m.root, "kind", "stratos", "booted")); err == nil {
		return
	}
	command := exec.CommandContext(t.Context(), filepath.Join(m.root, "kind", "stratos", "first-boot"))
	command.Env = []string{"PATH=" + m.root + "/bin:" + os.Getenv("PATH"), "ROOT=" + m.root}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("first boot: %v\n%s", err, out)
	}
}

func TestTheFirstBootJoinsAndThenRunsTheScript(t *testing.T) {
	m := newMachine(
		t,
		`[ -e "$ROOT/etc/kubernetes/kubelet.conf" ] && [ -e "$ROOT/kind/stratos/booted" ] && echo "script" >>"$ROOT/calls"`,
		0,
	)
	m.boot(t)
	want := "kubeadm join --config " + m.root + "/kind/kubeadm.conf\nscript\n"
	if got := m.read(t, "calls"); got != want {
		t.Errorf("called %q, want %q: the script comes after the join, and after the mark", got, want)
	}
	if got := m.read(t, "kind/kubeadm.conf"); got != `{"node-ip": "10.1.2.3"}` {
		t.Errorf("joined by %s, want its own address in it", got)
	}
	m.boot(t)
	if got := m.read(t, "calls"); got != want {
		t.Errorf("after the second boot the calls are %q", got)
	}
}

func TestAJoinThatFailsIsRepeated(t *testing.T) {
	m := newMachine(t, "", 3)
	m.boot(t)
	if n := strings.Count(m.read(t, "calls"), "kubeadm join"); n != 4 {
		t.Errorf("%d joins, want the 3 that failed and one more", n)
	}
	if got := m.read(t, "kind/stratos/booted"); got != "" {
		t.Errorf("the mark holds %q", got)
	}
	if _, err := os.Stat(filepath.Join(m.root, "kind", "stratos", "booted")); err != nil {
		t.Errorf("no mark: %v", err)
	}
}

// TestANodeThatWasStoppedAfterItsJoinDoesNotJoinAgain: kubeadm would refuse, because its Node is
// there.
func TestANodeThatWasStoppedAfterItsJoinDoesNotJoinAgain(t *testing.T) {
	m := newMachine(t, `echo script >>"$ROOT/calls"`, 0)
	m.write(t, "etc/kubernetes/kubelet.conf", "")
	m.boot(t)
	if got := m.read(t, "calls"); got != "script\n" {
		t.Errorf("called %q, want the script alone", got)
	}
}
