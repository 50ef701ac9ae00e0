// Package admission proves on a real API server what the webhooks refuse, warn of and write, and
// what goes on without them.
package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/webhook"
)

// site is a control plane with a Stratos that serves admission, and the configurations that make
// the API server ask it.
type site struct {
	*framework.Rig
	client     client.Client
	heard      *heard
	stratos    framework.Running
	certDir    string
	address    string
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
}

func newSite(t *testing.T) *site {
	t.Helper()
	g := &site{certDir: t.TempDir(), heard: &heard{}}
	g.Rig = assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	t.Cleanup(func() {
		if t.Failed() && g.stratos.Process != nil {
			assert.LogTail(t, g.stratos.Process)
		}
	})
	if err := g.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.register(t, g.address)
	g.awaitAsked(t)
	g.heard.take() // what the waiting heard
	return g
}

func (g *site) start(ctx context.Context) error {
	if err := g.ControlPlane.WriteServingCertificate(g.certDir, "stratos-webhook"); err != nil {
		return err
	}
	var err error
	if g.client, err = newClient(g.ControlPlane.Kubeconfig(), g.heard); err != nil {
		return err
	}
	if g.address, err = controlplane.FreeAddress(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(g.address)
	if err != nil {
		return err
	}
	if g.stratos, err = g.StartStratos(ctx, "stratos", "--cert-dir="+g.certDir, "--webhook-port="+port); err != nil {
		return err
	}
	g.Recorder.Forward(g.stratos.Extender)
	return nil
}

func newClient(kubeconfig string, warnings *heard) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, warnings
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// register has the API server ask for admission at the address, as the chart does, but by a URL in
// place of the Service: no Service leads anywhere here.
func (g *site) register(t *testing.T, address string) {
	t.Helper()
	ca, err := os.ReadFile(g.ControlPlane.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	g.mutating, g.validating = configurations(t)
	for i := range g.mutating.Webhooks {
		point(&g.mutating.Webhooks[i].ClientConfig, address, ca)
	}
	for i := range g.validating.Webhooks {
		point(&g.validating.Webhooks[i].ClientConfig, address, ca)
	}
	for _, o := range []client.Object{g.mutating, g.validating} {
		if err := g.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
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
	await(t, what, func(ctx context.Context) (bool, error) {
		err := g.client.Create(ctx, pool.DeepCopy(), client.DryRunAll)
		if ok(err) {
			return true, nil
		}
		return false, fmt.Errorf("the API server answered: %w", err)
	})
}

// repoint has the API server ask at another address.
func (g *site) repoint(t *testing.T, address string) {
	t.Helper()
	mutating, validating := configurations(t)
	for i := range mutating.Webhooks {
		url := "https://" + address + *mutating.Webhooks[i].ClientConfig.Service.Path
		g.mutating.Webhooks[i].ClientConfig.URL = &url
	}
	for i := range validating.Webhooks {
		url := "https://" + address + *validating.Webhooks[i].ClientConfig.Service.Path
		g.validating.Webhooks[i].ClientConfig.URL = &url
	}
	for _, o := range []client.Object{g.mutating, g.validating} {
		if err := g.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// unregister returns once the API server calls no webhook any more.
func (g *site) unregister(t *testing.T) {
	t.Helper()
	if g.mutating == nil {
		return
	}
	for _, o := range []client.Object{g.mutating, g.validating} {
		if err := g.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	awaitAnswer(t, g, "no webhook asked", func(err error) bool { return err == nil })
	g.mutating, g.validating = nil, nil
}

// configurations are those that make generate writes.
func configurations(t *testing.T) (*admissionregistrationv1.MutatingWebhookConfiguration,
	*admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}
	documents := bytes.Split(bytes.TrimPrefix(webhook.Manifests, []byte("---\n")), []byte("\n---\n"))
	if len(documents) != 2 {
		t.Fatalf("%d documents", len(documents))
	}
	if err := errors.Join(yaml.UnmarshalStrict(documents[0], mutating),
		yaml.UnmarshalStrict(documents[1], validating)); err != nil {
		t.Fatal(err)
	}
	return mutating, validating
}

func point(at *admissionregistrationv1.WebhookClientConfig, address string, ca []byte) {
	url := "https://" + address + *at.Service.Path
	at.URL, at.CABundle, at.Service = &url, ca, nil
}

// kubectl runs the control plane's own kubectl and returns all that it prints.
func (g *site) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), g.ControlPlane.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.ControlPlane.Kubeconfig(), "HOME="+filepath.Dir(g.certDir))
	out, err := cmd.CombinedOutput()
	return string(out), err
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

func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), framework.HangGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
