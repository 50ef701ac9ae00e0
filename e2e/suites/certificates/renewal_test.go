package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/rig"
)

// TestRenewalWithoutRestart: Stratos and kube-scheduler go on through the renewal of every certificate, the root with its kept key included, as
// the processes that they are.
func TestRenewalWithoutRestart(t *testing.T) {
	g := newGround(t)
	if err := g.Warm(t.Context(), rig.Pool("warm", 3), rig.Class("warm", "test.four")); err != nil {
		t.Fatal(err)
	}
	processes := g.pids()
	g.wake(t, "before")

	t.Log("every leaf is renewed")
	before := g.secrets(t)
	renew(t, g.Rig, leaves(g.certificates)...)
	checkReplaced(t, before, g.secrets(t))
	g.serveRenewed(t)
	g.proveReread(t, "renewed")

	t.Log("the root is renewed, and then every leaf")
	before = g.secrets(t)
	ca := secret(t, g.Rig, rootSecret)
	renew(t, g.Rig, root(t, g.certificates))
	if after := secret(t, g.Rig, rootSecret); bytes.Equal(after["tls.crt"], ca["tls.crt"]) || !bytes.Equal(after["tls.key"], ca["tls.key"]) {
		t.Error("the root is no new certificate of the same key")
	}
	renew(t, g.Rig, leaves(g.certificates)...)
	checkReplaced(t, before, g.secrets(t))
	g.serveRenewed(t)
	g.relay.cut()
	g.scheduler.update(t, secret(t, g.Rig, schedulerSecret))
	g.wake(t, "after the root")

	if now := g.pids(); now != processes {
		t.Errorf("processes %v became %v", processes, now)
	}
}

// pids are those of Stratos and of kube-scheduler.
func (g *ground) pids() [2]int {
	return [2]int{g.stratos.Process.PID(), g.ControlPlane.Schedulers()[0].PID()}
}

// secrets are the leaves' files, by the name of the Secret.
func (g *ground) secrets(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	return map[string]map[string][]byte{servingSecret: secret(t, g.Rig, servingSecret), schedulerSecret: secret(t, g.Rig, schedulerSecret)}
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

// serveRenewed brings the serving Secret to Stratos and waits until it shows the new certificate, to a client that has the new one of its own.
func (g *ground) serveRenewed(t *testing.T) {
	t.Helper()
	serving, scheduler := secret(t, g.Rig, servingSecret), secret(t, g.Rig, schedulerSecret)
	g.serving.update(t, serving)
	want := parse(t, serving["tls.crt"])
	await(t, "the renewed certificate", func(ctx context.Context) (bool, error) {
		got := g.ask(ctx, "https", serving, scheduler)
		if got.served == nil {
			return false, errors.New(got.text)
		}
		return got.served.Equal(want), fmt.Errorf("serial %x, want %x", got.served.SerialNumber, want.SerialNumber)
	})
}

// proveReread shows that kube-scheduler reads its client certificate at each handshake: with a stranger's in the files its questions are refused,
// with the renewed one they are answered, and it is one process throughout.
func (g *ground) proveReread(t *testing.T, name string) {
	t.Helper()
	foreign := namesake(t, parse(t, secret(t, g.Rig, rootSecret)["tls.crt"])).client(t, rig.HangGuard)
	g.scheduler.update(t, foreign)
	connections := g.relay.cut()
	before := g.starts(t)
	pod := rig.Pod(name, "cpu", "3")
	if err := g.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	g.awaitRefusal(t, pod)
	g.scheduler.update(t, secret(t, g.Rig, schedulerSecret))
	if _, err := g.AwaitBound(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if started := g.starts(t) - before; started != 1 {
		t.Errorf("%d instances were started for pod %s, want 1", started, name)
	}
	if now := g.relay.connections(); now <= connections {
		t.Errorf("%d connections before the renewal, %d after it: there was no handshake to show a certificate in", connections, now)
	}
}

// awaitRefusal waits until the pod says that kube-scheduler's certificate was refused.
func (g *ground) awaitRefusal(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	await(t, "refusal of a stranger's certificate", func(ctx context.Context) (bool, error) {
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, err
		}
		why := rig.WhyPending(pod)
		return strings.Contains(why, "unknown certificate authority"), fmt.Errorf("pod %s: node %q, %s", pod.Name, pod.Spec.NodeName, why)
	})
}
