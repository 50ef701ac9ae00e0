// Command minicni gives pods of a small cluster their network, where the network that kind brings
// cannot be pulled: it writes the configuration of the CNI plugins from the node's pod range, and
// keeps a route to the pod range of each other node. All nodes have to be on one network.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// configurationFile is among the first that the container runtime reads, by its name.
const configurationFile = "/etc/cni/net.d/10-minicni.conflist"

// resync repairs routes that were removed.
const resync = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("NODE_NAME"), os.Getenv("CONTROL_PLANE_ENDPOINT")); err != nil {
		fmt.Fprintln(os.Stderr, "minicni:", err)
		os.Exit(1)
	}
}

// run follows the cluster's nodes until the context ends. The API server's address is kind's own
// when it is given, because Services work only once kube-proxy runs.
func run(ctx context.Context, node, endpoint string) error {
	if node == "" {
		return errors.New("NODE_NAME is not set")
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if endpoint != "" {
		config.Host = "https://" + endpoint
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clients, resync)
	n := &network{node: node, file: configurationFile, route: replaceRoute, unroute: deleteRoute}
	if _, err := factory.Core().V1().Nodes().Informer().AddEventHandler(n.events()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// network is one node's part of it.
type network struct {
	node, file string
	route      func(pods *net.IPNet, gateway net.IP) error
	unroute    func(pods *net.IPNet) error
}

func (n *network) events() cache.ResourceEventHandler {
	follow := func(object any) {
		node, ok := object.(*corev1.Node)
		if !ok {
			return
		}
		if err := n.follow(node); err != nil {
			log.Printf("node %s: %v", node.Name, err) // the next resync tries again
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    follow,
		UpdateFunc: func(_, now any) { follow(now) },
		DeleteFunc: n.deleted,
	}
}

// follow writes the configuration for the own node, and the route to another one.
func (n *network) follow(node *corev1.Node) error {
	if node.Spec.PodCIDR == "" { // the node controller gives it in a moment
		return nil
	}
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return err
	}
	if node.Name == n.node {
		return writeConfiguration(n.file, pods)
	}
	gateway := internalAddress(node)
	if gateway == nil {
		return nil
	}
	return n.route(pods, gateway)
}

func (n *network) deleted(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok || node.Name == n.node {
		return
	}
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return
	}
	if err := n.unroute(pods); err != nil {
		log.Printf("node %s: %v", node.Name, err)
	}
}

func internalAddress(node *corev1.Node) net.IP {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			if ip := net.ParseIP(address.Address).To4(); ip != nil {
				return ip
			}
		}
	}
	return nil
}

// configuration: a pair of interfaces for each pod, addresses from the node's range, host ports.
const configuration = `{
  "cniVersion": "0.3.1",
  "name": "minicni",
  "plugins": [
    {"type": "ptp", "mtu": 1400, "ipam": {"type": "host-local", "dataDir": "/run/minicni", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// writeConfiguration replaces the file at once, because the container runtime watches it.
func writeConfiguration(file string, pods *net.IPNet) error {
	text := fmt.Sprintf(configuration, pods.String())
	if before, err := os.ReadFile(file); err == nil && string(before) == text {
		return nil
	}
	next := filepath.Join(filepath.Dir(file), ".minicni.next")
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	log.Printf("pods of this node: %s", pods)
	return os.Rename(next, file)
}

func replaceRoute(pods *net.IPNet, gateway net.IP) error {
	if err := netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: gateway}); err != nil {
		return fmt.Errorf("route to %s by %s: %w", pods, gateway, err)
	}
	return nil
}

func deleteRoute(pods *net.IPNet) error {
	err := netlink.RouteDel(&netlink.Route{Dst: pods})
	if errors.Is(err, syscall.ESRCH) { // there was none
		return nil
	}
	return err
}
