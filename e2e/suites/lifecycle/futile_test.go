package lifecycle

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	// On a rig of its own: claims that other tests make would count as the same burst, which gives the
	// scheduler longer to bind the pod.
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()})
	p := framework.Pool(pool, 3)
	p.Spec.Template.Labels = map[string]string{label: "attachable"}
	warm(t, r, p, instanceType)
	nodes := assert.PoolNodes(t, r, pool)
	assert.HoldStarts(t, r, instanceType, 0)
	choosy := framework.PoolPod("choosy", pool, "cpu", "1500m")
	choosy.Spec.NodeSelector[label] = "attachable"
	assert.Create(t, r, choosy)
	assert.AwaitClaims(t, r, choosy)
	names := r.Recorder.Starting(choosy.UID)
	if len(names) != 1 {
		t.Fatalf("pod %s was told of %v", choosy.Name, names)
	}
	assert.Change(t, r, assert.Node(names[0]), func(n *corev1.Node) { n.Labels[label] = "elsewhere" })
	assert.Release(t, r, assert.InstanceOf(nodes[names[0]]))
	assert.AwaitState(t, r, names[0], v1alpha1.StateRunning)

	assert.AwaitEvent(t, r, choosy, v1alpha1.ReasonFutileStart, names[0])
	// Something happens in the cluster, so the scheduler asks about the pod again, and is refused in
	// words that say why.
	asked := len(r.Recorder.About(framework.Filter, choosy.UID))
	other := framework.PoolPod("other", pool, "cpu", "1500m")
	other.Spec.NodeSelector[label] = "attachable"
	if on := assert.Serve(t, r, other); on == names[0] {
		t.Fatalf("pod %s is on %s, which it does not select", other.Name, on)
	}
	last := assert.Eventually(t, "another look at pod "+choosy.Name, func(context.Context) ([]framework.Asked, error) {
		return r.Recorder.About(framework.Filter, choosy.UID), nil
	}, func(now []framework.Asked) bool { return len(now) > asked })
	said := slices.Sorted(maps.Values(last[len(last)-1].Filter.FailedAndUnresolvableNodes))
	if !strings.Contains(strings.Join(said, "\n"), "did not take it") {
		t.Errorf("the scheduler was told %q, want the back-off", said)
	}
	// One start for each pod: the third node, which the choosy pod could have had, is still standby.
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("%d starts, want 2: %+v", len(starts), starts)
	}
	if got := assert.Now(t, r, choosy); got.Spec.NodeName != "" {
		t.Errorf("pod %s is on %s", got.Name, got.Spec.NodeName)
	}
}

// TestStartBudget: with a budget of one the second pod, which needs a second node, waits, and is
// told why. A larger budget lets it start at once, without anything else happening.
func TestStartBudget(t *testing.T) {
	t.Parallel()
	const pool = "frugal"
	r := assert.SharedRig(t)
	p := framework.Pool(pool, 2)
	p.Spec.ScaleUp.StartBudget = new(int32)
	*p.Spec.ScaleUp.StartBudget = 1
	warm(t, r, p, "m5.large")
	nodes := assert.PoolNodes(t, r, pool)
	assert.AwaitCondition(t, r, pool, v1alpha1.ConditionStartsLimited, metav1.ConditionFalse)
	first := framework.PoolPod("frugal-first", pool, "cpu", "1500m")
	assert.Serve(t, r, first)

	second := framework.PoolPod("frugal-second", pool, "cpu", "1500m")
	assert.Create(t, r, second)
	assert.AwaitPending(t, r, second, corev1.PodReasonUnschedulable, "start budget of 1")
	limited := assert.AwaitCondition(t, r, pool, v1alpha1.ConditionStartsLimited, metav1.ConditionTrue)
	if limited.Reason != string(v1alpha1.ReasonStartBudgetUsedUp) || limited.Message == "" {
		t.Errorf("condition %s: reason %q, message %q", limited.Type, limited.Reason, limited.Message)
	}
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 1 {
		t.Fatalf("%d starts with a budget of 1: %+v", len(starts), starts)
	}

	assert.ChangePool(t, r, pool, func(s *v1alpha1.NodePoolSpec) { *s.ScaleUp.StartBudget = 2 })
	assert.AwaitRunning(t, r, second)
	assert.AwaitCondition(t, r, pool, v1alpha1.ConditionStartsLimited, metav1.ConditionFalse)
	if starts := assert.Accepted(t, r, fake.OpStart, nodes); len(starts) != 2 {
		t.Errorf("%d starts, want 2: %+v", len(starts), starts)
	}
}
