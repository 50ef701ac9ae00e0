package extender

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
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

// FuzzFilterDecode: whatever is accepted means what extenderv1.ExtenderArgs says, and what is refused is a 4xx.
func FuzzFilterDecode(f *testing.F) {
	seedArgs(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeArgs(body)
		if err != nil {
			checkClientError(t, err)
			return
		}
		var want extenderv1.ExtenderArgs
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if diff := cmp.Diff(*want.NodeNames, got.nodeNames); diff != "" {
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
		router := testRouter(t, acceptAll(), prometheus.NewRegistry(), Options{})
		got := askFor[extenderv1.HostPriorityList](t, router, "/prioritize", body)
		var understood extenderv1.ExtenderArgs
		if err := json.Unmarshal(body, &understood); err != nil {
			t.Fatal(err)
		}
		want := extenderv1.HostPriorityList{{Host: (*understood.NodeNames)[0]}, {Host: (*understood.NodeNames)[1]}}
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

// A name that lives on in a claim must not keep the request's buffer, nor change with it.
func TestDecodedNamesDoNotShareTheBuffer(t *testing.T) {
	body := filterBody(t, testPod("web"), "node-a", "node-b")
	got, err := decodeArgs(body)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = '#'
	}
	if diff := cmp.Diff([]string{"node-a", "node-b"}, got.nodeNames); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.pod.Name != "web" || got.pod.Spec.Containers[0].Image != "registry.example/app:1" {
		t.Errorf("the pod changed with the buffer: %+v", got.pod)
	}
}

func TestPoolDropsGiantBuffers(t *testing.T) {
	pool := newBodyPool()
	giant := pool.get()
	giant.Grow(maxPooledBytes + 1)
	giant.WriteString("left over")
	pool.put(giant)
	if next := pool.get(); next.Cap() > maxPooledBytes || next.Len() != 0 {
		t.Errorf("got a buffer of %d with %d bytes in it", next.Cap(), next.Len())
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
	for b.Loop() {
		if _, err := decodeArgs(body); err != nil {
			b.Fatal(err)
		}
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
