package rbac

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

const (
	instanceType = "test.four"
	className    = "four"
	// team is a namespace that has opted in.
	team = "team"
)

// TestMainJobUnderTheChartsRights runs Stratos and its scheduler as the ServiceAccount of the
// rendered chart. The API server knows RBAC and nothing else, so what a role of the chart does not
// say is forbidden.
func TestMainJobUnderTheChartsRights(t *testing.T) {
	t.Run("the cloud is apart", testApart)
	t.Run("Stratos plays the cloud", testFake)
}

// testApart has two replicas as the chart makes them by default. The cloud is a process with an
// identity of its own, as a real one is.
func testApart(t *testing.T) {
	r := newRig(t)
	chart := assert.ReadChart(t, "default")
	first, second := chart.Replica(t, r, "stratos-1"), chart.Replica(t, r, "stratos-2")
	// A replica that does not lead at first.
	chart.AnswerAt(t, second.Webhook, assert.CA(t, r))
	chart.Apply(t, r, "Deployment", "Certificate", "Issuer")
	identity := chart.Identity(t, r)
	leads := assert.WatchLease(t, r, assert.ReleaseNamespace, "stratos")
	schedules := assert.WatchLease(t, r, assert.ReleaseNamespace, "stratos-scheduler")
	first.Start(t, r, identity)
	// One replica streams its lists, the other has to list, as with an API server that cannot stream.
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	second.Start(t, r, identity)

	for _, step := range []struct {
		name string
		run  func(*testing.T, *framework.Rig)
	}{
		{"admission", admitted},
		{"pools warm up", warmUp},
		{"a burst of an opted-in namespace, and a second one", bursts},
		{"the scheduler preempts", preempts},
		{"a pod of the stock scheduler", watched},
		{"a pod with a volume", withVolume},
		{"an empty node stops", scaleDown},
		{"a pool is deleted around a disruption budget", deletion},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, r) }) {
			return
		}
	}
	t.Run("the other replica takes over", func(t *testing.T) { handOver(t, r, first, leads, schedules) })
	second.Stop(t)
	t.Run("nothing was forbidden", func(t *testing.T) {
		checkForbidden(t, r, identity, first.Process, first.Scheduler, second.Process, second.Scheduler)
		if n := countRequests(t, r, controlplane.ByUserAgent(scheduler), controlplane.ByResource("pods", "binding")); n == 0 {
			t.Error("the scheduler bound no pod as the chart's ServiceAccount")
		}
	})
	t.Run("each by a role of its own", func(t *testing.T) {
		checkOwn(t, r, "Stratos", byStratos, granted(t, chart, "stratos"))
		checkOwn(t, r, "the scheduler", controlplane.ByUserAgent(scheduler), granted(t, chart, "stratos-scheduler"))
	})
	t.Run("every right was used", func(t *testing.T) { checkUsed(t, r, granted(t, chart, "stratos"), unused()) })
}

// unused are the permissions that this job does not use, and why.
func unused() map[string]string {
	return map[string]string{
		"get namespaces":                "only where a namespace is so young that Stratos's watch has not brought its label, a matter of milliseconds",
		"create pods in stratos-system": "makes the pods that pull images, and no pool or DaemonSet here has an image to pull",
		"patch pods/status":             "turns pods that stay on a stopped node to not ready, and no DaemonSet runs here (TestPodsOfAStoppedNodeAreNotEndpoints)",
		"delete pods":                   "ends a drain at disruption.terminationGracePeriod, which this pool does not set (TestRecycling/TerminationGracePeriod)",
		"patch events.events.k8s.io":    "counts an event that repeats while its object has not changed at all, which takes minutes to come about",
	}
}

func newRig(t *testing.T) *framework.Rig {
	t.Helper()
	return assert.NewRig(t, framework.Options{
		ControlPlane: controlplane.Options{DefaultScheduler: true, AuditLog: controlplane.AuditLog{Enabled: true,
			Reads: true}},
		Cloud: append(assert.FastCloud(), types()), NoStratos: true, NoScheduler: true,
	})
}

func types() string { return "--fake-instance-types=" + instanceType + "=cpu:4,memory:16Gi,pods:110" }

func newPool(name string, size int32) *v1alpha1.NodePool {
	pool := framework.Pool(name, size)
	pool.Spec.Template.NodeClassRef.Name = className
	return pool
}

// admitted: the webhooks look up with the chart's permissions what is not in their cache.
func admitted(t *testing.T, r *framework.Rig) {
	assert.Create(t, r, framework.Class(className, instanceType))
	assert.OptIn(t, r, team)
	faulty := newPool("faulty", 1)
	faulty.Spec.PreWarm.ImagesToPull = []string{"a//b"} // which the webhook alone refuses
	assert.Await(t, "the webhook asked", func(ctx context.Context) (bool, error) {
		err := r.Client.Create(ctx, faulty.DeepCopy(), client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return true, nil
		}
		return false, fmt.Errorf("a faulty pool: %w", err)
	})
	if err := r.Client.Create(t.Context(), framework.Pool("without-class", 1), client.DryRunAll); err != nil {
		t.Errorf("a pool without a class is worth a warning: %v", err)
	}
}

func warmUp(t *testing.T, r *framework.Rig) {
	sizes := map[string]int32{"main": 3, "watched": 1, "volumes": 1, "short": 1, "guarded": 1, "late": 1}
	for name, size := range sizes {
		pool := newPool(name, size)
		if name == "short" {
			pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
		}
		assert.Create(t, r, pool)
	}
	for name, size := range sizes {
		assert.AwaitStandby(t, r, name, size)
	}
	if err := r.Client.Delete(t.Context(), framework.Class(className, instanceType)); err == nil {
		t.Error("a class was deleted that pools use")
	}
}

// bursts: the pods name no scheduler.
func bursts(t *testing.T, r *framework.Rig) {
	pods := []*corev1.Pod{opted("burst-1"), opted("burst-2")}
	assert.Create(t, r, assert.Objects(pods)...)
	on := assert.AwaitBound(t, r, pods...)
	third := opted("burst-3")
	assert.Create(t, r, third)
	on = append(on, assert.AwaitBound(t, r, third)...)
	assert.AwaitRunning(t, r, append(pods, third)...)
	if slices.Sort(on); len(slices.Compact(on)) != 3 {
		t.Errorf("three pods of a node's size are on %v", on)
	}
}

// opted is a pod of the team that takes a node of pool main for itself.
func opted(name string) *corev1.Pod {
	pod := framework.PoolPod(name, "main", "cpu", "3")
	pod.Namespace, pod.Spec.SchedulerName = team, ""
	return pod
}

func handOver(t *testing.T, r *framework.Rig, first *assert.Replica, leads, schedules *assert.Lease) {
	leader, active := leads.AwaitHolder(t), schedules.AwaitHolder(t)
	first.Stop(t)
	leads.AwaitHolder(t, leader)
	schedules.AwaitHolder(t, active)
	assert.Serve(t, r, framework.PoolPod("late", "late", "cpu", "3"))
}
