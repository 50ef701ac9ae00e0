package extender

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func seedArgs(f *testing.F) {
	f.Helper()
	const pod = `"Pod":{"metadata":{"namespace":"d","name":"p","uid":"u"}}`
	for _, seed := range []string{
		``, ` `, `{}`, `null`, `[]`, `{"Pod":null}`, `{` + pod + `}`,
		`{` + pod + `,"Nodes":null,"NodeNames":["a","b"]}`,
		`{` + pod + `,"Nodes":{"items":[]},"NodeNames":null}`,
		`{` + pod + `,"nodenames":["\u0061","é","\ud800"]}`,
		"{" + pod + ",\"NodeNames\":[\"\xff\",\"a\tb\"]}",
		`{` + pod + `,"NodeNames":["a",]}`, `{` + pod + `,"NodeNames":["a" "b"]}`,
		`{` + pod + `,"NodeNames":[],"extra":{"deep":[[[{"x":"]}"}]]]}} `,
		`{` + pod + `,"NodeNames":[]}x`, `{"Pod":{"a":"\"}"},"NodeNames":[]`, `{"Pod":}`, `{"Pod" : 1 , "x":tru}`,
		`{"Pod":{"metadata":{"creationTimestamp":"not a time"}}}`, strings.Repeat(`{"x":`, 200), strings.Repeat("[", 20000),
	} {
		f.Add([]byte(seed))
	}
}

func checkClientError(t *testing.T, err error) {
	t.Helper()
	var refused *refusal
	if !errors.As(err, &refused) || refused.code < 400 || refused.code > 499 {
		t.Errorf("not a 4xx: %v", err)
	}
}

// FuzzFilterDecode: whatever is accepted means what extenderv1.ExtenderArgs says, and what is
// refused is a 4xx.
func FuzzFilterDecode(f *testing.F) {
	seedArgs(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeArgs(body, &podCache{}, nil)
		if err != nil {
			checkClientError(t, err)
			return
		}
		var want extenderv1.ExtenderArgs
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if diff := cmp.Diff(*want.NodeNames, got.names.strings(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("names (-encoding/json +ours):\n%s", diff)
		}
		if diff := cmp.Diff(mustJSON(t, want.Pod), mustJSON(t, got.pod)); diff != "" {
			t.Errorf("pod (-encoding/json +ours):\n%s", diff)
		}
	})
}

