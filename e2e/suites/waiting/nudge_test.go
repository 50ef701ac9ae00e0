package waiting

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// TestDelayedCacheIsNudged is design fact 11. The extender sees everything 500 ms late. So when the
// node runs and the scheduler asks at once, the pod is refused, and in a quiet cluster nothing
// would make the scheduler ask again.
//
// The control is in the same run: the first two nudges are swallowed on their way to the API
// server. Each of them says that Stratos has waited for the scheduler in vain once more; only after
// the third, which is written, the scheduler asks.
func TestDelayedCacheIsNudged(t *testing.T) {
	r := assert.NewRig(t, framework.Options{NoStratos: true, Cloud: []string{"--fake-boot-time=1s",
		"--fake-stop-time=200ms"}})
	running, standby := &firstSight{state: v1alpha1.StateRunning}, &firstSight{state: v1alpha1.StateStandby}
	nudges := &nudgeGate{swallow: 2}
	startInProcess(t, r, &lagging{lag: 500 * time.Millisecond, seen: running.look, told: standby.look}, nudges)
	assert.Warm(t, r, framework.Pool("quiet", 1), framework.Class("quiet", "m5.large"))
	awaitQuiet(t, r, standby)
	j := assert.OpenJournal(t, r)
	pod := framework.Pod("claimed", "cpu", "1")
	assert.Create(t, r, pod)
	node := assert.AwaitBound(t, r, pod)[0]

	swallowed, passed := nudges.times()
	if len(swallowed) != 2 || len(passed) != 1 {
		t.Fatalf("%d nudges swallowed and %d written before the pod was bound, want 2 and 1", len(swallowed), len(passed))
	}
	wantAsked(t, r, pod, node, running.at(), passed[0])
	wantOnlyNudge(t, j, node)
}

// wantAsked wants the pod asked about and refused once the node ran, not again through two nudges
// that was not seen, and once after the third with the node as the answer.
func wantAsked(t *testing.T, r *framework.Rig, pod *corev1.Pod, node string, running, nudged time.Time) {
	t.Helper()
	var refused, between, after int
	for _, a := range r.Recorder.About(framework.Filter, pod.UID) {
		takes := a.Filter.NodeNames != nil && slices.Equal(*a.Filter.NodeNames, []string{node})
		t.Logf("asked %s after the node ran, %s after the nudge: takes it: %v, %v",
			a.At.Sub(running), a.At.Sub(nudged), takes, a.Filter.FailedAndUnresolvableNodes)
		switch {
		case a.At.Before(running):
		case a.At.Before(nudged) && takes:
			between++
		case a.At.Before(nudged):
			refused++
		case takes:
			after++
		}
	}
	if refused == 0 {
		t.Error(
			"the pod was not asked about between the node's running and the nudge, so no nudge was needed: nothing is proved",
		)
	}
	if between != 0 || after != 1 {
		t.Errorf("the node was the answer %d times before the nudge and %d times after it, want 0 and 1", between, after)
	}
}

// firstSight is when a node was first seen in the state.
type firstSight struct {
	state v1alpha1.NodeState
	// mu guards when.
	mu   sync.Mutex
	when time.Time
}

func (f *firstSight) look(object any) {
	if n, ok := object.(*corev1.Node); ok && n.Labels[v1alpha1.LabelState] == string(f.state) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.when.IsZero() {
			f.when = time.Now()
		}
	}
}

func (f *firstSight) at() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.when
}

// awaitQuiet waits until the cloud and node controllers have said all they have to say of the
// stopped node: what their loops of 5 s add comes in no other order. The extender must have seen
// standby too: a pod that it refuses for want of a standby node has no claim, and Stratos nudges no
// pod without one.
func awaitQuiet(t *testing.T, r *framework.Rig, standby *firstSight) {
	t.Helper()
	want := []corev1.Taint{
		{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	}
	assert.Eventually(t, "standby node in the extender's watch", func(context.Context) (time.Time, error) {
		return standby.at(), nil
	}, func(at time.Time) bool { return !at.IsZero() })
	assert.AwaitNode(t, r, assert.OnlyNode(t, r, "quiet").Name, fmt.Sprintf("taints %v", want), func(n *corev1.Node) bool {
		return !slices.ContainsFunc(want, func(w corev1.Taint) bool {
			return !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.MatchTaint(&w) })
		})
	})
}

// wantOnlyNudge wants exactly one change of any node after the one that made the node running: its
// nudge, which changes nothing else. Whatever the scheduler could have been woken by is a change of
// a node or of another pod, and there is no other pod.
func wantOnlyNudge(t *testing.T, j *assert.Journal, node string) {
	t.Helper()
	later := assert.Eventually(t, "two versions since the node runs", func(context.Context) ([]*corev1.Node, error) {
		return sinceRunning(j), nil
	}, func(versions []*corev1.Node) bool { return len(versions) >= 2 })
	if len(later) != 2 || later[1].Name != node || later[1].Annotations[v1alpha1.AnnotationNudgedAt] == "" {
		for i := 1; i < len(later); i++ {
			t.Logf("change %d (-before +after):\n%s", i, cmp.Diff(bare(later[i-1]), bare(later[i])))
		}
		t.Fatalf("%d changes of nodes since the node runs, want one, the nudge", len(later)-1)
	}
	without := bare(later[1])
	delete(without.Annotations, v1alpha1.AnnotationNudgedAt)
	if diff := cmp.Diff(bare(later[0]), without); diff != "" {
		t.Errorf("the nudge changed more than its annotation (-before +after):\n%s", diff)
	}
}

// sinceRunning are the versions from the first that shows a node running.
func sinceRunning(j *assert.Journal) []*corev1.Node {
	var versions []*corev1.Node
	for _, v := range j.AllNodes() {
		if !v.Deleted && (len(versions) > 0 || assert.StateOf(v.Object) == v1alpha1.StateRunning) {
			versions = append(versions, v.Object)
		}
	}
	return slices.CompactFunc(versions, func(a, b *corev1.Node) bool { return cmp.Equal(bare(a), bare(b)) })
}

// bare leaves out what every write changes, and the condition that Stratos turns right behind the
// patch that makes the node running: it comes too soon after that patch to wake the scheduler into
// a view that has caught up.
func bare(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.ManagedFields, n.ResourceVersion = nil, ""
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions,
		func(c corev1.NodeCondition) bool { return c.Type == v1alpha1.ConditionStandby })
	return n
}
