package env

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/extender"
)

func TestParseUsage(t *testing.T) {
	const status = "Name:\tstratos\nVmHWM:\t  409600 kB\nVmRSS:\t  204800 kB\n"
	const stat = "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 100"
	got, err := parseUsage(stat, status)
	if want := (Usage{CPU: 2 * time.Second, Resident: 200, Peak: 400}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for name, bad := range map[string][2]string{
		"a line cut short": {"4242 (x) S 1 2", status},
		"no memory":        {stat, "Name:\tstratos\n"},
		"no numbers":       {strings.Replace(stat, "150", "many", 1), status},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseUsage(bad[0], bad[1]); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return // another system than Linux
	}
	got, err := UsageOf(os.Getpid())
	if err != nil || got.Resident <= 0 || got.Peak < got.Resident {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := UsageOf(0); err == nil {
		t.Error("a process that does not run has no usage")
	}
}

func TestFloor(t *testing.T) {
	f := NewFloor()
	first, again := f.Changed(), [2]time.Time{}
	ask := func(pod string) extenderv1.ExtenderFilterResult {
		t.Helper()
		question, err := Question(framework.Pod(pod, "cpu", "1"), []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		f.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/filter", bytes.NewReader(question)))
		result := extenderv1.ExtenderFilterResult{}
		if err := json.Unmarshal(answer.Body.Bytes(), &result); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%d %s: %v", answer.Code, answer.Body, err)
		}
		return result
	}
	if kept := *ask("one").NodeNames; len(kept) != 0 {
		t.Errorf("kept %v, want none", kept)
	}
	select {
	case <-first:
	default:
		t.Error("nobody was told of the pod")
	}
	for i := range again {
		at, all := f.Asked([]string{"one"})
		if again[i] = at[0]; !all {
			t.Error("the pod was asked about")
		}
		ask("one")
	}
	if again[0] != again[1] {
		t.Error("a second ask counts")
	}
	if _, all := f.Asked([]string{"one", "two"}); all {
		t.Error("nobody asked about the second")
	}
	f.KeepAll()
	if diff := cmp.Diff([]string{"a", "b"}, *ask("two").NodeNames); diff != "" {
		t.Error(diff)
	}
	f.Reset()
	if _, all := f.Asked([]string{"one"}); all {
		t.Error("the pod is still known")
	}
}

// TestFloorWritesOnce: with a write, a pod counts as asked about when its one write is answered.
func TestFloorWritesOnce(t *testing.T) {
	f := NewFloor()
	answered, writes := make(chan error), make(chan bool, 10)
	f.Write(func() error {
		writes <- true
		return <-answered
	})
	ask := func(pod string) {
		t.Helper()
		question, err := Question(framework.Pod(pod, "cpu", "1"), []string{"a"})
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		f.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/filter", bytes.NewReader(question)))
		if answer.Code != http.StatusOK {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}
	changed := f.Changed()
	ask("one")
	ask("one")
	<-writes
	if _, all := f.Asked([]string{"one"}); all {
		t.Error("the write is not answered yet")
	}
	answered <- nil
	<-changed
	if at, all := f.Asked([]string{"one"}); !all || at[0].IsZero() || f.Failed() != nil {
		t.Errorf("after the answer: %v, %v, %v", at, all, f.Failed())
	}
	changed = f.Changed()
	ask("two")
	answered <- errors.New("refused")
	<-changed
	if f.Failed() == nil {
		t.Error("the second write was refused")
	}
	if <-writes; len(writes) != 0 {
		t.Errorf("%d writes more than one for each pod", len(writes))
	}
}

func TestTimed(t *testing.T) {
	const metrics = `# HELP stratos_extender_request_duration_seconds Time
stratos_extender_request_duration_seconds_bucket{verb="filter",le="0.005"} 297
stratos_extender_request_duration_seconds_bucket{verb="filter",le="+Inf"} 300
stratos_extender_request_duration_seconds_sum{verb="filter"} 0.3
stratos_extender_request_duration_seconds_count{verb="filter"} 300
stratos_extender_request_duration_seconds_count{verb="prioritize"} 5
`
	samples := framework.ParseSamples(metrics, "stratos_")
	if all, within, err := timed(samples, RequestSeconds, "filter", "0.005"); err != nil || all != 300 || within != 297 {
		t.Errorf("got %v of %v, %v", within, all, err)
	}
	for name, asked := range map[string][2]string{"a verb nobody called": {"preempt", "0.005"},
		"a bucket that is none": {"filter", "0.004"}} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := timed(samples, RequestSeconds, asked[0], asked[1]); err == nil {
				t.Error("want an error: a figure of nothing would be met")
			}
		})
	}
}

