// Package slim says what the process caches of the cluster's objects: what its decisions read.
package slim

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/network"
)

// CacheOptions is the cache's configuration: objects lose what no decision reads before they are
// cached, and pods of one owner share what they have in common. With 5000 nodes and 50,000 pods the
// difference is hundreds of MiB. Code that reads a new field has to keep it here.
func CacheOptions() cache.Options {
	common := newShared()
	return cache.Options{
		// Managed fields are a third of an object's memory and are not read here.
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:              {Transform: transform(func(p *corev1.Pod) { slimPod(p); common.share(p) })},
			&corev1.Node{}:             {Transform: transform(func(n *corev1.Node) { slimNode(n); common.shareNode(n) })},
			&appsv1.DaemonSet{}:        {Transform: transform(slimDaemonSet)},
			&appsv1.ReplicaSet{}:       {Transform: transform(slimReplicaSet)},
			&appsv1.StatefulSet{}:      {Transform: transform(slimStatefulSet)},
			&batchv1.Job{}:             {Transform: transform(slimJob)},
			&corev1.PersistentVolume{}: {Transform: transform(slimVolume)},
		},
	}
}

// transform adapts a typed function to an informer. Anything else, such as a tombstone, is left as
// it is.
func transform[T any](slim func(T)) func(any) (any, error) {
	return func(o any) (any, error) {
		if object, ok := o.(T); ok {
			slim(object)
		}
		return o, nil
	}
}

// slimMeta keeps of the annotations those of Stratos, the one that marks static pods, and those by
// which Karpenter and Cluster Autoscaler are told not to disrupt. An empty map is kept: a patch is
// made from what is cached, and where it took annotations for absent it would write the whole map.
func slimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields, m.GenerateName, m.Finalizers = nil, "", nil
	for key := range m.Annotations {
		if !strings.HasPrefix(key, v1alpha1.Group+"/") && !isRead(key) {
			delete(m.Annotations, key)
		}
	}
}

// isRead reports whether an annotation is read that is not ours.
func isRead(key string) bool {
	switch key {
	case corev1.MirrorPodAnnotationKey, v1alpha1.AnnotationKarpenterDoNotDisrupt, v1alpha1.AnnotationSafeToEvict:
		return true
	}
	return false
}

// slimPod keeps what is read of a pod. One that pulls images is read by its statuses, and there are
// few of them.
func slimPod(pod *corev1.Pod) {
	nomination := ownNomination(pod)
	slimMeta(&pod.ObjectMeta)
	pod.ManagedFields = nomination
	if pod.Labels[v1alpha1.LabelPull] != "" {
		return
	}
	resizing := !reflect.DeepEqual(fit.Occupied(pod), fit.Requests(pod, nil))
	s := pod.Spec
	pod.Spec = corev1.PodSpec{
		NodeName: s.NodeName, SchedulerName: s.SchedulerName, SchedulingGroup: s.SchedulingGroup,
		ResourceClaims: s.ResourceClaims,
		Containers:     slimContainers(s.Containers), InitContainers: slimContainers(s.InitContainers), Overhead: s.Overhead,
		Resources: s.Resources,
		Priority:  s.Priority, PreemptionPolicy: s.PreemptionPolicy, Tolerations: s.Tolerations, Affinity: s.Affinity,
		NodeSelector: s.NodeSelector, PriorityClassName: s.PriorityClassName,
		ActiveDeadlineSeconds:     s.ActiveDeadlineSeconds,
		TopologySpreadConstraints: s.TopologySpreadConstraints, Volumes: slimVolumes(s.Volumes), HostNetwork: s.HostNetwork,
	}
	status := pod.Status
	pod.Status = corev1.PodStatus{Phase: status.Phase, NominatedNodeName: status.NominatedNodeName}
	if isDaemonPod(pod) {
		keepAgent(pod, &s, &status)
	}
	if s.NodeName == "" {
		pod.Status.Conditions = status.Conditions
		pod.Spec.SchedulingGates = s.SchedulingGates
		pod.Spec.Volumes = append(pod.Spec.Volumes, placedVolumes(s.Volumes)...)
		return
	}
	// they have had their say
	pod.Spec.Tolerations, pod.Spec.NodeSelector, pod.Spec.TopologySpreadConstraints = nil, nil, nil
	pod.Spec.PreemptionPolicy, pod.Spec.PriorityClassName, pod.Spec.ActiveDeadlineSeconds = nil, "", nil
	if pod.Spec.Affinity != nil {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: s.Affinity.PodAntiAffinity} // it keeps others away
	}
	if resizing {
		pod.Status.Conditions, pod.Status.Resources, pod.Status.AllocatedResources = status.Conditions, status.Resources,
			status.AllocatedResources
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = status.ContainerStatuses,
			status.InitContainerStatuses
	}
}

