package waiting

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	// waitingPods of 700m each: perNode fit the 16 cpu of a node, so needed nodes start and the others
	// of the pool do not.
	waitingPods = 200
	perNode     = 22
	needed      = (waitingPods + perNode - 1) / perNode
	poolSize    = needed + 2
	// rounds of asking: after each the scheduler has asked about every pod once more.
	rounds = 6
)

const schedulerUser = "system:kube-scheduler"

// TestWaitingPodsCostNoWrites has nodes that start and do not get ready until the test says so:
// their kubelets do not report until a reboot. Meanwhile the scheduler is made to ask about all
// pods again and again.
func TestWaitingPodsCostNoWrites(t *testing.T) {
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{AuditLog: controlplane.AuditLog{Enabled: true}},
		Cloud:        []string{"--fake-boot-time=500ms", "--fake-stop-time=200ms"},
	})
	assert.Warm(t, r, framework.Pool("waiting", poolSize), framework.Class("waiting",
		"m5.4xlarge"))
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent})
	bystander := assert.Node("bystander")
	assert.Create(t, r, bystander)
	pods := framework.Pods(waitingPods, "waiting", "cpu", "700m")
	assert.Create(t, r, assert.Objects(pods)...)
	awaitAllClaimed(t, r, pods)

	askAgain(t, r, bystander, "settle", pods)
	awaitAllWritten(t, r, pods)
	askAgain(t, r, bystander, "first", pods)
	asked := len(r.Recorder.Asked(framework.Filter))
	for round := range rounds {
		askAgain(t, r, bystander, fmt.Sprintf("round-%d", round), pods)
	}
	more := len(r.Recorder.Asked(framework.Filter)) - asked
	askAgain(t, r, bystander, "last", pods)
	if more < 1000 {
		t.Errorf("the scheduler asked %d times in the measured stretch, want at least 1000", more)
	}
	wantNoWrites(t, r, bystander, more)
	wantSameWords(t, r, pods)

	assert.Release(t, r, assert.Starts(t, r)...)
	assert.AwaitRunning(t, r, pods...)
	if got := assert.Starts(t, r); len(got) != needed {
		t.Errorf("%d starts, want %d for %d pods of which %d fit a node: %v", len(got), needed, waitingPods, perNode, got)
	}
}

// awaitAllClaimed waits until everything that the arrival of the pods brings about has been
// written: each pod's event, the claims and the event on each starting node, the pool's status.
// From there on nothing happens but asking.
func awaitAllClaimed(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	assert.Await(t, "claims and events of all pods", func(ctx context.Context) (bool, error) {
		err := allClaimed(ctx, r, pods)
		return err == nil, err
	})
	assert.Eventually(t, "running instances", func(context.Context) (int, error) {
		running := assert.PoolInstances(t, r, "waiting")
		maps.DeleteFunc(running, func(_ v1alpha1.InstanceID, v fake.View) bool { return v.State != provider.InstanceRunning })
		return len(running), nil
	}, func(n int) bool { return n == needed })
	assert.AwaitPool(t, r, "waiting", "starting and standby", func(s v1alpha1.NodePoolStatus) bool {
		return s.Starting == needed && s.Standby == poolSize-needed && s.Total == poolSize
	})
}

func allClaimed(ctx context.Context, r *framework.Rig, pods []*corev1.Pod) error {
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes,
		client.MatchingLabels{v1alpha1.LabelState: string(v1alpha1.StateStarting)}); err != nil {
		return err
	}
	published := map[string]bool{}
	for i := range nodes.Items {
		for uid := range strings.SplitSeq(nodes.Items[i].Annotations[v1alpha1.AnnotationClaims], ",") {
			published[uid] = true
		}
	}
	list := &eventsv1.EventList{}
	if err := r.Client.List(ctx, list); err != nil {
		return err
	}
	told := map[string]int{}
	for i := range list.Items {
		told[list.Items[i].Reason]++
	}
	if len(nodes.Items) != needed || len(published) != len(pods) ||
		told[string(v1alpha1.ReasonStandbyStarting)] != len(pods) || told[string(v1alpha1.ReasonScaleUp)] != needed {
		return fmt.Errorf("%d nodes start with %d claims, events: %v", len(nodes.Items), len(published), told)
	}
	return nil
}

