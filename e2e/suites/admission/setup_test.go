// Package admission proves on a real API server what the webhooks refuse, warn of and write, and
// what goes on without them.
package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// site is a control plane with a Stratos that serves admission, and the configurations that make
// the API server ask it.
type site struct {
	*framework.Rig
	client  client.Client
	heard   *heard
	stratos framework.Running
	certDir string
	address string
	// hooks are the configurations that make the API server ask.
	hooks *assert.Chart
}

func newSite(t *testing.T) *site {
	t.Helper()
	g := &site{certDir: t.TempDir(), heard: &heard{}}
	g.Rig = assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	if err := g.ControlPlane.WriteServingCertificate(g.certDir, "stratos-webhook"); err != nil {
		t.Fatal(err)
	}
	listen := func(c *rest.Config) { c.WarningHandler = g.heard }
	var err error
	if g.client, err = framework.NewClient(g.ControlPlane.Kubeconfig(), listen); err != nil {
		t.Fatal(err)
	}
	g.address = assert.FreeAddress(t)
	_, port, _ := strings.Cut(g.address, ":")
	g.stratos = assert.StartStratos(t, g.Rig, "stratos", "--cert-dir="+g.certDir, "--webhook-port="+port)
	g.Recorder.Forward(g.stratos.Extender)
	g.register(t, g.address)
	g.awaitAsked(t)
	g.heard.take() // what the waiting heard
	return g
}

// register has the API server ask for admission at the address, as the chart does, but by a URL in
// place of the Service: no Service leads anywhere here.
func (g *site) register(t *testing.T, address string) {
	t.Helper()
	g.hooks = assert.ReadWebhooks(t)
	g.hooks.AnswerAt(t, address, assert.CA(t, g.Rig))
	g.hooks.Apply(t, g.Rig)
}

// awaitAsked waits until the API server asks all webhooks: it learns of validating and mutating
// ones by a watch each.
func (g *site) awaitAsked(t *testing.T) {
	t.Helper()
	awaitAnswer(t, g, "webhooks asked", func(err error) bool {
		return err != nil &&
			strings.Contains(err.Error(), "webhook \"validate.")
	})
}

// awaitUnreached waits until the API server asks where no server answers.
func (g *site) awaitUnreached(t *testing.T) {
	t.Helper()
	awaitAnswer(t, g, "webhook not reached", func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "failed calling webhook \"default.nodepool.stratos.sh\"")
	})
}

// awaitAnswer asks for a pool with an image that only the webhook refuses.
func awaitAnswer(t *testing.T, g *site, what string, ok func(error) bool) {
	t.Helper()
	pool := framework.Pool("probe", 1)
	pool.Spec.PreWarm.ImagesToPull = []string{"a//b"}
	assert.Await(t, what, func(ctx context.Context) (bool, error) {
		err := g.client.Create(ctx, pool.DeepCopy(), client.DryRunAll)
		if ok(err) {
			return true, nil
		}
		return false, fmt.Errorf("the API server answered: %w", err)
	})
}

// unregister returns once the API server calls no webhook any more.
func (g *site) unregister(t *testing.T) {
	t.Helper()
	assert.Delete(t, g.Rig, assert.Objects(g.hooks.Objects)...)
	awaitAnswer(t, g, "no webhook asked", func(err error) bool { return err == nil })
}

// heard collects the warnings that come with answers.
type heard struct {
	mu   sync.Mutex // guards text: answers of several requests may come at once
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _ string, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, text)
}

// take returns what came since it was last called.
func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := slices.Clone(h.text)
	h.text = nil
	return text
}
