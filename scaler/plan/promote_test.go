package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

func TestPromote(t *testing.T) {
	node := func(name string, used int64) *decide.Node {
		return &decide.Node{Node: fit.Node{
			Name: v1alpha1.NodeName(name), Labels: map[string]string{corev1.LabelHostname: name},
			Allocatable: fit.Resources{MilliCPU: 4000, Pods: 10}, Used: fit.Resources{MilliCPU: used},
		}}
	}
	warm := []*decide.Node{node("c", 0), node("a", 0), node("b", 0)}
	for name, c := range map[string]struct {
		pods         []*corev1.Pod
		opened, warm []*decide.Node
		want         []v1alpha1.NodeName
	}{
		"nobody waits": {nil, nil, warm, nil},
		"one pod promotes one, the first by name": {cpuPods(1, "1"), nil, warm, []v1alpha1.NodeName{"a"}},
		"four share it":                       {cpuPods(4, "1"), nil, warm, []v1alpha1.NodeName{"a"}},
		"five need a second":                  {cpuPods(5, "1"), nil, warm, []v1alpha1.NodeName{"a", "b"}},
		"as many as there are":                {cpuPods(9, "4"), nil, warm, []v1alpha1.NodeName{"a", "b", "c"}},
		"those that keep apart need one each": {cpuPods(2, "1", apart), nil, warm, []v1alpha1.NodeName{"a", "b"}},
		"one that fits none promotes none":    {cpuPods(1, "5"), nil, warm, nil},
		"one was promoted a moment ago":       {cpuPods(2, "1"), []*decide.Node{node("z", 0)}, warm, nil},
		"and has filled up since": {cpuPods(2, "1"), []*decide.Node{node("z", 3000)}, warm,
			[]v1alpha1.NodeName{"a"}},
		"what runs on a warm one counts": {cpuPods(1, "4"), nil, []*decide.Node{node("a", 100), node("b", 0)},
			[]v1alpha1.NodeName{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // what was given is not changed
				if got := Promote(c.pods, c.opened, c.warm); !slices.Equal(got, c.want) {
					t.Errorf("promoted %v, want %v", got, c.want)
				}
			}
		})
	}
}
