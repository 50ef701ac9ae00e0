package suite

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestUninstallLeavesNothing follows docs/install.md, "Clean up": the pools first, then the
// release, then the definitions. Afterwards it installs Stratos again, for the other tests.
func TestUninstallLeavesNothing(t *testing.T) {
	l := cluster.New(t)
	t.Cleanup(func() { reinstall(t, l) })
	t.Run("pools are deleted", func(t *testing.T) {
		makePool(t, l, poolOf("leaving", 2, 2))
	}) // its end deletes pool and class, and waits until they are gone
	noInstances(t, l)

	uninstall(t, l)
	noInstances(t, l)
	err := l.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster.ReleaseNamespace, Name: cluster.Release},
		&appsv1.Deployment{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is still there: %v", err)
	}
	definitions := []string{"nodepools.stratos.sh", "awsnodeclasses.stratos.sh", "kindnodeclasses.stratos.sh"}
	if out, err := kubectl(t.Context(), append([]string{"delete", "crd", "--wait", "--timeout=600s"},
		definitions...)...); err != nil {
		t.Errorf("the definitions cannot be deleted: %v\n%s", err, out)
	}
	noInstances(t, l)
}

// TestUninstallWithLivePools is docs/operate.md, "Uninstall with live pools": Helm refuses and says
// what is there; without its hooks everything stays as it is, and Stratos finds it again.
func TestUninstallWithLivePools(t *testing.T) {
	l := cluster.New(t)
	standby := makePool(t, l, poolOf("live", 1, 1))
	reinstalled := false
	t.Cleanup(func() {
		if !reinstalled { // else the pool could not be deleted
			reinstall(t, l)
		}
	})
	refusesToUninstall(t, l, "live")
	uninstall(t, l, "--no-hooks")
	left, err := l.Containers(t.Context(), "live")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(left, standby) {
		t.Errorf("without Stratos the pool's containers are %v, want the same %v", left, standby)
	}
	reinstall(t, l)
	reinstalled = true
	if found := l.AwaitStandby(t, "live", 1); !slices.Equal(found, standby) {
		t.Errorf("after it was installed again the pool's nodes are %v, want the same %v", found, standby)
	}
}

func noInstances(t *testing.T, l *cluster.Cluster) {
	t.Helper()
	left, err := l.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("containers that are left: %v", left)
	}
}

func uninstall(t *testing.T, l *cluster.Cluster, flags ...string) {
	t.Helper()
	if out, err := tryUninstall(t, l, flags...); err != nil {
		t.Fatalf("helm uninstall: %v\n%s", err, out)
	}
}

func tryUninstall(t *testing.T, l *cluster.Cluster, flags ...string) (string, error) {
	t.Helper()
	return l.RunHelm(t.Context(), append([]string{"uninstall", cluster.Release, "--namespace", cluster.ReleaseNamespace,
		"--wait"}, flags...)...)
}

// refusesToUninstall wants the guard to name the pool, with its one stopped instance, and the
// command that it names to bring the release back.
func refusesToUninstall(t *testing.T, l *cluster.Cluster, pool string) {
	t.Helper()
	out, err := tryUninstall(t, l)
	said := strings.ReplaceAll(out, `\n`, "\n") // Helm logs it as one line
	back := regexp.MustCompile(`helm (rollback .*?)"?\n`).FindStringSubmatch(said)
	if err == nil || !strings.Contains(said, "\npool "+pool+": 1 instances, 1 of them stopped\n") ||
		!strings.Contains(said, "--no-hooks\n") || back == nil {
		t.Fatalf("helm uninstall: error %v, want the guard's:\n%s", err, out)
	}
	if out, err := l.RunHelm(t.Context(), strings.Fields(back[1])...); err != nil {
		t.Fatalf("helm %s: %v\n%s", back[1], err, out)
	}
	out, err = l.RunHelm(t.Context(), "status", cluster.Release, "--namespace", cluster.ReleaseNamespace)
	if err != nil || !strings.Contains(out, "STATUS: deployed") {
		t.Errorf("helm status: %v\n%s", err, out)
	}
}

func reinstall(t *testing.T, l *cluster.Cluster) {
	t.Helper()
	if out, err := exec.Command("../kind.sh", "install").CombinedOutput(); err != nil {
		t.Fatalf("install it again: %v\n%s", err, out)
	}
	l.AwaitRelease(t)
}

// kubectl is the machine's, or that of the control plane's programs, which kind.sh names.
func kubectl(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "../kind.sh", append([]string{"kubectl"}, args...)...).CombinedOutput()
	return string(out), err
}
