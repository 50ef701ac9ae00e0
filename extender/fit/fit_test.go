package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestFitsReportsTheFirstRefusalInTheSchedulersOrder removes one obstacle after another from a node
// that has all.
func TestFitsReportsTheFirstRefusalInTheSchedulersOrder(t *testing.T) {
	pod := podWith("p", set("app", "web"),
		nodeSelector("disk", "ssd"), requesting("cpu", "4"), using("data"),
		spread(over(zone, 1, selector("app", "web"))),
		podAffinity(term(zone, selector("app", "db"))),
		antiAffinity(term(hostname, selector("app", "noisy"))))
	pod.Spec.NodeName = "elsewhere"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	disks := disks{
		claims:  []*corev1.PersistentVolumeClaim{claim("data", "ebs", "1Gi")},
		classes: []*storagev1.StorageClass{classNamed("ebs", "ebs.csi.aws.com", late, "b")},
	}

	node := taintedNode(nodeIn("n", "a", podWith("x", set("app", "web")), podWith("noisy", set("app", "noisy"))))
	node.Unschedulable = true
	node.Ports = []HostPort{{"", "TCP", 80}}
	node.Allocatable.MilliCPU = 1000
	other := nodeIn("m", "b") // the emptier domain, once it is one that the pod selects
	other.Labels["disk"] = "ssd"
	world := worldOf(node, other)

	steps := []struct {
		want   Reason
		remedy func()
	}{
		{ReasonUnschedulable, func() { node.Unschedulable = false }},
		{ReasonAffinity, func() { pod.Spec.NodeName = "" }},
		{ReasonTaint, func() { node.Taints = nil }},
		{ReasonAffinity, func() { node.Labels["disk"] = "ssd" }},
		{ReasonPorts, func() { node.Ports = nil }},
		{ReasonResources, func() { node.Allocatable.MilliCPU = 8000 }},
		{ReasonVolume, func() { disks.classes[0].AllowedTopologies = nil }},
		{ReasonSpread, func() { pod.Spec.TopologySpreadConstraints = nil }},
		{ReasonPodAffinity, func() { node.Pods = append(node.Pods, NewPlaced(podWith("db", set("app", "db")))) }},
		{ReasonAntiAffinity, func() { node.Pods = node.Pods[2:] }},
	}
	for _, step := range steps {
		digest := NewPod(pod, nil)
		digest.Volumes = VolumesOf(pod, disks.storage())
		got := world.View(digest).Fits(node)
		if got == nil || got.Reason != step.want {
			t.Fatalf("refusal %+v, want reason %s", got, step.want)
		}
		if got.Message == "" || got.Explain() == "" {
			t.Errorf("%s says nothing: %+v, %q", step.want, got, got.Explain())
		}
		step.remedy()
	}
	digest := NewPod(pod, nil)
	digest.Volumes = VolumesOf(pod, disks.storage())
	if got := world.View(digest).Fits(node); got != nil {
		t.Errorf("nothing is in the way, yet: %+v", got)
	}
	disks.claims = nil
	digest.Volumes = VolumesOf(pod, disks.storage())
	node.Unschedulable = true
	if got := world.View(digest).Fits(node); got == nil || got.Reason != ReasonVolume {
		t.Errorf("what keeps a pod off all nodes is named first, got %+v", got)
	}
}

func TestPlaceLetsTheNextPodSeeTheFirst(t *testing.T) {
	first := podWith("first", set("app", "web"), requesting("cpu", "10"),
		antiAffinity(term(hostname, selector("app", "web"))))
	node := nodeIn("n", "a")
	node.Place(NewPod(first, nil))
	world := worldOf(node)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want Reason
	}{
		"too large now": {podWith("p", nil, requesting("cpu", "7")), ReasonResources},
		"repelled":      {podWith("p", set("app", "web")), ReasonAntiAffinity},
	} {
		if got := world.View(NewPod(c.pod, nil)).Fits(node); got == nil || got.Reason != c.want {
			t.Errorf("%s: refusal %+v, want %s", name, got, c.want)
		}
	}
	if got := world.View(NewPod(podWith("p", nil, requesting("cpu", "6")), nil)).Fits(node); got != nil {
		t.Errorf("what is left is refused: %+v", got)
	}
}

func TestNewPodDigests(t *testing.T) {
	pod := podWith("p", set("a", "b"), requesting("cpu", "1"), tolerating(corev1.Toleration{Key: "k"}))
	got := NewPod(pod, nil)
	if got.Key.String() != "default/p" || got.UID != "p" || got.Requests.MilliCPU != 1000 || len(got.Tolerations) != 1 {
		t.Errorf("digest %+v", got)
	}
	if diff := cmp.Diff(NewPlaced(pod), got.Placed()); diff != "" {
		t.Errorf("a promised pod looks other than the bound one:\n%s", diff)
	}
}

