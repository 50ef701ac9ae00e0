package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func node(name, pods string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods}}
	for _, address := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return n
}

// newNetwork returns the part of node "own", and the routes that it has made.
func newNetwork(t *testing.T) (*network, map[string]string) {
	routes := map[string]string{}
	return &network{
		node: "own", file: filepath.Join(t.TempDir(), "net.conflist"),
		route:   func(pods *net.IPNet, gateway net.IP) error { routes[pods.String()] = gateway.String(); return nil },
		unroute: func(pods *net.IPNet) error { delete(routes, pods.String()); return nil },
	}, routes
}

func TestRoutesFollowTheNodes(t *testing.T) {
	n, routes := newNetwork(t)
	events := n.events()
	events.OnAdd(node("own", "10.244.0.0/24", "172.18.0.2"), true)
	events.OnAdd(node("without a range yet", "", "172.18.0.3"), true)
	events.OnAdd(node("without an address yet", "10.244.7.0/24"), true)
	events.OnAdd(node("second", "10.244.1.0/24", "fc00::4", "172.18.0.4"), false)
	events.OnAdd(node("third", "10.244.2.0/24", "172.18.0.5"), false)
	events.OnUpdate(node("third", "10.244.2.0/24", "172.18.0.5"), node("third", "10.244.2.0/24", "172.18.0.6"))
	want := map[string]string{"10.244.1.0/24": "172.18.0.4", "10.244.2.0/24": "172.18.0.6"}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Errorf("routes, -want +got:\n%s", diff)
	}
	events.OnDelete(node("third", "10.244.2.0/24", "172.18.0.6"))
	events.OnDelete(cache.DeletedFinalStateUnknown{Obj: node("second", "10.244.1.0/24", "172.18.0.4")})
	if len(routes) > 0 {
		t.Errorf("routes to nodes that are gone: %v", routes)
	}
}

func TestConfigurationHasTheNodesRange(t *testing.T) {
	n, _ := newNetwork(t)
	for _, pods := range []string{"10.244.0.0/24", "10.244.9.0/24"} { // a node that registers anew gets another
		if err := n.follow(node("own", pods)); err != nil {
			t.Fatal(err)
		}
		if got := subnet(t, n.file); got != pods {
			t.Errorf("the configuration has the range %s, want %s", got, pods)
		}
	}
	if err := n.follow(node("own", "nonsense")); err == nil {
		t.Error("a range that is none was taken")
	}
}

func subnet(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	read := struct {
		Plugins []struct {
			Type string
			Ipam struct{ Ranges [][]struct{ Subnet string } }
		}
	}{}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read.Plugins[0].Ipam.Ranges[0][0].Subnet
}
