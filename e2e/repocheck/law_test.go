package repocheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository is the root of the tree as seen from this package's folder, where `go test` runs.
const repository = "../.."

func TestImportLaw(t *testing.T) {
	var packages []Package
	for _, module := range []string{".", "e2e", "e2e/controlplane", "e2e/helm", "e2e/parity", "e2e/observe",
		"e2e/karpenter", "e2e/certmanager", "e2e/kind", "e2e/flannel", "e2e/flannel/plugin", "e2e/stacks",
		"e2e/release"} {
		listed, err := ListPackages(filepath.Join(repository, module))
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, listed...)
	}
	for _, violation := range Violations(packages, Law()) {
		t.Error(violation)
	}
	for _, rule := range Law() {
		for _, pattern := range rule.From {
			checkPatternStillMatches(t, pattern, packages)
		}
	}
}

// checkPatternStillMatches fails when the pattern's folder has Go files but the pattern selects no
// listed package: such a rule would protect nothing and say nothing.
func checkPatternStillMatches(t *testing.T, pattern Pattern, packages []Package) {
	t.Helper()
	for _, p := range packages {
		if pattern.Matches(p.ImportPath) {
			return
		}
	}
	folder := strings.TrimSuffix(string(pattern), "/...")
	files, err := goFiles(filepath.Join(repository, folder))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		t.Errorf("%s has Go files, but the pattern %s selects no package", folder, pattern)
	}
}

