package certificates

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/extender"
)

// site is a cluster in which cert-manager has issued everything, Stratos serves with it, and a
// kube-scheduler with the generated configuration of the control plane asks with it.
type site struct {
	*framework.Rig
	installed installation
	// serving and scheduler are the Secrets as Stratos's pod and the static pod see them.
	serving, scheduler *mount
	stratos            framework.Running
	// extender and webhook are Stratos's own addresses; asking and egress stand before them.
	extender, webhook string
	asking, egress    *relay
}

func newSite(t *testing.T) *site {
	t.Helper()
	// The mounts come before the rest, so that they are removed after it.
	g := &site{extender: freeAddress(t), webhook: freeAddress(t), serving: &mount{dir: t.TempDir()},
		scheduler: &mount{dir: t.TempDir()}}
	var egress string
	g.egress, egress = newEgress(t, g.webhook)
	g.Rig = assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{APIServerArgs: []string{egress}},
		Cloud:        append(assert.FastCloud(), "--fake-instance-types=test.four=cpu:4,memory:16Gi,pods:110"),
		NoStratos:    true, NoScheduler: true,
	})
	t.Cleanup(func() {
		if t.Failed() && g.stratos.Process != nil {
			assert.LogTail(t, g.stratos.Process)
		}
	})
	if _, err := g.StartCertManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.installed = install(t, g.Rig)
	g.serving.update(t, secret(t, g.Rig, servingSecret))
	g.scheduler.update(t, secret(t, g.Rig, schedulerSecret))
	g.startStratos(t)
	g.startScheduler(t)
	return g
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startStratos gives it the flags of the rendered Deployment that concern certificates. The
// extender listens on every interface, as in a pod.
func (g *site) startStratos(t *testing.T) {
	t.Helper()
	args := append(g.installed.certificateFlags(t, g.serving.dir),
		"--extender-bind-address=:"+portOf(t, g.extender), "--webhook-port="+portOf(t, g.webhook))
	var err error
	if g.stratos, err = g.StartStratos(t.Context(), "stratos", args...); err != nil {
		t.Fatal(err)
	}
}

func (g *site) startScheduler(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.asking = newRelay(t, listener, g.extender, false)
	minors := extender.SupportedMinors()
	config, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{
		Wiring: extender.WiringControlPlane, KubernetesMinor: minors[len(minors)-1],
		Kubeconfig:  controlplane.KubeconfigPlaceholder,
		ExtenderURL: "https://" + listener.Addr().String(),
		TLS: extender.SchedulerTLS{
			CAFile: g.scheduler.path("ca.crt"), CertFile: g.scheduler.path("tls.crt"), KeyFile: g.scheduler.path("tls.key"),
			ServerName: extenderName,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: "stratos-scheduler",
		ConfigYAML: config}); err != nil {
		t.Fatal(err)
	}
}

// warm creates a pool of that many nodes, which goes through the webhooks, and waits until all are
// standby.
func (g *site) warm(t *testing.T, size int32) {
	t.Helper()
	if err := g.Warm(t.Context(), framework.Pool("warm", size), framework.Class("warm", "test.four")); err != nil {
		t.Fatal(err)
	}
}

// filtered is how many /filter calls Stratos has answered.
func (g *site) filtered(t *testing.T) string {
	t.Helper()
	response, err := http.Get(g.stratos.Metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(line, `stratos_extender_requests_total{code="200",verb="filter"} `); found {
			return strings.TrimSpace(count)
		}
	}
	return "0"
}

// starts is how many starts the cloud has accepted.
func (g *site) starts(t *testing.T) int {
	t.Helper()
	ids, err := g.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(ids)
}

// wake creates a pod that fits on no running node and waits until it is bound to one that was
// started for it.
func (g *site) wake(t *testing.T, name string) {
	t.Helper()
	before := g.starts(t)
	pod := framework.Pod(name, "cpu", "3")
	if err := g.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if _, err := g.AwaitBound(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if started := g.starts(t) - before; started != 1 {
		t.Errorf("%d instances were started for pod %s, want 1", started, name)
	}
}

// await fails the test if done does not come true. What done returns as an error is what it last
// saw.
func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), framework.HangGuard, done); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", what, err))
	}
}

// installation is what the rendered chart brought.
type installation struct {
	chart        *assert.Chart
	certificates []*unstructured.Unstructured
}
