package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// nodeCPU is what each node offers, in cores.
const nodeCPU = 4

// powerOn starts a stopped instance: it may fall back to stopped.
func (w *World) powerOn(i *instance) {
	w.cloud.become(i, provider.InstancePending)
	if w.trouble.fallbacks > 0 {
		w.trouble.fallbacks--
		boot := i.boot
		w.after(w.between(time.Second, 5*time.Second), func() {
			if i.boot == boot && i.state() == provider.InstancePending {
				w.cloud.become(i, provider.InstanceStopped)
			}
		})
		return
	}
	w.power(i)
}

// power lets an instance that is pending run and boot.
func (w *World) power(i *instance) {
	i.boot++
	boot := i.boot
	i.mute, i.up, i.network, i.networkAt, i.readyAt = false, false, false, time.Time{}, time.Time{}
	if w.trouble.mutes > 0 {
		w.trouble.mutes--
		i.mute = true
		w.silent(i)
	}
	w.after(w.between(time.Second, 3*time.Second), func() {
		if i.boot == boot && i.state() == provider.InstancePending {
			w.cloud.become(i, provider.InstanceRunning)
		}
	})
	if w.defect == endsIncomplete {
		w.after(w.between(30*time.Second, 60*time.Second), func() { w.selfStop(i, boot) })
		return
	}
	if boot == 1 && i.selfStop && w.trouble.shorts > 0 {
		w.trouble.shorts--
		w.after(w.between(4*time.Second, 30*time.Second), func() { w.selfStop(i, boot) })
	}
	least, most := 5*time.Second, 25*time.Second
	if w.slow {
		least, most = 2*time.Minute, 4*time.Minute
	}
	w.after(w.between(least, most), func() { w.booted(i, boot) })
}

// powerOff stops an instance. One that goes down may still boot on for a moment.
func (w *World) powerOff(i *instance, force bool) {
	switch i.state() {
	case provider.InstancePending, provider.InstanceRunning:
		w.cloud.become(i, provider.InstanceStopping)
		i.hangs = false
		if w.trouble.hangs > 0 && !force {
			w.trouble.hangs--
			i.hangs = true
			return
		}
		if w.graceful && i.up && !force {
			w.shutDown(i)
		}
	case provider.InstanceStopping:
		if !force || !i.hangs {
			return
		}
		i.hangs = false
	default:
		return
	}
	boot := i.boot
	w.after(w.between(time.Second, 20*time.Second), func() {
		if i.boot == boot && i.state() == provider.InstanceStopping {
			w.cloud.become(i, provider.InstanceStopped)
		}
	})
}

func (w *World) selfStop(i *instance, boot int) {
	if i.boot == boot && i.state() == provider.InstanceRunning {
		w.powerOff(i, false)
	}
}

// machineChanged: what a change of the instance's state does to its machine and, through the
// cloud's controllers, to its Node.
func (w *World) machineChanged(i *instance) {
	if s := i.state(); s != provider.InstanceStopped && s != provider.InstanceTerminated {
		return
	}
	i.up = false
	boot := i.boot
	w.after(50*time.Second, func() {
		if !i.up && i.boot == boot {
			w.unreachable(i)
		}
	})
	if i.gone() {
		i.boot++
		w.after(w.between(5*time.Second, 15*time.Second), func() {
			for _, n := range w.api.nodes() {
				if n.Spec.ProviderID == i.providerID() {
					w.api.drop(kindNode, key{Name: n.Name})
				}
			}
		})
	}
}

// booted is when the kubelet comes up.
func (w *World) booted(i *instance, boot int) {
	s := i.state()
	if i.boot != boot || i.mute || s != provider.InstanceRunning && s != provider.InstanceStopping {
		return
	}
	if w.defect == neverRegisters {
		return
	}
	i.up = true
	w.rename(i)
	if n := w.api.node(i.node()); n == nil {
		w.register(i)
	}
	w.after(w.between(0, 3*time.Second), func() { w.report(i, boot) })
	w.after(w.between(0, 2*time.Second), func() { w.agentStarts(i, boot) })
	w.after(w.between(2*time.Second, 10*time.Second), func() { w.networkUp(i, boot) })
	if boot == 1 && i.selfStop {
		w.after(w.between(15*time.Second, 60*time.Second), func() { w.selfStop(i, boot) })
	}
	for _, p := range w.api.on(i.node()) {
		w.kubelet(client.ObjectKeyFromObject(p))
	}
}

