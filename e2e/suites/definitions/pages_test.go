package definitions

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/model"
	"github.com/stratos-sh/stratos/provider/price"
)

const root = "../../.."

// testedElsewhere are the pages whose blocks another test runs, by the file that does.
func testedElsewhere() map[string]string {
	return map[string]string{
		"charts/stratos/README.md": "e2e/kind/suite/pages_test.go",
		"docs/install.md":          "e2e/kind/suite/pages_test.go",
		"docs/cluster-stacks.md":   "cmd/stratos/subcommand/stackpage_test.go",
		"docs/certificates.md":     "e2e/kind/suite/staticpod_test.go",
		"docs/scheduler.md":        "e2e/kind/suite/staticpod_test.go",
		"docs/gitops.md":           "e2e/helm/gitops_test.go",
		"docs/images.md":           "cmd/stratos/subcommand/pages_test.go",
		"docs/karpenter.md":        "e2e/suites/karpenter/page_test.go",
	}
}

var fencedBlock = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?\n) *```$")

// TestBlocksOfThePages: the API server accepts the objects of the fenced blocks, and their commands
// exist with their arguments. Blocks of text are pictures.
func TestBlocksOfThePages(t *testing.T) {
	s := newServer(t)
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, root+"/README.md", root+"/charts/stratos/README.md") {
		name := strings.TrimPrefix(page, root+"/")
		if by := testedElsewhere()[name]; by != "" {
			if err := names(t, by, filepath.Base(name)); err != nil {
				t.Error(err)
			}
			continue
		}
		text := readText(t, page)
		blocks := fencedBlock.FindAllStringSubmatch(text, -1)
		if fences := strings.Count(text, "```"); fences != 2*len(blocks) {
			t.Errorf("%s has %d fences and %d blocks", name, fences, len(blocks))
		}
		for _, b := range blocks {
			checked++
			if err := s.checkBlock(t, b[1], b[2]); err != nil {
				t.Errorf("%s: %v in\n%s", name, err, b[2])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d blocks were checked", checked)
	}
	for name, faulty := range faultyBlocks() {
		if s.checkBlock(t, faulty[0], faulty[1]) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// faultyBlocks are blocks, by language and text, that no page may have.
func faultyBlocks() map[string][2]string {
	return map[string][2]string{
		"a target that does not exist":   {"sh", "make nothing\n"},
		"a variable of no target":        {"sh", "make demo NOTHING=1\n"},
		"an unknown program":             {"sh", "rm -rf /\n"},
		"a field that does not exist":    {"yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nothing: 1}\n"},
		"a value that does not exist":    {"yaml", "nothing: 1\n"},
		"a script with an open bracket":  {"bash", "if true; then\n"},
		"a trace with another operation": {"", "seed 1\n0 nothing\n"},
	}
}

// names wants the file of a test to name the page that it reads.
func names(t *testing.T, file, page string) error {
	t.Helper()
	if !strings.Contains(readText(t, root+"/"+file), page) {
		return fmt.Errorf("%s does not name %s", file, page)
	}
	return nil
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *server) checkBlock(t *testing.T, language, text string) error {
	t.Helper()
	switch {
	case language == "text":
		return nil
	case language == "mermaid":
		return checkDiagram(text)
	case language == "yaml":
		return s.checkYAML(t, text)
	case language == "bash":
		return exec.Command("bash", "-n", "-c", text).Run()
	case strings.HasPrefix(text, "seed "):
		_, err := model.Parse(text)
		return err
	}
	commands := strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\\\n", " ")), "\n")
	for _, command := range commands {
		command, _, _ = strings.Cut(command, " #")
		if err := s.checkCommand(t, strings.Fields(command)); err != nil {
			return fmt.Errorf("%q: %w", command, err)
		}
	}
	return nil
}

// checkDiagram wants a kind of diagram that the site draws. Whether it can draw this one, `make
// site` says.
func checkDiagram(text string) error {
	for _, kind := range []string{"stateDiagram-v2\n", "sequenceDiagram\n", "flowchart "} {
		if strings.HasPrefix(text, kind) {
			return nil
		}
	}
	return errors.New("no diagram of a known kind")
}

func (s *server) checkCommand(t *testing.T, words []string) error {
	t.Helper()
	line := strings.Join(words, " ")
	switch {
	case words[0] == "make":
		return checkMake(t, words[1:])
	case strings.HasPrefix(line, "go run ./cmd/stratos/main.go "):
		return names(t, "cmd/stratos/subcommand/pages_test.go", "README.md")
	case strings.Contains(line, "--values charts/stratos/values-kind.yaml "):
		return names(t, "e2e/helm/kindvalues_test.go", "values-kind.yaml")
	case strings.HasPrefix(line, "helm install stratos "):
		return names(t, "e2e/kind/suite/pages_test.go", "README.md")
	case strings.HasPrefix(line, "cosign verify"), strings.HasPrefix(line, "sha256sum --check "):
		return names(t, "e2e/release/acceptance/page_test.go", "release.md")
	case strings.HasPrefix(line, "kubectl label namespace team-a "):
		return s.kubectlOn(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, words[1:]...)
	case strings.HasPrefix(line, "kubectl annotate node ip-10-0-12-7.ec2.internal "):
		return s.kubectlOn(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-12-7.ec2.internal"}}, words[1:]...)
	case strings.HasPrefix(line, "kubectl annotate nodepools.stratos.sh --all "):
		return s.kubectlOn(t, framework.Pool("workers", 1), words[1:]...)
	case strings.HasPrefix(line, "kubectl get awsnodeclasses"):
		return s.kubectlOn(t, framework.Class("workers", "m5.large"), words[1:]...)
	case strings.HasPrefix(line, "kubectl get nodes "):
		return s.kubectlOn(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-12-7.ec2.internal"}}, words[1:]...)
	case strings.HasPrefix(line, "kubectl stratos starts"):
		return names(t, "cmd/kubectl-stratos/command/starts.go", "starts [POOL|NODE]")
	case strings.HasPrefix(line, "kubectl stratos pools"):
		return names(t, "cmd/kubectl-stratos/command/pools.go", "pools [NAME...]")
	}
	known := map[string]string{ // a program, and where it is from
		"kube-scheduler --config scheduler.yaml": root + "/e2e/controlplane",
		".ci/run":                                root + "/.ci/run",
		"go get -modfile=go.tools.mod -tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint@vX.Y.Z": root + "/go.tools.mod",
	}
	from, is := known[line]
	if !is {
		return fmt.Errorf("nothing is known of this command")
	}
	_, err := os.Stat(from)
	return err
}

// kubectlOn runs a command of kubectl while the object exists.
func (s *server) kubectlOn(t *testing.T, o client.Object, args ...string) error {
	t.Helper()
	if err := s.client.Create(t.Context(), o); err != nil {
		return err
	}
	s.kubectl(t, args...)
	return s.client.Delete(t.Context(), o)
}

// checkMake wants the target, and each variable to be one that the Makefile or a script reads.
func checkMake(t *testing.T, words []string) error {
	makefile, demo := readText(t, root+"/Makefile"), readText(t, root+"/e2e/demo/main.go")
	for _, word := range words {
		if name, _, is := strings.Cut(word, "="); is {
			if !strings.Contains(makefile, "$("+name+")") && !strings.Contains(makefile, "$(or $("+name+")") &&
				!strings.Contains(demo, `"`+name+`"`) {
				return fmt.Errorf("the Makefile reads no variable %s", name)
			}
			continue
		}
		if !regexp.MustCompile(`(?m)^([a-z0-9-]+ )*` + regexp.QuoteMeta(word) + `( [a-z0-9-]+)*:`).MatchString(makefile) {
			return fmt.Errorf("the Makefile has no target %s", word)
		}
	}
	return nil
}

// checkYAML has the API server validate objects, strictly. Other documents are parts of a pod's
// spec, or rules of Prometheus.
func (s *server) checkYAML(t *testing.T, text string) error {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			return checkRules(t, document)
		}
		if given, are := o.Object["prices"]; are {
			return checkPrices(given)
		}
		if o.GetKind() == "" {
			return yaml.UnmarshalStrict([]byte(document), &corev1.PodSpec{})
		}
		if o.GetAPIVersion() == "kind.x-k8s.io/v1alpha4" {
			return checkKindCluster(document)
		}
		if err := s.client.Create(t.Context(), o, client.DryRunAll); err != nil {
			return err
		}
	}
	return nil
}

// checkPrices reads the chart's value prices as Stratos does.
func checkPrices(given any) error {
	text, err := yaml.Marshal(given)
	if err != nil {
		return err
	}
	_, err = price.Parse(text)
	return err
}

// checkKindCluster reads the fields that the pages use of kind's configuration, by its page
// "Configuration".
func checkKindCluster(text string) error {
	var cluster struct {
		Kind, APIVersion string
		Nodes            []struct {
			Role        string
			ExtraMounts []struct{ HostPath, ContainerPath string }
		}
	}
	return yaml.UnmarshalStrict([]byte(text), &cluster)
}

// checkRules reads alert rules: their fields, and metrics that docs/metrics.md has.
func checkRules(t *testing.T, text string) error {
	var rules []struct {
		Alert, Expr, For string
	}
	if err := yaml.UnmarshalStrict([]byte(text), &rules); err != nil {
		return err
	}
	metrics := readText(t, root+"/docs/metrics.md")
	for _, rule := range rules {
		for _, metric := range regexp.MustCompile(`stratos_[a-z_]+`).FindAllString(rule.Expr, -1) {
			if !strings.Contains(metrics, metric) {
				return fmt.Errorf("there is no metric %s", metric)
			}
		}
	}
	return nil
}
