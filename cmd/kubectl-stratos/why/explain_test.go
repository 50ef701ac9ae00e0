package why

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(epoch().Add(-d)) }

// pending is pod a, which its scheduler refused 20 s ago.
func pending(change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid-a",
			CreationTimestamp: ago(90 * time.Second)},
		Spec: corev1.PodSpec{SchedulerName: "stratos-scheduler"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes", LastTransitionTime: ago(20 * time.Second),
		}}},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func node(name string, state v1alpha1.NodeState, annotations ...string) metav1.PartialObjectMetadata {
	n := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelState: string(state)},
		Annotations: map[string]string{},
	}}
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	return n
}

func event(reason v1alpha1.Reason, note string, at time.Duration) eventsv1.Event {
	return eventsv1.Event{
		EventTime: metav1.NewMicroTime(epoch().Add(-at)), ReportingController: "stratos-scaler", Reason: string(reason),
		Note: note, Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a", UID: "uid-a"},
	}
}

func poolOfP() []v1alpha1.NodePool {
	return []v1alpha1.NodePool{{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       v1alpha1.NodePoolSpec{ScaleUp: v1alpha1.ScaleUp{ReadyTimeout: &metav1.Duration{Duration: time.Minute}}},
		Status:     v1alpha1.NodePoolStatus{StartSeconds: &v1alpha1.StartSeconds{P50: 14, P95: 40, Count: 9}},
	}}
}