// ownNomination is what tells a nomination by Stratos from one by others, nil where there is none.
func ownNomination(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	if decide.OwnNomination(pod) == "" {
		return nil
	}
	return []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManagerNomination}}
}

func isDaemonPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// keepAgent keeps of a pod what tells whether a network agent is up: its Ready condition, the
// newest start of a container, whether it has a readiness probe, and whether it mounts the folders
// of the CNI.
func keepAgent(pod *corev1.Pod, spec *corev1.PodSpec, status *corev1.PodStatus) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, cniFolders(spec.Volumes)...)
	keepProbes(pod.Spec.Containers, spec.Containers)
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodReady {
			pod.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	if newest := network.NewestStart(&corev1.Pod{Status: *status}); !newest.IsZero() {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(newest)},
		}}}
	}
}

// cniFolders keeps the volumes that are folders of the CNI.
func cniFolders(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		if v := &volumes[i]; fit.IsCNIFolder(v) {
			kept = append(kept, corev1.Volume{Name: v.Name,
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.HostPath.Path}}})
		}
	}
	return kept
}

// keepProbes keeps which containers have a readiness probe.
func keepProbes(kept, from []corev1.Container) {
	for i := range kept {
		if from[i].ReadinessProbe != nil {
			kept[i].ReadinessProbe = &corev1.Probe{}
		}
	}
}

// slimContainers keeps what a container takes of its node.
func slimContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	kept := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		kept[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, Ports: slimPorts(c.Ports),
			RestartPolicy: c.RestartPolicy}
	}
	return kept
}

// slimPorts keeps the ports that are the node's too.
func slimPorts(ports []corev1.ContainerPort) []corev1.ContainerPort {
	var kept []corev1.ContainerPort
	for i := range ports {
		if ports[i].HostPort != 0 {
			kept = append(kept, ports[i])
		}
	}
	return kept
}

// slimVolumes keeps which volume claims a pod uses; those of generic ephemeral volumes follow from
// the volume's name.
func slimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		v := &volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			kept = append(kept, corev1.Volume{Name: v.Name,
				VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim}})
		case v.Ephemeral != nil:
			kept = append(kept, corev1.Volume{Name: v.Name,
				VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		}
	}
	return kept
}

// placedVolumes keeps that there are volumes which may be on certain nodes only, and are no volume
// claims: such a pod is like no other.
func placedVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		v := &volumes[i]
		if !fit.IsEverywhere(v) && v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			kept = append(kept, corev1.Volume{Name: v.Name})
		}
	}
	return kept
}

// slimNode drops the images above all: fifty of them with their names are most of a Node.
func slimNode(n *corev1.Node) {
	slimMeta(&n.ObjectMeta)
	n.Spec = corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints}
	n.Status = corev1.NodeStatus{Allocatable: n.Status.Allocatable, Conditions: n.Status.Conditions,
		NodeInfo: corev1.NodeSystemInfo{BootID: n.Status.NodeInfo.BootID}}
}

// slimDaemonSet keeps where its pods run, what they take of a node, with which images, and what
// tells a network agent.
func slimDaemonSet(set *appsv1.DaemonSet) {
	slimMeta(&set.ObjectMeta)
	s := &set.Spec.Template.Spec
	set.Spec = appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		HostNetwork: s.HostNetwork,
		Containers:  daemonContainers(s, s.Containers), InitContainers: daemonContainers(s, s.InitContainers),
		Volumes: cniFolders(s.Volumes), Overhead: s.Overhead, Resources: s.Resources,
	}}}
	keepProbes(set.Spec.Template.Spec.Containers, s.Containers)
	set.Status = appsv1.DaemonSetStatus{}
}

// daemonContainers keeps all ports of a template on the host's network: the API server makes them
// host ports in its pods.
func daemonContainers(spec *corev1.PodSpec, containers []corev1.Container) []corev1.Container {
	kept := slimContainers(containers)
	for i := range kept {
		if spec.HostNetwork {
			kept[i].Ports = containers[i].Ports
		}
	}
	return kept
}

// slimVolume drops where the data is: decisions read from which nodes it can be reached.
func slimVolume(pv *corev1.PersistentVolume) {
	pv.ManagedFields = nil
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{}
}
