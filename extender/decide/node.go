// Package decide is the claims of pending pods, and the decision that makes a claim: a function of
// the pod, the candidate nodes and the present claims. It is pure: no client, no logger, no clock.
//
// Its invariants: a pod has at most one claim; the claims on a node never exceed the room that is
// left there; asking again changes nothing; equal input gives equal output. docs/filter.md has the
// steps of a decision.
package decide

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Node is what a decision reads of a node. It is immutable once built; the cluster state makes a
// new one for every change.
type Node struct {
	// Node is the node as pods will find it. A node in service is as it is. One of ours that does not
	// run yet is as it will be then, without the taints and the cordon that are removed before.
	fit.Node
	// CurrentTaints and Cordoned are the taints and the cordon as they stand on the Node now, whatever
	// its state. They decide about pods of a DaemonSet, which belong on stopped nodes too if they
	// tolerate that a node is stopped.
	CurrentTaints []corev1.Taint
	Cordoned      bool
	// Pool is empty for a node that is not ours. Of such a node only taints and cordon are checked.
	Pool   v1alpha1.PoolName
	State  v1alpha1.NodeState
	Weight int32
	// StartBudget is how many nodes of the pool may be started in BudgetWindow.
	StartBudget int32
	// Anticipate says which claims the pool makes before a scheduler asks.
	Anticipate v1alpha1.Anticipate
	// Defaults stand in for a pod without requests (scaleUp.defaultPodResources).
	Defaults corev1.ResourceList
	// Daemons are the DaemonSets whose pods run on the pool's node while it runs.
	Daemons []*fit.Daemon
	// Coming is what those of their pods will take that are not on the node although it runs; nil for
	// nothing. While it does not run, Used and Ports hold that.
	Coming *Coming
	// NotStartable says why a standby node may not be started; empty when it may.
	NotStartable string
	// Created is when the Node was registered.
	Created time.Time
	// ChangesType: the instance is stopped, and will be another type when it runs. Labels and
	// Allocatable are those of that type.
	ChangesType bool
	// Reservation is what capacity reservations its instance is to use at its start.
	Reservation v1alpha1.CapacityReservation
	// UnavailableUntil is when the node's backoff after a failed start ends; zero when it has none.
	UnavailableUntil time.Time
	// StopIntended: the stop is not cancelled any more. StoppingEmpty: it stops because it is empty.
	StopIntended, StoppingEmpty bool
}

// Coming is what pods will take of a node.
type Coming struct {
	Requests fit.Resources
	Ports    []fit.HostPort
}

// InPool reports whether the node belongs to a pool.
func (n *Node) InPool() bool { return n.Pool != "" }

// InService reports whether kube-scheduler's own rules decide about the node: it is not ours, or it
// is running.
func (n *Node) InService() bool { return !n.InPool() || n.State == v1alpha1.StateRunning }

// Cancellable reports whether the node is being drained because it is empty and its drain may still
// be cancelled.
func (n *Node) Cancellable() bool {
	return n.State == v1alpha1.StateStopping && n.StoppingEmpty && !n.StopIntended && n.NotStartable == ""
}

// NodeOf reads a Node object. pool is the NodePool that the node's label names, nil where it is
// gone or the node is not ours, and daemons are the cluster's DaemonSets. Used and Ports are those
// of an empty node as it will be when it runs: what the pods of DaemonSets take. The caller that
// knows of pods there fills in Used, Ports and Pods.
func NodeOf(node *corev1.Node, pool *v1alpha1.NodePool, daemons ...*fit.Daemon) *Node {
	n := &Node{
		Node: fit.Node{
			Name: v1alpha1.NodeName(node.Name), Labels: node.Labels, Taints: node.Spec.Taints,
			Unschedulable: node.Spec.Unschedulable, Allocatable: fit.FromList(allocatable(node)),
		},
		CurrentTaints: node.Spec.Taints, Cordoned: node.Spec.Unschedulable,
		Pool:  v1alpha1.PoolName(node.Labels[v1alpha1.LabelPool]),
		State: v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]), Created: node.CreationTimestamp.Time,
	}
	if !n.InPool() {
		return n
	}
	var startup, template []corev1.Taint
	if pool != nil {
		n.Weight, n.StartBudget = pool.Spec.WeightOrDefault(), pool.Spec.ScaleUp.StartBudgetOrDefault(pool.Spec.PoolSize)
		n.Anticipate = pool.Spec.ScaleUp.AnticipateOrDefault()
		startup, template = pool.Spec.Template.StartupTaints, pool.Spec.Template.Taints
		if pool.Spec.ScaleUp.DefaultPodResources != nil {
			n.Defaults = pool.Spec.ScaleUp.DefaultPodResources.Requests
		}
	}
	if n.InService() {
		n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t corev1.Taint) bool { return IsOutdatedTaint(node, &t) })
		if pool != nil {
			n.Daemons = fit.DaemonsOn(pool, node, daemons, n.Taints)
		}
		return n
	}
	n.Taints = taintsAfterStart(node.Spec.Taints, startup)
	n.NotStartable = notStartableReason(node, pool, n.Taints, template)
	n.UnavailableUntil = v1alpha1.TimeAnnotation(node, v1alpha1.AnnotationUnavailableUntil)
	stop := v1alpha1.StopIntentOf(node)
	n.StoppingEmpty, n.StopIntended = stop.Reason == v1alpha1.StopEmpty, stop.Stands()
	// Our cordon goes with the start. A person's stands, and NotStartable names it.
	n.Unschedulable = false
	if pool != nil {
		n.Daemons = fit.DaemonsOn(pool, node, daemons, n.Taints)
		n.Expect(n.Daemons, nil)
	}
	return n
}

