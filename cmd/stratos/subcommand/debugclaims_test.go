package subcommand

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func pendingPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name),
		CreationTimestamp: metav1.NewTime(epoch().Add(-90 * time.Second))}}
	for _, f := range change {
		f(p)
	}
	return p
}

func poolNode(name string, state v1alpha1.NodeState, annotations ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(state)},
		Annotations: map[string]string{},
	}}
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	return n
}

func event(name, controller, pod, note string, ago time.Duration) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, EventTime: metav1.NewMicroTime(epoch().Add(-ago)),
		ReportingController: controller, Reason: "StandbyUnavailable", Note: note,
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod, UID: types.UID("uid-" + pod)},
	}
}

// TestDebugClaims: each line of want holds words that stand together in one line of the output.
func TestDebugClaims(t *testing.T) {
	unschedulable := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: "0/3 nodes"}}
	}
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	started := epoch().Add(-20 * time.Second).Format(time.RFC3339)
	for name, c := range map[string]struct {
		objects         []client.Object
		namespace, name string
		want            [][]string
		not             string
		err             string
	}{
		"promised a node that starts": {
			objects: []client.Object{pendingPod("a"), poolNode("n", v1alpha1.StateStarting, v1alpha1.AnnotationClaims,
				"uid-b,uid-a", v1alpha1.AnnotationScaleUpStarted, started)},
			want: [][]string{{"default", "a", "1m30s", "n", "starting", "the node has been starting for 20s"}},
		},
		"promised a node that runs": {
			objects: []client.Object{pendingPod("a"), poolNode("n", v1alpha1.StateRunning, v1alpha1.AnnotationClaims, "uid-a",
				v1alpha1.AnnotationRunningSince, started)},
			want: [][]string{{"a", "n", "running", "the node has run since " + started}},
		},
		"the last word of ours": {
			objects: []client.Object{
				pendingPod("a", unschedulable), event("new", "stratos-scaler", "a", "no node fits", time.Second),
				event("old", "stratos-scaler", "a", "too early", time.Minute),
				event("other", "kubelet", "a", "pulled", 0),
			},
			want: [][]string{{"a", "StandbyUnavailable: no node fits"}}, not: "too early",
		},
		"else what the scheduler says": {objects: []client.Object{pendingPod("a", unschedulable)},
			want: [][]string{{"a", "Unschedulable: 0/3 nodes"}}},
		"nobody has looked at it": {objects: []client.Object{pendingPod("a")},
			want: [][]string{{"a", "no scheduler has looked at it"}}},
		"a pod that is bound does not wait": {
			objects: []client.Object{pendingPod("a"), pendingPod("bound", func(p *corev1.Pod) { p.Spec.NodeName = "n" })},
			want:    [][]string{{"a"}}, not: "bound",
		},
		"one pod of several": {objects: []client.Object{pendingPod("a"), pendingPod("b")}, name: "b",
			want: [][]string{{"default", "b"}}, not: "\na "},
		"of one namespace": {objects: []client.Object{pendingPod("a"), pendingPod("b", elsewhere)}, namespace: "other",
			want: [][]string{{"other", "b"}}, not: "default"},
		"a pod that nobody has": {objects: []client.Object{pendingPod("a")}, name: "z", err: "no pod named z waits"},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().WithObjects(c.objects...).Build()
			out := &bytes.Buffer{}
			err := explainClaims(context.Background(), api, out, c.namespace, c.name, epoch())
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			for _, words := range c.want {
				if !hasLine(out.String(), words) {
					t.Errorf("no line with %q in\n%s", words, out)
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("%q in\n%s", c.not, out)
			}
		})
	}
}

// hasLine reports whether some line holds all the words, in their order.
func hasLine(text string, words []string) bool {
	for line := range strings.Lines(text) {
		rest, all := line, true
		for _, w := range words {
			_, after, ok := strings.Cut(rest, w)
			rest, all = after, all && ok
		}
		if all {
			return true
		}
	}
	return false
}
