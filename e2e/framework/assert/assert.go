// Package assert is what the suites stand on: a rig that ends with its test, waits that say what
// they last saw, a journal of every version of Nodes and pods, and the truth of the fake cloud.
// What it cannot do ends the test.
package assert

import (
	"cmp"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// FastCloud keeps the machines' own times out of the way: what suites prove is order, not duration.
func FastCloud() []string {
	return []string{"--fake-boot-time=500ms", "--fake-stop-time=300ms", "--fake-pull-time=100ms"}
}

// NewRig starts a rig that ends with the test, and shows the end of Stratos's log if the test
// failed.
func NewRig(t *testing.T, o framework.Options) *framework.Rig {
	t.Helper()
	setDefaults(&o)
	keepLogs(t, &o)
	r, err := framework.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && r.Stratos != nil {
			LogTail(t, r.Stratos)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// setDefaults has kube-controller-manager call no machine lost, neither hand-made nodes without a
// kubelet nor those that a busy test machine lets wait. The components run on one thread each: else
// a fifth of their processor time goes into threads that look for work.
func setDefaults(o *framework.Options) {
	o.ControlPlane.Threads = cmp.Or(o.ControlPlane.Threads, 1)
	if o.ControlPlane.NodeMonitorGracePeriod == 0 {
		o.ControlPlane.NodeMonitorGracePeriod = time.Hour
	}
}

// StartStratos starts a further Stratos process, the end of whose log is shown if the test failed.
func StartStratos(t *testing.T, r *framework.Rig, name string, args ...string) framework.Running {
	t.Helper()
	s, err := r.StartStratos(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			LogTail(t, s.Process)
		}
	})
	return s
}

// Warm creates the objects and the pool, and waits until the pool has its standby nodes.
func Warm(t *testing.T, r *framework.Rig, pool *v1alpha1.NodePool, objects ...client.Object) {
	t.Helper()
	if err := r.Warm(t.Context(), pool, objects...); err != nil {
		t.Fatal(err)
	}
}

// logFolder is a new folder below the one that STRATOS_E2E_LOGS names, "" without that.
func logFolder(name string) (string, error) {
	root := os.Getenv("STRATOS_E2E_LOGS")
	if root == "" {
		return "", nil
	}
	return os.MkdirTemp(root, strings.ReplaceAll(name, "/", "-")+"-")
}

// keepLogs has the logs of a test that fails stay in a folder of their own below the one that
// STRATOS_E2E_LOGS names.
func keepLogs(t *testing.T, o *framework.Options) {
	t.Helper()
	if o.ControlPlane.LogDir != "" {
		return
	}
	dir, err := logFolder(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if dir == "" {
		return
	}
	o.ControlPlane.LogDir = dir
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
}

// LogTail shows what the process last said.
func LogTail(t *testing.T, p *controlplane.Process) {
	t.Helper()
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		t.Log(err)
		return
	}
	lines := strings.Split(string(text), "\n")
	t.Logf("end of %s's log:\n%s", p.Name(), strings.Join(lines[max(0, len(lines)-60):], "\n"))
}
