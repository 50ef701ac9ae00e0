package suite

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// shutsDownInOrder turns graceful node shutdown on and powers the node off when Stratos has seen
// its warm-up complete: before that the images of DaemonSets may be missing, and another warm-up
// would be right. The kubelet delays the shutdown by a lock of systemd-logind.
const shutsDownInOrder = `#!/bin/bash
set -e
sed -i -e 's/^shutdownGracePeriod: .*/shutdownGracePeriod: 4s/' \
  -e 's/^shutdownGracePeriodCriticalPods: .*/shutdownGracePeriodCriticalPods: 2s/' /var/lib/kubelet/config.yaml
systemctl restart kubelet
until systemd-inhibit --list | grep -q kubelet; do sleep 1; done
export KUBECONFIG=/etc/kubernetes/kubelet.conf
until kubectl get node "$(hostname)" -o yaml | grep -q stratos.sh/warmed-at; do sleep 1; done
systemctl poweroff
`

// TestGracefulNodeShutdown: the first act of a real kubelet with graceful node shutdown at a
// power-off is Ready=False. The warm-up is complete all the same, because the node was seen Ready
// with its network up.
func TestGracefulNodeShutdown(t *testing.T) {
	l := cluster.New(t)
	l.AwaitRelease(t)
	pool := poolOf("shutdown", 1, 1)
	pool.Spec.PreWarm.CompletionMode = v1alpha1.SelfStop
	class := l.Class("shutdown", reserve(t, l))
	class.Spec.BootScript = shutsDownInOrder
	story := l.Tell(t, "shutdown", "kube-system", client.MatchingLabels{"app": "minicni"})
	l.Create(t, class, pool)
	containers := l.AwaitStandby(t, "shutdown", 1)
	shutDown := story.Node(t, containers[0], 0, func(n *corev1.Node) bool {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "shutting down") {
				return true
			}
		}
		return false
	})
	if shutDown == nil {
		t.Fatal("the kubelet never said that its node is shutting down")
	}
	if state := shutDown.Labels[v1alpha1.LabelState]; state != string(v1alpha1.StateWarmup) {
		t.Errorf("the kubelet shut down in state %q, want warmup", state)
	}
	again := story.Node(t, containers[0], 0, func(n *corev1.Node) bool {
		return n.Annotations[v1alpha1.AnnotationWarmupStarted] != ""
	})
	if again != nil {
		t.Error("the node was warmed up a second time")
	}
}
