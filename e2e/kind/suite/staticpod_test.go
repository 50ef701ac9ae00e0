package suite

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestStaticPodScheduler is the second wiring, on a real control plane by the commands of
// docs/scheduler.md and docs/certificates.md: a kube-scheduler that its kubelet runs asks the
// extender over mutual TLS.
func TestStaticPodScheduler(t *testing.T) {
	l := cluster.New(t)
	t.Cleanup(func() { reinstall(t, l) })
	controlPlane := l.Name + "-control-plane"
	const manifest = "/etc/kubernetes/manifests/stratos-scheduler.yaml"
	t.Cleanup(func() {
		if _, err := cluster.Docker(context.Background(), "exec", controlPlane, "rm", "-rf", manifest,
			"/etc/kubernetes/stratos"); err != nil {
			t.Error(err)
		}
	})
	r := newReader(t, l, "cloudProvider=kind")
	t.Cleanup(func() { mustKubectl(t, "delete", "--ignore-not-found", "secret/my-cluster-stratos-scheduler") })
	r.follow(t, page{file: "docs/scheduler.md"})
	r.follow(t, page{file: "docs/certificates.md"})

	cluster.Await(t, "the static pod's lease", func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		err := l.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "stratos-scheduler"}, lease)
		return err == nil && lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, controlPlane),
			err
	})
	image := l.Push(t, "static/web:1")
	makePool(t, l, poolOf("static", 1, 1, image))
	l.Namespace(t, "static")
	events := l.WatchContainers(t)
	before := l.Metric(t, "stratos_extender_requests_total", `verb="filter"`)
	w := cluster.Workload{Name: "web", Namespace: "static", Pool: "static", Image: image, CPU: podCPU, Replicas: 1}
	l.Create(t, w.Deployment())
	l.AnswersHTTP(t, l.AwaitReady(t, "static", "web", 1))
	if after := l.Metric(t, "stratos_extender_requests_total", `verb="filter"`); after <= before {
		t.Errorf("the extender was not asked: %v requests before, %v after", before, after)
	}
	if got := len(events.Of("start", "static")); got != 1 {
		t.Errorf("%d starts, want 1", got)
	}
}
