// Package minors runs the control planes of the Kubernetes minors that a scheduler configuration is
// generated for: what Stratos guarantees has to hold with the scheduler and the API server of each,
// not only with those that it was written against.
package minors

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/extender/minors"
)

// doc has the table of what is supported.
const doc = "../../../docs/versions.md"

// TestMain adds the flag. Tests look it up by name, because a variable for a flag would be a global
// one.
func TestMain(m *testing.M) {
	flag.Bool("all", false, "run all minors, which `make matrix` builds; else the oldest")
	flag.Parse()
	os.Exit(m.Run())
}

// chosen are the minors to run. The newest is what every other suite runs on.
func chosen(t *testing.T, supported []string) []string {
	t.Helper()
	all, ok := flag.Lookup("all").Value.(flag.Getter).Get().(bool)
	if !ok {
		t.Fatal("flag all is no bool")
	}
	if all {
		return supported
	}
	return supported[:1]
}

// TestMinors runs the oldest minor, or all.
func TestMinors(t *testing.T) {
	supported := minors.Supported()
	if diff := cmp.Diff(supported, controlplane.Minors()); diff != "" {
		t.Fatalf("minors that configurations are generated for, and those with a module file (-generated +built):\n%s", diff)
	}
	for _, minor := range chosen(t, supported) {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()
			testMinor(t, minor)
		})
	}
}

func testMinor(t *testing.T, minor string) {
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{Minor: minor},
		Cloud:        assert.FastCloud(),
		Stratos:      []string{"--extender-scheduler-names=" + v1alpha1.SchedulerName + "," + secondScheduler},
		Progress:     os.Stderr, // the first run on a machine builds for minutes
	})
	checkVersions(t, r, minor)
	t.Run("definitions", func(t *testing.T) { testDefinitions(t, r) })
	p := warmPool(t, r)
	t.Run("dedicated scheduler", func(t *testing.T) { testDedicated(t, r, p) })
	t.Run("scheduler on the control plane", func(t *testing.T) { testControlPlane(t, r, p, minor) })
}

// TestEachMinorHasARow: the table that people read names each version that was run.
func TestEachMinorHasARow(t *testing.T) {
	page, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, minor := range append(minors.Supported(), controlplane.BeforeOldest) {
		version, err := controlplane.VersionOf(minor)
		if err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprintf("\n| %s | %s | ", minor, version); !strings.Contains(string(page), row) {
			t.Errorf("%s has no row that begins with %q", doc, row[1:])
		}
	}
}

// checkVersions asks the running processes, since a binary of another minor would pass everything
// below.
func checkVersions(t *testing.T, r *framework.Rig, minor string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.ControlPlane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := client.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(server.GitVersion, "v"+minor+".") {
		t.Errorf("the API server is %s, want %s", server.GitVersion, minor)
	}
	for _, process := range append(r.ControlPlane.Schedulers(), r.ControlPlane.ControllerManager()) {
		text, err := os.ReadFile(process.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		if own := fmt.Sprintf("version=%q", server.GitVersion); !strings.Contains(string(text), own) {
			t.Errorf("%s does not say %s when it starts", process.Name(), own)
		}
	}
	t.Logf("Kubernetes %s", server.GitVersion)
}
