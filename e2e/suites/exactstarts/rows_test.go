package exactstarts

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// Instance types of the rows, as --fake-instance-types takes them.
const (
	four  = "four"  // 4 cpu, 16 GiB, 110 pods
	eight = "eight" // 8 cpu, 32 GiB, 110 pods
	few   = "few"   // 4 cpu, 16 GiB, 5 pods
	gpus  = "gpus"  // 4 cpu, 16 GiB, 2 example.com/gpu

	// family makes an instance type of the name.
	family = "test."
	types  = "test.four=cpu:4,memory:16Gi,pods:110;test.eight=cpu:8,memory:32Gi,pods:110;test.few=cpu:4,memory:16Gi,pods:5;" +
		"test.gpus=cpu:4,memory:16Gi,pods:110,example.com/gpu:2"
)

// pool of a row: so many standby nodes of one type. The heavier is used first.
type pool struct {
	kind   string
	size   int32
	weight int32
}

// row is one burst. need is how many nodes it takes, with the reason.
type row struct {
	pools []pool
	pods  []*corev1.Pod
	need  int
	why   string
}

func rows() map[string]row {
	return map[string]row{
		"five pods of 2.5 cpu": {
			[]pool{{four, 7, 10}}, pods(5, "cpu", "2500m"), 5,
			"4 cpu hold one pod of 2.5, though the sum of 12.5 would fit in 4 nodes",
		},
		"bound by memory": {
			[]pool{{four, 7, 10}}, pods(10, "cpu", "100m", "memory", "6Gi"), 5, "16 GiB hold two pods of 6",
		},
		"bound by the number of pods": {
			[]pool{{few, 5, 10}}, pods(12, "cpu", "10m"), 3, "a node takes 5 pods",
		},
		"an extended resource": {
			[]pool{{gpus, 5, 10}}, limited(pods(5, "cpu", "100m", "example.com/gpu", "1")), 3, "a node has 2 devices",
		},
		devicesBeside: {
			[]pool{{gpus, 2, 10}, {four, 7, 10}},
			mix(pods(4, "cpu", "2500m"), named("device", limited(pods(4, "cpu", "2", "example.com/gpu", "1")))), 6,
			"the devices' two nodes hold two of their pods each and no other beside them, a node of 4 cpu one pod of 2.5",
		},
		"an init container larger than the main one": {
			[]pool{{four, 5, 10}}, each(pods(3, "cpu", "1"), initContainer("3", false)), 3,
			"a pod needs the larger of 1 and 3 cpu",
		},
		"a sidecar": {
			[]pool{{four, 5, 10}}, each(pods(5, "cpu", "1"), initContainer("1", true)), 3,
			"a pod needs 1 + 1 cpu, so a node holds two",
		},
		"pod overhead": {
			[]pool{{four, 5, 10}}, each(pods(5, "cpu", "1"), overhead), 3, "a pod needs 1 + 1 cpu, so a node holds two",
		},
		"resources of the pod as a whole": {
			[]pool{{four, 5, 10}}, each(pods(5), podLevel("2")), 3, "a pod asks for 2 cpu, so a node holds two",
		},
		"host ports": {
			[]pool{{four, 5, 10}}, each(pods(4, "cpu", "100m"), hostPort), 4, "a port is there once on a node",
		},
		"anti-affinity by host": {
			[]pool{{four, 5, 10}}, each(pods(4, "cpu", "100m"), apart(corev1.LabelHostname)), 4, "one pod to a node",
		},
		"anti-affinity by zone": {
			[]pool{{four, 6, 10}}, each(pods(3, "cpu", "100m"), apart(corev1.LabelTopologyZone)), 3,
			"one pod to a zone, three zones",
		},
		"hard spread by host, standby nodes counting as empty": {
			[]pool{{four, 4, 10}}, each(pods(4, "cpu", "100m"), spread(corev1.LabelHostname, corev1.NodeInclusionPolicyIgnore)),
			4,
			"a stopped node is a domain without pods, so the next pod has to go there",
		},
		"hard spread by host that honours taints": {
			[]pool{{four, 4, 10}}, each(pods(4, "cpu", "100m"), spread(corev1.LabelHostname, corev1.NodeInclusionPolicyHonor)),
			1,
			"a stopped node is tainted and no domain, so one node holds all",
		},
		"hard spread by zone": {
			[]pool{{four, 6, 10}}, each(pods(6, "cpu", "1500m"), spread(corev1.LabelTopologyZone,
				corev1.NodeInclusionPolicyIgnore)), 3,
			"two pods to a node, and two to each of three zones",
		},
		"hard spread by zone that honours taints, over three domains": {
			[]pool{{four, 6, 10}}, each(pods(6, "cpu", "1500m"), spread(corev1.LabelTopologyZone,
				corev1.NodeInclusionPolicyHonor), domains(3)), 3,
			"with fewer than three zones each takes one pod, with three of them the other half follows, two pods to a node",
		},
		"pod affinity by zone": {
			// Launches follow each other from zone to zone. One that has to be made again takes the next
			// zone, so that a pool of 9 may have two nodes in one of three.
			[]pool{{four, 15, 10}}, each(pods(3, "cpu", "2500m"), near(corev1.LabelTopologyZone)), 3,
			"one pod to a node, and three nodes in the zone of the first",
		},
		"pod affinity by host": {
			[]pool{{four, 4, 10}}, each(pods(4, "cpu", "1"), near(corev1.LabelHostname)), 1,
			"the node of the first takes four pods",
		},
		"two pools of different size and weight": {
			[]pool{{eight, 2, 20}, {four, 4, 10}}, pods(6, "cpu", "3"), 4,
			"the heavier pool's two nodes hold two pods each, two more hold one each",
		},
		"priorities": {
			[]pool{{four, 6, 10}}, mix(pods(4, "cpu", "2"), each(named("high", pods(4, "cpu", "2")), priority)), 4,
			"two pods to a node, in any order",
		},
		"a thousand pods": {
			[]pool{{four, 252, 10}}, pods(1000, "cpu", "1"), 250, "four pods to a node",
		},
	}
}

