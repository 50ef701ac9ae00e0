package fit

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Node is what the checks read of a node. For one that is not running yet the caller says what it
// will be: the taints that will be left, the allocatable that will be there.
type Node struct {
	Name          v1alpha1.NodeName
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	Allocatable   Resources
	// Used is the sum of Occupied or Requests over Pods.
	Used Resources
	// Ports are the host ports of Pods.
	Ports []HostPort
	// Pods are those bound, nominated or with a claim here, terminating ones included. Finished ones
	// (Succeeded, Failed) are left out, as from the scheduler's cache.
	Pods []*Placed
	// WhenRunning is the node as it will run, where this is how it stands now; nil otherwise.
	WhenRunning *Node
}

// Place adds a pod that claims room here, so that it counts for the next pod.
func (n *Node) Place(pod *Pod) {
	n.Used.Add(pod.Requests)
	n.Ports = append(n.Ports, pod.Ports...)
	n.Pods = append(n.Pods, pod.Placed())
}

const (
	messagePods  = "Too many pods"
	messagePorts = "node(s) didn't have free ports for the requested pod ports"
)

// CheckResources checks requests and pod count against what is left on the node: NodeResourcesFit.
// Of several resources that are short the first is named, in the order of Resources.Short.
func CheckResources(pod *Pod, node *Node) *Refusal {
	short := Shortage(&pod.Requests, &node.Allocatable, &node.Used)
	if short == "" {
		return nil
	}
	refusal := &Refusal{
		Reason: ReasonResources, Message: "Insufficient " + string(short), Subject: string(short),
		Need: pod.Requests.Of(short), Have: node.Allocatable.Of(short) - node.Used.Of(short),
		Unresolvable: tooSmall(&pod.Requests, node),
	}
	if short == corev1.ResourcePods {
		refusal.Message = messagePods
	}
	return refusal
}

// tooSmall reports whether some resource would not suffice on the empty node either. The pod count
// is no such resource: the scheduler takes it that an eviction always helps there.
func tooSmall(need *Resources, node *Node) bool {
	amounts := *need
	amounts.Pods = 0
	return Shortage(&amounts, &node.Allocatable, &Resources{}) != ""
}

// CheckPorts checks the host ports: NodePorts.
func CheckPorts(pod *Pod, node *Node) *Refusal {
	for i := range pod.Ports {
		if PortsConflict(pod.Ports[i:i+1], node.Ports) {
			port := pod.Ports[i].Protocol + " " + strconv.Itoa(int(pod.Ports[i].Port))
			return &Refusal{Reason: ReasonPorts, Message: messagePorts, Subject: port}
		}
	}
	return nil
}
