package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestHostPortsAreThoseOfContainersAndSidecars(t *testing.T) {
	initOnly := containerPort("", corev1.ProtocolTCP, 1)
	side := sidecar()
	side.Ports = containerPort("10.0.0.1", corev1.ProtocolUDP, 2).Ports
	main := containerPort("", "", 3)
	main.Ports = append(main.Ports, corev1.ContainerPort{ContainerPort: 8080})
	pod := podWith("p", nil)
	pod.Spec.InitContainers = []corev1.Container{initOnly, side}
	pod.Spec.Containers = []corev1.Container{main}

	want := []HostPort{{"10.0.0.1", "UDP", 2}, {"0.0.0.0", "TCP", 3}}
	if diff := cmp.Diff(want, HostPorts(pod)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestPortsConflict(t *testing.T) {
	cases := map[string]struct {
		a, b HostPort
		want bool
	}{
		"same address, protocol and port": {HostPort{"10.0.0.1", "TCP", 80}, HostPort{"10.0.0.1", "TCP", 80},
			true},
		"two addresses of one node": {HostPort{"10.0.0.1", "TCP", 80}, HostPort{"10.0.0.2", "TCP", 80},
			false},
		"all addresses against one": {HostPort{"0.0.0.0", "TCP", 80}, HostPort{"10.0.0.1", "TCP", 80},
			true},
		"no address means all":                          {HostPort{"", "TCP", 80}, HostPort{"10.0.0.1", "TCP", 80}, true},
		"no protocol means TCP":                         {HostPort{"", "", 80}, HostPort{"", "TCP", 80}, true},
		"TCP and UDP live side by side":                 {HostPort{"", "TCP", 53}, HostPort{"", "UDP", 53}, false},
		"another port":                                  {HostPort{"", "TCP", 80}, HostPort{"", "TCP", 81}, false},
		"port 0 is no host port":                        {HostPort{"", "TCP", 0}, HostPort{"", "TCP", 0}, false},
		"IPv6's any address is not known to be special": {HostPort{"::", "TCP", 80}, HostPort{"10.0.0.1", "TCP", 80}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2]HostPort{{c.a, c.b}, {c.b, c.a}} {
				if got := PortsConflict(pair[:1], pair[1:]); got != c.want {
					t.Errorf("%v and %v conflict: %v, want %v", pair[0], pair[1], got, c.want)
				}
			}
		})
	}
	if PortsConflict([]HostPort{{"", "TCP", 80}, {"", "TCP", 80}}, nil) {
		t.Error("a pod without neighbours conflicts with itself")
	}
}

func TestPortsRefuseNamesThePort(t *testing.T) {
	there := podWith("there", nil)
	there.Spec.Containers = []corev1.Container{containerPort("", "TCP", 443)}
	waits := podWith("waits", nil)
	waits.Spec.Containers = []corev1.Container{containerPort("", "TCP", 80), containerPort("10.0.0.1", "TCP", 443)}

	got := CheckPorts(NewPod(waits, nil), nodeIn("n", "a", there))
	want := &Refusal{Reason: ReasonPorts, Message: "node(s) didn't have free ports for the requested pod ports",
		Subject: "TCP 443"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if got := CheckPorts(NewPod(waits, nil), nodeIn("n", "a")); got != nil {
		t.Errorf("an empty node refuses: %v", got)
	}
}
