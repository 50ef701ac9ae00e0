package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestPages runs the sh blocks of the pages that tell how to install, as root in the control
// plane's node. install.md begins without Stratos, whose cloud is simulated because AWS is not
// here. docs/scheduler.md and docs/certificates.md run in TestStaticPodScheduler.
func TestPages(t *testing.T) {
	l := cluster.New(t)
	l.AwaitRelease(t)
	r := newReader(t, l, "cloudProvider=fake")
	t.Run("faulty blocks fail", r.faultyBlocksFail)
	r.follow(t, page{file: "README.md", section: "## Install"})
	r.follow(t, page{file: "charts/stratos/README.md"})

	t.Cleanup(func() { r.cleanUp(t) })
	uninstall(t, l)
	if out, err := r.run(t, houseCA); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.follow(t, page{file: "docs/install.md"})
}

// houseCA makes what a reader of install.md has: a CA in a file, and one that cert-manager issues
// from.
const houseCA = `
cp /etc/kubernetes/pki/ca.crt .
kubectl -n cert-manager create secret tls house-ca --cert=ca.crt --key=/etc/kubernetes/pki/ca.key
kubectl apply -f - <<EOF
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: house-ca}
spec: {ca: {secretName: house-ca}}
EOF
`

func (r *reader) cleanUp(t *testing.T) {
	reinstall(t, r.l)
	for _, left := range []string{"namespace/team-a", "nodepools.stratos.sh/workers", "awsnodeclasses.stratos.sh/workers",
		"clusterissuers.cert-manager.io/house-ca"} {
		mustKubectl(t, "delete", "--ignore-not-found", "--wait", left)
	}
	mustKubectl(t, "-n", "cert-manager", "delete", "--ignore-not-found", "secret/house-ca")
	if out, err := r.run(t, "for token in $(kubeadm token list -o jsonpath='{.token} '); do\n"+
		"if [ $token != abcdef.0123456789abcdef ]; then kubeadm token delete $token; fi\ndone"); err != nil { // kind's stays
		t.Errorf("%v\n%s", err, out)
	}
}

// page is a document with commands that a reader types one after the other.
type page struct {
	file string
	// section is the heading that the reader follows; empty is the whole page.
	section string
}

// block is a fenced block of a page.
type block struct {
	line           int
	language, text string
}

var fence = regexp.MustCompile("(?ms)^( *)```([a-z]*)\n(.*?\n) *```$")

// blocks returns the fenced blocks, without the indentation that a list gives them.
func (p page) blocks() ([]block, error) {
	data, err := os.ReadFile("../../../" + p.file)
	if err != nil {
		return nil, err
	}
	text, begin, end := string(data), 0, len(data)
	if p.section != "" {
		if begin = strings.Index(text, "\n"+p.section+"\n"); begin < 0 {
			return nil, fmt.Errorf("%s has no section %q", p.file, p.section)
		}
		if length := strings.Index(text[begin+1:], "\n## "); length >= 0 {
			end = begin + 1 + length
		}
	}
	var found []block
	for _, at := range fence.FindAllStringSubmatchIndex(text[begin:end], -1) {
		part := func(i int) string { return text[begin+at[2*i] : begin+at[2*i+1]] }
		found = append(found, block{line: 1 + strings.Count(text[:begin+at[0]], "\n"), language: part(2),
			text: strings.ReplaceAll("\n"+part(3), "\n"+part(1), "\n")})
	}
	if fences := strings.Count(text[begin:end], "```"); len(found) == 0 || fences != 2*len(found) {
		return nil, fmt.Errorf("%s has %d fenced blocks, and %d fences", p.file, len(found), fences)
	}
	return found, nil
}

// reader types the commands of pages in the control plane's node. It has no other program than
// those of the pages; testdata/pages has what stands in for programs that have nothing to act on.
type reader struct {
	l    *cluster.Cluster
	node string
}

// newReader lays out the programs. The values are those that its helm adds to each installation, in
// addition to the image.
func newReader(t *testing.T, l *cluster.Cluster, values string) *reader {
	t.Helper()
	r := &reader{l: l, node: l.Name + "-control-plane"}
	image := l.Image(t)
	repository, tag, _ := strings.Cut(image, ":")
	t.Cleanup(func() {
		if _, err := cluster.Docker(context.Background(), "exec", r.node, "rm", "-rf", "/pages"); err != nil {
			t.Error(err)
		}
	})
	cluster.MustDocker(t, "exec", r.node, "sh", "-euc", `
rm -rf /pages && mkdir -p /pages/empty
echo "$1,image.repository=$2,image.tag=$3" >/pages/values
printf 'apiVersion: v2\nname: empty\nversion: 0.0.1\n' >/pages/empty/Chart.yaml`,
		"sh", values, repository, tag)
	stratos := cluster.MustDocker(t, "create", image)
	folder := t.TempDir()
	cluster.MustDocker(t, "cp", stratos+":/stratos", folder)
	cluster.MustDocker(t, "rm", stratos)
	for from, to := range map[string]string{"testdata/pages": "bin", "../../../charts/stratos": "chart", l.Helm: "helm",
		folder + "/stratos": "stratos"} {
		cluster.MustDocker(t, "cp", from, r.node+":/pages/"+to)
	}
	cluster.MustDocker(t, "exec", "-w", "/pages/bin", r.node, "sh", "-euc", `
for program in cat cp mkdir mv sed; do ln -s /usr/bin/$program .; done
for program in aws eksctl kind; do ln -s cloud $program; done
ln -s /pages/stratos .`)
	return r
}

// follow runs a page's blocks of sh in one shell, from top to bottom, and checks the other blocks
// and what could not run.
func (r *reader) follow(t *testing.T, p page) {
	t.Helper()
	blocks, err := p.blocks()
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, b := range blocks {
		if b.language == "sh" {
			fmt.Fprintf(&script, "echo '%s, line %d' >&2\n%s", p.file, b.line, b.text)
		}
	}
	if out, err := r.run(t, script.String()); err != nil {
		t.Fatalf("%s: %v\n%s", p.file, err, out)
	}
	folder := t.TempDir()
	cluster.MustDocker(t, "cp", r.node+":/pages/read/.", folder)
	if err := checkRead(folder); err != nil {
		t.Errorf("%s: %v", p.file, err)
	}
	for _, b := range blocks {
		if err := r.checkBlock(t, b); err != nil {
			t.Errorf("%s, line %d: %v", p.file, b.line, err)
		}
	}
}

// unknownProgram is what sh says of a program that is not there, also where the script goes on.
var unknownProgram = regexp.MustCompile(`(?m)^/pages/script: \d+: .*: not found$`)

// run runs a script with unset variables as errors, and returns what it printed.
func (r *reader) run(t *testing.T, script string) (string, error) {
	t.Helper()
	// Not the test's context: in a cleanup that has ended.
	ctx, stop := context.WithTimeout(context.Background(), 2*cluster.Patience)
	defer stop()
	command := exec.CommandContext(ctx, "docker", "exec", "-i", "-e", "PATH=/pages/bin", "-e", "HOME=/pages",
		"-e", "KUBECONFIG=/etc/kubernetes/admin.conf", r.node, "/bin/sh", "-euc",
		"mkdir -p /pages/read/home && cd /pages/read/home && cat >/pages/script && exec /bin/sh -eu /pages/script </dev/null")
	command.Stdin = strings.NewReader(script)
	out, err := command.CombinedOutput()
	if unknown := unknownProgram.Find(out); unknown != nil {
		err = errors.Join(err, fmt.Errorf("%s", unknown))
	}
	return string(out), err
}
