package restarts

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	poolName     = "survivors"
	instanceType = "m5.xlarge" // 4 cpu: two pods of 1500m
	// A burst needs fewer nodes than are standby, and poolSize has room for more instances: a start or
	// a launch too many is possible.
	podsPerBurst  = 12
	nodesPerBurst = 6
	standbyNodes  = 8
	poolSize      = 11
)

// newRig starts a rig without Stratos.
func newRig(t *testing.T) *framework.Rig {
	t.Helper()
	return assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
}

// warm creates the pool and waits until its nodes are standby. Then it asks for none: whatever is
// launched after that is one too many.
func warm(t *testing.T, r *framework.Rig) {
	t.Helper()
	pool := framework.Pool(poolName, poolSize)
	pool.Spec.MinStandby = standbyNodes
	assert.Warm(t, r, pool, framework.Class(poolName, instanceType))
	assert.ChangePool(t, r, poolName, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 0 })
}

// keepEmpty says how long empty nodes are kept: forever while a burst is on, so that whatever
// stops was in use, and not at all after it.
func keepEmpty(t *testing.T, r *framework.Rig, ttl time.Duration) {
	t.Helper()
	assert.ChangePool(t, r, poolName, func(s *v1alpha1.NodePoolSpec) {
		s.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: ttl}
	})
}

// burst creates the pods of one burst.
func burst(t *testing.T, r *framework.Rig, name string) []*corev1.Pod {
	t.Helper()
	pods := framework.Pods(podsPerBurst, name, "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	return pods
}

// awaitSprung waits for the armed moment.
func awaitSprung(t *testing.T, m moment, sprung <-chan struct{}) {
	t.Helper()
	assert.Await(t, "moment "+m.String(), func(context.Context) (bool, error) {
		select {
		case <-sprung:
			return true, nil
		default:
			return false, errors.New("it has not come")
		}
	})
}
