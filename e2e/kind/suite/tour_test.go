package suite

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestTourOfTheReadme does what `make try` does once the cluster is up, and then types what its
// tour says: the first command only shows, the second wakes a stopped node, the third lets it stop
// again.
func TestTourOfTheReadme(t *testing.T) {
	undisturbed(t)
	l := cluster.New(t)
	l.AwaitRelease(t)
	script := read(t, "../try.sh")
	apply := strings.NewReplacer("CLUSTER", l.Name, "RESERVED", reserve(t, l)).Replace(read(t, "../manifests/try.yaml"))
	file := t.TempDir() + "/try.yaml"
	if err := os.WriteFile(file, []byte(apply), 0o600); err != nil {
		t.Fatal(err)
	}
	removeAfter(t, file, "small")
	mustKubectl(t, "apply", "-f", file)
	// The script's own words for "the pool is warm".
	wait := regexp.MustCompile(`kubectl (wait nodepools\S+ \S+ --timeout=\S+)`).FindStringSubmatch(script)
	if wait == nil {
		t.Fatal("try.sh waits for no pool any more")
	}
	mustKubectl(t, strings.Fields(strings.ReplaceAll(wait[1], "'", ""))...) // no shell takes the quotes off
	standby := l.AwaitStandby(t, "small", 2)

	wake := typed(t, script, "--replicas=1")
	mustKubectl(t, wake...)
	pods := l.AwaitReady(t, "team-a", "hello", 1)
	if got := pods[0].Spec.NodeName; !slices.Contains(standby, got) {
		t.Errorf("the pod runs on %s, want one of the stopped nodes %v", got, standby)
	}
	mustKubectl(t, typed(t, script, "--replicas=0")...)
	// While one of the two ran, the pool made its third: minStandby is 2.
	after := l.AwaitStandby(t, "small", 3)
	for _, node := range standby {
		if !slices.Contains(after, node) {
			t.Errorf("the nodes are %v, want %s among them still", after, node)
		}
	}
}

// typed returns the arguments of the command of the tour that scales to so many replicas, without
// what follows it on the line.
func typed(t *testing.T, script, replicas string) []string {
	t.Helper()
	for line := range strings.Lines(script) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if strings.HasPrefix(command, "kubectl ") && strings.HasSuffix(command, replicas) {
			return strings.Fields(command)[1:]
		}
	}
	t.Fatalf("no command of the tour ends with %s", replicas)
	return nil
}

// TestPageOnKind: the class and the pool of docs/kind.md are taken as they stand, defaults written
// and no warning given, and the class says what its nodes will have.
func TestPageOnKind(t *testing.T) {
	l := cluster.New(t)
	l.AwaitRelease(t)
	text := ""
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t,
		"../../../docs/kind.md"), -1) {
		if strings.Contains(block[1], "kind: KindNodeClass") {
			text = block[1]
		}
	}
	if text == "" {
		t.Fatal("docs/kind.md shows no KindNodeClass any more")
	}
	file := t.TempDir() + "/page.yaml"
	// The suite's cluster has another name, and its pool must not make nodes: two names and a number
	// are not the page's.
	text = strings.NewReplacer("cluster: kind\n", "cluster: "+l.Name+"\n", "name: small", "name: page", "minStandby: 3",
		"minStandby: 0").Replace(text)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	removeAfter(t, file, "page")
	if out := mustKubectl(t, "apply", "--validate=strict", "-f", file); strings.Contains(out, "Warning") {
		t.Errorf("the page's objects are warned about:\n%s", out)
	}
	mustKubectl(t, "wait", "kindnodeclasses.stratos.sh/page", "--for=condition=Ready", "--timeout=600s")
	capacity := mustKubectl(t, "get", "kindnodeclasses.stratos.sh/page", "-o", "jsonpath={.status.capacity.cpu}")
	if want := fmt.Sprintf("%d", l.MachineCPU(t)/1000-1); capacity != want {
		t.Errorf("a node of the page's class has %s cpu, want %s: all of the machine but what is reserved", capacity, want)
	}
	if got := mustKubectl(t, "get", "nodepools.stratos.sh/page", "-o",
		"jsonpath={.spec.scaleUp.readyTimeout}"); got != "5m" && got != "5m0s" {
		t.Errorf("the default of readyTimeout is %q: admission did not answer", got)
	}
}

// TestPagesLeadToKind: a reader of the README or the install page finds the tour and the page on
// kind, and the targets that they name exist.
func TestPagesLeadToKind(t *testing.T) {
	makefile := read(t, "../../../Makefile")
	for page, wanted := range map[string][]string{
		"../../../README.md":       {"make try", "make try-down", "docs/kind.md"},
		"../../../docs/install.md": {"make try", "make try-down", "kind.md", "values-kind.yaml"},
		"../../../docs/kind.md":    {"values-kind.yaml", "docker.sock"},
	} {
		text := read(t, page)
		for _, word := range wanted {
			if !strings.Contains(text, word) {
				t.Errorf("%s does not lead to %s", page, word)
			}
			if target, isTarget := strings.CutPrefix(word, "make "); isTarget && !strings.Contains(makefile, "\n"+target+": ") {
				t.Errorf("%s names %s, which is no target of the Makefile", page, word)
			}
		}
	}
}

// removeAfter removes what a file made when the test ends. First the pool: admission keeps a class
// that one uses.
func removeAfter(t *testing.T, file, pool string) {
	t.Cleanup(func() {
		mustKubectl(t, "delete", "--ignore-not-found", "--wait", "nodepools.stratos.sh/"+pool)
		mustKubectl(t, "delete", "--ignore-not-found", "--wait", "-f", file)
	})
}

func mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	// Not the test's context: in a cleanup that has ended.
	ctx, stop := context.WithTimeout(context.Background(), 2*cluster.Patience)
	defer stop()
	out, err := kubectl(ctx, args...)
	if err != nil {
		t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
