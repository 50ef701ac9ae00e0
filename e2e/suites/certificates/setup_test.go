package certificates

import (
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/minors"
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
	g := &site{extender: assert.FreeAddress(t), webhook: assert.FreeAddress(t), serving: &mount{dir: t.TempDir()},
		scheduler: &mount{dir: t.TempDir()}}
	var egress string
	g.egress, egress = newEgress(t, g.webhook)
	g.Rig = assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{APIServerArgs: []string{egress}},
		Cloud:        append(assert.FastCloud(), "--fake-instance-types=test.four=cpu:4,memory:16Gi,pods:110"),
		NoStratos:    true, NoScheduler: true,
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

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// startStratos gives it the flags of the rendered Deployment that concern certificates. The
// extender listens on every interface, as in a pod.
func (g *site) startStratos(t *testing.T) {
	t.Helper()
	args := append(g.installed.certificateFlags(t, g.serving.dir),
		"--extender-bind-address=:"+portOf(g.extender), "--webhook-port="+portOf(g.webhook))
	g.stratos = assert.StartStratos(t, g.Rig, "stratos", args...)
}

func (g *site) startScheduler(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.asking = newRelay(t, listener, g.extender, false)
	minors := minors.Supported()
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
	assert.Warm(t, g.Rig, framework.Pool("warm", size), framework.Class("warm", "test.four"))
}

// filtered is how many /filter calls Stratos has answered.
func (g *site) filtered(t *testing.T) float64 {
	t.Helper()
	n, err := framework.Metric(t.Context(), g.stratos.Metrics, "stratos_extender_requests_total", `code="200",verb="filter"`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wake creates a pod that fits on no running node and waits until it is bound to one that was
// started for it.
func (g *site) wake(t *testing.T, name string) {
	t.Helper()
	before := len(assert.Starts(t, g.Rig))
	pod := framework.Pod(name, "cpu", "3")
	assert.Create(t, g.Rig, pod)
	assert.AwaitBound(t, g.Rig, pod)
	if started := len(assert.Starts(t, g.Rig)) - before; started != 1 {
		t.Errorf("%d instances were started for pod %s, want 1", started, name)
	}
}

// installation is what the rendered chart brought.
type installation struct {
	chart        *assert.Chart
	certificates []*unstructured.Unstructured
}
