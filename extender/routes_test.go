package extender

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// scriptedDecider answers with its fields and records what it was asked. A nil function means a
// call that the test does not expect: it panics.
type scriptedDecider struct {
	filter     func(*corev1.Pod, []string) FilterAnswer
	prioritize func(*corev1.Pod, []string) []int64
	preempt    func(*corev1.Pod, map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims
	ready      error

	mu    sync.Mutex // guards calls: requests are concurrent
	calls int
}

func (d *scriptedDecider) called() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
}

func (d *scriptedDecider) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *scriptedDecider) Filter(pod *corev1.Pod, candidates Names) FilterAnswer {
	d.called()
	return d.filter(pod, candidates.strings())
}

func (d *scriptedDecider) Prioritize(pod *corev1.Pod, candidates Names) []int64 {
	d.called()
	return d.prioritize(pod, candidates.strings())
}

func (d *scriptedDecider) Preempt(pod *corev1.Pod,
	victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
	d.called()
	return d.preempt(pod, victims)
}

func (d *scriptedDecider) Ready() error { return d.ready }

// strings copies the names, so that a test may keep them.
func (n Names) strings() []string {
	out := make([]string, len(n))
	for i := range n {
		out[i] = string(n[i])
	}
	return out
}

func nodeNames(names []string) []v1alpha1.NodeName {
	out := make([]v1alpha1.NodeName, len(names))
	for i, name := range names {
		out[i] = v1alpha1.NodeName(name)
	}
	return out
}

// acceptAll lets every candidate through, unchanged.
func acceptAll() *scriptedDecider {
	return &scriptedDecider{
		filter: func(_ *corev1.Pod, candidates []string) FilterAnswer {
			return FilterAnswer{Nodes: nodeNames(candidates), Decision: "ordinary"}
		},
		prioritize: func(_ *corev1.Pod, candidates []string) []int64 { return make([]int64, len(candidates)) },
		preempt: func(_ *corev1.Pod, victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
			return victims
		},
	}
}

func testPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app:1"}}},
	}
}

func mustJSON(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func filterBody(t testing.TB, pod *corev1.Pod, names ...string) []byte {
	t.Helper()
	return mustJSON(t, extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
}

func testRouter(t testing.TB, decider Decider, registry *prometheus.Registry, options Options) http.Handler {
	t.Helper()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	expected := refusalSeries(t, registry)
	t.Cleanup(func() {
		if got := refusalSeries(t, registry); got != expected {
			t.Errorf("%d series of refusals, %d of them from the beginning: an alert misses the first of the others",
				got, expected)
		}
	})
	return newRouter(decider, m, options.withDefaults())
}

// refusalSeries is how many series of requests the registry has that were not answered with 200.
func refusalSeries(t testing.TB, registry *prometheus.Registry) (series int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "code" && label.GetValue() != "200" {
					series++
				}
			}
		}
	}
	return series
}

func ask(t testing.TB, router http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, request)
	return recorder
}

