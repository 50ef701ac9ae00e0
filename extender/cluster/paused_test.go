package cluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func paused(p *v1alpha1.NodePool) {
	p.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
}

// TestAPausedPool: the annotation leaves the generation as it is, and is noticed all the same. The
// listeners hear which nodes' claims may have to end, and when pods may fit again.
func TestAPausedPool(t *testing.T) {
	v, l := newTestView()
	var stopped []v1alpha1.NodeName
	var again []string
	v.Listen(Listener{
		PoolPaused: func(nodes []v1alpha1.NodeName) { stopped = append(stopped, nodes...) },
		MayFit:     func(pod types.NamespacedName) { again = append(again, pod.Name) },
	})
	for name, state := range map[string]v1alpha1.NodeState{
		"free": v1alpha1.StateStandby, "claimed": v1alpha1.StateStandby, "starting": v1alpha1.StateStarting,
	} {
		v.SetNode(poolNode(name, state))
	}
	for pod, node := range map[string]string{"a": "claimed", "b": "starting"} {
		v.SetPod(cpuPod(pod, ""))
		claimFor(t, v, l, cpuPod(pod, ""), node)
	}
	startable := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for name, e := range v.nodes {
			got[string(name)] = e.node.NotStartable
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("why nodes may not start (-want +got):\n%s", diff)
		}
	}

	v.SetPool(poolObject("p", 1, paused))
	startable(map[string]string{"free": "its NodePool is paused", "claimed": "its NodePool is paused", "starting": ""})
	if diff := cmp.Diff([]v1alpha1.NodeName{"claimed"}, stopped); diff != "" {
		t.Errorf("told of nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[v1alpha1.PoolName]bool{"p": true}, v.PausedPools()); diff != "" {
		t.Errorf("paused pools (-want +got):\n%s", diff)
	}
	if v.ExpireBackoffs(epoch()) || len(again) > 0 {
		t.Error("pods are tried again although the pool is paused")
	}

	stopped = nil
	v.SetPool(poolObject("p", 1, paused, func(p *v1alpha1.NodePool) { p.Status.Total = 3 }))
	if len(stopped) > 0 {
		t.Errorf("told again of %v", stopped)
	}

	v.SetPool(poolObject("p", 1))
	startable(map[string]string{"free": "", "claimed": "", "starting": ""})
	slices.Sort(again)
	if diff := cmp.Diff([]string{"a", "b"}, again); diff != "" {
		t.Errorf("pods that may fit again (-want +got):\n%s", diff)
	}
	if !v.ExpireBackoffs(epoch()) || v.ExpireBackoffs(epoch()) {
		t.Error("the scheduler's pods are not tried again once")
	}
	if _, limited := v.StartsLimited("p", epoch()); limited {
		t.Error("the pool says that its start budget is used up")
	}
	v.DeletePool("p")
	if diff := cmp.Diff(map[v1alpha1.PoolName]bool{}, v.PausedPools(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("paused pools once it is gone (-want +got):\n%s", diff)
	}
}

// TestAPausedPoolWithoutClaims: there is nothing to tell.
func TestAPausedPoolWithoutClaims(t *testing.T) {
	v, _ := newTestView()
	v.Listen(Listener{PoolPaused: func(nodes []v1alpha1.NodeName) { t.Errorf("told of %v", nodes) }})
	v.SetNode(poolNode("a", v1alpha1.StateStandby))
	v.SetNode(poolNode("o", v1alpha1.StateStandby, func(n *corev1.Node) { n.Labels[v1alpha1.LabelPool] = "other" }))
	v.SetPool(poolObject("p", 1, paused))
}
