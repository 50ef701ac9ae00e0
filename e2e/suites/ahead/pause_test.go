package ahead

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// The pool that stops its empty nodes and launches others while the burst's is in its middle.
const idle = "idle"

// TestPauseInMidBurst: an administrator pauses everything while nodes start for a burst, the
// webhooks do not answer, and a second replica runs. Once both replicas know, nothing begins;
// what has begun ends; and it all goes on afterwards.
func TestPauseInMidBurst(t *testing.T) {
	b := newBursts(t)
	second := assert.StartStratos(t, b.Rig, "second", leading()...)
	stopping := framework.Pool(idle, 3)
	stopping.Spec.MinStandby, stopping.Spec.ScaleDown.EmptyNodeTTL = 1, &metav1.Duration{Duration: time.Second}
	assert.Warm(t, b.Rig, stopping, framework.Class(idle, "test.four"))
	guest := framework.OnPool(framework.Pod("guest", "cpu", "1"), idle)
	node := assert.Serve(t, b.Rig, guest)
	assert.AwaitStandby(t, b.Rig, idle, 1) // launched in the place of the one that runs
	// Each start is then asked for by its own pods, so that the pause finds some that have none yet.
	assert.ChangePool(t, b.Rig, pool, func(s *v1alpha1.NodePoolSpec) { s.ScaleUp.Anticipate = v1alpha1.AnticipateOff })
	b.unreachableWebhooks(t)
	b.before = len(assert.Starts(t, b.Rig))

	set := b.replicaSet("burst")
	assert.Create(t, b.Rig, set)
	b.awaitStarts(t, set.Name, 2)
	for _, name := range []string{pool, idle} { // by no kubectl, whose start takes as long as the burst
		assert.Change(t, b.Rig, assert.Pool(name), func(p *v1alpha1.NodePool) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationPaused, "true")
		})
	}
	for _, replica := range []framework.Running{b.first, second} {
		for _, name := range []string{pool, idle} {
			assert.AwaitMetric(t, replica.Metrics, "stratos_nodepool_paused", `pool="`+name+`"`,
				func(v float64) bool { return v == 1 })
			assert.AwaitCondition(t, b.Rig, name, v1alpha1.ConditionPaused, metav1.ConditionTrue)
		}
	}
	if out := b.kubectl(t, "get", "nodepools.stratos.sh", pool); !strings.Contains(out, "PAUSED") {
		t.Errorf("kubectl get does not show the pause:\n%s", out)
	}
	// More pods than the nodes take that may have been started until then.
	all := (b.nodes + spare) * perNode
	assert.Change(t, b.Rig, set, func(s *appsv1.ReplicaSet) { s.Spec.Replicas = want(all) })
	b.whilePaused(t, guest, node, set.Name)

	b.kubectl(t, "annotate", "nodepools.stratos.sh", "--all", v1alpha1.AnnotationPaused+"-")
	b.awaitBound(t, all, false, set.Name)
	b.awaitNoClaims(t)
	assert.AwaitState(t, b.Rig, node, v1alpha1.StateStandby)
	for _, name := range []string{pool, idle} {
		assert.AwaitCondition(t, b.Rig, name, v1alpha1.ConditionPaused, metav1.ConditionFalse)
	}
	assert.AwaitPool(t, b.Rig, idle, "minStandby reached", func(s v1alpha1.NodePoolStatus) bool { return s.Standby >= 1 })
	b.exactly(t, b.nodes+spare)
}

// whilePaused gives Stratos a reason for each thing that must not begin now, and looks at what it
// did when it has had more than the time for it.
func (b *bursts) whilePaused(t *testing.T, guest *corev1.Pod, node, app string) {
	t.Helper()
	late := framework.OnPool(framework.Pod("late", "cpu", "4"), idle) // more than the guest leaves
	assert.Create(t, b.Rig, late)
	assert.AwaitEvent(t, b.Rig, late, v1alpha1.ReasonStandbyUnavailable, "paused")
	started, launched := b.started(t), b.launches(t)

	assert.Remove(t, b.Rig, late, guest)
	assert.AwaitNode(t, b.Rig, node, "marked as empty", func(n *corev1.Node) bool {
		return n.Annotations[v1alpha1.AnnotationScaleDownCandidateSince] != ""
	})
	for name, n := range assert.PoolNodes(t, b.Rig, idle) {
		if assert.StateOf(n) == v1alpha1.StateStandby {
			assert.Behind(t, b.Rig, assert.InstanceOf(n), fake.ActTerminate)
			assert.AwaitGone(t, b.Rig, assert.Node(name)) // the pool has fewer standby nodes than it wants
		}
	}
	// What has begun ends: the nodes that started run, and have as many pods as they take.
	b.await(t, "the nodes that start to run", func(context.Context) (bool, error) {
		nodes := assert.PoolNodes(t, b.Rig, pool)
		if n := assert.In(nodes, v1alpha1.StateRunning); n != started {
			return false, fmt.Errorf("%d of %d run", n, started)
		}
		return true, nil
	})
	b.awaitBound(t, started*perNode, true, app)

	nodes := assert.PoolNodes(t, b.Rig, idle)
	if n := nodes[node]; n == nil || assert.StateOf(n) != v1alpha1.StateRunning {
		t.Errorf("node %s, which is empty, is not running: %v", node, n)
	}
	if n := b.launches(t) - launched; n > 0 {
		t.Errorf("%d instances were launched", n)
	}
	b.exactly(t, started)
}

// launches counts the launches until now.
func (b *bursts) launches(t *testing.T) int {
	t.Helper()
	count := 0
	for _, c := range assert.Calls(t, b.Rig) {
		if c.Op == fake.OpLaunch {
			count++
		}
	}
	return count
}

// unreachableWebhooks registers Stratos's webhooks where no server answers.
func (b *bursts) unreachableWebhooks(t *testing.T) {
	t.Helper()
	hooks := assert.ReadWebhooks(t)
	hooks.AnswerAt(t, assert.FreeAddress(t), assert.CA(t, b.Rig))
	hooks.Apply(t, b.Rig)
	assert.Await(t, "the API server to ask the webhooks", func(context.Context) (bool, error) {
		out, err := assert.Kubectl(t, b.ControlPlane, "patch", "nodepools.stratos.sh", pool, "--type=merge",
			"--dry-run=server", `--patch={"spec":{"weight":7}}`)
		return err != nil && strings.Contains(out, "failed calling webhook"), nil
	})
}

func (b *bursts) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := assert.Kubectl(t, b.ControlPlane, args...)
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return out
}
