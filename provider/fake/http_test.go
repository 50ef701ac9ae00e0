package fake

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider"
)

func TestErrorsSurviveTheWire(t *testing.T) {
	t.Parallel()
	cause := errors.New("RequestLimitExceeded")
	for name, err := range map[string]error{
		"not found":    &provider.InstanceNotFoundError{ID: "i-1"},
		"rate limit":   &provider.RateLimitError{Operation: "StartInstance", Err: cause},
		"capacity":     &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a", Err: cause},
		"config":       &provider.InvalidConfigError{Field: "ami", Reason: "gone"},
		"state":        &provider.IncorrectStateError{ID: "i-1", State: provider.InstanceStopping, Op: "start"},
		"permission":   &provider.UnauthorizedError{Operation: "ChangeInstanceType", Reason: "no"},
		"outage":       ErrUnavailable,
		"other errors": errors.New("boom"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := encodeError(err)
			got := body.decode(status)
			if name == "other errors" {
				if !strings.Contains(got.Error(), "boom") {
					t.Errorf("got %v", got)
				}
				return
			}
			if diff := cmp.Diff(err.Error(), got.Error()); diff != "" {
				t.Errorf("text (-sent +received):\n%s", diff)
			}
			for typed, is := range map[string]func(error) bool{
				"NotFound": provider.IsNotFound, "RateLimit": provider.IsRateLimit, "Capacity": provider.IsInsufficientCapacity,
				"Config": provider.IsInvalidConfig, "State": provider.IsIncorrectState,
				"Unauthorized": provider.IsUnauthorized,
				"Unavailable":  func(err error) bool { return errors.Is(err, ErrUnavailable) },
			} {
				if is(err) != is(got) {
					t.Errorf("Is%s was %v, is %v", typed, is(err), is(got))
				}
			}
		})
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	cloud := New(Options{})
	handler := Handler(cloud)
	const jsonType = "application/json"
	for name, c := range map[string]struct {
		method, path, contentType, body string
		want                            int
	}{
		"empty body":      {http.MethodPost, "/v1/instances", jsonType, "", 400},
		"no class":        {http.MethodPost, "/v1/instances", jsonType, "{}", 422},
		"truncated":       {http.MethodPost, "/v1/instances", jsonType, `{"class":{`, 400},
		"unknown field":   {http.MethodPost, "/v1/faults", jsonType, `{"kindd":"x"}`, 400},
		"unknown fault":   {http.MethodPost, "/v1/faults", jsonType, `{"kind":"x"}`, 422},
		"two values":      {http.MethodPost, "/v1/faults", jsonType, `{} {}`, 400},
		"no content type": {http.MethodPost, "/v1/instances", "", "{}", 415},
		"form":            {http.MethodPost, "/v1/instances", "application/x-www-form-urlencoded", "a=b", 415},
		"too large": {http.MethodPost, "/v1/instances", jsonType, `{"class":{"spec":{"userData":"` +
			strings.Repeat("x", 2<<20) + `"}}}`, 413},
		"wrong method":      {http.MethodPut, "/v1/instances", jsonType, "{}", 405},
		"unknown path":      {http.MethodGet, "/v2", "", "", 404},
		"unknown instance":  {http.MethodGet, "/v1/instances/i-none", "", "", 404},
		"unknown parameter": {http.MethodGet, "/v1/instances?pool=a", "", "", 400},
		"repeated tag":      {http.MethodGet, "/v1/instances?tag.a=1&tag.a=2", "", "", 400},
		"bad limits":        {http.MethodPut, "/v1/limits", jsonType, `{"StartInstance":{"Burst":0}}`, 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			if c.contentType != "" {
				request.Header.Set("Content-Type", c.contentType)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code != c.want {
				t.Errorf("status %d, want %d: %s", recorder.Code, c.want, recorder.Body)
			}
			if !strings.Contains(recorder.Body.String(), `"message":"`) {
				t.Errorf("no message: %s", recorder.Body)
			}
		})
	}
}

func TestControlOverTheWire(t *testing.T) {
	t.Parallel()
	cloud := New(Options{Times: quickTimes(), Seed: 1})
	client := served(t, cloud)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fault := Fault{Kind: FaultInsufficientCapacity, Zone: "us-east-1a", Type: "m5.large", Op: OpLaunch, Count: 2,
		Delay: time.Second, Reason: "why"}
	id, err := client.AddFault(ctx, fault)
	must(err)
	fault.ID = id
	armed, err := client.Faults(ctx)
	must(err)
	if diff := cmp.Diff([]Fault{fault}, armed); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	must(client.ClearFaults(ctx))
	if armed, err = client.Faults(ctx); err != nil || len(armed) != 0 {
		t.Errorf("after clearing: %v, error %v", armed, err)
	}
	must(client.SetTimes(ctx, Times{Stop: time.Hour, Pull: -1}))
	if got := cloud.Times(); got.Stop != time.Hour || got.Pull != 0 || got.Boot != quickTimes().Boot {
		t.Errorf("times: %+v", got)
	}
	must(client.SetCapacity(ctx, []Capacity{{Zone: "*", Type: "*", Count: 1}}))
	launched, err := client.LaunchInstance(ctx, nodeClass("m5.large"), provider.LaunchRequest{Zone: "us-east-1b"})
	must(err)
	if _, err := client.LaunchInstance(ctx, nodeClass("m5.large"),
		provider.LaunchRequest{Zone: "us-east-1b"}); !provider.IsInsufficientCapacity(err) {
		t.Errorf("beyond capacity: %v", err)
	}
	must(client.SetLimits(ctx, map[Op]Limit{OpList: {Burst: 1}}))
	_, err = client.ListInstances(ctx, nil)
	must(err)
	if _, err = client.ListInstances(ctx, nil); !provider.IsRateLimit(err) {
		t.Errorf("beyond the limit: %v", err)
	}
	status, err := client.ResolveNodeClass(ctx, nodeClass("m5.large"))
	must(err)
	if status.Capacity.Cpu().Value() != 2 {
		t.Errorf("resolved: %+v", status)
	}
	inProcess, err := cloud.Calls(ctx)
	must(err)
	overWire, err := client.Calls(ctx)
	must(err)
	for i := range inProcess {
		// A time over the wire has no monotonic reading and another location; the instant is what counts.
		inProcess[i].At, overWire[i].At = inProcess[i].At.UTC().Round(0), overWire[i].At.UTC()
	}
	if diff := cmp.Diff(inProcess, overWire); diff != "" || len(overWire) != 5 {
		t.Errorf("%d calls (-process +wire):\n%s", len(overWire), diff)
	}
	must(client.Behind(ctx, string(launched.ID), ActTerminate))
	views, err := client.Snapshot(ctx)
	must(err)
	if len(views) != 1 || views[0].State != provider.InstanceShuttingDown || views[0].Boots != 1 ||
		views[0].ID != launched.ID {
		t.Errorf("snapshot: %+v", views)
	}
}

func TestServeUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, "127.0.0.1:0", New(Options{}), nil, func(a net.Addr) { address <- a })
	}()
	client := NewClient((<-address).String())
	defer client.Close()
	if _, err := client.ListInstances(t.Context(), nil); err != nil {
		t.Errorf("list: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := client.ListInstances(t.Context(), nil); err == nil {
		t.Error("the API still answers")
	}
	if err := Serve(t.Context(), "256.0.0.1:1", New(Options{}), nil, nil); err == nil {
		t.Error("a bad address is no error")
	}
}
