package ec2test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Request is one request as it was understood.
type Request struct {
	At     time.Time
	Action Action
	Region string
	// Params are the form's values, Action and Version included.
	Params map[string]string
	// Instances are those that it named or launched.
	Instances []v1alpha1.InstanceID
	// Code is the code of the error that was answered; empty for success.
	Code string
	// Attempt is the SDK's id of the call and the number of this attempt at it.
	Attempt string
}

// Requests returns the log of requests, oldest first; it keeps the last 20,000.
func (s *Server) Requests() []Request {
	var requests []Request
	s.sim.Write(func(*simcloud.Book) { requests = slices.Clone(s.requests) })
	return requests
}

func (s *Server) log(r Request, err error) {
	if err != nil {
		r.Code = answerTo(err).Code
	}
	if len(s.requests) >= maxRequests {
		s.requests = append(s.requests[:0], s.requests[maxRequests/10:]...) // a tenth at a time, so that the copy is rare
	}
	s.requests = append(s.requests, r)
}

func flat(form url.Values) map[string]string {
	params := map[string]string{}
	for key := range maps.Keys(form) {
		params[key] = form.Get(key)
	}
	return params
}

// Failure is an error that the server answers because a test wants it to. The played cloud's faults
// (simcloud.Fault) work too; these are for codes that it knows nothing of.
type Failure struct {
	// Action that fails; empty: any.
	Action Action
	// Region in which it fails; empty: everywhere.
	Region string
	// Error is what it answers. Hangs: it answers nothing until the caller gives up.
	Error Error
	Hangs bool
	// Skip lets that many calls pass first; Count fails that many after, 0 without end.
	Skip, Count int
	// AfterEffect: the call takes effect and answers the error all the same.
	AfterEffect bool
}

type scripted struct {
	Failure
	left int
}

// Script arms a failure.
func (s *Server) Script(f Failure) {
	s.sim.Write(func(*simcloud.Book) { s.scripted = append(s.scripted, scripted{Failure: f, left: f.Count}) })
}

// Unscript disarms every failure.
func (s *Server) Unscript() {
	s.sim.Write(func(*simcloud.Book) { s.scripted = nil })
}

// strike returns the error of the first failure that hits, before the effect or after.
func (s *Server) strike(c call) (before, after error) {
	for i := range s.scripted {
		f := &s.scripted[i]
		if f.Hangs || !f.hits(c) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.left--
		answered := f.Error
		if f.AfterEffect {
			return nil, &answered
		}
		return &answered, nil
	}
	return nil, nil
}

func (f *scripted) hits(c call) bool {
	right := (f.Action == "" || f.Action == c.action) && (f.Region == "" || f.Region == c.region)
	return right && (f.Count == 0 || f.left > 0)
}

// HTTPClient returns a client whose requests reach the server without a socket: nothing but the
// server's own waits takes time, so it works in a synctest bubble. A cut connection is
// io.ErrUnexpectedEOF.
func (s *Server) HTTPClient() *http.Client {
	return &http.Client{Transport: direct{s}}
}

type direct struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (response *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if region := signedFor(r); region != "" && !d.server.account.has(region) {
		return nil, noHost(region)
	}
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			response, err = nil, r.Context().Err()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
		default:
			panic(cause)
		}
	}()
	body, err := readAll(r.Body)
	if err != nil {
		return nil, err
	}
	arrived := r.Clone(r.Context())
	arrived.Body, arrived.RequestURI = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI()
	recorder := httptest.NewRecorder()
	d.server.ServeHTTP(recorder, arrived)
	response = recorder.Result()
	response.Request = r
	return response, nil
}

func readAll(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(body)
	return data, errors.Join(err, body.Close())
}
