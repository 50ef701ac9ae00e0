package model

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	networkingReady = corev1.NodeConditionType("NetworkingReady")
	ciliumTaint     = "node.cilium.io/agent-not-ready"
	agentSet        = "agent"
)

// network is how a CNI shows that pods can use the network of a node. docs/model.md has the
// sources.
type network struct {
	name string
	// agent: a DaemonSet mounts the folders of the CNI. Its pod is Ready once the network is up, or,
	// without a readiness probe, as soon as its container runs.
	agent, probe bool
	// up is the reason of NetworkUnavailable=False that is written when the network is up; empty for
	// none.
	up string
	// whereAbsent: up is written only where the Node has no NetworkUnavailable yet.
	whereAbsent bool
	// monitoring: NetworkingReady=True is written with each report of the kubelet, whatever the
	// network is.
	monitoring bool
	// taints: an operator taints a node whose agent pod is not Ready.
	taints bool
}

// networks are all that a world may have.
func networks() []network {
	return []network{
		{name: "Calico", agent: true, probe: true, up: "CalicoIsUp"},
		{name: "VPC CNI", agent: true, probe: true},
		{name: "VPC CNI with the monitoring agent", agent: true, probe: true, monitoring: true},
		{name: "Cilium", agent: true, probe: true, up: "CiliumIsUp", whereAbsent: true, taints: true},
		{name: "flannel", agent: true, probe: true, up: "FlannelIsUp"},
		{name: "kindnet", agent: true},
		{name: "none"},
	}
}

// shows reports whether anything but the kubelet reports on the network.
func (n *network) shows() bool { return n.agent || n.up != "" || n.monitoring }

// daemonSets are those of the world.
func (w *World) daemonSets() []appsv1.DaemonSet {
	set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: agentSet, UID: agentSet}}
	set.Spec.Template.Spec = w.agentSpec()
	if w.logger {
		return []appsv1.DaemonSet{set, loggerDaemonSet()}
	}
	return []appsv1.DaemonSet{set}
}

// agentSpec tolerates everything, as network agents do.
func (w *World) agentSpec() corev1.PodSpec {
	spec := corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "c"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
	if w.network.probe {
		spec.Containers[0].ReadinessProbe = &corev1.Probe{}
	}
	if w.network.agent {
		spec.Volumes = []corev1.Volume{{Name: "cni", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"},
		}}}
	}
	return spec
}

// agentStarts is the kubelet's first look at the agent's pod in this boot: its containers are new.
func (w *World) agentStarts(i *instance, boot int) {
	if !i.up || i.boot != boot {
		return
	}
	w.editAgent(i.node(), func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: w.second()}},
		}}
		sayPod(p, !w.network.probe)
	})
	if w.network.agent && !w.network.probe {
		i.network, i.networkAt = true, w.now
	}
}

// networkUp: pods can use the network from now on, and its CNI shows it.
func (w *World) networkUp(i *instance, boot int) {
	if !i.up || i.boot != boot {
		return
	}
	if !i.network {
		i.network, i.networkAt = true, w.now
	}
	if w.network.probe {
		w.editAgent(i.node(), func(p *corev1.Pod) { sayPod(p, true) })
	}
	n := w.api.node(i.node())
	if w.network.up == "" || n == nil || w.network.whereAbsent && hasCondition(n, corev1.NodeNetworkUnavailable) {
		return
	}
	w.api.editNode(i.node(), func(n *corev1.Node) {
		say(n, corev1.NodeNetworkUnavailable, corev1.ConditionFalse, w.network.up, w.second())
	})
}

func hasCondition(n *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
}

// shutDown is a kubelet's graceful node shutdown: it says NotReady and ends the pods of DaemonSets,
// whose successors wait on the stopped node.
func (w *World) shutDown(i *instance) {
	i.up = false
	w.api.editNode(i.node(), func(n *corev1.Node) {
		say(n, corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", w.second())
	})
	if p := w.agentOn(i.node()); p != nil {
		w.api.drop(kindPod, client.ObjectKeyFromObject(p))
		w.after(w.between(100*time.Millisecond, 2*time.Second), func() {
			if w.api.node(i.node()) != nil {
				w.daemon(i.node())
			}
		})
	}
}

// agentOn is the pod of the DaemonSet on the node, nil for none.
func (w *World) agentOn(node string) *corev1.Pod {
	return w.api.pod(key{Namespace: "kube-system", Name: agentSet + "-" + node})
}

func (w *World) editAgent(node string, change func(*corev1.Pod)) {
	if p := w.agentOn(node); p != nil && p.DeletionTimestamp == nil {
		w.api.editPod(client.ObjectKeyFromObject(p), change)
	}
}

func sayPod(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// operate is the CNI's operator: a while after each change it taints a node whose agent pod is not
// Ready, and frees one whose agent pod is. It reads the Ready condition alone, also one that is
// left from before a stop.
func (w *World) operate(node string) {
	if !w.network.taints {
		return
	}
	w.after(w.between(50*time.Millisecond, 500*time.Millisecond), func() {
		n, p := w.api.node(node), w.agentOn(node)
		if n == nil || p == nil || hasTaint(n, ciliumTaint) != podReady(p) {
			return
		}
		w.api.editNode(node, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints),
				func(t corev1.Taint) bool { return t.Key == ciliumTaint })
			if !podReady(p) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: ciliumTaint, Effect: corev1.TaintEffectNoSchedule})
			}
		})
	})
}

// newAgent is the pod of the DaemonSet for a node, as its controller makes it.
func (w *World) newAgent(node string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: agentSet + "-" + node,
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: agentSet, UID: types.UID(agentSet), Controller: &yes},
		}}}
	p.Spec = w.agentSpec()
	p.Spec.NodeName = node
	return p
}