func pods(n int, requests ...string) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = framework.Pod(fmt.Sprintf("pod-%04d", i), requests...)
		out[i].Labels = map[string]string{"app": "row"}
	}
	return out
}

func named(prefix string, in []*corev1.Pod) []*corev1.Pod {
	for _, p := range in {
		p.Name = prefix + "-" + p.Name
	}
	return in
}

// mix takes turns.
func mix(a, b []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range a {
		out = append(out, a[i], b[i])
	}
	return out
}

func each(in []*corev1.Pod, changes ...func(*corev1.Pod)) []*corev1.Pod {
	for _, p := range in {
		for _, change := range changes {
			change(p)
		}
	}
	return in
}

// limited copies requests to limits, which extended resources want.
func limited(in []*corev1.Pod) []*corev1.Pod {
	return each(in, func(p *corev1.Pod) {
		r := &p.Spec.Containers[0].Resources
		r.Limits = corev1.ResourceList{"example.com/gpu": r.Requests["example.com/gpu"]}
	})
}

func initContainer(cpu string, sidecar bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.Container{
			Name: "first", Image: "registry.example/first:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}
		if sidecar {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = []corev1.Container{c}
	}
}

const runtimeClass = "with-overhead"

func overhead(p *corev1.Pod) {
	name := runtimeClass
	p.Spec.RuntimeClassName = &name
}

func podLevel(cpu string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}
	}
}

func hostPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
}

func apart(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}},
		}}
	}
}

// near is the opposite of apart.
func near(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}},
		}}
	}
}

// domains changes a pod with a spread.
func domains(atLeast int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MinDomains = &atLeast }
}

func spread(key string, taints corev1.NodeInclusionPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, NodeTaintsPolicy: &taints,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
}

const priorityClass = "above-others"

func priority(p *corev1.Pod) { p.Spec.PriorityClassName = priorityClass }
