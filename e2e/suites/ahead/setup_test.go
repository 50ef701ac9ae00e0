// Package ahead plays what becomes of a burst in its middle: its owner is scaled, deleted or
// suspended, its pods are refused, the Stratos that serves it dies. Nodes start ahead for the
// replicas that the owner wants, for no others, and what started for nothing goes back.
package ahead

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	pool = "four"
	// perNode pods of 1 cpu fill a node.
	perNode = 4
	// spare nodes are there for no burst, so that a start too many would show.
	spare = 2
	// longGuard ends a wait for a thousand replicas that will never end.
	longGuard = 10 * time.Minute
)

// TestMain adds the flags.
func TestMain(m *testing.M) {
	flag.Int("replicas", 60, "replicas of each owner, a multiple of 20; every four of them fill a node")
	flag.Parse()
	os.Exit(m.Run())
}

// bursts are played one after the other in one pool, whose nodes are standby between them.
type bursts struct {
	*framework.Rig
	// first is the Stratos that serves all of them but one.
	first framework.Running
	// replicas of each owner, and the nodes that they fill.
	replicas, nodes int
	// before is how many nodes were started before this burst.
	before int
}

// newBursts starts a rig with kube-controller-manager's own client rate, so that a burst has a
// middle.
func newBursts(t *testing.T) *bursts {
	t.Helper()
	replicas := assert.Flag[int](t, "replicas")
	if replicas <= 0 || replicas%20 != 0 {
		t.Fatalf("-replicas is %d, want a multiple of 20", replicas)
	}
	r := assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{ControllerManagerArgs: []string{"--kube-api-qps=20", "--kube-api-burst=30"}},
		Cloud: []string{"--fake-boot-time=1s", "--fake-stop-time=100ms", "--fake-pull-time=0s",
			"--fake-instance-types=test.four=cpu:4,memory:16Gi,pods:110"},
		NoStratos: true,
	})
	first := assert.StartStratos(t, r, "first", leading()...)
	r.Recorder.Forward(first.Extender)
	b := &bursts{Rig: r, first: first, replicas: replicas, nodes: replicas / perNode}
	p := framework.Pool(pool, *want(b.nodes + spare))
	assert.Warm(t, r, p, framework.Class(pool, "test.four"))
	b.before = len(assert.Starts(t, r))
	return b
}

// leading are the arguments of a replica that may be one of several.
func leading() []string { return []string{"--leader-elect", "--namespace=" + framework.Namespace} }

// want is a number of replicas or nodes.
func want(n int) *int32 { return new(int32(n)) } //nolint:gosec // a flag of ours

func template(app string) corev1.PodTemplateSpec {
	spec := framework.OnPool(framework.Pod(app, "cpu", "1"), pool).Spec
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(app)}, Spec: spec}
}

func labels(app string) map[string]string { return map[string]string{"app": app} }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

func (b *bursts) replicaSet(name string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: meta(name), Spec: appsv1.ReplicaSetSpec{
		Replicas: want(b.replicas), Selector: &metav1.LabelSelector{MatchLabels: labels(name)}, Template: template(name)}}
}

func (b *bursts) deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: want(b.replicas), Selector: &metav1.LabelSelector{MatchLabels: labels(name)}, Template: template(name)}}
}

func (b *bursts) job(name string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{
		Parallelism: want(b.replicas), Completions: want(b.replicas), Template: template(name)}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return job
}

// await is assert.Await with a guard for a thousand replicas.
func (b *bursts) await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	if err := framework.Until(t.Context(), longGuard, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// started is how many nodes were started for this burst, each once.
func (b *bursts) started(t *testing.T) int {
	t.Helper()
	ids := assert.Starts(t, b.Rig)[b.before:]
	if once := slices.Compact(slices.Sorted(slices.Values(ids))); len(once) != len(ids) {
		t.Errorf("some instance was started twice: %v", ids)
	}
	return len(ids)
}

// exactly compares how many nodes were started for this burst.
func (b *bursts) exactly(t *testing.T, nodes int) {
	t.Helper()
	if n := b.started(t); n != nodes {
		t.Errorf("%d nodes were started, want %d", n, nodes)
	}
}

// awaitStarts waits until so many nodes were asked for. With those of all replicas the burst is in
// its middle: most of its pods are still to come.
func (b *bursts) awaitStarts(t *testing.T, app string, nodes int) {
	t.Helper()
	b.await(t, fmt.Sprintf("%d nodes to start", nodes), func(context.Context) (bool, error) {
		if n := b.started(t); n < nodes {
			return false, fmt.Errorf("%d were started", n)
		}
		return true, nil
	})
	pods, err := b.podsOf(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes were asked for when %d of %d pods existed", b.started(t), len(pods), b.replicas)
}

func (b *bursts) podsOf(ctx context.Context, app string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := b.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels(labels(app)))
	return list.Items, err
}

// awaitBound waits until the owners have just so many pods on nodes. unbound says whether they have
// others.
func (b *bursts) awaitBound(t *testing.T, bound int, unbound bool, apps ...string) {
	t.Helper()
	b.await(t, fmt.Sprintf("%d pods of %v on nodes", bound, apps), func(ctx context.Context) (bool, error) {
		on, all := 0, 0
		for _, app := range apps {
			pods, err := b.podsOf(ctx, app)
			if err != nil {
				return false, err
			}
			all += len(pods)
			for i := range pods {
				if pods[i].Spec.NodeName != "" && pods[i].DeletionTimestamp == nil {
					on++
				}
			}
		}
		if on != bound || (all > bound) != unbound {
			return false, fmt.Errorf("%d of %d are", on, all)
		}
		return true, nil
	})
}

// end deletes the owners. Their pods and claims go, nothing starts any more, and all nodes are
// standby once they were empty for as long as their pool says.
func (b *bursts) end(t *testing.T, owners ...client.Object) {
	t.Helper()
	for _, o := range owners {
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		if err := b.Client.Delete(t.Context(), o, background); err != nil {
			t.Fatal(err)
		}
		b.await(t, "the pods of "+o.GetName()+" to be gone", func(ctx context.Context) (bool, error) {
			pods, err := b.podsOf(ctx, o.GetName())
			return len(pods) == 0 && err == nil, err
		})
	}
	b.awaitNoClaims(t)
	started := b.started(t)
	b.stopEmpty(t, 0)
	size := b.nodes + spare
	b.await(t, "all nodes standby", func(context.Context) (bool, error) {
		return assert.In(assert.PoolNodes(t, b.Rig, pool), v1alpha1.StateStandby) == size, nil
	})
	assert.AwaitAllStandby(t, b.Rig, pool, *want(size))
	b.exactly(t, started)
	b.stopEmpty(t, time.Hour)
	b.before += started
}

func (b *bursts) awaitNoClaims(t *testing.T) {
	t.Helper()
	b.await(t, "no claims", func(ctx context.Context) (bool, error) {
		n, err := framework.Metric(ctx, b.first.Metrics, "stratos_claims", "")
		return n == 0 && err == nil, err
	})
}

func (b *bursts) stopEmpty(t *testing.T, ttl time.Duration) {
	t.Helper()
	assert.ChangePool(t, b.Rig, pool, func(s *v1alpha1.NodePoolSpec) {
		s.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: ttl}
	})
}
