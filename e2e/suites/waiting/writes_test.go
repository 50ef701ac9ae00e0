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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if err := r.Warm(t.Context(), framework.Pool("waiting", poolSize), framework.Class("waiting",
		"m5.4xlarge")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultKubeletSilent}); err != nil {
		t.Fatal(err)
	}
	bystander := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bystander"}}
	assert.Create(t, r, bystander)
	var pods []*corev1.Pod
	for i := range waitingPods {
		pods = append(pods, framework.Pod(fmt.Sprintf("waiting-%03d", i), "cpu", "700m"))
		assert.Create(t, r, pods[i])
	}
	awaitAllPromised(t, r, pods)

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

	release(t, r)
	awaitAllRun(t, r, pods)
	if got := starts(t, r); len(got) != needed {
		t.Errorf("%d starts, want %d for %d pods of which %d fit a node: %v", len(got), needed, waitingPods, perNode, got)
	}
}

// awaitAllPromised waits until everything that the arrival of the pods brings about has been
// written: each pod's event, the claims and the event on each starting node, the pool's status.
// From there on nothing happens but asking.
func awaitAllPromised(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	until(t, func(ctx context.Context) error {
		if err := allPromised(ctx, r, pods); err != nil {
			return err
		}
		views, err := r.Cloud.Snapshot(ctx)
		if err != nil {
			return err
		}
		powered := 0
		for _, v := range views {
			if v.State == provider.InstanceRunning {
				powered++
			}
		}
		if powered != needed {
			return fmt.Errorf("%d instances run, want %d", powered, needed)
		}
		return nil
	})
	if err := r.AwaitPool(t.Context(), "waiting", func(s v1alpha1.NodePoolStatus) bool {
		return s.Starting == needed && s.Standby == poolSize-needed && s.Total == poolSize
	}); err != nil {
		t.Fatal(err)
	}
}

func allPromised(ctx context.Context, r *framework.Rig, pods []*corev1.Pod) error {
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
	until(t, func(context.Context) error {
		now, left := countByPod(r), 0
		for _, p := range pods {
			if now[p.UID] == before[p.UID] {
				left++
			}
		}
		if left > 0 {
			return fmt.Errorf("mark %s: not asked again about %d of %d pods", mark, left, len(pods))
		}
		return nil
	})
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
	until(t, func(context.Context) error {
		all, err := controlplane.ReadAuditLog(r.ControlPlane.AuditLogPath(), controlplane.AuditEvent.IsWrite)
		if err != nil {
			return err
		}
		at := func(mark string) int {
			return slices.IndexFunc(all, func(e controlplane.AuditEvent) bool {
				return e.Name == bystander.Name && strings.Contains(e.RequestURI, "fieldManager="+mark)
			})
		}
		from, to := at(first), at(last)
		if from < 0 || to < from {
			return fmt.Errorf("marks %s and %s are at %d and %d of %d events", first, last, from, to, len(all))
		}
		events = all[from:to]
		return nil
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
		got := &corev1.Pod{}
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(p), got); err != nil {
			t.Fatal(err)
		}
		for text := range words {
			if _, message, _ := strings.Cut(text, ": "); !strings.Contains(framework.WhyPending(got), message) {
				t.Errorf("pod %s: condition %q lacks %q", p.Name, framework.WhyPending(got), message)
			}
		}
	}
}

// release lets the kubelets report that have not done so.
func release(t *testing.T, r *framework.Rig) {
	t.Helper()
	if err := r.Cloud.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range starts(t, r) {
		if err := r.Cloud.Behind(t.Context(), id, fake.ActReboot); err != nil {
			t.Fatal(err)
		}
	}
}

func awaitAllRun(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	until(t, func(ctx context.Context) error {
		list := &corev1.PodList{}
		if err := r.Client.List(ctx, list); err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != len(pods) {
			return fmt.Errorf("%d of %d pods run", running, len(pods))
		}
		return nil
	})
}
