package waiting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestNothingServedBeforeSync starts Stratos processes whose view of one kind of objects does not
// arrive: their list hangs at the API server. From half a cluster they would start nodes that are
// not needed.
func TestNothingServedBeforeSync(t *testing.T) {
	r := assert.NewRig(t, framework.Options{Cloud: []string{"--fake-boot-time=500ms", "--fake-stop-time=200ms"}})
	assert.Warm(t, r, framework.Pool("early", 3), framework.Class("early", "m5.large"))
	if err := r.Stratos.Stop(); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]unsynced{
		// Pods and nodes the process wants before it listens at all.
		"pods":      {path: "/api/v1/pods"},
		"nodes":     {path: "/api/v1/nodes"},
		"nodepools": {path: "/apis/stratos.sh/v1alpha1/nodepools", listens: true},
	} {
		t.Run("without its "+kind, func(t *testing.T) { testBeforeSync(t, r, kind, c) })
	}
}

// unsynced is a list that hangs, and whether the extender listens meanwhile.
type unsynced struct {
	path    string
	listens bool
}

func testBeforeSync(t *testing.T, r *framework.Rig, kind string, c unsynced) {
	path := c.path
	api := hold(t, r, path)
	address := assert.FreeAddress(t)
	r.Recorder.Forward("http://" + address)
	started := make(chan started, 1)
	go func() { // it returns once /readyz says yes
		s, err := r.StartStratos(t.Context(), "early-"+kind, "--kubeconfig="+api.kubeconfig, "--install-crds=false",
			"--extender-bind-address="+address)
		started <- startedOf(s, err)
	}()
	assert.Await(t, "refusal without "+kind, func(context.Context) (bool, error) {
		if api.waiting() == 0 {
			return false, fmt.Errorf("the %s are not asked for yet", kind)
		}
		err := refused(t.Context(), "http://"+address, c.listens)
		return err == nil, err
	})
	before := assert.Starts(t, r)
	pod := framework.Pod("early-"+kind, "cpu", "2")
	assert.Create(t, r, pod)
	assert.AwaitPending(t, r, pod, corev1.PodReasonSchedulerError)
	if err := refused(t.Context(), "http://"+address, c.listens); err != nil {
		t.Error(err)
	}
	select {
	case s := <-started:
		t.Fatalf("/readyz said yes while the %s were missing (%v)", kind, s.err)
	default:
	}
	if got := assert.Starts(t, r); len(got) != len(before) {
		t.Errorf("started %v while the %s were missing", got[len(before):], kind)
	}

	api.release()
	s := <-started
	if s.err != nil {
		t.Fatal(s.err)
	}
	assert.AwaitBound(t, r, pod)
	if got := assert.Starts(t, r); len(got) != len(before)+1 {
		t.Errorf("started %v, want one", got[len(before):])
	}
	if err := s.process.Stop(); err != nil {
		t.Error(err)
	}
}

type started struct {
	process *controlplane.Process
	err     error
}

func startedOf(s framework.Running, err error) started { return started{process: s.Process, err: err} }

// refused asks as the scheduler does. It is nil when nothing listens, or, where something should,
// when that refuses in words.
func refused(ctx context.Context, url string, listens bool) error {
	_, err := framework.AskFilter(ctx, url, framework.Pod("somebody"), "some-node")
	switch {
	case err == nil:
		return fmt.Errorf("POST %s was answered", url)
	case !listens && errors.Is(err, syscall.ECONNREFUSED), strings.Contains(err.Error(), "503") &&
		strings.Contains(err.Error(), "caches are not synced yet"):
		return nil
	}
	return err
}

// holding is the API server behind a proxy that lets requests for one path hang.
type holding struct {
	kubeconfig string
	open       chan struct{}
	held       chan struct{}
}

// hold puts a proxy before the API server, with the identity of Stratos.
func hold(t *testing.T, r *framework.Rig, path string) *holding {
	t.Helper()
	target, transport := assert.APIServer(t, r)
	h := &holding{open: make(chan struct{}), held: make(chan struct{}, 1000)}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // a client that goes away is no news
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == path && req.Method == http.MethodGet {
			h.held <- struct{}{}
			select {
			case <-h.open:
			case <-req.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(server.CloseClientConnections) // watches end never
	h.kubeconfig = assert.Kubeconfig(t, server.URL)
	return h
}

func (h *holding) waiting() int { return len(h.held) }
func (h *holding) release()     { close(h.open) }
