package fit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// list builds a resource list from name, quantity pairs.
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func container(pairs ...string) corev1.Container {
	return corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
}

func sidecar(pairs ...string) corev1.Container {
	c := container(pairs...)
	always := corev1.ContainerRestartPolicyAlways
	c.Name, c.RestartPolicy = "sidecar", &always
	return c
}

func containerPort(ip string, protocol corev1.Protocol, port int32) corev1.Container {
	return corev1.Container{Ports: []corev1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port,
		ContainerPort: 80}}}
}

// podWith builds a pod "default/<name>" with labels given as key, value pairs.
func podWith(name string, labels map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container()}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func inNamespace(namespace string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Namespace = namespace }
}

func antiAffinity(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func podAffinity(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func nodeAffinity(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		affinityOf(p).NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}
	}
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func spread(constraints ...corev1.TopologySpreadConstraint) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = constraints }
}

func tolerating(tolerations ...corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
}

func requesting(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{container(pairs...)} }
}

func selector(pairs ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: set(pairs...)}
}

func set(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

const (
	hostname = corev1.LabelHostname
	zone     = corev1.LabelTopologyZone
)

// nodeIn builds a node that is large, in a zone, and holds the given pods.
func nodeIn(name, zoneName string, pods ...*corev1.Pod) *Node {
	node := &Node{
		Name:        v1alpha1.NodeName(name),
		Labels:      set(hostname, name, zone, zoneName),
		Allocatable: FromList(list("cpu", "16", "memory", "64Gi", "ephemeral-storage", "100Gi", "pods", "110")),
	}
	for _, pod := range pods {
		node.Pods = append(node.Pods, NewPlaced(pod))
		node.Used.Add(Occupied(pod))
		node.Ports = append(node.Ports, HostPorts(pod)...)
	}
	return node
}

func worldOf(nodes ...*Node) *World { return &World{Nodes: nodes} }

// message is the refusal's message, "" for none.
func message(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Message
}

// accepts lists the nodes of the world on which check does not refuse.
func accepts(w *World, check func(*Node) *Refusal) []string {
	var out []string
	for _, n := range w.Nodes {
		if check(n) == nil {
			out = append(out, string(n.Name))
		}
	}
	return out
}

func wantMessage(t *testing.T, got *Refusal, want string) {
	t.Helper()
	if message(got) != want {
		t.Errorf("refusal %q, want %q", message(got), want)
	}
}
