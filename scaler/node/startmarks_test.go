package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// TestStartMarksBelongToOneStart: the next start has its own, also where this process sees no state
// between the two: then the bootID of the one that failed is no news. A start whose node was first
// seen in it has none, and what is gone is forgotten.
func TestStartMarksBelongToOneStart(t *testing.T) {
	var s startMarks
	now := scalertest.Epoch()
	see := func(state v1alpha1.NodeState, bootID string, began time.Time) {
		node := &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: bootID}}}
		s.observe("i", node, &lifecycle.Observation{Node: &lifecycle.Node{State: state, Started: began}}, now)
	}
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	first, second := now, at(60)

	see(v1alpha1.StateStarting, "a", first)
	if got := s.phases("i", first, at(10)); got != nil {
		t.Errorf("of a start that was taken over: %v", got)
	}
	see(v1alpha1.StateStandby, "a", time.Time{})
	see(v1alpha1.StateStarting, "a", first)
	now = at(5)
	see(v1alpha1.StateStarting, "b", first)
	if got := s.phases("i", first, first.Add(9*time.Second)); got[v1alpha1.PhaseReady] != 4*time.Second {
		t.Errorf("after a new bootID at 5 s: %v", got)
	}
	now = second
	see(v1alpha1.StateStarting, "b", second)
	if got := s.phases("i", first, second); got != nil {
		t.Errorf("of a start that is over: %v", got)
	}
	if got := s.phases("i", second, second.Add(time.Second)); got[v1alpha1.PhaseCall] != time.Second {
		t.Errorf("before the second start has come up: %v", got)
	}
	s.observe("i", nil, &lifecycle.Observation{}, now)
	see(v1alpha1.StateRunning, "b", time.Time{})
	if got := s.phases("i", second, second.Add(time.Second)); got != nil {
		t.Errorf("after the start: %v", got)
	}
	s.forget("i")
	if len(s.seen) != 0 {
		t.Errorf("%d instances are remembered that are gone", len(s.seen))
	}
}