// FuzzPrioritizeDecode looks from the other side: nothing that kube-scheduler could have sent is
// refused for its form, whatever the names.
func FuzzPrioritizeDecode(f *testing.F) {
	f.Add("node-1", "ip-10-0-0-1.ec2.internal", "web", true)
	f.Add("", `"\`, "\xff\x00", false)
	f.Add("], }", "é\u2028<>&", "a", true)
	f.Fuzz(func(t *testing.T, first, second, name string, indent bool) {
		pod := testPod("web")
		pod.Annotations = map[string]string{"a": name}
		sent := extenderv1.ExtenderArgs{Pod: pod, NodeNames: &[]string{first, second}}
		body := mustJSON(t, sent)
		if indent {
			text, err := json.MarshalIndent(sent, "\t", " ")
			if err != nil {
				t.Fatal(err)
			}
			body = text
		}
		decider := &scriptedDecider{prioritize: func(*corev1.Pod, []string) []int64 { return []int64{1, 2} }}
		router := testRouter(t, decider, prometheus.NewRegistry(), Options{})
		got := askFor[extenderv1.HostPriorityList](t, router, "/prioritize", body)
		var understood extenderv1.ExtenderArgs
		if err := json.Unmarshal(body, &understood); err != nil {
			t.Fatal(err)
		}
		want := extenderv1.HostPriorityList{{Host: (*understood.NodeNames)[1], Score: 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// Cut anywhere, it is a 4xx and nothing worse.
		cut := ask(t, router, "/prioritize", body[:len(body)/2])
		if cut.Code != http.StatusBadRequest {
			t.Errorf("truncated: %d: %s", cut.Code, cut.Body)
		}
	})
}

// FuzzPreemptDecode: whatever is accepted, the answer echoes only nodes with victims.
func FuzzPreemptDecode(f *testing.F) {
	const pod = `"Pod":{"metadata":{"namespace":"d","name":"p","uid":"u"}}`
	for _, seed := range []string{
		``, `{}`, `null`, `{` + pod + `}`, `{` + pod + `} x`,
		`{` + pod + `,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"1"}],"NumPDBViolations":1},"b":null,"c":{"Pods":null}}}`,
		`{` + pod + `,"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"1"}},null]},"b":null}}`,
		`{` + pod + `,"NodeNameToMetaVictims":{"a":{"Pods":[null]}}}`, `{` + pod + `,"NodeNameToMetaVictims":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		pod, victims, err := decodePreemption(body)
		if err != nil {
			checkClientError(t, err)
			return
		}
		if pod == nil {
			t.Fatal("accepted without a pod")
		}
		text, err := encodePreemption(victims)
		if err != nil {
			t.Fatal(err)
		}
		var answer extenderv1.ExtenderPreemptionResult
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		if len(answer.NodeNameToMetaVictims) > len(victims) {
			t.Errorf("answered %d nodes of %d", len(answer.NodeNameToMetaVictims), len(victims))
		}
		for node, victims := range answer.NodeNameToMetaVictims {
			if victims == nil || len(victims.Pods) == 0 || victims.Pods[0] == nil {
				t.Errorf("node %q is answered without victims: %s", node, text)
			}
		}
	})
}

// FuzzCutArgs: what is cut apart without encoding/json is what encoding/json would have found
// there, and kube-scheduler's own form is always cut apart.
func FuzzCutArgs(f *testing.F) {
	seedArgs(f)
	const pod = `"Pod":{"metadata":{"namespace":"d","name":"p","uid":"u"}}`
	for _, seed := range []string{
		`{` + pod + `,"Nodes":null,"NodeNames":["a"]}`, `{` + pod + `,"Nodes":null,"NodeNames":[]}`, `{` + pod +
			`,"Nodes":null,"NodeNames":["a",]}`,
		`{` + pod + `,"Nodes":null,"NodeNames":[],"Nodes":null,"NodeNames":["a"]}`, `{` + pod +
			`,"Nodes":null,"NodeNames":["a"],"pod":{}}`,
		`{"Pod":{"a":{},"Nodes":null,"NodeNames":["b"]},"Nodes":null,"NodeNames":["a"]}`,
		`{"Pod":1,"Nodes":null,"NodeNames":[]}`,
		`{"Pod":{"a":",\"Nodes\":null,\"NodeNames\":["},"Nodes":null,"NodeNames":["a-1.b_C:2","B"]}`,
		`{"Pod":,"Nodes":null,"NodeNames":[]}`,
		`{"Pod":{},"Nodes":null,"NodeNames":["a""b"]}`, `{"Pod":{},"Nodes":null,"NodeNames":["\u0061"]}`,
		`{"Pod":{},"Nodes":null,"NodeNames":[,"a"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		pods := &podCache{}
		got, ok := cutArgs(body, pods, nil)
		var want extenderv1.ExtenderArgs
		err := json.Unmarshal(body, &want)
		if ok {
			if err != nil || want.Pod == nil || want.NodeNames == nil || want.Nodes != nil {
				t.Fatalf("cut apart what encoding/json reads as %v, %v", want, err)
			}
			if diff := cmp.Diff(*want.NodeNames, got.names.strings(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("names (-encoding/json +ours):\n%s", diff)
			}
			if diff := cmp.Diff(mustJSON(t, want.Pod), mustJSON(t, got.pod)); diff != "" {
				t.Errorf("pod (-encoding/json +ours):\n%s", diff)
			}
			again, _ := cutArgs(body, pods, got.names)
			if again.pod != got.pod && len(body) < maxCachedPod {
				t.Error("the same pod is decoded twice")
			}
		}
		if err != nil || want.Pod == nil || want.Nodes != nil {
			return
		}
		if want.NodeNames == nil {
			want.NodeNames = &[]string{}
		}
		for i, name := range *want.NodeNames {
			(*want.NodeNames)[i] = strings.Map(func(r rune) rune {
				if r < 128 && plain(byte(r)) {
					return r
				}
				return '-'
			}, name)
		}
		if _, ok := cutArgs(mustJSON(t, want), pods, nil); !ok {
			t.Errorf("kube-scheduler's own form is not cut apart: %s", mustJSON(t, want))
		}
	})
}

// FuzzFilterAnswer: whatever the names and reasons are, the answer is what encoding/json would have
// written.
func FuzzFilterAnswer(f *testing.F) {
	f.Add("node-1", "ip-10-0-0-1.ec2.internal", "starting standby node a", true)
	f.Add("", `"\`, "\xff\x00", false)
	f.Add("], }", "é\u2028<>&", "a", true)
	f.Fuzz(func(t *testing.T, first, second, reason string, both bool) {
		body := filterBody(t, testPod("web"), first, second)
		a, err := decodeArgs(body, &podCache{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer := FilterAnswer{Nodes: nodeNames(a.names.strings())[:1], FailedUnresolvable: map[string]string{second: reason}}
		if both {
			answer = FilterAnswer{Nodes: nodeNames(a.names.strings()), FailedUnresolvable: map[string]string{first: reason}}
		}
		text, err := appendFilterAnswer(nil, a, answer)
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, len(answer.Nodes))
		for i, name := range answer.Nodes {
			names[i] = string(name)
		}
		want := mustJSON(t, extenderv1.ExtenderFilterResult{
			NodeNames: &names, FailedAndUnresolvableNodes: answer.FailedUnresolvable,
		})
		if diff := cmp.Diff(string(want), string(text)); diff != "" {
			t.Errorf("answer (-encoding/json +ours):\n%s", diff)
		}
	})
}

// The pod may live on in a claim: it must not change with the request's memory. The names are
// pieces of it on purpose.
func TestADecodedPodDoesNotShareTheBody(t *testing.T) {
	pods := &podCache{}
	body := filterBody(t, testPod("web"), "node-a", "node-b")
	got, err := decodeArgs(body, pods, nil)
	if err != nil || got.list == nil {
		t.Fatalf("set-up: not cut apart: %v", err)
	}
	if diff := cmp.Diff([]string{"node-a", "node-b"}, got.names.strings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range body {
		body[i] = '#'
	}
	if got.pod.Name != "web" || got.pod.Spec.Containers[0].Image != "registry.example/app:1" {
		t.Errorf("the pod changed with the body: %+v", got.pod)
	}
	again, err := decodeArgs(filterBody(t, testPod("web"), "node-a"), pods, nil)
	if err != nil || again.pod != got.pod {
		t.Errorf("the same pod is decoded anew: %v", err)
	}
	changed := testPod("web")
	changed.ResourceVersion = "2"
	if other, err := decodeArgs(filterBody(t, changed, "node-a"), pods, nil); err != nil ||
		other.pod.ResourceVersion != "2" {
		t.Errorf("a changed pod is taken for the one before: %v", err)
	}
}

func TestGiantPodsAreNotRemembered(t *testing.T) {
	pods, giant := &podCache{}, testPod("giant")
	giant.Annotations = map[string]string{"a": strings.Repeat("x", maxCachedPod)}
	if _, err := decodeArgs(filterBody(t, giant, "node-a"), pods, nil); err != nil || pods.last.Load() != nil {
		t.Errorf("remembered: %t, error %v", pods.last.Load() != nil, err)
	}
}

func TestGiantRequestsLeaveNoMemoryBehind(t *testing.T) {
	for name, grow := range map[string]func(*exchange){
		"body":   func(x *exchange) { x.body.Grow(maxPooledBytes + 1) },
		"names":  func(x *exchange) { x.names = make(Names, maxPooledNames+1) },
		"answer": func(x *exchange) { x.answer = make([]byte, maxPooledBytes+1) },
	} {
		t.Run(name, func(t *testing.T) {
			pool := newExchanges()
			giant := pool.get()
			grow(giant)
			giant.body.WriteString("left over")
			pool.put(giant)
			if next := pool.get(); next.body.Cap() > maxPooledBytes || next.body.Len() != 0 || cap(next.answer) > 0 ||
				cap(next.names) > 0 {
				t.Errorf("got %d bytes of body with %d in it, %d of answer, %d names", next.body.Cap(), next.body.Len(),
					cap(next.answer), cap(next.names))
			}
		})
	}
}

// TestScoresSayDifferencesOnly: kube-scheduler adds scores up, so what all hosts have in common
// says nothing.
func TestScoresSayDifferencesOnly(t *testing.T) {
	for name, c := range map[string]struct {
		scores []int64
		want   string
	}{
		"all alike":              {[]int64{5, 5, 5}, `[]`},
		"all 0":                  {[]int64{0, 0, 0}, `[]`},
		"one is empty":           {[]int64{5, 0, 5}, `[{"Host":"a","Score":5},{"Host":"c","Score":5}]`},
		"one is claimed":         {[]int64{5, 5, 10}, `[{"Host":"c","Score":5}]`},
		"out of range both ways": {[]int64{99, -3, 4}, `[{"Host":"a","Score":10},{"Host":"c","Score":4}]`},
		"no candidates":          {nil, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(appendScores(nil, NamesOf([]string{"a", "b", "c"}), c.scores)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func fiveThousandNames(b *testing.B) []byte {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256)
	}
	return filterBody(b, testPod("web"), names...)
}

// The body of a filter call on 5000 nodes, whose whole answer has 5 ms.
func BenchmarkDecodeFiveThousandNames(b *testing.B) {
	body := fiveThousandNames(b)
	b.SetBytes(int64(len(body)))
	pods, names := &podCache{}, Names(nil)
	for b.Loop() {
		a, err := decodeArgs(body, pods, names)
		if err != nil {
			b.Fatal(err)
		}
		names = a.names
		pods.last.Store(nil) // each time another pod
	}
}

func BenchmarkFilterFiveThousandNamesAllReturned(b *testing.B) {
	body := fiveThousandNames(b)
	router := testRouter(b, acceptAll(), prometheus.NewRegistry(), Options{})
	for b.Loop() {
		if got := ask(b, router, "/filter", body); got.Code != http.StatusOK {
			b.Fatal(got.Body)
		}
	}
}

// BenchmarkJSON is why the names of a request are cut out of its body: one body is read and
// answered with all of its nodes, by this package and by encoding/json. kube-scheduler asks twice
// per pod, so at 1000 nodes the difference is about 0.9 ms of the 3 to 5 ms that it has for a pod.
func BenchmarkJSON(b *testing.B) {
	for _, size := range []int{100, 1000, 5000} {
		names := make([]string, size)
		answer := FilterAnswer{Nodes: make([]v1alpha1.NodeName, size)}
		for i := range names {
			names[i] = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256)
			answer.Nodes[i] = v1alpha1.NodeName(names[i])
		}
		body := filterBody(b, sentPod("web"), names...)
		b.Run(fmt.Sprintf("cut/%d", size), func(b *testing.B) {
			pods, into, out := &podCache{}, Names(nil), []byte(nil)
			for b.Loop() {
				a, err := decodeArgs(body, pods, into)
				if err != nil {
					b.Fatal(err)
				}
				into = a.names
				pods.last.Store(nil) // each time another pod
				if out, err = appendFilterAnswer(out[:0], a, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("encoding-json/%d", size), func(b *testing.B) {
			for b.Loop() {
				var args extenderv1.ExtenderArgs
				if err := json.Unmarshal(body, &args); err != nil {
					b.Fatal(err)
				}
				if _, err := json.Marshal(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
