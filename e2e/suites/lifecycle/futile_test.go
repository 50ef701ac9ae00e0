package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestFutileStartBacksOff: while the node boots it stops being what the pod asked for, as a node
// does whose zone cannot attach the pod's volume. The pod has woken one node in vain, and does not
// wake the next one.
func TestFutileStartBacksOff(t *testing.T) {
	t.Parallel()
	const pool, instanceType, label = "futile", "m5.large", "e2e.example/disk"
	r := newRig(t)
	p := framework.Pool(pool, 3)
	p.Spec.Template.Labels = map[string]string{label: "attachable"}
	warm(t, r, p, instanceType)
	nodes := assert.PoolNodes(t, r, pool)
	assert.HoldStarts(t, r, instanceType, 0)
	choosy := assert.OnPool(framework.Pod("choosy", "cpu", "1500m"), pool)
	choosy.Spec.NodeSelector[label] = "attachable"
	assert.Create(t, r, choosy)
	names := awaitPromised(t, r, []*corev1.Pod{choosy})[choosy.Name]
	if len(names) != 1 {
		t.Fatalf("pod %s was promised %v", choosy.Name, names)
	}
	relabel(t, r, names[0], label, "elsewhere")
	assert.Release(t, r, assert.InstanceOf(nodes[names[0]]))
	assert.AwaitNode(t, r, names[0], "running", assert.InState(v1alpha1.StateRunning))

	words := assert.AwaitEvent(t, r, choosy, v1alpha1.ReasonFutileStart)
	if !strings.Contains(words, names[0]) {
		t.Errorf("event does not name the node %s: %s", names[0], words)
	}
	// Something happens in the cluster, so the scheduler asks about the pod again, and is refused in
	// words that say why.
	asked := len(r.Recorder.About(framework.Filter, choosy.UID))
	other := assert.OnPool(framework.Pod("other", "cpu", "1500m"), pool)
	other.Spec.NodeSelector[label] = "attachable"
	assert.Create(t, r, other)
	on := assert.AwaitBound(t, r, other)[0]
	assert.AwaitRunning(t, r, other)
	if on == names[0] {
		t.Fatalf("pod %s is on %s, which it does not select", other.Name, on)
	}
	assert.Await(t, "another look at pod "+choosy.Name, func(context.Context) (bool, error) {
		now := r.Recorder.About(framework.Filter, choosy.UID)
		if len(now) > asked {
			return true, nil
		}
		return false, fmt.Errorf("asked %d times", len(now))
	})
	last := r.Recorder.About(framework.Filter, choosy.UID)
	said := slices.Sorted(maps.Values(last[len(last)-1].Filter.FailedAndUnresolvableNodes))
	if !strings.Contains(strings.Join(said, "\n"), "did not take it") {
		t.Errorf("the scheduler was told %q, want the back-off", said)
	}
	// One start for each pod: the third node, which the choosy pod could have had, is still standby.
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("%d starts, want 2: %+v", len(starts), starts)
	}
	if got := assert.PodNow(t, r, choosy); got.Spec.NodeName != "" {
		t.Errorf("pod %s is on %s", got.Name, got.Spec.NodeName)
	}
}

func relabel(t *testing.T, r *framework.Rig, name, key, value string) {
	t.Helper()
	n := &corev1.Node{}
	if err := r.Client.Get(t.Context(), keyOf(name), n); err != nil {
		t.Fatal(err)
	}
	before := n.DeepCopy()
	n.Labels[key] = value
	if err := r.Client.Patch(t.Context(), n, mergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestStartBudget: with a budget of one the second pod, which needs a second node, waits, and is
// told why. A larger budget lets it start at once, without anything else happening.
func TestStartBudget(t *testing.T) {
	t.Parallel()
	const pool = "frugal"
	r := newRig(t)
	p := framework.Pool(pool, 2)
	p.Spec.ScaleUp.StartBudget = new(int32)
	*p.Spec.ScaleUp.StartBudget = 1
	warm(t, r, p, "m5.large")
	nodes := assert.PoolNodes(t, r, pool)
	awaitLimited(t, r, pool, metav1.ConditionFalse)
	first := assert.OnPool(framework.Pod("first", "cpu", "1500m"), pool)
	assert.Create(t, r, first)
	assert.AwaitRunning(t, r, first)

	second := assert.OnPool(framework.Pod("second", "cpu", "1500m"), pool)
	assert.Create(t, r, second)
	assert.Await(t, "pod "+second.Name+" told of the budget", func(ctx context.Context) (bool, error) {
		if why := framework.WhyPending(assert.PodNow(t, r, second)); !strings.Contains(why, "start budget of 1") {
			return false, fmt.Errorf("the scheduler says: %s", why)
		}
		return true, nil
	})
	limited := awaitLimited(t, r, pool, metav1.ConditionTrue)
	if limited.Reason != string(v1alpha1.ReasonStartBudgetUsedUp) || limited.Message == "" {
		t.Errorf("condition %s: reason %q, message %q", limited.Type, limited.Reason, limited.Message)
	}
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 1 {
		t.Fatalf("%d starts with a budget of 1: %+v", len(starts), starts)
	}

	now := &v1alpha1.NodePool{}
	if err := r.Client.Get(t.Context(), keyOf(pool), now); err != nil {
		t.Fatal(err)
	}
	before := now.DeepCopy()
	*now.Spec.ScaleUp.StartBudget = 2
	if err := r.Client.Patch(t.Context(), now, mergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	assert.AwaitRunning(t, r, second)
	awaitLimited(t, r, pool, metav1.ConditionFalse)
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("%d starts, want 2: %+v", len(starts), starts)
	}
}

func awaitLimited(t *testing.T, r *framework.Rig, pool string, want metav1.ConditionStatus) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	assert.Await(t, fmt.Sprintf("condition %s=%s of pool %s", v1alpha1.ConditionStartsLimited, want, pool),
		func(ctx context.Context) (bool, error) {
			p := &v1alpha1.NodePool{}
			if err := r.Client.Get(ctx, keyOf(pool), p); err != nil {
				return false, err
			}
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStartsLimited)
			if c != nil && c.Status == want {
				found = *c
				return true, nil
			}
			return false, fmt.Errorf("it is %+v", c)
		})
	return found
}
