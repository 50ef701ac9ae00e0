package plan

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// cpuPods are n pods labelled app=web that ask for the cpu.
func cpuPods(n int, cpu string, change ...func(*corev1.Pod)) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		name := fmt.Sprintf("%s-%d", cpu, i)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": "web"}}}
		p.Spec.Containers = []corev1.Container{
			{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}},
		}
		for _, f := range change {
			f(p)
		}
		out = append(out, p)
	}
	return out
}

func apart(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}},
	}}
}

// nodesFor is how many empty nodes like the pattern the pods need, in any zone.
func nodesFor(pods []*corev1.Pod, pattern *decide.Node) int32 {
	var waiting []Waiting
	for _, p := range pods {
		waiting = append(waiting, Waiting{Pod: p})
	}
	_, rest := openedFor(waiting, pattern, Supply{}, nil)
	return rest[""]
}

func onPort(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }

func TestNodesFor(t *testing.T) {
	join := func(lists ...[]*corev1.Pod) []*corev1.Pod {
		var out []*corev1.Pod
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want int32
	}{
		"nobody waits":     {nil, 0},
		"one":              {cpuPods(1, "1"), 1},
		"four fill a node": {cpuPods(4, "1"), 1},
		"five do not":      {cpuPods(5, "1"), 2},
		"placed, not divided: 2.5 of 4 do not share": {cpuPods(5, "2500m"), 5},
		"small ones fill the gaps of large ones":     {join(cpuPods(2, "3"), cpuPods(2, "1")), 2},
		"one that is larger than a node needs none":  {join(cpuPods(1, "5"), cpuPods(1, "1")), 1},
		"those that keep apart":                      {cpuPods(3, "100m", apart), 3},
		"those that need the same port":              {cpuPods(3, "100m", onPort), 3},
		"more than a node has places":                {cpuPods(11, "0"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			// The pattern is a node in use: what is counted are empty ones like it.
			pattern := &decide.Node{Node: fit.Node{
				Name: "n", Labels: map[string]string{corev1.LabelHostname: "n"}, Used: fit.Resources{MilliCPU: 4000, Pods: 9},
				Allocatable: fit.Resources{MilliCPU: 4000, Pods: 10},
			}}
			if got := nodesFor(c.pods, pattern); got != c.want {
				t.Errorf("%d nodes, want %d", got, c.want)
			}
			if pattern.Used.Pods != 9 || pattern.Labels[corev1.LabelHostname] != "n" || len(pattern.Pods) != 0 {
				t.Errorf("the pattern was changed: %+v", pattern)
			}
		})
	}
}

// TestNodesForBesideDaemonSets: each new node of 4 cpu and 10 places also holds the pods of
// DaemonSets.
func TestNodesForBesideDaemonSets(t *testing.T) {
	for name, c := range map[string]struct {
		daemon *corev1.Pod
		pods   []*corev1.Pod
		want   int32
	}{
		"requests":                    {cpuPods(1, "100m")[0], cpuPods(4, "1"), 2},
		"a pod that has no room":      {cpuPods(1, "100m")[0], cpuPods(1, "3950m"), 0},
		"places":                      {cpuPods(1, "0")[0], cpuPods(10, "0"), 2},
		"a host port that is taken":   {cpuPods(1, "0", onPort)[0], cpuPods(1, "0", onPort), 0},
		"one that no node would hold": {cpuPods(1, "5")[0], cpuPods(4, "1"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			set := agents("agent", spec(func(s *corev1.PodSpec) { *s = c.daemon.Spec }))
			pattern := &decide.Node{
				Node:    fit.Node{Name: "n", Labels: map[string]string{}, Allocatable: fit.Resources{MilliCPU: 4000, Pods: 10}},
				Daemons: []*fit.Daemon{fit.NewDaemon(set)},
			}
			if got := nodesFor(c.pods, pattern); got != c.want {
				t.Errorf("%d nodes, want %d", got, c.want)
			}
		})
	}
}

func TestLaunchesForDemand(t *testing.T) {
	for name, c := range map[string]struct {
		pool Pool
		want int32
	}{
		"demand comes on top of minStandby": {Pool{PoolSize: 9, MinStandby: 2, Standby: 2, Total: 2, Demand: 3}, 3},
		"what warms up serves it":           {Pool{PoolSize: 9, MinStandby: 0, Warmup: 2, Total: 2, Demand: 3}, 1},
		"what is asked for serves it":       {Pool{PoolSize: 9, MinStandby: 0, Pending: 3, Demand: 3}, 0},
		"never past poolSize":               {Pool{PoolSize: 4, MinStandby: 0, Total: 3, Demand: 3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Launches(c.pool); got != c.want {
				t.Errorf("%d launches, want %d", got, c.want)
			}
		})
	}
}