// TestExplain: what is certain is told before what is assumed.
func TestExplain(t *testing.T) {
	started := epoch().Add(-20 * time.Second)
	startedText := started.Format(time.RFC3339)
	const note = "starting standby node n of pool p (usually ready in 14s)"
	repeated := event(v1alpha1.ReasonStandbyUnavailable, "again", time.Hour)
	repeated.Series = &eventsv1.EventSeries{LastObservedTime: metav1.NewMicroTime(epoch().Add(-time.Second))}
	for name, c := range map[string]struct {
		pod    corev1.Pod
		nodes  []metav1.PartialObjectMetadata
		events []eventsv1.Event
		want   Explanation
	}{
		"bound": {
			pod:   pending(func(p *corev1.Pod) { p.Spec.NodeName = "n" }),
			nodes: []metav1.PartialObjectMetadata{node("n", v1alpha1.StateRunning)},
			want:  Explanation{Cause: Bound, Node: &NodeFacts{Name: "n", Pool: "p", State: v1alpha1.StateRunning}},
		},
		"claimed on a node that starts": {
			pod: pending(),
			nodes: []metav1.PartialObjectMetadata{node("n", v1alpha1.StateStarting, v1alpha1.AnnotationClaims, "uid-b,uid-a",
				v1alpha1.AnnotationScaleUpStarted, startedText)},
			events: []eventsv1.Event{event(v1alpha1.ReasonStandbyUnavailable, "a moment ago", time.Second)},
			want: Explanation{Cause: Claimed, Asked: true, Node: &NodeFacts{
				Name: "n", Pool: "p", State: v1alpha1.StateStarting, Since: &metav1.Time{Time: started}, UsualSeconds: 14,
				Deadline: &metav1.Time{Time: started.Add(time.Minute)}}},
		},
		"claimed, as the event says, on a node that runs": {
			pod:    pending(),
			nodes:  []metav1.PartialObjectMetadata{node("n", v1alpha1.StateRunning, v1alpha1.AnnotationRunningSince, startedText)},
			events: []eventsv1.Event{event(v1alpha1.ReasonStandbyStarting, note, time.Second)},
			want: Explanation{Cause: Claimed, Asked: true, Reasons: []string{note}, Node: &NodeFacts{
				Name: "n", Pool: "p", State: v1alpha1.StateRunning, Since: &metav1.Time{Time: started}}},
		},
		"claimed, for one who may not read nodes": {
			pod: pending(), events: []eventsv1.Event{event(v1alpha1.ReasonStandbyStarting, note, time.Second)},
			want: Explanation{Cause: Claimed, Asked: true, Reasons: []string{note}, Node: &NodeFacts{Name: "n", Pool: "p"}},
		},
		"the newest event counts": {
			pod: pending(), events: []eventsv1.Event{
				event(v1alpha1.ReasonStandbyUnavailable, "pool p: x; pool q: y; and 2 more", time.Second),
				event(v1alpha1.ReasonStandbyStarting, note, time.Minute),
			},
			want: Explanation{Cause: Unavailable, Asked: true, Reasons: []string{"pool p: x", "pool q: y", "and 2 more"}},
		},
		"and a repeated one by its last time": {
			pod: pending(), events: []eventsv1.Event{repeated, event(v1alpha1.ReasonColdLaunch, "before", time.Minute)},
			want: Explanation{Cause: Unavailable, Asked: true, Reasons: []string{"again"}},
		},
		"a new instance": {
			pod: pending(),
			events: []eventsv1.Event{event(v1alpha1.ReasonColdLaunch,
				"pool p has no node yet; pool q: x: launching a new instance in pool p, zone a", time.Second)},
			want: Explanation{Cause: Launching, Asked: true, Reasons: []string{"pool p has no node yet", "pool q: x"},
				Next: "launching a new instance in pool p, zone a, which warms up and takes the pod"},
		},
		"gated": {
			pod: pending(func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}, {Name: "topology"}}
			}),
			want: Explanation{Cause: Gated, Reasons: []string{"its scheduling gates: quota, topology"}},
		},
		"no scheduler has looked": {
			pod:  pending(func(p *corev1.Pod) { p.Status.Conditions = nil }),
			want: Explanation{Cause: NotScheduled, Reasons: []string{"no scheduler has looked at it"}},
		},
		"the scheduler fails": {
			pod:  pending(func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError }),
			want: Explanation{Cause: SchedulerError, Reasons: []string{"the scheduler fails: 0/3 nodes"}},
		},
		"opted out, whatever was said": {
			pod: pending(func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"} }),
			want: Explanation{Cause: StartsNoNode, Reasons: []string{"the pod is annotated " + v1alpha1.AnnotationIgnore},
				Asked: true},
			events: []eventsv1.Event{event(v1alpha1.ReasonStandbyUnavailable, "annotated", time.Second)},
		},
		"with resource claims": {
			pod: pending(func(p *corev1.Pod) {
				p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
			}),
			want: Explanation{Cause: StartsNoNode, Reasons: []string{"pods with resource claims start no node"}},
		},
		"nominated by its scheduler": {
			pod:  pending(func(p *corev1.Pod) { p.Status.NominatedNodeName = "victim" }),
			want: Explanation{Cause: Nominated, Node: &NodeFacts{Name: "victim"}},
		},
		"being deleted": {
			pod:  pending(func(p *corev1.Pod) { at := ago(0); p.DeletionTimestamp = &at }),
			want: Explanation{Cause: Ended},
		},
		"failed before it had a node": {
			pod:  pending(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			want: Explanation{Cause: Ended},
		},
		"without an answer": {pod: pending(), want: Explanation{Cause: Unanswered, Reasons: []string{"the scheduler: 0/3 nodes"}}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &Facts{Pods: []corev1.Pod{c.pod}, Nodes: c.nodes, Events: c.events, Pools: poolOfP()}
			got := facts.Explain(epoch())[0]
			if got.Next == "" || c.want.Next != "" && c.want.Next != got.Next {
				t.Errorf("what happens next is %q, want %q", got.Next, c.want.Next)
			}
			c.want.Namespace, c.want.Pod, c.want.Scheduler = "default", "a", "stratos-scheduler"
			c.want.Since, c.want.Next = ago(90*time.Second), got.Next
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNoAnswerForLong: within half a minute one is to be expected, after it Stratos is looked at.
func TestNoAnswerForLong(t *testing.T) {
	facts := &Facts{Pods: []corev1.Pod{pending()}}
	if next := facts.Explain(epoch())[0].Next; !strings.Contains(next, "within 30s") {
		t.Errorf("after 20 s: %q", next)
	}
	if next := facts.Explain(epoch().Add(time.Minute))[0].Next; !strings.Contains(next, "check that its pods are ready") {
		t.Errorf("after 80 s: %q", next)
	}
}

// TestDescribe: the whole screen of a pod whose node starts.
func TestDescribe(t *testing.T) {
	facts := &Facts{Pods: []corev1.Pod{pending()}, Pools: poolOfP(), Nodes: []metav1.PartialObjectMetadata{
		node("n", v1alpha1.StateStarting, v1alpha1.AnnotationClaims, "uid-a", v1alpha1.AnnotationScaleUpStarted,
			epoch().Add(-20*time.Second).Format(time.RFC3339))}}
	var out bytes.Buffer
	if err := facts.Explain(epoch())[0].Describe(&out, epoch()); err != nil {
		t.Fatal(err)
	}
	want := `Pod:        default/a
Cause:      Claimed
Since:      2026-03-01T11:58:30Z (90s)
Scheduler:  stratos-scheduler
Stratos:    has looked at it
Node:       n
Pool:       p
State:      starting
Timing:     starting for 20s, usually 14s, given up at 2026-03-01T12:00:40Z
Next:       the scheduler binds it when the node is open to pods; a start that fails has the pod claim another node
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTable: a row has as many cells as there are columns, and the pods are in the order of their
// names.
func TestTable(t *testing.T) {
	second := pending(func(p *corev1.Pod) { p.Name, p.UID = "0", types.UID("uid-0") })
	facts := &Facts{Pods: []corev1.Pod{pending(), second},
		Events: []eventsv1.Event{event(v1alpha1.ReasonStandbyUnavailable, "pool p: x; pool q: y", time.Second)}}
	for _, withNamespace := range []bool{true, false} {
		table := Table(facts.Explain(epoch()), epoch(), withNamespace)
		for _, row := range table.Rows {
			if len(row.Cells) != len(table.ColumnDefinitions) {
				t.Errorf("%d cells for %d columns: %v", len(row.Cells), len(table.ColumnDefinitions), row.Cells)
			}
		}
		if len(table.Rows) != 2 {
			t.Fatalf("%d rows", len(table.Rows))
		}
		first, why := 0, 5
		if withNamespace {
			first, why = 1, 6
		}
		if table.Rows[0].Cells[first] != "0" || table.Rows[1].Cells[why] != "pool p: x; and 1 more" {
			t.Errorf("rows %v", table.Rows)
		}
	}
}

// TestReasonsThatAreAlike are told once, where the first of them stands.
func TestReasonsThatAreAlike(t *testing.T) {
	got := together([]string{"pool a has no node yet", "pool b: needs 64 cpu", "pool c: x", "pool d: y", "pool e: x",
		"and 2 more"})
	want := []string{"pool a has no node yet", "pool b: needs 64 cpu", "2 pools (c, e): x", "pool d: y", "and 2 more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMissing: the user is told once what may not be read.
func TestMissing(t *testing.T) {
	var out bytes.Buffer
	(&Facts{Missing: []string{"list nodes", "list nodepools.stratos.sh"}}).PrintMissing(&out)
	if got := out.String(); got != "You may not list nodes, or list nodepools.stratos.sh: what that would show is left out.\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	(&Facts{}).PrintMissing(&out)
	if out.Len() > 0 {
		t.Errorf("%q where nothing is missing", out.String())
	}
}
