package ec2test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

const signedBySomebody = "AWS4-HMAC-SHA256 Credential=AKIDTEST/20261122/us-east-1/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature=" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestRequestsThatAreNoneOfEC2s are refused, each with a code, and are logged with it.
func TestRequestsThatAreNoneOfEC2s(t *testing.T) {
	t.Parallel()
	good := url.Values{"Action": {"DescribeInstances"}, "Version": {apiVersion}}
	with := func(key string, values ...string) url.Values {
		form := url.Values{}
		for k, v := range good {
			form[k] = v
		}
		form[key] = values
		return form
	}
	for name, tt := range map[string]struct {
		method, path, authorization string
		form                        url.Values
		status                      int
		code                        string
	}{
		"one that is": {form: good, status: 200},
		"not signed":  {form: good, authorization: "-", status: 401, code: "AuthFailure"},
		"signed for another service": {form: good, authorization: strings.Replace(signedBySomebody, "/ec2/", "/s3/", 1),
			status: 401, code: "AuthFailure"},
		"a signature that is too short": {form: good, authorization: signedBySomebody[:len(signedBySomebody)-1], status: 401,
			code: "AuthFailure"},
		"by GET":                   {method: http.MethodGet, form: good, status: 400, code: "InvalidAction"},
		"another path":             {path: "/v1/instances", form: good, status: 400, code: "InvalidAction"},
		"another version":          {form: with("Version", "2014-01-01"), status: 400, code: "NoSuchVersion"},
		"an unknown action":        {form: with("Action", "RunInstance"), status: 400, code: "InvalidAction"},
		"an unknown parameter":     {form: with("MaxResult", "5"), status: 400, code: "UnknownParameter"},
		"a filter's misspelt part": {form: with("Filter.1.Nam", "x"), status: 400, code: codeInvalid},
		"an unknown filter":        {form: with("Filter.1.Name", "instance-stat-name"), status: 400, code: codeInvalid},
		"a page that is too small": {form: with("MaxResults", "4"), status: 400, code: codeInvalid},
		"a page that is too large": {form: with("MaxResults", "1001"), status: 400, code: codeInvalid},
		"a token that is none":     {form: with("NextToken", "%%"), status: 400, code: "InvalidNextToken"},
		"a parameter twice":        {form: with("MaxResults", "5", "6"), status: 400, code: codeInvalid},
		"a flag that is none":      {form: with("DryRun", "yes"), status: 400, code: codeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := New(simcloud.New(simcloud.Options{ProviderPrefix: ProviderPrefix}), Options{})
			method, path, authorization := tt.method, tt.path, tt.authorization
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = "/"
			}
			if authorization == "" {
				authorization = signedBySomebody
			}
			r := httptest.NewRequest(method, path, strings.NewReader(tt.form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Authorization", authorization)
			r.Header.Set("X-Amz-Date", "20261122T000000Z")
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			if w.Code != tt.status || (tt.code != "" && !strings.Contains(w.Body.String(), "<Code>"+tt.code+"</Code>")) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.code)
			}
			if log := server.Requests(); len(log) != 1 || log[0].Code != tt.code {
				t.Errorf("logged %+v, want code %q", log, tt.code)
			}
		})
	}
}

// TestRequestLimits: each action's own bucket, dry after its burst, and refilled as published.
func TestRequestLimits(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.standby(2)
		a.after(time.Minute)
		burst := func(call func() error) int {
			for n := range 1000 {
				if err := call(); err != nil {
					if code := codeOf(t, err); code != codeThrottled {
						t.Errorf("call %d: %s", n, code)
					}
					return n
				}
			}
			t.Error("1000 calls at once, and none was refused")
			return 0
		}
		start := func() error { return a.start(ids[0]) }
		stop := func() error {
			_, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids[1:]})
			return err
		}
		filteredList := func() error {
			_, err := a.client.DescribeInstances(t.Context(), filtered("tag:x", "y"))
			return err
		}
		bare := func() error {
			_, err := a.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
			return err
		}
		got := map[string]int{
			"start": burst(start), "stop": burst(stop), "filtered": burst(filteredList), "bare": burst(bare),
		}
		if diff := cmp.Diff(map[string]int{"start": 5, "stop": 50, "filtered": 100, "bare": 50}, got); diff != "" {
			t.Errorf("calls at once (-published +got):\n%s", diff)
		}
		a.after(2 * time.Second)
		got = map[string]int{"start": burst(start), "stop": burst(stop), "filtered": burst(filteredList), "bare": burst(bare)}
		if diff := cmp.Diff(map[string]int{"start": 4, "stop": 10, "filtered": 40, "bare": 20}, got); diff != "" {
			t.Errorf("calls two seconds later (-published +got):\n%s", diff)
		}
	})
}

