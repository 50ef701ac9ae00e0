package certificates

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// relay stands between two programs, carries bytes, and can cut the connections: TLS shows
// certificates only when a connection begins, and both kube-scheduler and the API server keep
// theirs for as long as they are of use.
type relay struct {
	to string
	// asks: each connection begins with an HTTP CONNECT, which says where the client means to go.
	asks bool
	// mu guards the fields below.
	mu      sync.Mutex
	open    []net.Conn
	carried int
	asked   []string
}

// newRelay carries what comes at the listener to the address, until the test ends.
func newRelay(t *testing.T, listener net.Listener, to string, asks bool) *relay {
	t.Helper()
	r := &relay{to: to, asks: asks}
	t.Cleanup(func() {
		_ = listener.Close() // nothing is lost with it
		r.cut()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil { // closed at the end of the test
				return
			}
			go r.carry(near)
		}
	}()
	return r
}

// carry ends both connections with the first that ends.
func (r *relay) carry(near net.Conn) {
	defer near.Close()
	if r.asks && !r.accept(near) {
		return
	}
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	r.open = append(r.open, near, far)
	r.carried++
	r.mu.Unlock()
	go func() {
		defer near.Close()
		_, _ = io.Copy(near, far)
	}()
	_, _ = io.Copy(far, near)
}

// accept answers a CONNECT. The client waits for the answer before it says more, so that nothing
// of the tunnel is in the reader's buffer.
func (r *relay) accept(near net.Conn) bool {
	request, err := http.ReadRequest(bufio.NewReader(near))
	if err != nil || request.Method != http.MethodConnect {
		return false
	}
	r.mu.Lock()
	r.asked = append(r.asked, request.RequestURI)
	r.mu.Unlock()
	_, err = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	return err == nil
}

// cut ends all connections and returns how many there have been.
func (r *relay) cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		_ = c.Close() // it may have ended by itself
	}
	r.open = nil
	return r.carried
}

func (r *relay) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carried
}

// destinations are those that were asked for, each once, sorted.
func (r *relay) destinations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.asked)))
}

// newEgress is the way from the API server into the cluster's network, which here leads to the
// webhook server alone. With it the API server calls webhooks by their Service, as in a cluster,
// and verifies the Service's name. It returns the argument that the API server needs.
func newEgress(t *testing.T, webhook string) (*relay, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress-") // a socket's path has room for a hundred characters only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, config := filepath.Join(dir, "socket"), filepath.Join(dir, "egress.yaml")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %q}}}
`, socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return newRelay(t, listener, webhook, true), "--egress-selector-config-file=" + config
}
