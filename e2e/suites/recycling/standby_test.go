package recycling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// expireAfter: two of three standby nodes turn old at the same moment. They are replaced one after
// the other.
func expireAfter(t *testing.T, r *framework.Rig, j *assert.Journal) {
	const pool = "expire"
	p := newPool(pool, 3, 3)
	p.Spec.PreWarm.Timeout = &metav1.Duration{Duration: 5 * time.Minute}
	p.Spec.Disruption.ExpireAfter = &metav1.Duration{Duration: time.Hour}
	warm(t, r, p)
	nodes := assert.PoolNodes(t, r, pool)
	var old []string
	var from int64
	for name, n := range nodes {
		from = max(from, j.Last(name))
		if len(old) == 2 {
			continue
		}
		old = append(old, name)
		assert.Behind(t, r, assert.InstanceOf(n), fake.ActAge)
	}
	for _, name := range old {
		assert.AwaitGone(t, r, assert.Node(name))
	}
	assert.AwaitNodes(t, r, pool, "three standby", func(nodes map[string]*corev1.Node) bool {
		return assert.In(nodes, v1alpha1.StateStandby) == 3
	})
	checkBounds(t, history(j, pool, from), 1, 2)
	checkSize(t, r, pool, 3)
	if ends := terminated(t, r, nodes); len(ends) != 2 {
		t.Errorf("terminations %+v, want the two old ones", ends)
	}
	for _, name := range old {
		words := assert.AwaitEvent(t, r, nodes[name], v1alpha1.ReasonRecycled)
		if words == "" {
			t.Error("an event without words")
		}
	}
}

// surplusGoes: minStandby is lowered. What is above it is kept for scaleDown.standbySurplusTTL, and
// goes then.
func surplusGoes(t *testing.T, r *framework.Rig, _ *assert.Journal) {
	const pool = "surplus"
	warm(t, r, newPool(pool, 3, 3))
	nodes := assert.PoolNodes(t, r, pool)
	assert.ChangePool(t, r, pool, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 1 })
	assert.AwaitNodes(t, r, pool, "two marked as surplus", func(now map[string]*corev1.Node) bool {
		marked := 0
		for _, n := range now {
			if n.Annotations[v1alpha1.AnnotationSurplusSince] != "" {
				marked++
			}
		}
		return marked == 2 && assert.In(now, v1alpha1.StateStandby) == 3
	})
	if ends := terminated(t, r, nodes); len(ends) > 0 {
		t.Fatalf("terminations %+v before standbySurplusTTL", ends)
	}
	assert.ChangePool(t, r, pool, func(s *v1alpha1.NodePoolSpec) {
		s.ScaleDown.StandbySurplusTTL = &metav1.Duration{Duration: time.Second}
	})
	assert.AwaitNodes(t, r, pool, "one standby left", func(now map[string]*corev1.Node) bool {
		return len(now) == 1 && assert.In(now, v1alpha1.StateStandby) == 1
	})
	if ends := terminated(t, r, nodes); len(ends) != 2 {
		t.Errorf("terminations %+v, want two", ends)
	}
}

// loweredPoolSize: standby nodes above the new size go at once, nodes in use when they are empty,
// and as many as are too many.
func loweredPoolSize(t *testing.T, r *framework.Rig, _ *assert.Journal) {
	const pool = "lowered"
	warm(t, r, newPool(pool, 4, 2))
	first, second := bigPod("first"), bigPod("second")
	on, other := assert.Serve(t, r, framework.OnPool(first, pool)), assert.Serve(t, r, framework.OnPool(second, pool))
	assert.AwaitNodes(t, r, pool, "two standby, two running", func(now map[string]*corev1.Node) bool {
		return assert.In(now, v1alpha1.StateStandby) == 2 && assert.In(now, v1alpha1.StateRunning) == 2
	})
	assert.ChangePool(t, r, pool, func(s *v1alpha1.NodePoolSpec) { s.PoolSize, s.MinStandby = 1, 0 })
	assert.AwaitNodes(t, r, pool, "the two in use", func(now map[string]*corev1.Node) bool {
		return len(now) == 2 && assert.In(now, v1alpha1.StateRunning) == 2
	})
	assert.MustRun(t, r, first, second)
	assert.Remove(t, r, first)
	assert.AwaitGone(t, r, assert.Node(on))
	assert.Remove(t, r, second)
	nodes := assert.AwaitNodes(t, r, pool, "the last node is empty", func(nodes map[string]*corev1.Node) bool {
		return nodes[other] != nil && nodes[other].Annotations[v1alpha1.AnnotationScaleDownCandidateSince] != ""
	})
	if len(nodes) != 1 {
		t.Errorf("%d nodes, want 1", len(nodes))
	}
}