// awaitAllWritten waits until each pod's condition is about all nodes that there are: the scheduler
// writes it a while after it has asked, and its first words may miss the node that came last.
func awaitAllWritten(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := r.Client.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	words := fmt.Sprintf("0/%d nodes are available", len(nodes.Items))
	assert.Eventually(t, "pods whose condition does not say: "+words, func(ctx context.Context) (int, error) {
		list := &corev1.PodList{}
		err := r.Client.List(ctx, list)
		left := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			ours := slices.ContainsFunc(pods, func(o *corev1.Pod) bool { return o.UID == p.UID })
			return !ours || strings.Contains(framework.WhyPending(&p), words)
		})
		return len(left), err
	}, func(left int) bool { return left == 0 })
}

// askAgain touches a node that has nothing to do with the pods, and waits until the scheduler has
// asked about each of them after that.
func askAgain(t *testing.T, r *framework.Rig, bystander *corev1.Node, mark string, pods []*corev1.Pod) {
	t.Helper()
	before := countByPod(r)
	body := fmt.Sprintf(`{"metadata":{"labels":{"example.com/mark":%q}}}`, mark)
	if err := r.Client.Patch(t.Context(), bystander.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)),
		client.FieldOwner(mark)); err != nil {
		t.Fatal(err)
	}
	assert.Eventually(t, "pods not asked about since mark "+mark, func(context.Context) (int, error) {
		now, left := countByPod(r), 0
		for _, p := range pods {
			if now[p.UID] == before[p.UID] {
				left++
			}
		}
		return left, nil
	}, func(left int) bool { return left == 0 })
}

func countByPod(r *framework.Rig) map[types.UID]int {
	count := map[types.UID]int{}
	for _, a := range r.Recorder.Asked(framework.Filter) {
		count[a.UID]++
	}
	return count
}

// wantNoWrites reads the audit log between the marks. The rounds before the first mark and after
// the last belong to neither side: there, the log need not be in the order of things.
func wantNoWrites(t *testing.T, r *framework.Rig, bystander *corev1.Node, asks int) {
	t.Helper()
	events := between(t, r, bystander, "first", "last")
	written := map[string]int{}
	for _, e := range events {
		written[fmt.Sprintf("%s %s %s %s", e.User, e.Verb, e.Resource, e.Subresource)]++
		switch {
		case e.User == framework.UserStratos:
			t.Errorf("Stratos wrote while nothing happened: %s %s/%s %s (%d)", e.Verb, e.Resource, e.Subresource, e.Name, e.Code)
		case e.User == schedulerUser && e.Resource == "pods":
			t.Errorf("the scheduler wrote to a pod: %s %s %s (%d)", e.Verb, e.Name, e.Subresource, e.Code)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(written)) {
		t.Logf("during %d asks: %d x %s", asks, written[what], what)
	}
}

// between are the writes from the one mark on the bystander to the other, in the order of the audit
// log.
func between(t *testing.T, r *framework.Rig, bystander *corev1.Node, first, last string) []controlplane.AuditEvent {
	t.Helper()
	var events []controlplane.AuditEvent
	assert.Await(t, "both marks in the audit log", func(context.Context) (bool, error) {
		all, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.AuditEvent.IsWrite)
		if err != nil {
			return false, err
		}
		at := func(mark string) int {
			return slices.IndexFunc(all, func(e controlplane.AuditEvent) bool {
				return e.Name == bystander.Name && strings.Contains(e.RequestURI, "fieldManager="+mark)
			})
		}
		from, to := at(first), at(last)
		if from < 0 || to < from {
			return false, fmt.Errorf("marks %s and %s are at %d and %d of %d events", first, last, from, to, len(all))
		}
		events = all[from:to]
		return true, nil
	})
	return events
}

// wantSameWords wants Stratos's part of the message the same, byte for byte, in every answer about
// a pod, and the pod's condition to have that text too.
func wantSameWords(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		words := map[string]int{}
		for _, a := range r.Recorder.About(framework.Filter, p.UID) {
			for node, text := range a.Filter.FailedAndUnresolvableNodes {
				words[node+": "+text]++
			}
			if len(a.Filter.FailedNodes) > 0 || a.Filter.NodeNames != nil && len(*a.Filter.NodeNames) > 0 {
				t.Errorf("pod %s: unexpected answer %+v", p.Name, a.Filter)
			}
		}
		if len(words) != 1 {
			t.Errorf("pod %s: want one message, got %v", p.Name, words)
		}
		got := assert.Now(t, r, p)
		for text := range words {
			if _, message, _ := strings.Cut(text, ": "); !strings.Contains(framework.WhyPending(got), message) {
				t.Errorf("pod %s: condition %q lacks %q", p.Name, framework.WhyPending(got), message)
			}
		}
	}
}
