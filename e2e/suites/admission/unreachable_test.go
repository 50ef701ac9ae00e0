package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// TestWebhookUnreachable has the API server ask where no server answers, while Stratos itself runs
// on: the fault of a network policy or of a CA that was not injected.
func TestWebhookUnreachable(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	g.optIn(t, "opted-in")
	// One standby of at most three: a start is followed by a launch, which writes the pool's
	// annotation before it.
	pool := framework.Pool("workers", 3)
	pool.Spec.MinStandby = 1
	if err := g.Warm(t.Context(), pool, framework.Class("workers", "m5.large")); err != nil {
		t.Fatal(err)
	}
	nowhere, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	g.repoint(t, nowhere)
	g.awaitUnreached(t)

	t.Run("a running pool goes on", func(t *testing.T) { g.testPoolGoesOn(t, pool.Name) })
	t.Run("pods are created", g.testPodsAreCreated)
	t.Run("the error at apply is clear", g.testErrorAtApply)
	t.Run("a pool can be deleted", func(t *testing.T) {
		if err := g.client.Delete(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		await(t, "the pool's finalizer gone", func(ctx context.Context) (bool, error) {
			err := g.client.Get(ctx, client.ObjectKeyFromObject(pool), pool.DeepCopy())
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, fmt.Errorf("the pool is still there, or cannot be read: %w", err)
		})
	})
	t.Run("and back", func(t *testing.T) {
		g.repoint(t, g.address)
		g.awaitAsked(t)
		if err := g.client.Create(t.Context(), framework.Pool("again", 1)); err != nil {
			t.Error(err)
		}
	})
}

func (g *site) testPoolGoesOn(t *testing.T, pool string) {
	before := &v1alpha1.NodePool{}
	if err := g.client.Get(t.Context(), client.ObjectKey{Name: pool}, before); err != nil {
		t.Fatal(err)
	}
	pod := framework.Pod("waiting", "cpu", "1")
	if err := g.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if _, err := g.AwaitBound(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	err := g.AwaitPool(t.Context(), pool, func(s v1alpha1.NodePoolStatus) bool { return s.Running >= 1 && s.Standby >= 1 })
	if err != nil {
		t.Errorf("the standby node was not replaced: %v", err)
	}
	after := &v1alpha1.NodePool{}
	if err := g.client.Get(t.Context(), client.ObjectKey{Name: pool}, after); err != nil {
		t.Fatal(err)
	}
	if before.Annotations[v1alpha1.AnnotationLaunches] == after.Annotations[v1alpha1.AnnotationLaunches] {
		t.Errorf("%s is still %q, so no write to the pool was needed", v1alpha1.AnnotationLaunches,
			after.Annotations[v1alpha1.AnnotationLaunches])
	}
}

func (g *site) testPodsAreCreated(t *testing.T) {
	for _, namespace := range []string{metav1.NamespaceDefault, "opted-in"} {
		pod := framework.Pod("created", "cpu", "1")
		pod.Namespace, pod.Spec.SchedulerName = namespace, ""
		if err := g.client.Create(t.Context(), pod); err != nil {
			t.Errorf("%s: %v", namespace, err)
			continue
		}
		if pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
			t.Errorf("%s: scheduler %q", namespace, pod.Spec.SchedulerName)
		}
	}
}

func (g *site) testErrorAtApply(t *testing.T) {
	data, err := yaml.Marshal(good(t, "NodePool", map[string]any{"metadata": map[string]any{"name": "applied"}}))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pool.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := g.kubectl(t, "apply", "-f", file)
	if err == nil {
		t.Fatalf("applied: %s", out)
	}
	for _, want := range []string{"failed calling webhook", "default.nodepool.stratos.sh", "connection refused"} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl says %q, without %q", out, want)
		}
	}
}
