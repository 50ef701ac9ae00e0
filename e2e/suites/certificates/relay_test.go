package certificates

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay stands between kube-scheduler and the extender, carries bytes, and can cut the connections: TLS shows certificates only when a
// connection begins, and kube-scheduler keeps its own for as long as it is of use.
type relay struct {
	to string
	// mu guards the fields below.
	mu      sync.Mutex
	open    []net.Conn
	carried int
}

// newRelay returns one and the address that it listens at.
func newRelay(t *testing.T, to string) (*relay, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{to: to}
	t.Cleanup(func() {
		listener.Close()
		r.cut()
	})
	go r.serve(listener)
	return r, listener.Addr().String()
}

func (r *relay) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil { // closed at the end of the test
			return
		}
		far, err := net.Dial("tcp", r.to)
		if err != nil {
			near.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, near, far)
		r.carried++
		r.mu.Unlock()
		go carry(near, far)
		go carry(far, near)
	}
}

// carry ends both connections with the first that ends.
func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

// cut ends all connections and returns how many there have been.
func (r *relay) cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.open {
		c.Close()
	}
	r.open = nil
	return r.carried
}

func (r *relay) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carried
}
