package fake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/stratos-sh/stratos/provider"
)

// stubServer answers as an API server that believes everything: what is written is echoed, watches
// send nothing. It costs next to nothing, so what a test measures is the machines and client-go.
type stubServer struct {
	registered, reports, renewals atomic.Int64
}

func (s *stubServer) RoundTrip(request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	switch {
	case request.URL.Query().Get("watch") != "":
		return s.watch(request), nil
	case request.Method == http.MethodGet:
		return answerOf(request, http.StatusNotFound,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`), nil
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	switch {
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/nodes"):
		s.registered.Add(1)
	case request.Method == http.MethodPatch && strings.HasSuffix(path, "/status"):
		s.reports.Add(1)
	case strings.Contains(path, "/leases"):
		s.renewals.Add(1)
	}
	return answerOf(request, http.StatusOK, string(body)), nil
}

// watch answers with an empty list and sends no event until the request ends.
func (s *stubServer) watch(request *http.Request) *http.Response {
	kind := "Pod"
	if strings.HasSuffix(request.URL.Path, "/nodes") {
		kind = "Node"
	}
	reader, writer := io.Pipe()
	context.AfterFunc(request.Context(), func() { _ = writer.Close() })
	go func() {
		_, _ = fmt.Fprintf(
			writer,
			`{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n",
			kind,
		)
	}()
	response := answerOf(request, http.StatusOK, "")
	response.Body = reader
	return response
}

func answerOf(request *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Request: request, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))),
	}
}

// cpu is the processor time of this process so far.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestTwoThousandMachines counts what 2000 machines send and logs what they cost. It is not
// parallel: its figures are of the whole process. Under the race detector it plays fewer.
func TestTwoThousandMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &stubServer{}
		// A content type of its own, because the stub echoes JSON.
		config := &rest.Config{Host: "http://stub", QPS: -1,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		client, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: stub})
		if err != nil {
			t.Fatal(err)
		}
		cloud := New(Options{Seed: 1})
		w := &world{t: t, cloud: cloud, class: nodeClass("m5.large")}
		stop := w.play(MachinesOptions{Client: client})
		defer stop()

		var instances []*provider.Instance
		phase(t, "launches until Ready", func() {
			for range machines {
				instances = append(instances, w.launch())
			}
			w.after(4 * time.Second)
		})
		if r, n := stub.registered.Load(), stub.reports.Load(); r != machines || n != machines {
			t.Errorf("%d registrations and %d reports, want %d each", r, n, machines)
		}
		begun := stub.renewals.Load()
		spent := phase(t, "5 min of heartbeats and leases", func() { w.after(5 * time.Minute) })
		t.Logf("that is %.1f %% of one core", 100*spent.Seconds()/300)
		// 30 renewals in 5 min each, with the kubelet's jitter.
		if n := stub.renewals.Load() - begun; n < machines*28 || n > machines*32 {
			t.Errorf("%d renewals, want about %d", n, machines*30)
		}
		phase(t, "stops", func() {
			for _, instance := range instances {
				if err := cloud.StopInstance(t.Context(), string(instance.ID), false); err != nil {
					t.Fatal(err)
				}
			}
			w.after(2 * time.Second)
		})
		reports, renewals := stub.reports.Load(), stub.renewals.Load()
		phase(t, "10 min of stopped machines", func() { w.after(10 * time.Minute) })
		if stub.reports.Load() != reports || stub.renewals.Load() != renewals {
			t.Error("stopped machines spoke")
		}
		phase(t, "a burst of starts until Ready", func() {
			for _, instance := range instances {
				w.start(instance)
			}
			w.after(3 * time.Second)
		})
		// The watch shows no Nodes, so each machine registers anew; in a cluster it would not.
		if n := stub.reports.Load() - reports; n != machines {
			t.Errorf("%d reports after the burst, want %d", n, machines)
		}
	})
}

// phase runs f and logs the processor time that it took.
func phase(t *testing.T, name string, f func()) time.Duration {
	t.Helper()
	before := cpu(t)
	f()
	spent := cpu(t) - before
	t.Logf("%-36s %v cpu, %v per machine", name, spent.Round(time.Millisecond), (spent / machines).Round(time.Microsecond))
	return spent
}
