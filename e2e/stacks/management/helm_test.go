package management

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// render is helm template as the operator calls it.
func render(t *testing.T, helm, name, chart, namespace, values string) string {
	t.Helper()
	cmd := exec.Command(helm, "template", name, chart, "--namespace", namespace, "-f", "-")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stdin = strings.NewReader(values)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm template %s: %v: %s", chart, err, complaints.String())
	}
	return string(out)
}
