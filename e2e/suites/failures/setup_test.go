package failures

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// newRig starts a rig whose machines are fast. So few tags may be written at once that their calls
// wait, for the metric of that.
func newRig(t *testing.T) *framework.Rig {
	t.Helper()
	return assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(),
		Stratos: []string{"--rate-limit-create-tags=2/5"}})
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
	if err := r.Warm(t.Context(), p, framework.Class(name, instanceType)); err != nil {
		t.Fatal(err)
	}
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
	return assert.OnPool(framework.Pod(name, "cpu", "1500m"), pool)
}

func addFault(t *testing.T, r *framework.Rig, f fake.Fault) {
	t.Helper()
	if _, err := r.Cloud.AddFault(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// change writes one change of a Node, as a person does with kubectl.
func change(t *testing.T, r *framework.Rig, node string, how func(*corev1.Node)) {
	t.Helper()
	assert.Await(t, "change of "+node, func(ctx context.Context) (bool, error) {
		n := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return false, err
		}
		was := n.DeepCopy()
		how(n)
		err := r.Client.Patch(ctx, n, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
		return err == nil, err
	})
}

// awaitWords waits for an event about the object with the reason and words.
func awaitWords(t *testing.T, r *framework.Rig, of client.Object, reason v1alpha1.Reason, words string) {
	t.Helper()
	assert.Await(t, fmt.Sprintf("event %s with %q about %s", reason, words, of.GetName()),
		func(ctx context.Context) (bool, error) {
			notes, err := assert.EventsAbout(ctx, r, of)
			for _, note := range notes[reason] {
				if strings.Contains(note, words) {
					return true, nil
				}
			}
			return false, errors.Join(err, fmt.Errorf("events so far: %v", notes))
		})
}

// awaitStandby waits until the pool has that many standby nodes.
func awaitStandby(t *testing.T, r *framework.Rig, pool string, n int32) {
	t.Helper()
	if err := r.AwaitPool(t.Context(), pool, func(s v1alpha1.NodePoolStatus) bool { return s.Standby == n }); err != nil {
		t.Fatal(err)
	}
}