// TestResourceLimits: 1000 instances at once, however few the calls.
func TestResourceLimits(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		first := a.run(600, nil)
		a.after(time.Hour)
		second := a.run(600, nil)
		a.after(time.Hour)
		start := func(ids []string) string { return codeOf(t, a.start(ids...)) }
		if code := start(first); code != "" {
			t.Fatal(code)
		}
		if code := start(second); code != codeThrottled {
			t.Errorf("1200 instances at once: %q", code)
		}
		if code := start(second[:400]); code != "" {
			t.Errorf("1000 instances at once: %q", code)
		}
		a.after(100 * time.Second)
		if code := start(second[400:]); code != "" {
			t.Errorf("200 more after 100 s: %q", code)
		}
		if code := start(second[:10]); code != codeThrottled {
			t.Errorf("the bucket is not empty: %q", code)
		}
	})
}

// TestLostAnswers: the effect is there, the client is told nothing, over a socket and without one.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		a.arm(simcloud.Fault{Kind: simcloud.FaultLostAnswer, Op: simcloud.OpLaunch, Count: 1})
		if _, err := a.client.RunInstances(t.Context(), runInput()); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v, want a cut connection", err)
		}
		if all, err := a.sim.Snapshot(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%d instances, error %v", len(all), err)
		}
	})

	sim := simcloud.New(simcloud.Options{ProviderPrefix: ProviderPrefix})
	a := &testAccount{t: t, sim: sim, server: New(sim, Options{})}
	web := httptest.NewServer(a.server)
	defer web.Close()
	a.client = ec2.New(ec2.Options{}, func(o *ec2.Options) {
		*o = a.in(testRegion).Options()
		o.BaseEndpoint, o.HTTPClient = aws.String(web.URL), web.Client()
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
	})
	a.arm(simcloud.Fault{Kind: simcloud.FaultLostAnswer, Op: simcloud.OpLaunch, Count: 1})
	input := runInput()
	input.ClientToken = aws.String("once")
	if _, err := a.client.RunInstances(t.Context(), input); err != nil {
		t.Errorf("the SDK asks again after a cut connection: %v", err)
	}
	if all, err := sim.Snapshot(t.Context()); err != nil || len(all) != 1 || a.calls(RunInstances) != 2 {
		t.Errorf("%d instances after %d calls, error %v", len(all), a.calls(RunInstances), err)
	}
}

func TestScriptedFailuresAndOutages(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.standby(1)
		a.server.Script(Failure{Action: StartInstances, Error: Error{Code: "UnauthorizedOperation",
			Message: "You are not authorized", Status: 403}, Skip: 1, Count: 1})
		var codes []string
		for range 3 {
			codes = append(codes, codeOf(t, a.start(ids...)))
		}
		if diff := cmp.Diff([]string{"", "UnauthorizedOperation", ""}, codes); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
		a.server.Script(Failure{Error: Error{Code: "InternalError", Message: "odd", Status: 500}, AfterEffect: true})
		if _, err := a.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids}); codeOf(t,
			err) != "InternalError" {
			t.Errorf("terminate: %v", err)
		}
		a.server.Unscript()
		if state := a.get(ids[0]).State.Name; state != "shutting-down" {
			t.Errorf("a failure after the effect left it %s", state)
		}
		a.arm(simcloud.Fault{Kind: simcloud.FaultOutage})
		if _, err := a.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); codeOf(t,
			err) != codeUnavailable {
			t.Errorf("in an outage: %v", err)
		}
		if err := a.sim.ClearFaults(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.arm(simcloud.Fault{Kind: simcloud.FaultInvalidConfig, Reason: "RequestExpired: Request has expired."})
		if _, err := a.client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}); codeOf(t,
			err) != "RequestExpired" {
			t.Errorf("the code of a fault: %v", err)
		}
	})
}

// TestLatencyHonoursTheContext: a client that does not wait hears its own context's end.
func TestLatencyHonoursTheContext(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		a.arm(simcloud.Fault{Kind: simcloud.FaultLatency, Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.client.RunInstances(ctx, runInput()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the deadline", err)
		}
		if all, err := a.sim.Snapshot(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%d instances from a call that nobody waited for, error %v", len(all), err)
		}
		began := time.Now()
		if _, err := a.client.RunInstances(t.Context(), runInput()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// TestTheCloudsLog: each instance of a call has its own entry, as if it had been called for alone.
func TestTheCloudsLog(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.standby(3)
		if err := a.start(ids...); err != nil {
			t.Fatal(err)
		}
		if code := codeOf(t, a.start("i-00000000deadbeef0")); code != codeNotFound {
			t.Error(code)
		}
		calls, err := a.sim.Calls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counts := map[simcloud.Op]int{}
		failed := 0
		for _, c := range calls {
			counts[c.Op]++
			if c.Err != "" {
				failed++
			}
		}
		want := map[simcloud.Op]int{simcloud.OpLaunch: 3, simcloud.OpStop: 3, simcloud.OpStart: 4}
		if diff := cmp.Diff(want, counts); diff != "" || failed != 1 {
			t.Errorf("%d failed; calls (-want +got):\n%s", failed, diff)
		}
		if n := a.calls(StartInstances); n != 2 {
			t.Errorf("%d StartInstances requests, want 2", n)
		}
	})
}
