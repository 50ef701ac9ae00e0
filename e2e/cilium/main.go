// Command cilium is the part of Cilium's operator that marks Nodes: package operator/watchers of
// Cilium's own module, started with the options of Cilium's chart. It taints a node whose agent's
// pod is scheduled and not Ready, takes the taint away when the pod is Ready, and writes
// NetworkUnavailable=False where that is absent. The whole operator takes much longer to build.
//
// go.mod pins Cilium's version. It is a module of its own, which make e2e-cni alone builds.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cilium/cilium/operator/watchers"
	ciliumclient "github.com/cilium/cilium/pkg/k8s/client"
	slim "github.com/cilium/cilium/pkg/k8s/slim/k8s/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// The agent's pods, as Cilium's chart has them.
const (
	namespace = "kube-system"
	podLabels = "k8s-app=cilium"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cilium:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	all, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	small, err := slim.NewForConfig(config)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	watchers.HandleNodeTolerationAndTaints(&workers, clients{all: all, slim: small}, ctx.Done(), slog.Default(),
		chart(), namespace, podLabels)
	workers.Wait()
	return nil
}

// chart has the values of Cilium's chart.
func chart() watchers.NodeTaintSyncConfig {
	return watchers.NodeTaintSyncConfig{
		TaintSyncWorkers:       10,
		RemoveCiliumNodeTaints: true,
		SetCiliumNodeTaints:    true,
		SetCiliumIsUpCondition: true,
	}
}

// clients has the two of Cilium's clients that the controller calls.
type clients struct {
	ciliumclient.Clientset
	all  kubernetes.Interface
	slim slim.Interface
}

// CoreV1 writes Nodes.
func (c clients) CoreV1() corev1.CoreV1Interface { return c.all.CoreV1() }

// Slim watches Nodes and pods.
func (c clients) Slim() slim.Interface { return c.slim }
