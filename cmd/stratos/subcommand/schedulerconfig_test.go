package subcommand

import (
	"bytes"
	"strings"
	"testing"
)

// TestSchedulerConfigWarns on standard error, because standard output is the file.
func TestSchedulerConfigWarns(t *testing.T) {
	for version, want := range map[string]string{
		"1.37": "",
		"1.38": "warning: Stratos was not tested with Kubernetes 1.38: this is the configuration for 1.37.\n",
	} {
		var out, warned bytes.Buffer
		cmd := schedulerConfig()
		cmd.SetArgs([]string{"--kubernetes-version=" + version})
		cmd.SetOut(&out)
		cmd.SetErr(&warned)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "kind: KubeSchedulerConfiguration") || strings.Contains(out.String(), "warning:") {
			t.Errorf("%s: printed\n%s", version, &out)
		}
		if warned.String() != want {
			t.Errorf("%s: warned %q, want %q", version, &warned, want)
		}
	}
}