// randomWorld makes a world of few distinct values, so that rules meet often.
func randomWorld(r *rand.Rand) *World {
	w := &World{Namespaces: map[string]map[string]string{"default": set("team", "x"), "other": {}}}
	for i := range 2 + r.IntN(6) {
		node := nodeIn(fmt.Sprintf("n%d", i), string(rune('a'+r.IntN(3))))
		node.Allocatable.MilliCPU = 4000
		if r.IntN(8) == 0 {
			delete(node.Labels, zone)
		}
		if r.IntN(5) == 0 {
			taintedNode(node)
		}
		for j := range r.IntN(4) {
			pod := randomPod(r, fmt.Sprintf("n%d-%d", i, j))
			node.Pods = append(node.Pods, NewPlaced(pod))
			node.Used.Add(Occupied(pod))
			node.Ports = append(node.Ports, HostPorts(pod)...)
		}
		w.Nodes = append(w.Nodes, node)
	}
	return w
}

func randomPod(r *rand.Rand, name string) *corev1.Pod {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	someTerm := func() corev1.PodAffinityTerm {
		t := term(pick(zone, hostname), selector("app", pick("web", "db")))
		if r.IntN(3) == 0 {
			t.NamespaceSelector = selector("team", "x")
		}
		return t
	}
	pod := podWith(name, set("app", pick("web", "db")), requesting("cpu", pick("0", "500m", "1", "2")),
		inNamespace(pick("default", "default", "other")))
	if r.IntN(3) == 0 {
		antiAffinity(someTerm())(pod)
	}
	if r.IntN(4) == 0 {
		podAffinity(someTerm())(pod)
	}
	if r.IntN(3) == 0 {
		c := over(pick(zone, hostname), int32(1+r.IntN(2)), selector("app", pick("web", "db")))
		if r.IntN(2) == 0 {
			taintsPolicy(corev1.NodeInclusionPolicyHonor)(&c)
		}
		spread(c)(pod)
	}
	if r.IntN(5) == 0 {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(80 + r.IntN(2))}}
	}
	return pod
}

func FuzzFits(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := randomWorld(r)
		pod := NewPod(randomPod(r, "waits"), list("cpu", "250m"))
		view := w.View(pod)
		answers := map[string]*Refusal{}
		for _, node := range w.Nodes {
			answers[string(node.Name)] = view.Fits(node)
			checkConsent(t, pod, node, answers[string(node.Name)])
		}
		shuffle(r, w)
		fresh := w.View(pod)
		for _, node := range w.Nodes {
			want := answers[string(node.Name)]
			if diff := cmp.Diff(want, fresh.Fits(node)); diff != "" {
				t.Errorf("another order of nodes and pods, another answer for %s:\n%s", node.Name, diff)
			}
			if diff := cmp.Diff(want, w.View(pod).Fits(node)); diff != "" {
				t.Errorf("asked alone, another answer for %s:\n%s", node.Name, diff)
			}
		}
	})
}

// checkConsent: where the pod fits, the node with it holds no more than it offers, and each single
// check agrees.
func checkConsent(t *testing.T, pod *Pod, node *Node, refusal *Refusal) {
	t.Helper()
	if refusal != nil {
		if refusal.Message == "" || refusal.Explain() == "" {
			t.Errorf("a refusal without words: %+v", refusal)
		}
		return
	}
	used := node.Used.Clone()
	used.Add(pod.Requests)
	for _, name := range []corev1.ResourceName{"pods", "cpu", "memory"} {
		if pod.Requests.Of(name) > 0 && used.Of(name) > node.Allocatable.Of(name) {
			t.Errorf("%s fits %s and exceeds its %s", pod.Key, node.Name, name)
		}
	}
	if PortsConflict(pod.Ports, node.Ports) {
		t.Errorf("%s fits %s and their ports collide", pod.Key, node.Name)
	}
}

func shuffle(r *rand.Rand, w *World) {
	r.Shuffle(len(w.Nodes), func(i, j int) { w.Nodes[i], w.Nodes[j] = w.Nodes[j], w.Nodes[i] })
	for _, node := range w.Nodes {
		r.Shuffle(len(node.Pods), func(i, j int) { node.Pods[i], node.Pods[j] = node.Pods[j], node.Pods[i] })
		r.Shuffle(len(node.Ports), func(i, j int) { node.Ports[i], node.Ports[j] = node.Ports[j], node.Ports[i] })
	}
}
