// Package fit answers one question: does a pod fit a node? It answers as kube-scheduler 1.37 with
// its default feature gates does, from plain values: no client, logger, context or clock. The
// extender asks it about taints, cordons and claimed room; the scaler asks it everything, to
// foresee what the scheduler will do.
//
// What the scheduler also checks and this package does not: limits of attached volumes,
// ReadWriteOncePod conflicts, storage capacity, in-tree volume plugins migrated to CSI, resource
// claims and extended resources backed by device classes, and features that nodes declare. Where
// one of them refuses, the pod's claim turns out futile.
package fit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reason says which check refused. It becomes condition and event reason, failed-nodes text and
// metric label.
type Reason string

// The reasons for which a node refuses a pod, one per in-tree filter that this package stands for.
const (
	// ReasonResources: too little cpu, memory, ephemeral storage or extended resource is left, or too
	// few pods.
	ReasonResources Reason = "Resources"
	// ReasonTaint: a NoSchedule or NoExecute taint is not tolerated.
	ReasonTaint Reason = "Taint"
	// ReasonUnschedulable: the node is cordoned.
	ReasonUnschedulable Reason = "Unschedulable"
	// ReasonAffinity: node selector, required node affinity or spec.nodeName name other nodes.
	ReasonAffinity Reason = "NodeAffinity"
	// ReasonPorts: a host port is taken.
	ReasonPorts Reason = "HostPorts"
	// ReasonAntiAffinity: required anti-affinity, of this pod or of one that is there.
	ReasonAntiAffinity Reason = "PodAntiAffinity"
	// ReasonPodAffinity: required pod affinity finds no partner in the node's domain.
	ReasonPodAffinity Reason = "PodAffinity"
	// ReasonSpread: a DoNotSchedule topology spread constraint.
	ReasonSpread Reason = "TopologySpread"
	// ReasonVolume: a volume is, or can only be made, elsewhere.
	ReasonVolume Reason = "Volume"
)

// Refusal is why a node does not take a pod. A nil *Refusal is consent. It is data, not an error:
// nothing went wrong.
type Refusal struct {
	// Reason is the check that refused.
	Reason Reason
	// Message is what kube-scheduler 1.37 says in the same case, word for word.
	Message string
	// Unresolvable is what preemption may conclude: true where evicting pods from this node cannot
	// help, false where it may. It mirrors the codes UnschedulableAndUnresolvable and Unschedulable of
	// the in-tree filters.
	Unresolvable bool
	// Subject is what the refusal is about: the resource's name, the taint, the topology key, the
	// volume claim. It may be empty.
	Subject string
	// Need and Have are amounts, in the units of Resources, where Reason is ReasonResources.
	Need, Have int64
}

// Explain tells people more than Message does, for events and conditions: "needs 3 cpu, node has 2
// left". They are made here and not in the check, because thousands of refusals per request are
// counted and one is shown.
func (r *Refusal) Explain() string {
	if r.Subject == "" && r.Reason != ReasonUnschedulable {
		return r.Message // of a pod that does not parse: it says where
	}
	switch r.Reason {
	case ReasonResources:
		return fmt.Sprintf("needs %s, node has %s left", amount(r.Subject, r.Need, true), amount(r.Subject, r.Have, false))
	case ReasonTaint:
		return "does not tolerate taint " + r.Subject
	case ReasonUnschedulable:
		return "node is cordoned"
	case ReasonPorts:
		return "host port " + r.Subject + " is taken"
	case ReasonAntiAffinity:
		return "anti-affinity within " + r.Subject
	case ReasonPodAffinity:
		return "pod affinity finds no partner within " + r.Subject
	case ReasonSpread:
		return "topology spread over " + r.Subject + " would be uneven"
	case ReasonVolume:
		return "volume claim " + r.Subject + " cannot be used there: " + r.Message
	default:
		return r.Message
	}
}

// amount writes a quantity as manifests do: 2500m cpu, 2Gi memory, 3 nvidia.com/gpu.
func amount(name string, value int64, named bool) string {
	var quantity *resource.Quantity
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU:
		quantity = resource.NewMilliQuantity(value, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		quantity = resource.NewQuantity(value, resource.BinarySI)
	default:
		quantity = resource.NewQuantity(value, resource.DecimalSI)
	}
	if !named {
		return quantity.String()
	}
	return quantity.String() + " " + name
}
