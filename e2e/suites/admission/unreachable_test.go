package admission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestWebhookUnreachable has the API server ask where no server answers, while Stratos itself runs
// on: the fault of a network policy or of a CA that was not injected.
func TestWebhookUnreachable(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	assert.OptIn(t, g.Rig, "opted-in")
	// One standby of at most three: a start is followed by a launch, which writes the pool's
	// annotation before it.
	pool := framework.Pool("workers", 3)
	pool.Spec.MinStandby = 1
	assert.Warm(t, g.Rig, pool, framework.Class("workers", "m5.large"))
	g.register(t, assert.FreeAddress(t))
	g.awaitUnreached(t)

	t.Run("a running pool goes on", func(t *testing.T) { g.testPoolGoesOn(t, pool.Name) })
	t.Run("pods are created", g.testPodsAreCreated)
	t.Run("the error at apply is clear", g.testErrorAtApply)
	t.Run("a pool can be deleted", func(t *testing.T) {
		assert.Remove(t, g.Rig, pool)
	})
	t.Run("and back", func(t *testing.T) {
		g.register(t, g.address)
		g.awaitAsked(t)
		if err := g.client.Create(t.Context(), framework.Pool("again", 1)); err != nil {
			t.Error(err)
		}
	})
}

func (g *site) testPoolGoesOn(t *testing.T, pool string) {
	before := assert.Now(t, g.Rig, assert.Pool(pool))
	pod := framework.Pod("waiting", "cpu", "1")
	assert.Create(t, g.Rig, pod)
	assert.AwaitBound(t, g.Rig, pod)
	assert.AwaitPool(t, g.Rig, pool, "standby node replaced",
		func(s v1alpha1.NodePoolStatus) bool { return s.Running >= 1 && s.Standby >= 1 })
	after := assert.Now(t, g.Rig, assert.Pool(pool))
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
	out, err := assert.Kubectl(t, g.ControlPlane, "apply", "-f", file)
	if err == nil {
		t.Fatalf("applied: %s", out)
	}
	for _, want := range []string{"failed calling webhook", "default.nodepool.stratos.sh", "connection refused"} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl says %q, without %q", out, want)
		}
	}
}
