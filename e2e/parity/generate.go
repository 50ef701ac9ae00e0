package parity

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Generate makes the world of a seed; the same seed makes the same world.
func Generate(seed uint64) *World {
	d := throw(seed)
	world := &World{Namespaces: []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "x"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
	}}
	// In a narrow world most pods fail on resources, and nothing that is checked later would be looked
	// at.
	roomy := d.oneIn(2)
	for i := range 3 + d.IntN(5) {
		node := d.node(i)
		if roomy {
			widen(node)
		}
		world.Nodes = append(world.Nodes, node)
		for j := range d.IntN(4) {
			d.occupy(world, node.Name, fmt.Sprintf("%s-%d", node.Name, j))
		}
	}
	d.storage(world)
	for i := range 12 {
		pod := d.waiting(fmt.Sprintf("waits-%d", i))
		if roomy {
			ease(pod)
		}
		world.Waiting = append(world.Waiting, pod)
	}
	return world
}

func widen(node *corev1.Node) {
	node.Spec.Unschedulable = false
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("100")
	node.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1000Gi")
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("100")
}

func ease(pod *corev1.Pod) {
	pod.Spec.Volumes, pod.Spec.NodeName = nil, ""
	pod.Spec.Overhead, pod.Spec.Resources, pod.Spec.InitContainers = nil, nil, nil
	pod.Spec.Containers[0].Resources.Requests = nil
}

func (d dice) node(i int) *corev1.Node {
	name := fmt.Sprintf("n%d", i)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if !d.oneIn(8) {
		node.Labels["zone"] = pick(d, "z1", "z2", "z3")
	}
	if d.oneIn(2) {
		node.Labels["rack"] = pick(d, "r1", "r2", "")
	}
	if d.oneIn(2) {
		node.Labels["cores"] = pick(d, "4", "8", "x")
	}
	if !d.oneIn(3) {
		key := pick(d, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)
		node.Labels[key] = pick(d, "z1", "z2")
	}
	for range d.IntN(5) / 2 {
		node.Spec.Taints = append(node.Spec.Taints, d.taint())
	}
	node.Spec.Unschedulable = d.oneIn(8)
	node.Status.Allocatable = d.allocatable()
	return node
}

func (d dice) allocatable() corev1.ResourceList {
	list := corev1.ResourceList{
		"cpu": resource.MustParse(pick(d, "4", "8")), "memory": resource.MustParse(pick(d, "8Gi", "16Gi")),
		"pods": resource.MustParse(pick(d, "3", "10", "10", "10")), "ephemeral-storage": resource.MustParse("20Gi"),
		"hugepages-2Mi": resource.MustParse("4Mi"),
		// A name that the scheduler does not count.
		"odd": resource.MustParse("3"),
	}
	if d.oneIn(2) {
		list["x.io/gpu"] = resource.MustParse("2")
	}
	return list
}

func (d dice) taint() corev1.Taint {
	return corev1.Taint{
		Key: pick(d, "k", "l", corev1.TaintNodeUnschedulable), Value: pick(d, "", "1", "2"),
		Effect: pick(d, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
}

// occupy puts a pod on the node. A claimed pod has never run, so it is neither ending nor being
// resized.
func (d dice) occupy(world *World, node, name string) {
	pod := d.pod(name)
	pod.Spec.NodeName = node
	if d.oneIn(3) {
		world.Promised = append(world.Promised, pod)
		return
	}
	if d.oneIn(6) {
		pod.DeletionTimestamp = &metav1.Time{Time: someTime()}
	}
	if d.oneIn(6) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", AllocatedResources: d.requests(), Resources: &corev1.ResourceRequirements{Requests: d.requests()},
		}}
	}
	world.Placed = append(world.Placed, pod)
}

// pod has what matters of a pod on a node as well as of one that waits.
func (d dice) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Namespace: pick(d, "default", "default", "default", "other", "gone"),
		Labels: map[string]string{"app": pick(d, "a", "b", "c")},
	}}
	if d.oneIn(2) {
		pod.Labels["rev"] = pick(d, "1", "2")
	}
	pod.Spec.Containers = []corev1.Container{d.container("main")}
	if d.oneIn(4) {
		pod.Spec.Containers = append(pod.Spec.Containers, d.container("second"))
	}
	for i := range d.IntN(3) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, d.initContainer(i))
	}
	if d.oneIn(5) {
		pod.Spec.Overhead = d.requests()
	}
	if d.oneIn(6) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: d.requests()}
	}
	if d.oneIn(4) {
		d.company(pod)
	}
	return pod
}

func (d dice) container(name string) corev1.Container {
	container := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: d.requests()}}
	if d.oneIn(5) {
		container.Ports = []corev1.ContainerPort{{
			HostPort: int32(d.IntN(3)), HostIP: pick(d, "", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"),
			Protocol: pick(d, "", corev1.ProtocolTCP, corev1.ProtocolUDP),
		}}
	}
	return container
}

func (d dice) initContainer(i int) corev1.Container {
	container := d.container(fmt.Sprintf("init-%d", i))
	if d.oneIn(2) {
		always := corev1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
	}
	return container
}

// requests goes through a list and not a map, whose order would make another world of the same
// seed.
func (d dice) requests() corev1.ResourceList {
	offers := []struct {
		name    corev1.ResourceName
		rarity  int
		amounts []string
	}{
		{"cpu", 2, []string{"0", "100m", "1", "2500m", "100u"}},
		{"memory", 2, []string{"0", "1Gi", "3Gi", "100M"}},
		{"ephemeral-storage", 6, []string{"1Gi", "5Gi"}},
		{"hugepages-2Mi", 6, []string{"2Mi"}},
		{"x.io/gpu", 6, []string{"0", "1", "2"}},
		// Names that the scheduler does not count.
		{"odd", 12, []string{"1"}},
		{"requests.x.io/gpu", 12, []string{"1"}},
	}
	list := corev1.ResourceList{}
	for _, offer := range offers {
		if d.oneIn(offer.rarity) {
			list[offer.name] = resource.MustParse(pick(d, offer.amounts...))
		}
	}
	return list
}

// someTime is when what is being deleted was; it is not compared with anything.
func someTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