// allocatable is what the node offers when it runs: of devices what was recorded at its stop where
// that is more than what it says now, because a kubelet reports 0 of each until the device plugin
// is back. Of the rest it may have less since, as another type.
func allocatable(node *corev1.Node) corev1.ResourceList {
	recorded, isRecorded := recordedAtStop(node)
	if !isRecorded || len(recorded) == 0 {
		return node.Status.Allocatable
	}
	for name, quantity := range node.Status.Allocatable {
		before, ok := recorded[name]
		if !ok || !IsDevice(name) || before.Cmp(quantity) < 0 {
			recorded[name] = quantity
		}
	}
	return recorded
}

// recordedAtStop is what a node that does not run offered at its last stop, where that is recorded:
// of devices alone once its instance became another type.
func recordedAtStop(node *corev1.Node) (recorded corev1.ResourceList, isRecorded bool) {
	text, isRecorded := node.Annotations[v1alpha1.AnnotationAllocatableAtStop]
	if !isRecorded || v1alpha1.NodeState(node.Labels[v1alpha1.LabelState]) == v1alpha1.StateRunning {
		return nil, false
	}
	recorded, err := v1alpha1.ParseResources(text)
	return recorded, err == nil // else it was not written by us
}

// IsDevice reports whether a device plugin offers the resource. The kubelet may reserve a little
// more or less cpu, memory and disk than before. Devices come whole.
func IsDevice(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

// taintsAfterStart leaves out the taints that go before the node is running: the system's own,
// those of agents that are down with the node, and the pool's startup taints.
func taintsAfterStart(taints, startup []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for i := range taints {
		if !IsLifecycleTaint(&taints[i]) && !IsAgentTaint(&taints[i]) && !has(startup, &taints[i]) {
			out = append(out, taints[i])
		}
	}
	return out
}

// IsLifecycleTaint reports whether the taint follows from the node's state: ours, the node
// controller's or the cloud controller's. Such a taint says nothing about which pods a person wants
// there. The one taint of that prefix that people set themselves, out-of-service, is none.
func IsLifecycleTaint(t *corev1.Taint) bool {
	return t.Key == v1alpha1.TaintStandby ||
		strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != corev1.TaintNodeOutOfService ||
		strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/")
}

// IsOutdatedTaint reports whether a taint of the node or the cloud controller says what the Node
// itself says is not so: unschedulable without a cordon, not ready or shut down where the kubelet
// reports Ready. kube-controller-manager reads a Node, waits for its client's rate (20 requests per
// second by default) and writes the taint then, also onto a Node that was opened meanwhile. Its
// next look takes the taint away, seconds later where many nodes open at once.
func IsOutdatedTaint(n *corev1.Node, t *corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeUnschedulable:
		return !n.Spec.Unschedulable
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, taintShutdown:
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	return false
}

// taintShutdown is what cloud controllers put on the Node of a stopped instance
// (k8s.io/cloud-provider/api).
const taintShutdown = "node.cloudprovider.kubernetes.io/shutdown"

// agentTaintName is the name in the keys of the taints that agents put on a node while they are
// down there, after any prefix: Cilium's operator (node.cilium.io), and the CSI drivers for EBS and
// EFS (ebs.csi.aws.com, efs.csi.aws.com).
const agentTaintName = "agent-not-ready"

// IsAgentTaint reports whether an agent has put the taint on the node because the agent is down
// there, as on each node that is stopped. No person set it, and it goes when the agent is up.
func IsAgentTaint(t *corev1.Taint) bool {
	return t.Key == agentTaintName || strings.HasSuffix(t.Key, "/"+agentTaintName)
}

// notStartableReason gives the first reason not to start a node that is not running, "" if there is
// none.
func notStartableReason(node *corev1.Node, pool *v1alpha1.NodePool, taints, template []corev1.Taint) string {
	switch {
	case pool == nil:
		return "its NodePool is gone"
	case pool.DeletionTimestamp != nil:
		return "its NodePool is being deleted"
	case pool.IsPaused() && !hasBegun(v1alpha1.NodeState(node.Labels[v1alpha1.LabelState])):
		return "its NodePool is paused"
	case node.DeletionTimestamp != nil:
		return "the Node is being deleted"
	case node.Annotations[v1alpha1.AnnotationDoNotStart] == "true":
		return "annotated " + v1alpha1.AnnotationDoNotStart
	case node.Spec.Unschedulable && node.Annotations[v1alpha1.AnnotationCordoned] != "true":
		return "cordoned by another client"
	}
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !has(template, &taints[i]) {
			return "tainted " + taints[i].Key + " by another client"
		}
	}
	return ""
}

// hasBegun reports whether a node in this state is on its way to run, or may be again: such a way
// ends as usual in a paused pool, and pods may claim room on it.
func hasBegun(s v1alpha1.NodeState) bool {
	return s == v1alpha1.StateStarting || s == v1alpha1.StateStopping
}

func has(taints []corev1.Taint, t *corev1.Taint) bool {
	for i := range taints {
		if taints[i].MatchTaint(t) {
			return true
		}
	}
	return false
}
