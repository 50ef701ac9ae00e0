package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/scalertest"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// TestNetworkIsOverdue counts from the boot, by this process's own clock where it has seen it, and
// from when the kubelet said Ready, by the node's clock where that can be right.
func TestNetworkIsOverdue(t *testing.T) {
	never := time.Time{}
	warmingUp := scalertest.NodeIn(v1alpha1.StateWarmup, func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(scalertest.Epoch().Add(-time.Minute))
	})
	readySince := func(n *corev1.Node, ago time.Duration) *corev1.Node {
		transition.Condition(n, corev1.NodeReady).LastTransitionTime = metav1.NewTime(scalertest.Epoch().Add(-ago))
		return n
	}
	for name, c := range map[string]struct {
		node     *corev1.Node
		observed time.Time
		want     bool
	}{
		"a start two minutes ago":              {startedBefore(2 * time.Minute), never, false},
		"a start longer ago":                   {startedBefore(2*time.Minute + time.Second), never, true},
		"the same, seen a moment ago":          {startedBefore(time.Hour), scalertest.Epoch().Add(-time.Second), false},
		"a start in the future, seen long ago": {startedBefore(-time.Hour), scalertest.Epoch().Add(-time.Hour), true},
		"a warm-up":                            {scalertest.NodeIn(v1alpha1.StateWarmup), never, true},
		"a warm-up that has begun":             {warmingUp, never, false},
		"a node that a person started, never":  {scalertest.NodeIn(v1alpha1.StateStandby), never, false},

		"a slow boot, Ready two minutes ago":  {readySince(startedBefore(4*time.Minute), 2*time.Minute), never, false},
		"a slow boot, Ready longer ago":       {readySince(startedBefore(4*time.Minute), 121*time.Second), never, true},
		"a boot as slow as it may be":         {readySince(startedBefore(5*time.Minute), time.Second), never, true},
		"Ready in the future: another clock":  {readySince(startedBefore(4*time.Minute), -time.Hour), never, true},
		"Ready before the boot: the same":     {readySince(startedBefore(4*time.Minute), time.Hour), never, true},
		"a quick boot, Ready two minutes ago": {readySince(startedBefore(121*time.Second), 2*time.Minute), never, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := networkOverdue(c.node, c.observed, 5*time.Minute, scalertest.Epoch())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("overdue (-want +got):\n%s", diff)
			}
		})
	}
}

// startedBefore is a node whose start was asked for that long before the epoch.
func startedBefore(ago time.Duration) *corev1.Node {
	return scalertest.NodeIn(v1alpha1.StateStarting,
		scalertest.MarkedAt(v1alpha1.AnnotationScaleUpStarted, scalertest.Epoch().Add(-ago)))
}
