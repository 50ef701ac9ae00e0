package fit

import corev1 "k8s.io/api/core/v1"

// HostPort is a port that a pod takes on its node. IP and Protocol are never empty when made by
// HostPorts.
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// anyIP is the address of a host port that listens everywhere: it collides with the port on every
// address.
const anyIP = "0.0.0.0"

// HostPorts returns the ports of the pod's containers and sidecars. Plain init containers are left
// out, as in the scheduler: they have ended when the containers run.
func HostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			ports = appendPorts(ports, &pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		ports = appendPorts(ports, &pod.Spec.Containers[i])
	}
	return ports
}

// PortsConflict reports whether a port of a and a port of b exclude each other on one node: same
// protocol and number, and the same address or one of them on all addresses. Ports within one list
// are not compared.
func PortsConflict(a, b []HostPort) bool {
	for _, p := range a {
		for _, q := range b {
			if conflict(p.normal(), q.normal()) {
				return true
			}
		}
	}
	return false
}

func conflict(p, q HostPort) bool {
	if p.Port <= 0 || p.Port != q.Port || p.Protocol != q.Protocol {
		return false
	}
	return p.IP == q.IP || p.IP == anyIP || q.IP == anyIP
}

func appendPorts(ports []HostPort, c *corev1.Container) []HostPort {
	for _, p := range c.Ports {
		if p.HostPort > 0 {
			ports = append(ports, HostPort{IP: p.HostIP, Protocol: string(p.Protocol), Port: p.HostPort}.normal())
		}
	}
	return ports
}

// normal fills in what the API leaves empty: all addresses, and TCP.
func (p HostPort) normal() HostPort {
	if p.IP == "" {
		p.IP = anyIP
	}
	if p.Protocol == "" {
		p.Protocol = string(corev1.ProtocolTCP)
	}
	return p
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
