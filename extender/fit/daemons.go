package fit

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Daemon is a DaemonSet as nodes feel it: where its pods run, and what one takes. It is parsed once
// and immutable.
type Daemon struct {
	UID types.UID
	// Requests and Ports are those of one pod.
	Requests Resources
	Ports    []HostPort

	tolerations []corev1.Toleration
	choice      nodeSelection
	deleted     bool
}

// NewDaemon digests a DaemonSet.
func NewDaemon(set *appsv1.DaemonSet) *Daemon {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	setDefaults(&pod.Spec)
	return &Daemon{
		UID: set.UID, Requests: Requests(pod, nil), Ports: HostPorts(pod), choice: choiceOf(pod),
		tolerations: append(pod.Spec.Tolerations, daemonTolerations(pod.Spec.HostNetwork)...),
		deleted:     set.DeletionTimestamp != nil,
	}
}

// RunsOn reports whether a pod of the DaemonSet runs on a node that has the given name, labels and
// taints, by the rule of the DaemonSet controller.
func (d *Daemon) RunsOn(name string, labels map[string]string, taints []corev1.Taint) bool {
	return !d.deleted && firstUntolerated(d.tolerations, taints) < 0 &&
		d.choice.named(name) == nil && d.choice.refuses(name, labels) == nil
}

// RunsOn reports whether pods of the DaemonSet run on the pool's node while it is running and has
// the given taints.
func RunsOn(pool *v1alpha1.NodePool, node *corev1.Node, set *appsv1.DaemonSet, taints []corev1.Taint) bool {
	return NewDaemon(set).RunsOn(node.Name, RunningLabels(pool, node), taints)
}

// DaemonsOn are those of the DaemonSets whose pods run on the pool's node while it is running and
// has the given taints.
func DaemonsOn(pool *v1alpha1.NodePool, node *corev1.Node, daemons []*Daemon, taints []corev1.Taint) []*Daemon {
	if len(daemons) == 0 {
		return nil
	}
	labels := RunningLabels(pool, node)
	var out []*Daemon
	for _, d := range daemons {
		if d.RunsOn(node.Name, labels, taints) {
			out = append(out, d)
		}
	}
	return out
}

// RunningLabels are the labels of the pool's node as they will be when it runs: a DaemonSet that
// keeps off standby nodes runs then.
func RunningLabels(pool *v1alpha1.NodePool, node *corev1.Node) map[string]string {
	labels := maps.Clone(node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, pool.Spec.Template.Labels)
	labels[v1alpha1.LabelPool] = pool.Name
	v1alpha1.SetState(labels, v1alpha1.StateRunning)
	delete(labels, v1alpha1.LabelExcludeDisruption)
	return labels
}

// Expect counts as used what the pods of the DaemonSets will take, one of each. present reports
// that the pod is on the node already; nil is an empty node. A pod that has no room on the node
// even now will not run there, so it takes nothing: a DaemonSet too large for a pool must not close
// it.
func (n *Node) Expect(daemons []*Daemon, present func(set types.UID) bool) {
	for _, d := range daemons {
		if present != nil && present(d.UID) {
			continue
		}
		if Shortage(&d.Requests, &n.Allocatable, &n.Used) != "" || PortsConflict(d.Ports, n.Ports) {
			continue
		}
		n.Used.Add(d.Requests)
		n.Ports = append(n.Ports, d.Ports...)
	}
}

// DaemonOf is the UID of the DaemonSet that the pod is of, "" for none.
func DaemonOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "DaemonSet" {
		return owner.UID
	}
	return ""
}

// daemonTolerations are those that the DaemonSet controller adds to each of its pods.
func daemonTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	out := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		out = append(out, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return out
}

// setDefaults does to a template what the API server does to the pods made from it: limits stand in
// for requests that are missing, and on the host's network each port is a host port.
func setDefaults(spec *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			c.Resources.Requests = orLimits(c.Resources.Requests, c.Resources.Limits)
			for p := range c.Ports {
				if spec.HostNetwork && c.Ports[p].HostPort == 0 {
					c.Ports[p].HostPort = c.Ports[p].ContainerPort
				}
			}
		}
	}
	if spec.Resources != nil { // what the containers ask for goes before the limit of the pod as a whole
		asked := resource.AggregateContainerRequests(&corev1.Pod{Spec: *spec}, resource.PodResourcesOptions{})
		for name := range spec.Resources.Limits {
			if quantity, ok := asked[name]; ok {
				spec.Resources.Requests = orLimits(spec.Resources.Requests, corev1.ResourceList{name: quantity})
			}
		}
		spec.Resources.Requests = orLimits(spec.Resources.Requests, spec.Resources.Limits)
	}
}

func orLimits(requests, limits corev1.ResourceList) corev1.ResourceList {
	for name, quantity := range limits {
		if _, set := requests[name]; set {
			continue
		}
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		requests[name] = quantity
	}
	return requests
}

// MountsCNI reports whether the pod mounts a folder of the host in which CNI plugins or their
// configuration lie.
func MountsCNI(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return IsCNIFolder(&v) })
}

// IsCNIFolder reports whether the volume is a folder of the host in which CNI plugins or their
// configuration lie.
func IsCNIFolder(v *corev1.Volume) bool {
	if v.HostPath == nil {
		return false
	}
	path := strings.TrimRight(v.HostPath.Path, "/")
	return strings.HasSuffix(path, "cni/net.d") || strings.HasSuffix(path, "cni/bin")
}
