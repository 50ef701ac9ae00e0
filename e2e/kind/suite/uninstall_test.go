package suite

import (
	"context"
	"os/exec"
	"slices"
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
	if out, err := kubectl(t.Context(), append([]string{"delete", "crd", "--wait", "--timeout=60s"},
		definitions...)...); err != nil {
		t.Errorf("the definitions cannot be deleted: %v\n%s", err, out)
	}
	noInstances(t, l)
}

// TestUninstallWithLivePools is docs/operate.md, "Uninstall with live pools": everything stays as
// it is, and Stratos finds it again.
func TestUninstallWithLivePools(t *testing.T) {
	l := cluster.New(t)
	standby := makePool(t, l, poolOf("live", 1, 1))
	reinstalled := false
	t.Cleanup(func() {
		if !reinstalled { // else the pool could not be deleted
			reinstall(t, l)
		}
	})
	uninstall(t, l)
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

func uninstall(t *testing.T, l *cluster.Cluster) {
	t.Helper()
	if out, err := l.RunHelm(t.Context(), "uninstall", cluster.Release, "--namespace", cluster.ReleaseNamespace,
		"--wait"); err != nil {
		t.Fatalf("helm uninstall: %v\n%s", err, out)
	}
}

func reinstall(t *testing.T, l *cluster.Cluster) {
	if out, err := exec.Command("../kind.sh", "install").CombinedOutput(); err != nil {
		t.Fatalf("install it again: %v\n%s", err, out)
	}
	if pods, err := l.StratosPods(context.Background()); err != nil || len(pods) == 0 {
		t.Errorf("%d Stratos pods after it was installed again: %v", len(pods), err)
	}
}

// kubectl is the machine's, or that of the control plane's programs, which kind.sh names.
func kubectl(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "../kind.sh", append([]string{"kubectl"}, args...)...).CombinedOutput()
	return string(out), err
}
