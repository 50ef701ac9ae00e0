package extender

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// testTimeout bounds what waits for other goroutines; nothing comes near it unless it hangs.
const testTimeout = 20 * time.Second

func newTestServer(t *testing.T, decider Decider, options Options) *Server {
	t.Helper()
	if options.BindAddress == "" {
		options.BindAddress = "127.0.0.1:0"
	}
	server, err := NewServer(decider, prometheus.NewRegistry(), options)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// start runs the server until the test ends, and returns its address, the way to stop it
// and its result.
func start(t *testing.T, server *Server) (address string, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		result <- server.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	addrCtx, done := context.WithTimeout(ctx, testTimeout)
	defer done()
	addr, err := server.Addr(addrCtx)
	if err != nil {
		t.Fatalf("never listened: %v", err)
	}
	return addr.String(), cancel, result
}

func post(t *testing.T, client *http.Client, url string) (int, error) {
	t.Helper()
	response, err := client.Post(url, "application/json", bytes.NewReader(filterBody(t, testPod("web"), "a")))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

func TestServerIsARunnableOfEveryReplica(t *testing.T) {
	var runnable manager.Runnable = newTestServer(t, acceptAll(), Options{})
	election, ok := runnable.(manager.LeaderElectionRunnable)
	if !ok || election.NeedLeaderElection() {
		t.Error("the server would wait for the leader's lease")
	}
}

func TestServerAnswersOverPlainHTTPOnLoopback(t *testing.T) {
	for _, bind := range []string{"127.0.0.1:0", "localhost:0", "127.8.9.10:0"} {
		t.Run(bind, func(t *testing.T) {
			address, _, _ := start(t, newTestServer(t, acceptAll(), Options{BindAddress: bind}))
			code, err := post(t, &http.Client{}, "http://"+address+"/filter")
			if err != nil || code != http.StatusOK {
				t.Errorf("%d, %v", code, err)
			}
		})
	}
}

func TestNewServerRefuses(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.pem")
	writeFile(t, garbage, []byte("no certificate"))
	good := newAuthority(t, "good").serverDir(t)
	for name, tc := range map[string]struct {
		options Options
		says    []string
	}{
		"every address without TLS": {Options{BindAddress: ":9444"}, []string{"--extender-bind-address", "--cert-dir"}},
		"any IPv4 without TLS": {Options{BindAddress: "0.0.0.0:9444"},
			[]string{"--extender-bind-address", "--cert-dir"}},
		"a pod address without TLS": {Options{BindAddress: "10.0.0.1:9444"},
			[]string{"--extender-bind-address", "--cert-dir"}},
		"any IPv6 without TLS": {Options{BindAddress: "[::]:9444"}, []string{"--extender-bind-address", "--cert-dir"}},
		"a name without TLS": {Options{BindAddress: "stratos.example:9444"},
			[]string{"--extender-bind-address", "--cert-dir"}},
		"no port": {Options{BindAddress: "127.0.0.1"}, []string{"--extender-bind-address", "host:port"}},
		"client CA without TLS": {Options{BindAddress: "127.0.0.1:0", ClientCA: "ca.crt"},
			[]string{"--client-ca", "--cert-dir"}},
		"open without client CA": {Options{BindAddress: ":0", CertDir: good}, []string{"--client-ca is required"}},
		"cert dir without files": {Options{BindAddress: "127.0.0.1:0", CertDir: dir}, []string{"--cert-dir", "tls.crt"}},
		"client CA missing": {Options{BindAddress: ":0", CertDir: good, ClientCA: dir + "/none"},
			[]string{"--client-ca", "none"}},
		"client CA garbage": {Options{BindAddress: ":0", CertDir: good, ClientCA: garbage},
			[]string{"--client-ca", "no PEM certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewServer(acceptAll(), prometheus.NewRegistry(), tc.options)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestServerLeavesItsCallerAnErrorWhenThePortIsTaken(t *testing.T) {
	address, _, _ := start(t, newTestServer(t, acceptAll(), Options{}))
	err := newTestServer(t, acceptAll(), Options{BindAddress: address}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--extender-bind-address") {
		t.Errorf("err = %v", err)
	}
}

func TestAddrGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTestServer(t, acceptAll(), Options{}).Addr(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// A pod whose question is being answered while the replica goes must not fail.
func TestShutdownLetsTheRequestInFlightFinish(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	decider := &scriptedDecider{filter: func(_ *corev1.Pod, names []string) FilterAnswer {
		close(entered)
		<-release
		return FilterAnswer{Nodes: nodeNames(names)}
	}}
	server := newTestServer(t, decider, Options{})
	address, stop, ended := start(t, server)
	type outcome struct {
		code int
		err  error
	}
	answered := make(chan outcome, 1)
	go func() {
		code, err := post(t, &http.Client{}, "http://"+address+"/filter")
		answered <- outcome{code, err}
	}()
	<-entered
	stop()
	waitRefused(t, address)
	close(release)
	if got := <-answered; got.err != nil || got.code != http.StatusOK {
		t.Errorf("in flight: %d, %v", got.code, got.err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Start = %v", err)
	}
}

// waitRefused returns once no server listens at the address.
func waitRefused(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("still listening")
		}
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	const short = 50 * time.Millisecond
	for name, sent := range map[string]string{
		"in the header": "POST /filter HTTP/1.1\r\nHost: x\r\n",
		"in the body":   "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"between two":   "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
		"says nothing":  "",
	} {
		t.Run(name, func(t *testing.T) {
			decider := &scriptedDecider{}
			server := newTestServer(t, decider, Options{})
			server.http.ReadHeaderTimeout, server.http.ReadTimeout, server.http.IdleTimeout = short, short, short
			address, _, _ := start(t, server)
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			// The server may say why; what counts is that it ends the connection.
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
			if decider.count() != 0 {
				t.Error("the decision was asked")
			}
		})
	}
}

func TestEveryTimeoutIsSet(t *testing.T) {
	server := newTestServer(t, acceptAll(), Options{}).http
	for name, timeout := range map[string]time.Duration{
		"header": server.ReadHeaderTimeout, "read": server.ReadTimeout,
		"write": server.WriteTimeout, "idle": server.IdleTimeout,
	} {
		if timeout <= 0 {
			t.Errorf("no %s timeout: a slow client would hold its connection forever", name)
		}
	}
	if server.IdleTimeout <= 90*time.Second {
		t.Errorf("idle timeout %s: kube-scheduler keeps idle connections for 90 s and would meet closing ones",
			server.IdleTimeout)
	}
}

func TestHugeHeaderIsRefused(t *testing.T) {
	address, _, _ := start(t, newTestServer(t, &scriptedDecider{}, Options{}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/filter",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Padding", strings.Repeat("x", 64<<10))
	response, err := (&http.Client{}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("code = %d", response.StatusCode)
	}
}

// The declared length alone refuses: the answer comes though not a byte of the body was sent.
func TestHundredMegabytesAreRefusedOnTheWire(t *testing.T) {
	address, _, _ := start(t, newTestServer(t, &scriptedDecider{}, Options{}))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(
		conn,
		"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n",
	); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("code = %d", response.StatusCode)
	}
}

// One connection for all questions: see write.
func TestConnectionIsReusedByAClientThatReadsLikeKubeScheduler(t *testing.T) {
	address, _, _ := start(t, newTestServer(t, acceptAll(), Options{}))
	dials := 0
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
		addr string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}}
	for range 5 {
		response, err := client.Post("http://"+address+"/filter", "application/json",
			bytes.NewReader(filterBody(t, testPod("web"), "a")))
		if err != nil {
			t.Fatal(err)
		}
		decodeOneValue(t, response.Body)
		_ = response.Body.Close()
	}
	if dials != 1 {
		t.Errorf("%d connections for 5 questions", dials)
	}
}