func TestPurePackagesReadNoClock(t *testing.T) {
	for _, pattern := range PurePackages() {
		uses, err := ClockUses(filepath.Join(repository, string(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range uses {
			t.Errorf("%s: a pure leaf takes `now time.Time` as a parameter", use)
		}
	}
}

// TestLawCatches plants each forbidden edge into an otherwise lawful graph and wants it reported
// with its chain.
func TestLawCatches(t *testing.T) {
	const ours = ModulePath + "/"
	tests := map[string]struct {
		from, to string
		inTest   bool
		through  string
		allowed  bool
	}{
		"the stack tool reads the API types":  {from: ours + "stacks/release", to: ours + "crds/v1alpha1"},
		"the scaler reads a stack":            {from: ours + "scaler", to: ours + "stacks/source"},
		"the stack tool brings Helm":          {from: ours + "stacks/release", to: "helm.sh/helm/v4/pkg/chart"},
		"the choice of versions reads a file": {from: ours + "stacks/bump", to: "os"},
		"the command runs the stack tool":     {from: ours + "cmd/stratos/subcommand", to: ours + "stacks/source", allowed: true},
		"the controller prints as kubectl does": {from: ours + "cmd/stratos/subcommand",
			to: "k8s.io/cli-runtime/pkg/printers", through: ours + "cmd/kubectl-stratos/command"},
		"the controller draws on a terminal": {from: ours + "cmd/stratos/subcommand",
			to: "charm.land/bubbletea/v2", through: ours + "cmd/kubectl-stratos/top"},
		"the reference has the plugin's flags": {from: ours + "cmd/reference", to: "charm.land/bubbletea/v2",
			through: ours + "cmd/kubectl-stratos/top", allowed: true},
		"the plugin draws on a terminal": {from: ours + "cmd/kubectl-stratos/top", to: "charm.land/bubbletea/v2",
			allowed: true},
		"the plugin prints as kubectl does": {from: ours + "cmd/kubectl-stratos/command",
			to: "k8s.io/cli-runtime/pkg/printers", allowed: true},
		"the controller explains as the plugin does": {from: ours + "cmd/stratos/subcommand",
			to: ours + "cmd/kubectl-stratos/why", allowed: true},
		"the plugin has a part of the scaler": {from: ours + "cmd/kubectl-stratos/why", to: ours + "scaler/pending"},
		"the plugin knows which pods start no node": {from: ours + "cmd/kubectl-stratos/why",
			to: ours + "extender/decide", allowed: true},
		"the webhook calls the scaler":               {from: ours + "webhook", to: ours + "scaler"},
		"the webhook reads the extender's pure leaf": {from: ours + "webhook", to: ours + "extender/fit"},
		"the extender calls the scaler":              {from: ours + "extender", to: ours + "scaler"},
		"the extender starts instances itself":       {from: ours + "extender", to: ours + "scaler/start"},
		"a test of the extender uses the scaler":     {from: ours + "extender", to: ours + "scaler", inTest: true},
		"the scaler calls the extender":              {from: ours + "scaler/plan", to: ours + "extender"},
		"the scaler calls the extender through the start": {from: ours + "scaler", to: ours + "extender", through: ours +
			"scaler/start"},
		"the scaler plans by the extender's fit": {from: ours + "scaler/plan", to: ours + "extender/fit",
			allowed: true},
		"the scaler plans by the extender's claims": {from: ours + "scaler/plan", to: ours + "extender/decide",
			allowed: true},
		"a room of the scaler calls the loops": {from: ours + "scaler/node", to: ours + "scaler"},
		"a room uses one before it":            {from: ours + "scaler/node", to: ours + "scaler/pool", allowed: true},
		"a room uses one behind it":            {from: ours + "scaler/pool", to: ours + "scaler/node"},
		"what starts instances knows a loop":   {from: ours + "scaler/start", to: ours + "scaler/inventory"},
		"the extender uses a room":             {from: ours + "extender", to: ours + "scaler/inventory"},
		"the scaler knows one cloud":           {from: ours + "scaler", to: ours + "provider/fake"},
		"a test of the scaler plays a cloud": {from: ours + "scaler", to: ours + "provider/fake",
			inTest: true, allowed: true},
		"the scaler knows the contract": {from: ours + "scaler", to: ours + "provider", allowed: true},
		"fit takes a context":           {from: ours + "extender/fit", to: "context"},
		"decide writes a log":           {from: ours + "extender/decide", to: "github.com/go-logr/logr"},
		"lifecycle throws dice":         {from: ours + "scaler/lifecycle", to: "math/rand/v2"},
		"plan holds a client":           {from: ours + "scaler/plan", to: "k8s.io/client-go/kubernetes"},
		"plan holds a client through a library": {from: ours + "scaler/plan", to: "k8s.io/client-go/kubernetes",
			through: "example.org/lister"},
		"lifecycle reconciles": {from: ours + "scaler/lifecycle",
			to: "sigs.k8s.io/controller-runtime"},
		"a test of fit takes a context": {from: ours + "extender/fit", to: "context", inTest: true,
			allowed: true},
		"fit knows the types of the API": {from: ours + "extender/fit", to: ours + "crds/v1alpha1",
			allowed: true},
		"fit knows the claims": {from: ours + "extender/fit", to: ours + "extender/decide"},
		"the scaler speaks to EC2": {from: ours + "scaler",
			to: "github.com/aws/aws-sdk-go-v2/service/ec2"},
		"a test of the webhook speaks to EC2": {from: ours + "webhook", to: "github.com/aws/smithy-go",
			inTest: true},
		"the extender carries the SDK in through others": {from: ours + "extender", to: "github.com/aws/smithy-go",
			through: "example.org/cloud"},
		"the AWS provider speaks to EC2": {from: ours + "provider/aws",
			to: "github.com/aws/aws-sdk-go-v2/service/ec2", allowed: true},
		"the program carries the SDK in": {from: ours + "cmd/stratos", to: "github.com/aws/smithy-go",
			through: ours + "provider/aws", allowed: true},
		"the scaler speaks to Docker": {from: ours + "scaler", to: "github.com/docker/docker/client"},
		"the program speaks to Docker itself": {from: ours + "cmd/stratos",
			to: "github.com/docker/docker/client"},
		"the kind provider speaks to Docker": {from: ours + "provider/kind",
			to: "github.com/docker/docker/client", allowed: true},
		"the kind provider borrows from the fake cloud": {from: ours + "provider/kind", to: ours + "provider/fake"},
		"the fake cloud asks the extender":              {from: ours + "provider/fake", to: ours + "extender/fit"},
		"the webhook checks user data by the pure leaf": {from: ours + "webhook", to: ours + "provider/userdata",
			allowed: true},
		"a command prints user data by the pure leaf": {from: ours + "cmd/stratos/subcommand",
			to: ours + "provider/userdata", allowed: true},
		"the webhook knows one cloud":  {from: ours + "webhook", to: ours + "provider/aws"},
		"the scaler writes user data":  {from: ours + "scaler", to: ours + "provider/userdata"},
		"user data reads a file":       {from: ours + "provider/userdata", to: "os"},
		"user data knows the contract": {from: ours + "provider/userdata", to: ours + "provider", allowed: true},
		"user data knows the cloud":    {from: ours + "provider/userdata", to: ours + "provider/aws"},
		"the AWS provider writes user data": {from: ours + "provider/aws", to: ours + "provider/userdata",
			allowed: true},
		"prices read a file":                {from: ours + "provider/price", to: "os"},
		"prices know the contract":          {from: ours + "provider/price", to: ours + "provider"},
		"the AWS provider knows prices":     {from: ours + "provider/aws", to: ours + "provider/price", allowed: true},
		"the contract knows the fake cloud": {from: ours + "provider", to: ours + "provider/fake"},
		"the AWS provider knows its test server": {from: ours + "provider/aws", to: ours +
			"provider/aws/ec2test"},
		"a test of the AWS provider calls its test server": {from: ours + "provider/aws", to: ours + "provider/aws/ec2test",
			inTest: true, allowed: true},
		"the program ships the EC2 test server": {from: ours + "cmd/stratos", to: ours + "provider/aws/ec2test"},
		"the EC2 test server believes the SDK": {from: ours + "provider/aws/ec2test",
			to: "github.com/aws/aws-sdk-go-v2/service/ec2"},
		"a test of the EC2 test server calls it by the SDK": {from: ours + "provider/aws/ec2test",
			to: "github.com/aws/aws-sdk-go-v2/service/ec2", inTest: true, allowed: true},
		"the played cloud knows a protocol":            {from: ours + "provider/simcloud", to: ours + "provider/fake"},
		"the AWS provider borrows from the fake cloud": {from: ours + "provider/aws", to: ours + "provider/fake"},
		"the API types bring a client": {from: ours + "crds/v1alpha1",
			to: "sigs.k8s.io/controller-runtime/pkg/scheme"},
		"the API types know the contract": {from: ours + "crds/v1alpha1", to: ours + "provider"},
		"the program imports the scheduler's source": {from: ours + "cmd/stratos",
			to: "k8s.io/kubernetes/pkg/scheduler"},
		"a suite imports the scheduler's source": {from: ours + "e2e/suites",
			to: "k8s.io/kubernetes/pkg/scheduler", inTest: true},
		"the control plane module builds Kubernetes": {from: ours + "e2e/controlplane",
			to: "k8s.io/kubernetes/cmd/kube-scheduler", allowed: true},
		"the parity test asks the scheduler's filters": {from: ours + "e2e/parity",
			to: "k8s.io/kubernetes/pkg/scheduler/framework", inTest: true, allowed: true},
		"a rig asks the scheduler's filters": {from: ours + "e2e/framework",
			to: "k8s.io/kubernetes/pkg/scheduler/framework"},
		"a suite imports Karpenter": {from: ours + "e2e/suites/karpenter",
			to: "sigs.k8s.io/karpenter/pkg/apis/v1", inTest: true},
		"the rig imports Karpenter": {from: ours + "e2e/framework", to: "sigs.k8s.io/karpenter/kwok/apis"},
		"the module of Karpenter builds it": {from: ours + "e2e/karpenter", to: "sigs.k8s.io/karpenter/kwok",
			allowed: true},
		"the program imports cert-manager's controllers": {from: ours + "cmd/stratos",
			to: "github.com/cert-manager/cert-manager/pkg/controller/issuers"},
		"a suite imports cert-manager's controllers": {from: ours + "e2e/suites",
			to: "github.com/cert-manager/cert-manager/pkg/controller", inTest: true},
		"the test program runs cert-manager's controllers": {from: ours + "e2e/certmanager",
			to: "github.com/cert-manager/cert-manager/pkg/controller/issuers", allowed: true},
		"the chart's test knows cert-manager's types": {from: ours + "webhook",
			to: "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1", inTest: true, allowed: true},
		"the program imports a demo": {from: ours + "cmd/stratos", to: ours + "e2e/demo"},
		"a test asserts by testify": {from: ours + "scaler",
			to: "github.com/stretchr/testify/require", inTest: true},
		"a package whose name only begins like a fenced one": {from: ours + "webhook", to: ours + "scalery", allowed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			found := Violations(plant(tt.from, tt.through, tt.to, tt.inTest), Law())
			if tt.allowed {
				if len(found) > 0 {
					t.Fatalf("reported although allowed: %v", found)
				}
				return
			}
			for _, v := range found {
				if v.Chain[0] == tt.from && v.Chain[len(v.Chain)-1] == tt.to && v.Reason != "" {
					return
				}
			}
			t.Fatalf("not reported; found %v", found)
		})
	}
}

// plant returns a graph with the one edge from -> to, or from -> through -> to.
func plant(from, through, to string, inTest bool) []Package {
	first := to
	packages := []Package{{ImportPath: to}}
	if through != "" {
		first = through
		packages = append(packages, Package{ImportPath: through, Imports: []string{to}})
	}
	if inTest {
		return append(packages, Package{ImportPath: from, XTestImports: []string{first}})
	}
	return append(packages, Package{ImportPath: from, Imports: []string{"fmt", first}})
}

func TestClockUsesAreSeen(t *testing.T) {
	folder := t.TempDir()
	write := func(name, source string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("now.go", "package p\n\nimport \"time\"\n\nfunc f() time.Time { return time.Now() }\n")
	write("renamed.go", "package p\n\nimport clock \"time\"\n\nvar _ = clock.Since(clock.Time{})\n")
	write("pure.go", "package p\n\nimport \"time\"\n\nfunc g(now time.Time) time.Time { return now.Add(time.Second) }\n")
	write("now_test.go", "package p\n\nimport \"time\"\n\nvar _ = time.Now()\n")

	uses, err := ClockUses(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(uses) != 2 || !strings.HasSuffix(uses[0], "now.go:5: time.Now") ||
		!strings.HasSuffix(uses[1], "renamed.go:5: time.Since") {
		t.Errorf("got %q, want time.Now in now.go and time.Since in renamed.go alone", uses)
	}
}
