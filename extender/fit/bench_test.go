package fit

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// happy is what /filter meets most: a pod with the two default tolerations, a node with no taint
// that matters.
func happy() (*corev1.Pod, []corev1.Taint, Resources, Resources) {
	pod := podWith("p", nil, tolerating(
		corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute},
		corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute},
	), requesting("cpu", "500m", "memory", "1Gi", "nvidia.com/gpu", "1"))
	taints := []corev1.Taint{{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	return pod, taints, FromList(list("cpu", "8", "memory", "32Gi", "pods", "110", "nvidia.com/gpu", "4")),
		Requests(pod, nil)
}

func TestConsentAllocatesNothing(t *testing.T) {
	pod, taints, left, need := happy()
	digest, node := NewPod(pod, nil), nodeIn("n", "a")
	node.Allocatable = left
	for name, f := range map[string]func() bool{
		"Schedulable":     func() bool { return Schedulable(pod, taints, false) == nil },
		"digest":          func() bool { return digest.Schedulable(taints, false) == nil },
		"KeptOff":         func() bool { return UntoleratedReason(pod, taints, false) == "" },
		"Short":           func() bool { return left.Short(need) == "" },
		"ResourcesRefuse": func() bool { return CheckResources(digest, node) == nil },
		"PortsConflict":   func() bool { return !PortsConflict(digest.Ports, node.Ports) },
	} {
		consented := true
		if allocs := testing.AllocsPerRun(100, func() { consented = consented && f() }); allocs != 0 || !consented {
			t.Errorf("%s: %v allocations, consented %v", name, allocs, consented)
		}
	}
}

func BenchmarkSchedulable(b *testing.B) {
	pod, taints, _, _ := happy()
	b.ReportAllocs()
	for b.Loop() {
		if Schedulable(pod, taints, false) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkSchedulableRefusal(b *testing.B) {
	pod := podWith("p", nil)
	taints := []corev1.Taint{{Key: "stratos.sh/standby", Effect: corev1.TaintEffectNoSchedule}}
	b.ReportAllocs()
	for b.Loop() {
		if Schedulable(pod, taints, false) == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkShort(b *testing.B) {
	_, _, left, need := happy()
	b.ReportAllocs()
	for b.Loop() {
		if left.Short(need) != "" {
			b.Fatal("short")
		}
	}
}

// BenchmarkViewFits is one pod with anti-affinity and spread against 1000 nodes with ten pods each.
func BenchmarkViewFits(b *testing.B) {
	w := &World{}
	for i := range 1000 {
		node := nodeIn(fmt.Sprintf("n%d", i), fmt.Sprintf("z%d", i%3))
		for j := range 10 {
			node.Pods = append(node.Pods, NewPlaced(podWith(fmt.Sprintf("%d-%d", i, j), set("app", fmt.Sprintf("a%d", j)))))
		}
		w.Nodes = append(w.Nodes, node)
	}
	pod := NewPod(podWith("p", set("app", "web"), antiAffinity(term(hostname, selector("app", "web"))),
		spread(over(zone, 1, selector("app", "web")))), nil)
	b.ReportAllocs()
	for b.Loop() {
		view := w.View(pod)
		for _, node := range w.Nodes {
			if view.Fits(node) != nil {
				b.Fatal("refused")
			}
		}
	}
}
