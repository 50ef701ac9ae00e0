// Package lifecycle proves on a real control plane what becomes of nodes over time: bursts that
// come while nodes boot, nodes that live again and again, drains that are cancelled, starts that
// were for nothing.
package lifecycle

import (
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// gpu is what the instance type gpuType has two of.
const gpu, gpuType = "example.com/gpu", "e2e.gpu"

// TestMain has the tests share a rig.
func TestMain(m *testing.M) {
	types := "--fake-instance-types=" + gpuType + "=cpu:4,memory:16Gi," + gpu + ":2"
	os.Exit(assert.MainWithRig(m, framework.Options{Cloud: append(assert.FastCloud(), types)}))
}

// warm creates the pool with its class and waits until all of it is standby.
func warm(t *testing.T, r *framework.Rig, pool *v1alpha1.NodePool, instanceType string) {
	t.Helper()
	assert.Warm(t, r, pool, framework.Class(pool.Name, instanceType))
}

// shortLived is a pool whose nodes stop a second after they are empty, and whose start budget no
// test meets.
func shortLived(name string, size int32) *v1alpha1.NodePool {
	pool := framework.Pool(name, size)
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	pool.Spec.ScaleUp.StartBudget = new(int32)
	*pool.Spec.ScaleUp.StartBudget = 1000
	return pool
}