func (w *World) register(i *instance) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: i.node(),
		Labels: map[string]string{corev1.LabelHostname: i.node(), corev1.LabelTopologyZone: i.zone}}}
	n.Spec.ProviderID = i.providerID()
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	if pool := w.api.pool(i.pool()); pool != nil { // as its user data tells its kubelet
		n.Spec.Taints = append(n.Spec.Taints, pool.Spec.Template.StartupTaints...)
	}
	n.Status.Allocatable = corev1.ResourceList{"cpu": *resource.NewQuantity(coresOf(i.kind()), resource.DecimalSI),
		"pods": resource.MustParse("20")}
	w.labelType(n, i)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		LastHeartbeatTime: w.second()}}
	n.Status.NodeInfo.BootID = i.bootID()
	w.api.put(kindNode, n)
}

func (w *World) second() metav1.Time { return metav1.NewTime(w.now.Truncate(time.Second)) }

// report is the kubelet saying that it is Ready, now and every five minutes.
func (w *World) report(i *instance, boot int) {
	if !i.up || i.boot != boot || w.defect == neverReady {
		return
	}
	if i.readyAt.IsZero() {
		i.readyAt = w.now
	}
	i.everReady = true
	w.cloud.forget(i)
	w.die(i)
	w.api.editNode(i.node(), func(n *corev1.Node) {
		n.Status.NodeInfo.BootID = i.bootID()
		w.reportCores(n, i)
		say(n, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", w.second())
		if w.network.monitoring {
			say(n, networkingReady, corev1.ConditionTrue, "NetworkingIsReady", w.second())
		}
	})
	w.after(5*time.Minute, func() { w.report(i, boot) })
}

func say(n *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string, at metav1.Time) {
	for k := range n.Status.Conditions {
		if c := &n.Status.Conditions[k]; c.Type == kind {
			if c.Status != status {
				c.LastTransitionTime = at
			}
			c.Status, c.Reason, c.LastHeartbeatTime = status, reason, at
			return
		}
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: reason,
		LastHeartbeatTime: at, LastTransitionTime: at})
}

func isReady(n *corev1.Node) corev1.ConditionStatus {
	for k := range n.Status.Conditions {
		if n.Status.Conditions[k].Type == corev1.NodeReady {
			return n.Status.Conditions[k].Status
		}
	}
	return corev1.ConditionUnknown
}

// unreachable is the node controller after its grace period: the kubelet has not renewed its lease.
func (w *World) unreachable(i *instance) { w.unreachableNode(i.node()) }

func (w *World) unreachableNode(node string) {
	w.api.editNode(node, func(n *corev1.Node) {
		for k := range n.Status.Conditions {
			if c := &n.Status.Conditions[k]; c.Type == corev1.NodeReady {
				c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", w.second()
			}
		}
	})
}

// nodeChanged: the controllers around a Node, each in its own time.
func (w *World) nodeChanged(before, after client.Object) {
	n, _ := after.(*corev1.Node)
	old, _ := before.(*corev1.Node)
	switch {
	case n == nil && old != nil:
		for _, p := range w.api.on(old.Name) {
			at, uid := client.ObjectKeyFromObject(p), p.UID
			w.after(w.between(20*time.Second, 60*time.Second), func() { w.collect(at, uid) })
		}
		return
	case old == nil:
		w.daemon(n.Name)
	}
	if old == nil || stateOf(old) != stateOf(n) {
		w.logs(n.Name)
	}
	w.operate(n.Name)
	w.tidyLater(n)
	w.copyTypeLabel(n)
	w.reportAgain(old, n)
}

// tidyLater has the node controller correct the taints that are not as it would have them. It reads
// the Node, waits for its client's rate, and then writes what it decided, whatever the Node says by
// then. It does so with one Node once at a time.
func (w *World) tidyLater(n *corev1.Node) {
	name := n.Name
	if w.tidying[name] || slices.Equal(tidied(n, n), n.Spec.Taints) {
		return
	}
	w.tidying[name] = true
	w.after(w.between(100*time.Millisecond, 4*time.Second), func() {
		read := w.api.node(name)
		w.after(w.between(0, 2*time.Second), func() {
			delete(w.tidying, name)
			if n := w.api.node(name); n != nil && read != nil && n.UID == read.UID {
				w.api.editNode(name, func(n *corev1.Node) { n.Spec.Taints = tidied(read, n) })
				w.tidyLater(w.api.node(name))
			}
		})
	})
}