func TestConfigurationsAreChanged(t *testing.T) {
	generated, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{Wiring: extender.WiringDedicated,
		KubernetesMinor: "1.36", QPS: 7, Burst: 8})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := WithoutExtender(generated)
	if err != nil {
		t.Fatal(err)
	}
	before, after := map[string]any{}, map[string]any{}
	if err := errors.Join(yaml.Unmarshal(generated, &before), yaml.Unmarshal(plain, &after)); err != nil {
		t.Fatal(err)
	}
	profile, ok := before["profiles"].([]any)[0].(map[string]any)
	if !ok || profile["percentageOfNodesToScore"] == nil || profile["plugins"] == nil {
		t.Fatalf("profile %v", profile)
	}
	delete(before, "extenders")
	delete(profile, "plugins")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if _, err := WithoutExtender(plain); err == nil {
		t.Error("a configuration without an extender has none to take out")
	}
	asking, err := WithVerb(generated)
	if err != nil {
		t.Fatal(err)
	}
	before, after = map[string]any{}, map[string]any{}
	if err := errors.Join(yaml.Unmarshal(generated, &before), yaml.Unmarshal(asking, &after)); err != nil {
		t.Fatal(err)
	}
	asked := before["extenders"].([]any)[0].(map[string]any)
	if asked["prioritizeVerb"] != nil {
		t.Errorf("the generated configuration asks for scores: %v", asked)
	}
	asked["prioritizeVerb"], asked["weight"] = "prioritize", float64(1)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if _, err := WithVerb(plain); err == nil {
		t.Error("a configuration without an extender has none to ask for scores")
	}
}

func TestViewFollowsEvents(t *testing.T) {
	at := time.Unix(1000, 0)
	v := &View{Pods: map[string]*SeenPod{}, Nodes: map[string]*SeenNode{}, States: map[string]map[v1alpha1.NodeState]int{}}
	node := func(state v1alpha1.NodeState, boot string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1alpha1.LabelPool: "p",
				v1alpha1.LabelState: string(state)}},
			Spec: corev1.NodeSpec{ProviderID: "fake:///zone/i-1"},
			Status: corev1.NodeStatus{
				NodeInfo:   corev1.NodeSystemInfo{BootID: boot},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	v.takeNode(node(v1alpha1.StateStandby, "1", corev1.ConditionTrue), false, at)
	v.takeNode(node(v1alpha1.StateStarting, "1", corev1.ConditionTrue), false, at.Add(1))
	if v.Awake("p") != 1 || v.States["p"][v1alpha1.StateStandby] != 0 || !v.Nodes["n"].Ready.Equal(at) ||
		v.Nodes["n"].Instance != "i-1" {
		t.Errorf("starting: %+v, %v", v.Nodes["n"], v.States)
	}
	v.takeNode(node(v1alpha1.StateStarting, "2", corev1.ConditionFalse), false, at.Add(2))
	v.takeNode(node(v1alpha1.StateRunning, "2", corev1.ConditionTrue), false, at.Add(3))
	v.takeNode(node(v1alpha1.StateRunning, "2", corev1.ConditionTrue), false, at.Add(4))
	if !v.Nodes["n"].Ready.Equal(at.Add(3)) || v.Awake("p") != 1 {
		t.Errorf("Ready in the second boot: %+v, %v", v.Nodes["n"], v.States)
	}
	pod := framework.Pod("x")
	v.takePod(pod, false, at)
	pod.Spec.NodeName = "n"
	v.takePod(pod, false, at.Add(5))
	v.takePod(pod, false, at.Add(6))
	if seen := v.Pods["x"]; v.BoundPods != 1 || !seen.Created.Equal(at) || !seen.Bound.Equal(at.Add(5)) || seen.Node != "n" {
		t.Errorf("bound: %+v, %d", seen, v.BoundPods)
	}
	v.takePod(pod, true, at)
	v.takeNode(node(v1alpha1.StateRunning, "2", corev1.ConditionTrue), true, at)
	if v.BoundPods != 0 || len(v.Pods)+len(v.Nodes) != 0 || v.Awake("p") != 0 {
		t.Errorf("all gone: %+v", v)
	}
}

func TestCreateAll(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	began := time.Now()
	at, err := CreateAll(t.Context(), c, Pods("many", "anyone", "1", 50))
	list := &corev1.PodList{}
	if err := errors.Join(err, c.List(t.Context(), list)); err != nil || len(list.Items) != 50 || len(at) != 50 {
		t.Fatalf("%d pods, %d times, %v", len(list.Items), len(at), err)
	}
	for i, when := range at {
		if when.Before(began) {
			t.Errorf("pod %d was created at %s", i, when)
		}
	}
	if _, err := CreateAll(t.Context(), c, Pods("many", "anyone", "1", 50)); err == nil {
		t.Error("pods that exist cannot be created")
	}
}
