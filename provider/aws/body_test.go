package aws

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestAnAnswerThatOvertakesItsRequest: EC2 answers while net/http has not seen the end of the body
// that it has sent. The call is made once.
func TestAnAnswerThatOvertakesItsRequest(t *testing.T) {
	r := newRig(t, simcloud.Options{})
	ids := stopped(t, r.cloud(t), 3)
	listener := httptest.NewServer(r.server)
	t.Cleanup(listener.Close)
	client := &overtaken{t: t}
	c := r.cloud(t, func(o *Options) { o.Config.HTTPClient, o.Config.BaseEndpoint = client, &listener.URL })
	for id, err := range atOnce(ids, func(id string) error { return c.StartInstance(t.Context(), id) }) {
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	started := map[string]int{}
	for _, q := range r.requests(ec2test.StartInstances) {
		for _, id := range q.Instances {
			started[string(id)]++
		}
	}
	for _, id := range ids {
		if started[id] != 1 {
			t.Errorf("%s was started %d times", id, started[id])
		}
	}
	if client.calls == 0 || len(client.failed) > 0 {
		t.Errorf("of %d requests these could not be written: %v", client.calls, client.failed)
	}
}

// overtaken is a client whose requests have been written only when the SDK reads the answer.
type overtaken struct {
	t      *testing.T
	mu     sync.Mutex
	calls  int
	failed []error
}

// Do implements aws.HTTPClient.
func (o *overtaken) Do(r *http.Request) (*http.Response, error) {
	reads, wrote := make(chan struct{}), make(chan struct{})
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &lingering{Conn: conn, until: reads}, err
	}}
	o.t.Cleanup(transport.CloseIdleConnections)
	response, err := transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.calls++; info.Err != nil {
				o.failed = append(o.failed, info.Err)
			}
			close(wrote)
		},
	})))
	if err != nil {
		return nil, err
	}
	response.Body = &awaited{ReadCloser: response.Body, begin: sync.OnceFunc(func() { close(reads); <-wrote })}
	return response, nil
}

// lingering is a connection whose write of a body returns late.
type lingering struct {
	net.Conn
	until <-chan struct{}
}

// Write implements io.Writer.
func (l *lingering) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if bytes.Contains(p, []byte("Action=")) {
		<-l.until
	}
	return n, err
}

// awaited is a body of which something is known before its first read.
type awaited struct {
	io.ReadCloser
	begin func()
}

// Read implements io.Reader.
func (a *awaited) Read(p []byte) (int, error) {
	a.begin()
	return a.ReadCloser.Read(p)
}
