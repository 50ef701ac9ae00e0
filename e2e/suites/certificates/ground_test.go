package certificates

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/rig"
	"github.com/stratos-sh/stratos/extender"
)

// ground is a cluster in which cert-manager has issued everything, Stratos serves with it, and a kube-scheduler with the generated configuration
// of the control plane asks with it.
type ground struct {
	*rig.Rig
	certificates []*unstructured.Unstructured
	// serving and scheduler are the Secrets as Stratos's pod and the static pod see them.
	serving, scheduler *mount
	stratos            rig.Running
	// address is the extender's own; between it and the scheduler stands the relay.
	address string
	relay   *relay
}

func newGround(t *testing.T) *ground {
	t.Helper()
	r, err := rig.New(t.Context(), rig.Options{
		ControlPlane: controlplane.Options{NodeMonitorGracePeriod: time.Hour},
		Cloud:        []string{"--fake-boot-time=300ms", "--fake-stop-time=200ms", "--fake-pull-time=50ms"},
		NoStratos:    true, NoScheduler: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := r.StartCertManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := &ground{Rig: r, certificates: install(t, r)}
	g.serving, g.scheduler = newMount(t, secret(t, r, servingSecret)), newMount(t, secret(t, r, schedulerSecret))
	g.startStratos(t)
	g.startScheduler(t)
	return g
}

// startStratos has the extender listen on every interface, as it does in a pod whose extender is exposed.
func (g *ground) startStratos(t *testing.T) {
	t.Helper()
	free, err := controlplane.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free)
	if err != nil {
		t.Fatal(err)
	}
	g.address = free
	g.stratos, err = g.StartStratos(t.Context(), "stratos", "--extender-bind-address=:"+port,
		"--cert-dir="+g.serving.dir, "--client-ca="+g.serving.path("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
}

func (g *ground) startScheduler(t *testing.T) {
	t.Helper()
	var address string
	g.relay, address = newRelay(t, g.address)
	minors := extender.SupportedMinors()
	config, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{
		Wiring: extender.WiringControlPlane, KubernetesMinor: minors[len(minors)-1], Kubeconfig: controlplane.KubeconfigPlaceholder,
		ExtenderURL: "https://" + address,
		TLS: extender.SchedulerTLS{
			CAFile: g.scheduler.path("ca.crt"), CertFile: g.scheduler.path("tls.crt"), KeyFile: g.scheduler.path("tls.key"),
			ServerName: extenderName,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: "stratos-scheduler", ConfigYAML: config}); err != nil {
		t.Fatal(err)
	}
}

// filtered is how many /filter calls Stratos has answered.
func (g *ground) filtered(t *testing.T) string {
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
func (g *ground) starts(t *testing.T) int {
	t.Helper()
	ids, err := g.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(ids)
}

// wake creates a pod that fits on no running node and waits until it is bound to one that was started for it.
func (g *ground) wake(t *testing.T, name string) {
	t.Helper()
	before := g.starts(t)
	pod := rig.Pod(name, "cpu", "3")
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

// await fails the test if done does not come true. What done returns as an error is what it last saw.
func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := rig.Until(t.Context(), rig.HangGuard, done); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", what, err))
	}
}