// askFor decodes a 200 strictly enough to notice a field that kube-scheduler does not know.
func askFor[Answer any](t testing.TB, router http.Handler, path string, body []byte) Answer {
	t.Helper()
	recorder := ask(t, router, path, body)
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s: %d: %s", path, recorder.Code, recorder.Body)
	}
	var answer Answer
	decoder := json.NewDecoder(recorder.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestFilterCarriesTheAnswer(t *testing.T) {
	var gotPod *corev1.Pod
	var gotNames []string
	decider := &scriptedDecider{filter: func(pod *corev1.Pod, names []string) FilterAnswer {
		gotPod, gotNames = pod, names
		return FilterAnswer{
			Nodes:              []v1alpha1.NodeName{"b"},
			FailedUnresolvable: map[string]string{"a": "taken", "c": "starting standby node c of pool p"},
		}
	}}
	pod := testPod("web")
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
	got := askFor[extenderv1.ExtenderFilterResult](t, router, "/filter", filterBody(t, pod, "a", "b", "c"))
	want := extenderv1.ExtenderFilterResult{
		NodeNames:                  &[]string{"b"},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": "taken", "c": "starting standby node c of pool p"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pod, gotPod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, gotNames); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}

// Without NodeNames kube-scheduler would look at Nodes; an empty list must be one.
func TestFilterSendsAnEmptyListWhereNoNodeIsLeft(t *testing.T) {
	decider := &scriptedDecider{filter: func(*corev1.Pod, []string) FilterAnswer { return FilterAnswer{} }}
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
	got := askFor[extenderv1.ExtenderFilterResult](t, router, "/filter", filterBody(t, testPod("web"), "a"))
	if got.NodeNames == nil || len(*got.NodeNames) != 0 {
		t.Errorf("NodeNames = %v, want an empty list", got.NodeNames)
	}
}

// kube-scheduler stops reading at the end of the value; a byte more, or a chunked body, costs the
// connection and with it a handshake for each pod.
func TestAnswersEndWithTheValueAndCarryTheirLength(t *testing.T) {
	router := testRouter(t, acceptAll(), prometheus.NewRegistry(), Options{})
	recorder := ask(t, router, "/filter", filterBody(t, testPod("web"), "a"))
	if got, want := recorder.Header().Get("Content-Length"), fmt.Sprint(recorder.Body.Len()); got != want {
		t.Errorf("Content-Length = %q, body has %s bytes", got, want)
	}
	if !strings.HasSuffix(recorder.Body.String(), "}") {
		t.Errorf("the answer ends in %q", recorder.Body)
	}
}

func TestPrioritizePairsScoresWithNamesAndKeepsThemInRange(t *testing.T) {
	decider := &scriptedDecider{prioritize: func(*corev1.Pod, []string) []int64 { return []int64{3, 99, -5} }}
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
	got := askFor[extenderv1.HostPriorityList](t, router, "/prioritize", filterBody(t, testPod("web"), "a", "b", "c"))
	want := extenderv1.HostPriorityList{{Host: "a", Score: 3}, {Host: "b", Score: extenderv1.MaxExtenderPriority}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrioritizeWithTooFewScoresIsOurFailure(t *testing.T) {
	decider := &scriptedDecider{prioritize: func(*corev1.Pod, []string) []int64 { return []int64{1} }}
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
	if got := ask(t, router, "/prioritize", filterBody(t, testPod("web"), "a",
		"b")); got.Code != http.StatusInternalServerError {
		t.Errorf("code = %d, want 500", got.Code)
	}
}

func metaVictims(uids ...string) *extenderv1.MetaVictims {
	victims := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{}, NumPDBViolations: int64(len(uids))}
	for _, uid := range uids {
		victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: uid})
	}
	return victims
}

func TestPreemptUnderstandsEveryShapeOfVictims(t *testing.T) {
	const pod = `"Pod":{"metadata":{"namespace":"d","name":"p","uid":"u"}}`
	for name, tc := range map[string]struct {
		body string
		want map[string]*extenderv1.MetaVictims
	}{
		"names": {`{` + pod + `,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"1"},{"UID":"2"}],"NumPDBViolations":2}}}`,
			map[string]*extenderv1.MetaVictims{"a": metaVictims("1", "2")}},
		"whole pods of a scheduler without nodeCacheCapable": {
			`{` + pod + `,"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"1"}},null],"NumPDBViolations":1},"b":null}}`,
			map[string]*extenderv1.MetaVictims{"a": metaVictims("1")}},
		"null map":    {`{` + pod + `,"NodeNameToMetaVictims":null}`, map[string]*extenderv1.MetaVictims{}},
		"no map":      {`{` + pod + `}`, map[string]*extenderv1.MetaVictims{}},
		"null entry":  {`{` + pod + `,"NodeNameToMetaVictims":{"a":null}}`, map[string]*extenderv1.MetaVictims{}},
		"null list":   {`{` + pod + `,"NodeNameToMetaVictims":{"a":{"Pods":null}}}`, map[string]*extenderv1.MetaVictims{}},
		"empty list":  {`{` + pod + `,"NodeNameToMetaVictims":{"a":{"Pods":[]}}}`, map[string]*extenderv1.MetaVictims{}},
		"null victim": {`{` + pod + `,"NodeNameToMetaVictims":{"a":{"Pods":[null]}}}`, map[string]*extenderv1.MetaVictims{}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked map[string]*extenderv1.MetaVictims
			decider := &scriptedDecider{preempt: func(_ *corev1.Pod,
				victims map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
				asked = victims
				return victims
			}}
			router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
			got := askFor[extenderv1.ExtenderPreemptionResult](t, router, "/preempt", []byte(tc.body))
			if diff := cmp.Diff(tc.want, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got.NodeNameToMetaVictims); diff != "" {
				t.Errorf("answered (-want +got):\n%s", diff)
			}
		})
	}
}

// kube-scheduler dereferences each entry, and fails the pod for a node without victims.
func TestPreemptNeverAnswersANodeWithoutVictims(t *testing.T) {
	decider := &scriptedDecider{preempt: func(*corev1.Pod,
		map[string]*extenderv1.MetaVictims) map[string]*extenderv1.MetaVictims {
		return map[string]*extenderv1.MetaVictims{"kept": metaVictims("1"), "none": nil, "empty": {},
			"null": {Pods: []*extenderv1.MetaPod{nil}}}
	}}
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
	body := mustJSON(t, extenderv1.ExtenderPreemptionArgs{Pod: testPod("web")})
	got := askFor[extenderv1.ExtenderPreemptionResult](t, router, "/preempt", body)
	want := map[string]*extenderv1.MetaVictims{"kept": metaVictims("1")}
	if diff := cmp.Diff(want, got.NodeNameToMetaVictims); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// failures.md 44. No refusal may reach the decision.
func TestRefusals(t *testing.T) {
	valid := filterBody(t, testPod("web"), "a")
	whole := mustJSON(t, extenderv1.ExtenderArgs{Pod: testPod("web"), Nodes: &corev1.NodeList{}})
	noUID := testPod("web")
	noUID.UID = ""
	for name, tc := range map[string]struct {
		method, path, contentType string
		body                      []byte
		code                      int
		says                      string
	}{
		"empty body":            {body: nil, code: 400, says: "empty"},
		"white space":           {body: []byte(" \n"), code: 400, says: "empty"},
		"empty object":          {body: []byte(`{}`), code: 400, says: "Pod is missing"},
		"null pod":              {body: []byte(`{"Pod":null,"NodeNames":["a"]}`), code: 400, says: "Pod is missing"},
		"pod without uid":       {body: filterBody(t, noUID, "a"), code: 400, says: "metadata.uid"},
		"pod of the wrong type": {body: []byte(`{"Pod":[],"NodeNames":["a"]}`), code: 400, says: "cannot unmarshal array"},
		"whole nodes":           {body: whole, code: 400, says: "nodeCacheCapable"},
		"no names": {body: mustJSON(t, extenderv1.ExtenderArgs{Pod: testPod("web")}), code: 400,
			says: "nodeCacheCapable"},
		"names of another type":   {body: []byte(`{"Pod":null,"NodeNames":[1]}`), code: 400, says: "cannot unmarshal number"},
		"not JSON":                {body: []byte(`pod=web`), code: 400, says: "not ExtenderArgs"},
		"a list":                  {body: []byte(`[]`), code: 400, says: "not ExtenderArgs"},
		"truncated":               {body: valid[:len(valid)-3], code: 400, says: "unexpected end"},
		"truncated in the pod":    {body: valid[:20], code: 400, says: "unexpected end"},
		"trailing garbage":        {body: append(bytes.Clone(valid), "x"...), code: 400, says: "after top-level value"},
		"second object":           {body: append(bytes.Clone(valid), valid...), code: 400, says: "after top-level value"},
		"preempt, empty body":     {path: "/preempt", body: nil, code: 400, says: "empty"},
		"preempt, empty object":   {path: "/preempt", body: []byte(`{}`), code: 400, says: "Pod is missing"},
		"preempt, truncated":      {path: "/preempt", body: []byte(`{"Pod":{`), code: 400, says: "unexpected end"},
		"preempt, trailing":       {path: "/preempt", body: []byte(`{} x`), code: 400, says: "ExtenderPreemptionArgs"},
		"prioritize, nil pod":     {path: "/prioritize", body: []byte(`{"NodeNames":[]}`), code: 400, says: "Pod is missing"},
		"GET":                     {method: http.MethodGet, body: nil, code: 405, says: "POST"},
		"PUT":                     {method: http.MethodPut, body: valid, code: 405, says: "POST"},
		"bind, which is not ours": {path: "/bind", body: valid, code: 404, says: "/filter, /prioritize and /preempt"},
		"the root":                {path: "/", body: valid, code: 404, says: "no such path"},
		"a form": {contentType: "application/x-www-form-urlencoded", body: valid, code: 415,
			says: "application/json"},
		"no content type": {contentType: "-", body: valid, code: 415, says: "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			decider := &scriptedDecider{}
			router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
			request := httptest.NewRequest(orElse(tc.method, http.MethodPost), orElse(tc.path, "/filter"),
				bytes.NewReader(tc.body))
			if contentType := orElse(tc.contentType, "application/json"); contentType != "-" {
				request.Header.Set("Content-Type", contentType)
			}
			recorder := httptest.NewRecorder()
			router.ServeHTTP(recorder, request)
			if recorder.Code != tc.code {
				t.Errorf("code = %d, want %d", recorder.Code, tc.code)
			}
			if !strings.Contains(recorder.Body.String(), tc.says) {
				t.Errorf("text %q does not say %q", recorder.Body, tc.says)
			}
			if decider.count() != 0 {
				t.Error("the decision was asked")
			}
		})
	}
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func TestContentTypeMayCarryACharset(t *testing.T) {
	if err := checkContentType("application/json; charset=utf-8"); err != nil {
		t.Error(err)
	}
}

// countingReader is an endless body that knows how much of it was taken.
type countingReader struct{ taken int64 }

func (r *countingReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	r.taken += int64(len(p))
	return len(p), nil
}

func TestOversizedBodyIsRefusedWithoutReadingItAll(t *testing.T) {
	const hundredMB = 100 << 20
	for name, tc := range map[string]struct{ declared, mostRead int64 }{
		"length declared":   {declared: hundredMB, mostRead: 0},
		"length not stated": {declared: -1, mostRead: DefaultMaxBodyBytes + 1<<20},
	} {
		t.Run(name, func(t *testing.T) {
			body := &countingReader{}
			request := httptest.NewRequest(http.MethodPost, "/filter", io.LimitReader(body, hundredMB))
			request.Header.Set("Content-Type", "application/json")
			request.ContentLength = tc.declared
			recorder := httptest.NewRecorder()
			testRouter(t, &scriptedDecider{}, prometheus.NewRegistry(), Options{}).ServeHTTP(recorder, request)
			if recorder.Code != http.StatusRequestEntityTooLarge || !strings.Contains(recorder.Body.String(), "8388608") {
				t.Errorf("%d: %s", recorder.Code, recorder.Body)
			}
			if body.taken > tc.mostRead {
				t.Errorf("%d bytes were read, want at most %d", body.taken, tc.mostRead)
			}
		})
	}
}

// failures.md 44: 10,000 names of the greatest length and a big pod.
func TestTenThousandLongNamesAndABigPodAreAnswered(t *testing.T) {
	pod := testPod("big")
	pod.Annotations = map[string]string{"payload": strings.Repeat("x", 1<<20)}
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("%0253d", i)
	}
	router := testRouter(t, acceptAll(), prometheus.NewRegistry(), Options{})
	got := askFor[extenderv1.ExtenderFilterResult](t, router, "/filter", filterBody(t, pod, names...))
	if diff := cmp.Diff(names, *got.NodeNames); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnsyncedCachesAreSaidInsteadOfGuessed(t *testing.T) {
	decider := &scriptedDecider{ready: errors.New("nodes: not synced")}
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
	for _, path := range []string{"/filter", "/prioritize", "/preempt"} {
		t.Run(path, func(t *testing.T) {
			got := ask(t, router, path, filterBody(t, testPod("web"), "a"))
			if got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(),
				"not synced yet, ask again: nodes: not synced") {
				t.Errorf("%d: %s", got.Code, got.Body)
			}
		})
	}
	if decider.count() != 0 {
		t.Error("the decision was asked")
	}
}

func TestPanicBecomesA500AndALineInTheLog(t *testing.T) {
	var lines strings.Builder
	log := funcr.New(func(_, args string) { lines.WriteString(args) }, funcr.Options{})
	decider := &scriptedDecider{filter: func(*corev1.Pod, []string) FilterAnswer { panic("index out of range") }}
	registry := prometheus.NewRegistry()
	router := testRouter(t, decider, registry, Options{Log: log})
	got := ask(t, router, "/filter", filterBody(t, testPod("web"), "a"))
	if got.Code != http.StatusInternalServerError {
		t.Errorf("code = %d, want 500", got.Code)
	}
	if strings.Contains(got.Body.String(), "index out of range") {
		t.Errorf("the answer tells the client what only the log should: %s", got.Body)
	}
	if !strings.Contains(lines.String(), "index out of range") || !strings.Contains(lines.String(), "scriptedDecider") {
		t.Errorf("the log lacks the cause or the stack: %s", &lines)
	}
	decider.filter = acceptAll().filter
	if got := ask(t, router, "/filter", filterBody(t, testPod("web"), "a")); got.Code != http.StatusOK {
		t.Errorf("after the panic: %d", got.Code)
	}
}

// A panic must give its place back, else MaxInFlight panics stop the extender.
func TestMoreThanTheLimitInFlightIsRefusedAndPlacesComeBack(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	decider := &scriptedDecider{filter: func(*corev1.Pod, []string) FilterAnswer {
		entered <- struct{}{}
		<-release
		panic("after the wait")
	}}
	router := testRouter(t, decider, prometheus.NewRegistry(), Options{MaxInFlight: 1})
	body := filterBody(t, testPod("web"), "a")
	first := make(chan int)
	go func() { first <- ask(t, router, "/filter", body).Code }()
	<-entered
	if got := ask(t, router, "/filter", body); got.Code != http.StatusServiceUnavailable ||
		!strings.Contains(got.Body.String(), "ask again") {
		t.Errorf("second: %d: %s", got.Code, got.Body)
	}
	close(release)
	if code := <-first; code != http.StatusInternalServerError {
		t.Errorf("first: %d", code)
	}
	decider.filter = acceptAll().filter
	if got := ask(t, router, "/filter", body); got.Code != http.StatusOK {
		t.Errorf("third: %d", got.Code)
	}
}

func TestMetricsCountWhatWasAnswered(t *testing.T) {
	registry := prometheus.NewRegistry()
	router := testRouter(t, acceptAll(), registry, Options{})
	ask(t, router, "/filter", filterBody(t, testPod("web"), "a"))
	ask(t, router, "/filter", filterBody(t, testPod("web"), "a"))
	ask(t, router, "/filter", []byte(`{}`))
	ask(t, router, "/prioritize", filterBody(t, testPod("web"), "a"))
	ask(t, router, "/some/path/of/a/stranger", nil)
	want := `
# HELP stratos_extender_decisions_total Answers to filter, by what was decided for the pod.
# TYPE stratos_extender_decisions_total counter
stratos_extender_decisions_total{decision="ordinary"} 2
# HELP stratos_extender_requests_total Requests of kube-scheduler answered by the extender, by verb and HTTP status code.
# TYPE stratos_extender_requests_total counter
stratos_extender_requests_total{code="200",verb="filter"} 2
stratos_extender_requests_total{code="200",verb="prioritize"} 1
stratos_extender_requests_total{code="400",verb="filter"} 1
stratos_extender_requests_total{code="400",verb="preempt"} 0
stratos_extender_requests_total{code="400",verb="prioritize"} 0
stratos_extender_requests_total{code="404",verb="other"} 1
stratos_extender_requests_total{code="405",verb="other"} 0
stratos_extender_requests_total{code="413",verb="filter"} 0
stratos_extender_requests_total{code="413",verb="preempt"} 0
stratos_extender_requests_total{code="413",verb="prioritize"} 0
stratos_extender_requests_total{code="415",verb="filter"} 0
stratos_extender_requests_total{code="415",verb="preempt"} 0
stratos_extender_requests_total{code="415",verb="prioritize"} 0
stratos_extender_requests_total{code="500",verb="filter"} 0
stratos_extender_requests_total{code="500",verb="preempt"} 0
stratos_extender_requests_total{code="500",verb="prioritize"} 0
stratos_extender_requests_total{code="503",verb="filter"} 0
stratos_extender_requests_total{code="503",verb="preempt"} 0
stratos_extender_requests_total{code="503",verb="prioritize"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"stratos_extender_decisions_total", "stratos_extender_requests_total"); err != nil {
		t.Error(err)
	}
	if got := testutil.CollectAndCount(registry, "stratos_extender_request_duration_seconds"); got != 3 {
		t.Errorf("%d duration series, want one for each of filter, prioritize, other", got)
	}
	if got := testutil.CollectAndCount(registry, "stratos_extender_decision_duration_seconds"); got != 2 {
		t.Errorf("%d decision series, want one for each of filter, prioritize", got)
	}
}

func TestMetricsPassPromlint(t *testing.T) {
	registry := prometheus.NewRegistry()
	router := testRouter(t, acceptAll(), registry, Options{})
	ask(t, router, "/filter", filterBody(t, testPod("web"), "a"))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestMetricsRegisteredTwiceIsAnError(t *testing.T) {
	registry := prometheus.NewRegistry()
	testRouter(t, acceptAll(), registry, Options{})
	if _, err := newMetrics(registry); err == nil {
		t.Error("the second registration was accepted")
	}
}
