package certificates

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestRenewalWithoutRestart: Stratos, kube-scheduler and the API server go on through the renewal
// of every certificate, also of the root, which keeps its key, as the processes that they are.
func TestRenewalWithoutRestart(t *testing.T) {
	t.Parallel()
	g := newSite(t)
	g.warm(t, 3)
	processes := g.pids()
	g.wake(t, "before")

	g.renewLeaves(t)
	g.proveReread(t)
	g.wake(t, "renewed")
	g.checkReconnects(t, "after-the-leaves")

	before := secret(t, g.Rig, rootSecret)
	renew(t, g.Rig, root(t, g.installed.certificates))
	after := secret(t, g.Rig, rootSecret)
	if bytes.Equal(after["tls.crt"], before["tls.crt"]) || !bytes.Equal(after["tls.key"], before["tls.key"]) {
		t.Error("the root is not a new certificate of the same key")
	}
	g.checkReconnects(t, "beside-the-new-root") // which signed nothing yet
	g.renewLeaves(t)
	g.scheduler.update(t, secret(t, g.Rig, schedulerSecret))
	g.checkReconnects(t, "under-the-new-root")
	g.wake(t, "after-the-root")

	if now := g.pids(); now != processes {
		t.Errorf("processes %v became %v", processes, now)
	}
}

// renewLeaves has every certificate but the root's issued anew and waits until Stratos shows the
// new one.
func (g *site) renewLeaves(t *testing.T) {
	t.Helper()
	before := g.secrets(t)
	renew(t, g.Rig, leaves(g.installed.certificates)...)
	checkReplaced(t, before, g.secrets(t))
	g.serveRenewed(t)
}

// checkReconnects: in connections that begin now, the API server and kube-scheduler still find each
// what it asks for. The pod of that name is a small one, which fits on a node that runs.
func (g *site) checkReconnects(t *testing.T, name string) {
	t.Helper()
	asked, admitted := g.asking.cut(), g.egress.cut()
	if err := g.admit(t, "registry.example/app"); err != nil {
		t.Errorf("admission of a pool: %v", err)
	}
	pod := framework.Pod(name, "cpu", "1m")
	assert.Create(t, g.Rig, pod)
	assert.AwaitBound(t, g.Rig, pod)
	if g.asking.connections() == asked || g.egress.connections() == admitted {
		t.Error("no new connection was made: no certificate was shown")
	}
}

// pids are those of Stratos and of kube-scheduler.
func (g *site) pids() [2]int {
	return [2]int{g.stratos.Process.PID(), g.ControlPlane.Schedulers()[0].PID()}
}

// secrets are the leaves' files, by the name of the Secret.
func (g *site) secrets(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	return map[string]map[string][]byte{servingSecret: secret(t, g.Rig, servingSecret),
		schedulerSecret: secret(t, g.Rig, schedulerSecret)}
}

func checkReplaced(t *testing.T, before, after map[string]map[string][]byte) {
	t.Helper()
	for name, files := range after {
		for _, file := range []string{"tls.crt", "tls.key"} {
			if bytes.Equal(files[file], before[name][file]) {
				t.Errorf("%s of Secret %s is the same after the renewal", file, name)
			}
		}
	}
}

// serveRenewed brings the serving Secret to Stratos and waits until both of its servers show the
// new certificate.
func (g *site) serveRenewed(t *testing.T) {
	t.Helper()
	serving := secret(t, g.Rig, servingSecret)
	g.serving.update(t, serving)
	want := parse(t, serving["tls.crt"])
	for name, address := range map[string]string{extenderName: g.extender, webhookName: g.webhook} {
		assert.Await(t, "the renewed certificate of "+name, func(ctx context.Context) (bool, error) {
			got, err := shown(ctx, address, name, serving)
			if err != nil || got.Equal(want) {
				return err == nil, err
			}
			return false, fmt.Errorf("serial %x, want %x", got.SerialNumber, want.SerialNumber)
		})
	}
}

// proveReread shows that kube-scheduler reads its client certificate again: with a stranger's in
// the files its questions are refused, with the renewed one they are answered, and it is one
// process throughout.
func (g *site) proveReread(t *testing.T) {
	t.Helper()
	g.scheduler.update(t, namesake(t, parse(t, secret(t, g.Rig, rootSecret)["tls.crt"])).client(t, framework.HangGuard))
	refused := g.awaitRefusal(t)
	g.scheduler.update(t, secret(t, g.Rig, schedulerSecret))
	assert.AwaitBound(t, g.Rig, refused)
}

// awaitRefusal cuts the scheduler's connections and has it ask about small pods until its
// certificate is refused, and returns that pod. The first ones may be answered, because
// kube-scheduler keeps what it has read for a second.
func (g *site) awaitRefusal(t *testing.T) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	asked := 0
	assert.Await(t, "refusal of a stranger's certificate", func(ctx context.Context) (bool, error) {
		g.asking.cut()
		asked++
		pod = framework.Pod(fmt.Sprintf("asked-about-%d", asked), "cpu", "1m")
		if err := g.Client.Create(ctx, pod); err != nil {
			return false, err
		}
		return g.isRefused(ctx, pod)
	})
	return pod
}

// isRefused waits until the pod is bound or says that kube-scheduler's certificate was refused.
func (g *site) isRefused(ctx context.Context, pod *corev1.Pod) (refused bool, err error) {
	err = framework.Until(ctx, framework.HangGuard, func(ctx context.Context) (bool, error) {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, err
		}
		why := framework.WhyPending(pod)
		if refused = strings.Contains(why, "unknown certificate authority"); refused || pod.Spec.NodeName != "" {
			return true, nil
		}
		return false, fmt.Errorf("pod %s: %s", pod.Name, why)
	})
	return refused, err
}
