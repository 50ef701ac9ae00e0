package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/provider/fake"
)

// at is a moment of the tests, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }

func node(name, boot string, ready corev1.ConditionStatus) watch.Event {
	return watch.Event{Type: watch.Modified, Object: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "fake:///us-east-1a/i-" + name},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			NodeInfo:    corev1.NodeSystemInfo{BootID: boot},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
		},
	}}
}

func pod(name, node string, phase corev1.PodPhase) watch.Event {
	return watch.Event{Type: watch.Modified, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: phase},
	}}
}

// answer is one of /filter about the pod, which says on the first node that another one starts.
func answer(ms int, pod, starting string) framework.Asked {
	return framework.Asked{
		Verb: framework.Filter, At: at(ms - 4), Answered: at(ms), Pod: types.NamespacedName{Name: pod},
		Filter: extenderv1.ExtenderFilterResult{FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{
			starting: "starting standby node " + starting + " of pool demo (usually ready in 3s)", "other": "node is standby",
		}},
	}
}

// played is a timeline of two pods that share node a, and one on node b.
func played() *timeline {
	t := newTimeline()
	for _, name := range []string{"a", "b", "c"} {
		t.take(node(name, "boot-1", corev1.ConditionTrue), at(0))
		t.take(node(name, "boot-1", corev1.ConditionUnknown), at(10))
	}
	t.creating("p1", at(100))
	t.creating("p2", at(101))
	t.creating("p3", at(102))
	for _, p := range []string{"p1", "p2", "p3"} {
		t.take(pod(p, "", corev1.PodPending), at(105))
	}
	t.take(node("a", "boot-2", corev1.ConditionTrue), at(3000))
	t.take(node("a", "boot-2", corev1.ConditionTrue), at(3005)) // again, with other changes: the first one counts
	t.take(node("b", "boot-2", corev1.ConditionTrue), at(3100))
	t.take(pod("p2", "a", corev1.PodPending), at(3020))
	t.take(pod("p1", "a", corev1.PodPending), at(3030))
	t.take(pod("p3", "b", corev1.PodPending), at(3107))
	t.take(pod("p3", "b", corev1.PodRunning), at(3500))
	return t
}

func playedAnswers() []framework.Asked {
	return []framework.Asked{
		answer(110, "p2", "a"), answer(112, "p1", "a"), answer(114, "p3", "b"), answer(900, "p1", "a"), // asked again
		{Verb: framework.Filter, Answered: at(950), Filter: extenderv1.ExtenderFilterResult{NodeNames: &[]string{"a"}}},
	}
}

func playedCalls() []fake.Call {
	return []fake.Call{
		{Seq: 4, At: at(50), Op: fake.OpStart, Instance: "i-c"}, // before the burst
		{Seq: 5, At: at(111), Op: fake.OpStart, Instance: "i-a", Err: "throttled"},
		{Seq: 6, At: at(113), Op: fake.OpStart, Instance: "i-a"},
		{Seq: 7, At: at(114), Op: fake.OpStop, Instance: "i-b"},
		{Seq: 8, At: at(120), Op: fake.OpStart, Instance: "i-b"},
	}
}

func TestLatenciesAreTakenOncePerStart(t *testing.T) {
	line, promises, starts := played(), promisesOf(playedAnswers()), startsAfter(playedCalls(), 4)
	if want := []started{{"i-a", at(113)}, {"i-b", at(120)}}; !slices.Equal(starts, want) {
		t.Errorf("starts %v, want %v", starts, want)
	}
	if got := promisedPods(promises); got != 3 {
		t.Errorf("%d pods have a promise, want 3: %v", got, promises)
	}
	// The first claim on node a was for p2, created at 101; on node b for p3, created at 102.
	sinceCreated, sinceAsked := line.toStart(promises, starts)
	if diff := cmp.Diff(milli(12, 18), sinceCreated); diff != "" {
		t.Errorf("pod created -> start requested (-want +got):\n%s", diff)
	}
	// They were asked about at 106 and 110.
	if diff := cmp.Diff(milli(7, 10), sinceAsked); diff != "" {
		t.Errorf("scheduler asked -> start requested (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(milli(20, 7), line.toBound(starts)); diff != "" {
		t.Errorf("node Ready -> pod bound (-want +got):\n%s", diff)
	}
}

func TestStartsWithoutTheirPodHaveNoSample(t *testing.T) {
	line := played()
	for name, starts := range map[string][]started{
		"a node that nobody was promised": {{"i-c", at(130)}},
		"an instance without a node":      {{"i-unknown", at(130)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, asked := line.toStart(promisesOf(playedAnswers()), starts); len(got)+len(asked) != 0 {
				t.Errorf("pod created -> start requested: %v, %v, want no sample", got, asked)
			}
			if got := line.toBound(starts); len(got) != 0 {
				t.Errorf("node Ready -> pod bound: %v, want no sample", got)
			}
		})
	}
}

func TestReadyOfTheBootBeforeDoesNotCount(t *testing.T) {
	line, promises := played(), promisesOf(playedAnswers())
	if !line.allReady(promises) {
		t.Error("all promised nodes are Ready, but allReady says no")
	}
	// Node c was Ready in its first boot only, and kubelets leave Ready=True behind.
	line.take(node("c", "boot-1", corev1.ConditionTrue), at(4000))
	if line.allReady(append(promises, promise{node: v1alpha1.NodeName("c"), pod: "p4", at: at(130)})) {
		t.Error("node c is Ready from before its start only, but counts")
	}
	if line.allReady(nil) {
		t.Error("without a promise nothing is Ready")
	}
}

func TestPodsAreCountedOnce(t *testing.T) {
	line := played()
	if diff := cmp.Diff(podCounts{Bound: 2, Running: 1}, line.podCounts()); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	gone := pod("p3", "b", corev1.PodRunning)
	gone.Type = watch.Deleted
	line.take(gone, at(5000))
	line.take(pod("stranger", "b", corev1.PodRunning), at(5001))
	if diff := cmp.Diff(podCounts{Bound: 2, Running: 1}, line.podCounts()); diff != "" {
		t.Errorf("pods after one went and a stranger came (-want +got):\n%s", diff)
	}
	if got := line.ranPods(); got != 1 {
		t.Errorf("%d pods of the play ran, want 1: what is gone has run, a stranger does not count", got)
	}
}

func TestCommonCPUNeedsEqualNodes(t *testing.T) {
	line := played()
	if got := line.commonCPU(); got.MilliValue() != 4000 {
		t.Errorf("cpu of equal nodes: %s, want 4", &got)
	}
	other := node("d", "boot-1", corev1.ConditionTrue)
	other.Object.(*corev1.Node).Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8")
	line.take(other, at(0))
	if got := line.commonCPU(); !got.IsZero() {
		t.Errorf("cpu of unequal nodes: %s, want 0", &got)
	}
}
