package failures

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// newRig starts a rig whose machines are fast. So few tags may be written at once that their calls
// wait, for the metric of that.
func newRig(t *testing.T) *framework.Rig {
	t.Helper()
	return assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(),
		Stratos: []string{"--rate-limit-create-tags=2/5", "--prices-file=" + prices(t)}})
}

// prices is a file with the price of one instance type.
func prices(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(file, []byte("{currency: USD, instances: {t3.xlarge: 0.1664}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pool creates a pool of the instance type with a class of its own and waits until it is standby.
// No two pools of a test have one type, so that faults can tell them apart.
func pool(t *testing.T, r *framework.Rig, name, instanceType string, size int32,
	change ...func(*v1alpha1.NodePoolSpec)) *v1alpha1.NodePool {
	t.Helper()
	p := framework.Pool(name, size)
	for _, f := range change {
		f(&p.Spec)
	}
	assert.Warm(t, r, p, framework.Class(name, instanceType))
	return p
}

func seconds(n int64) *v1alpha1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

func emptiesAtOnce(s *v1alpha1.NodePoolSpec) { s.ScaleDown.EmptyNodeTTL = seconds(1) }
func drainsBriefly(s *v1alpha1.NodePoolSpec) { s.ScaleDown.DrainTimeout = seconds(3) }
func givesUpStarts(s *v1alpha1.NodePoolSpec) { s.ScaleUp.ReadyTimeout = seconds(6) }
func weighs(w int32) func(*v1alpha1.NodePoolSpec) {
	return func(s *v1alpha1.NodePoolSpec) { s.Weight = &w }
}

// podOn is a pod that fills half of a node of 2 cpus in the pool and more, so that each needs a
// node of its own.
func podOn(name, pool string) *corev1.Pod {
	return framework.PoolPod(name, pool, "cpu", "1500m")
}