// reportAgain has the kubelet report Ready once more where another writer replaced its report.
func (w *World) reportAgain(old, n *corev1.Node) {
	if old == nil || isReady(old) != corev1.ConditionTrue || isReady(n) == corev1.ConditionTrue {
		return
	}
	i := w.machineOf(n)
	if i == nil || !i.up || i.node() != n.Name {
		return
	}
	boot := i.boot
	w.after(w.between(time.Second, 10*time.Second), func() {
		if n := w.api.node(i.node()); n != nil && isReady(n) != corev1.ConditionTrue {
			w.report(i, boot)
		}
	})
}

func (w *World) machineOf(n *corev1.Node) *instance {
	for _, i := range w.cloud.instances {
		if i.providerID() == n.Spec.ProviderID {
			return i
		}
	}
	return nil
}

// tidied returns the taints of a Node once the node controller has added and taken away those that
// it missed and found too many in what it read.
func tidied(read, n *corev1.Node) []corev1.Taint {
	taints := slices.Clone(n.Spec.Taints)
	for _, c := range []struct {
		taint  string
		wanted bool
	}{
		{corev1.TaintNodeNotReady, isReady(read) == corev1.ConditionFalse},
		{corev1.TaintNodeUnreachable, isReady(read) == corev1.ConditionUnknown},
		{corev1.TaintNodeUnschedulable, read.Spec.Unschedulable},
	} {
		switch {
		case c.wanted == hasTaint(read, c.taint):
		case !c.wanted:
			taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == c.taint })
		case !hasTaint(n, c.taint):
			taints = append(taints, corev1.Taint{Key: c.taint, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	return taints
}

// collect is the pod garbage collector: the pod's Node is gone.
func (w *World) collect(at key, uid any) {
	if p := w.api.pod(at); p != nil && any(p.UID) == uid && w.api.node(p.Spec.NodeName) == nil {
		w.api.drop(kindPod, at)
	}
}

// daemon binds a pod of a DaemonSet that tolerates everything to a new Node.
func (w *World) daemon(node string) {
	if w.agentOn(node) == nil {
		w.api.put(kindPod, w.newAgent(node))
	}
}

// podChanged: kubelet and garbage collector look at pods that are bound.
func (w *World) podChanged(before, after client.Object) {
	old, _ := before.(*corev1.Pod)
	p, _ := after.(*corev1.Pod)
	w.replicaChanged(old, p)
	if p != nil && p.Spec.NodeName != "" {
		if p.Namespace == "kube-system" {
			w.operate(p.Spec.NodeName)
		}
		at, uid := client.ObjectKeyFromObject(p), p.UID
		if w.api.node(p.Spec.NodeName) == nil {
			w.after(w.between(20*time.Second, 60*time.Second), func() { w.collect(at, uid) })
			return
		}
		if p.DeletionTimestamp != nil || p.Status.Phase == "" || p.Status.Phase == corev1.PodPending {
			w.after(w.between(100*time.Millisecond, 3*time.Second), func() { w.kubelet(at) })
		}
	}
}

// kubelet takes a pod one step further, if the machine under its node runs.
func (w *World) kubelet(at key) {
	p := w.api.pod(at)
	if p == nil {
		return
	}
	n := w.api.node(p.Spec.NodeName)
	if n == nil {
		return
	}
	i := w.machineOf(n)
	if i == nil || !i.up || i.node() != n.Name {
		return
	}
	switch {
	case p.DeletionTimestamp != nil:
		w.api.drop(kindPod, at)
	case p.Status.Phase == "" || p.Status.Phase == corev1.PodPending:
		phase := corev1.PodRunning
		if cpuOf(p)+w.used(n.Name, p) > w.coresOn(n) {
			w.rules.rejected(p)
			phase = corev1.PodFailed
		}
		w.api.editPod(at, func(p *corev1.Pod) { p.Status.Phase = phase })
	}
}

// used are the cores that the pods running on the node ask for, but for one.
func (w *World) used(node string, but *corev1.Pod) int64 {
	var sum int64
	for _, p := range w.api.on(node) {
		if p.UID != but.UID && p.Status.Phase == corev1.PodRunning {
			sum += cpuOf(p)
		}
	}
	return sum
}

func cpuOf(p *corev1.Pod) int64 {
	if len(p.Spec.Containers) == 0 {
		return 0
	}
	return p.Spec.Containers[0].Resources.Requests.Cpu().Value()
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// counts reports whether the pod keeps its node. It says again, in the world's own words, what
// Stratos has to find.
func counts(p *corev1.Pod) bool { return !isDaemon(p) && !finished(p) }

func isDaemon(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

func poolNameOf(n *corev1.Node) string { return n.Labels[v1alpha1.LabelPool] }

func stateOf(n *corev1.Node) v1alpha1.NodeState {
	return v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
}
