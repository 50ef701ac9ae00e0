package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// What the cloud and the machines do of themselves, with dice of their own: docs/model.md has the
// sources.

// sometimes is true in so many of a hundred cases, by the field's dice.
func (w *World) sometimes(percent int) bool { return w.field.IntN(100) < percent }

// within draws a duration by the field's dice.
func (w *World) within(least, most time.Duration) time.Duration {
	return least + time.Duration(w.field.Int64N(int64(most-least)+1))
}

// ending reports whether the instance is terminated or being terminated.
func (i *instance) ending() bool { return i.gone() || i.state() == provider.InstanceShuttingDown }

// end terminates an instance. It shuts down first, and its kubelet may go on meanwhile.
func (c *cloud) end(i *instance) {
	if i.ending() {
		return
	}
	c.become(i, provider.InstanceShuttingDown)
	boot := i.boot
	if c.w.graceful && i.up {
		c.w.shutDown(i)
		c.w.after(50*time.Second, func() {
			if !i.up && i.boot == boot {
				c.w.unreachable(i)
			}
		})
	}
	c.w.after(c.w.within(time.Second, 90*time.Second), func() {
		if !i.gone() {
			c.become(i, provider.InstanceTerminated)
		}
	})
}

// launchUnseen lets some launches show in no read for minutes. The pools of the world have a
// preWarm.timeout of 4.
func (c *cloud) launchUnseen(i *instance) {
	if c.w.sometimes(15) {
		i.unseenUntil = c.w.now.Add(c.w.within(10*time.Second, 200*time.Second))
		c.w.note("no read shows %s until %s", i.id, i.unseenUntil.Sub(epoch()))
	}
}

// forget lets reads lose an instance for a while whose kubelet reports and whose node runs.
func (c *cloud) forget(i *instance) {
	if !c.w.sometimes(10) {
		return
	}
	c.w.after(c.w.within(0, time.Minute), func() {
		n := c.w.api.node(i.node())
		if n == nil || !i.up || i.state() != provider.InstanceRunning || stateOf(n) != v1alpha1.StateRunning ||
			isReady(n) != corev1.ConditionTrue {
			return
		}
		i.unseenUntil = c.w.now.Add(c.w.within(20*time.Second, 4*time.Minute))
		c.w.note("no read shows %s until %s", i.id, i.unseenUntil.Sub(epoch()))
	})
}

// rename lets the kubelet of some boots register under another name than before.
func (w *World) rename(i *instance) {
	if i.boot < 2 || !w.sometimes(4) {
		return
	}
	before := i.node()
	i.renames++
	w.note("the kubelet of %s registers as %s", i.id, i.node())
	w.rules.disturb()
	w.after(50*time.Second, func() {
		if i.node() != before {
			w.unreachableNode(before)
		}
	})
}

// die lets the machine of some running nodes in use die: the cloud shows it running, and nothing of
// it is heard.
func (w *World) die(i *instance) {
	if !w.sometimes(3) {
		return
	}
	boot := i.boot
	w.after(w.within(0, time.Minute), func() {
		n := w.api.node(i.node())
		if n == nil || !i.up || i.boot != boot || i.state() != provider.InstanceRunning ||
			stateOf(n) != v1alpha1.StateRunning ||
			!slices.ContainsFunc(w.api.on(n.Name), counts) {
			return
		}
		i.up, i.died = false, boot
		w.note("the machine of %s dies", i.id)
		w.rules.disturb()
		w.silent(i)
	})
}

// silent is what the cluster does about a machine that runs and whose kubelet does not: the node
// controller says so after its grace period, and later the pods are evicted, unless Stratos starts
// the node.
func (w *World) silent(i *instance) {
	boot := i.boot
	w.after(50*time.Second, func() {
		if !i.up && i.boot == boot {
			w.unreachable(i)
		}
	})
	w.after(w.within(60*time.Second, 120*time.Second), func() {
		n := w.api.node(i.node())
		if n != nil && stateOf(n) != v1alpha1.StateStarting && stateOf(n) != v1alpha1.StateStandby {
			w.evictByTaint(i, boot)
		}
	})
}

// evictByTaint is the taint eviction of kube-controller-manager: it marks the pods of a node that
// is unreachable.
func (w *World) evictByTaint(i *instance, boot int) {
	if i.up || i.boot != boot || i.gone() {
		return
	}
	for _, p := range w.api.on(i.node()) {
		if counts(p) {
			w.api.remove(kindPod, client.ObjectKeyFromObject(p))
		}
	}
	w.after(20*time.Second, func() { w.evictByTaint(i, boot) })
}

// forgets has the processes know an instance no more that no read shows them.
func (w *World) forgets(i *instance) {
	if w.now.Before(i.unseenUntil) {
		for _, p := range w.processes {
			delete(p.seen, i.id)
		}
	}
}

// reports reports whether the kubelet of the Node's machine has been Ready for a while under this
// name.
func (r *rules) reports(n *corev1.Node) bool {
	i := r.w.machineOf(n)
	return i != nil && i.up && !i.gone() && i.node() == n.Name && isReady(n) == corev1.ConditionTrue &&
		r.w.now.Sub(i.readyAt) > 10*time.Second+r.w.trouble.watch
}

// deletesNode checks that Stratos deletes no Node whose kubelet reports.
func (r *rules) deletesNode(n *corev1.Node) {
	if r.reports(n) {
		r.w.breaks("nodes", "%s is deleted, and its kubelet reports", n.Name)
	}
}
