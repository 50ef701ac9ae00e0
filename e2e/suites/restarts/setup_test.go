package restarts

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// startStratos starts a Stratos that reaches the cloud through the URL.
func startStratos(t *testing.T, r *framework.Rig, name, cloudURL string, args ...string) framework.Running {
	t.Helper()
	s, err := r.StartStratos(t.Context(), name, append([]string{"--fake-endpoint=" + cloudURL}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			assert.LogTail(t, s.Process)
		}
	})
	return s
}

// warm creates the pool and waits until its nodes are standby. Then it asks for none: whatever is
// launched after that is one too many.
func warm(t *testing.T, r *framework.Rig) {
	t.Helper()
	pool := framework.Pool(poolName, poolSize)
	pool.Spec.MinStandby = standbyNodes
	if err := r.Warm(t.Context(), pool, framework.Class(poolName, instanceType)); err != nil {
		t.Fatal(err)
	}
	change(t, r, func(p *v1alpha1.NodePool) { p.Spec.MinStandby = 0 })
}

// change changes the pool.
func change(t *testing.T, r *framework.Rig, how func(*v1alpha1.NodePool)) {
	t.Helper()
	assert.Await(t, "change of the pool", func(ctx context.Context) (bool, error) {
		p := &v1alpha1.NodePool{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: poolName}, p); err != nil {
			return false, err
		}
		how(p)
		err := r.Client.Update(ctx, p)
		return err == nil, err
	})
}

// keepEmpty says how long empty nodes are kept: forever while a burst is on, so that whatever
// stops was in use, and not at all after it.
func keepEmpty(t *testing.T, r *framework.Rig, ttl time.Duration) {
	t.Helper()
	change(t, r, func(p *v1alpha1.NodePool) { p.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: ttl} })
}

// burst creates the pods of one burst.
func burst(t *testing.T, r *framework.Rig, name string) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i := range podsPerBurst {
		pod := framework.Pod(fmt.Sprintf("%s-%02d", name, i+1), "cpu", "1500m")
		if err := r.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	return pods
}

// poolNodes returns the pool's Nodes.
func poolNodes(ctx context.Context, r *framework.Rig) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: poolName})
	return list.Items, err
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
