package crashes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
)

// side says on which side of a write Stratos dies.
type side string

const (
	// before: the write has left Stratos, and never reaches the server.
	before side = "before"
	// after: the write took effect, and its answer never reaches Stratos.
	after side = "after"
)

// death is a point of a life at which Stratos is killed.
type death struct {
	side  side
	write meaning
}

func (d death) String() string { return string(d.side) + " " + string(d.write) }

// front stands between Stratos and both of its servers. It records every write, and holds those at
// which Stratos is to die.
type front struct {
	api, cloud *httptest.Server
	// mu guards the fields below.
	mu sync.Mutex
	// lives are by pool, owners tell the pool of a Node and of an instance.
	lives  map[string]*life
	owners map[string]string
	// held are the lives whose write is being held; dead is closed when Stratos has died of them, and
	// made anew.
	held []*life
	dead chan struct{}
	// news tells that one more is held.
	news chan struct{}
}

// openFront returns a front before the rig's servers, and the path of a kubeconfig that leads to
// it.
func openFront(t *testing.T, r *framework.Rig) (*front, string) {
	t.Helper()
	f := &front{lives: map[string]*life{}, owners: map[string]string{}, dead: make(chan struct{}),
		news: make(chan struct{}, 1)}
	server, transport := assert.APIServer(t, r)
	f.api = f.serve(t, server.String(), transport, apiWrite)
	f.cloud = f.serve(t, r.CloudURL(), &http.Transport{MaxIdleConnsPerHost: 64}, cloudWrite)
	return f, assert.Kubeconfig(t, f.api.URL)
}

type writeKey struct{}

func (f *front) serve(t *testing.T, to string, transport http.RoundTripper,
	read func(method, path string, body []byte) write) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.ModifyResponse = func(answer *http.Response) error {
		w, ok := answer.Request.Context().Value(writeKey{}).(write)
		if !ok || answer.StatusCode >= http.StatusMultipleChoices {
			return nil
		}
		return f.took(answer, w)
	}
	// the caller is dead
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			proxy.ServeHTTP(answer, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		w := read(req.Method, req.URL.Path, body)
		if f.hold(req.Context(), before, w) {
			panic(http.ErrAbortHandler)
		}
		f.watch(w)
		proxy.ServeHTTP(answer, req.WithContext(context.WithValue(req.Context(), writeKey{}, w)))
	}))
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// took sees a write that took effect before Stratos gets its answer.
func (f *front) took(answer *http.Response, w write) error {
	if w.meaning == launched {
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		instance := provider.Instance{}
		if err := json.Unmarshal(body, &instance); err != nil {
			return err
		}
		f.own(w.pool, instance)
	}
	if l := f.lifeOf(w); l != nil {
		l.record(w)
	}
	if f.hold(answer.Request.Context(), after, w) {
		return http.ErrAbortHandler
	}
	return nil
}

// own notes whose the instance is, and the Node that it will register.
func (f *front) own(pool string, i provider.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owners[string(i.ID)], f.owners[i.PrivateDNSName] = pool, pool
	if l := f.lives[pool]; l != nil {
		l.launched(i)
	}
}

// lifeOf is the life that the write belongs to, nil if none.
func (f *front) lifeOf(w write) *life {
	f.mu.Lock()
	defer f.mu.Unlock()
	pool := w.pool
	switch {
	case w.node != "":
		pool = f.owners[w.node]
	case w.instance != "":
		pool = f.owners[w.instance]
	case w.pod != "":
		pool = w.pod[:strings.LastIndex(w.pod, "-")]
	}
	return f.lives[pool]
}

// hold holds the write until Stratos is dead, if this is where the write's life has it die. It
// reports whether it did.
func (f *front) hold(ctx context.Context, s side, w write) bool {
	l := f.lifeOf(w)
	if l == nil || !l.dies(death{s, l.phased(w.meaning)}) {
		return false
	}
	f.die(ctx, l)
	return true
}

// die has Stratos killed, of the write of a life or of none, and waits until it is dead.
func (f *front) die(ctx context.Context, l *life) {
	f.mu.Lock()
	f.held = append(f.held, l)
	dead := f.dead
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default: // told already
	}
	select {
	case <-dead:
	case <-ctx.Done():
	}
}

// holding is how many writes are held.
func (f *front) holding() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

// bury lets the writes go that were held until Stratos died: no process waits for them any more.
func (f *front) bury() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.dead)
	f.dead, f.held = make(chan struct{}), nil
}

// watch looks at what a stop or a termination would take away.
func (f *front) watch(w write) {
	if w.meaning != stopped && w.meaning != terminated {
		return
	}
	if l := f.lifeOf(w); l != nil {
		l.stopping(w)
	}
}

// enter has the front know the life.
func (f *front) enter(l *life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives[l.name] = l
}
