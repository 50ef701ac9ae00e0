// Package exactstarts shows that a burst starts just the nodes that it needs, on the real control
// plane.
package exactstarts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// longGuard ends a wait of the largest row that will never end.
const longGuard = 5 * time.Minute

// TestMain: the rows through the extender share a rig, one test after the other.
func TestMain(m *testing.M) { os.Exit(assert.MainWithRig(m, fast(framework.Options{}))) }

// fast gives a rig machines that boot and stop at once.
func fast(o framework.Options) framework.Options {
	o.Cloud = []string{"--fake-boot-time=1s", "--fake-stop-time=100ms", "--fake-pull-time=0s", "--fake-instance-types=" +
		types + dryTypes()}
	return o
}

// newRig starts a rig of fast machines. preemption is the policy of the rows' priority class.
func newRig(t *testing.T, o framework.Options, preemption corev1.PreemptionPolicy) *framework.Rig {
	t.Helper()
	r := assert.NewRig(t, fast(o))
	createClasses(t, r, preemption)
	return r
}

// sharedRig is that of TestMain. Of the tests that use it one runs at a time, because their pods
// may use any pool.
func sharedRig(t *testing.T) *framework.Rig {
	t.Helper()
	r := assert.SharedRig(t)
	createClasses(t, r, corev1.PreemptLowerPriority)
	return r
}

// createClasses makes the RuntimeClass and the PriorityClass of the rows where they are not there.
func createClasses(t *testing.T, r *framework.Rig, preemption corev1.PreemptionPolicy) {
	t.Helper()
	for _, o := range []client.Object{
		&nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: runtimeClass}, Handler: "any",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClass}, Value: 1000,
			PreemptionPolicy: &preemption},
	} {
		if err := client.IgnoreAlreadyExists(r.Client.Create(t.Context(), o)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExactStarts(t *testing.T) {
	t.Parallel()
	nothingAfterwards := playBesideEachOther(t)
	r := sharedRig(t)
	t.Run("dry types", func(t *testing.T) { playDry(t, r) })
	pools := newKeptPools(r)
	for _, name := range inOrder(rows()) {
		passed := t.Run(name, func(t *testing.T) {
			row := rows()[name]
			pools.provide(t, row.pools)
			started := burst(t, r, row.pods)
			if len(started) != row.need {
				t.Errorf("%d nodes were started, want %d: %s", len(started), row.need, row.why)
			}
			promisedOnce(t, r, row.pods)
		})
		if !passed {
			pools.provide(t, nil) // so that the rows that follow begin with other nodes
		}
	}
	t.Run("nothing is started afterwards", nothingAfterwards)
}

// burst creates the pods, waits until all are bound, and returns the instances that were started
// for them.
func burst(t *testing.T, r *framework.Rig, pods []*corev1.Pod) []string {
	t.Helper()
	before, since := starts(t, r), time.Now()
	r.Recorder.Reset()
	create(t, r, assert.Objects(pods)...)
	awaitBound(t, r, pods)
	t.Logf("%d pods were bound within %s, with a boot of 1 s", len(pods), time.Since(since).Round(time.Millisecond))
	started := starts(t, r)[len(before):]
	if distinct := slices.Compact(slices.Sorted(slices.Values(started))); len(distinct) != len(started) {
		t.Errorf("some instance was started twice: %v", started)
	}
	return started
}

func starts(t *testing.T, r *framework.Rig) []string {
	t.Helper()
	ids, err := r.Starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func awaitBound(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	err := framework.Until(t.Context(), longGuard, func(ctx context.Context) (bool, error) {
		unbound, why, err := unbound(ctx, r, pods)
		if err != nil || len(unbound) == 0 {
			return err == nil, err
		}
		return false, fmt.Errorf("%d of %d pods are not bound, %s: %s", len(unbound), len(pods), unbound[0], why)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unbound names those of the pods that have no node, and says why the first has none. A pod that a
// kubelet rejected has a node, and is an error.
func unbound(ctx context.Context, r *framework.Rig, pods []*corev1.Pod) (names []string, why string, err error) {
	// While some pods wait, they alone are read: a list of a thousand pods costs a tenth of a second.
	list := &corev1.PodList{}
	if err := r.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingFields{"spec.nodeName": ""}); err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Name == list.Items[i].Name }) {
			names = append(names, list.Items[i].Name)
			why = cmp.Or(why, framework.WhyPending(&list.Items[i]))
		}
	}
	if len(names) > 0 {
		return names, why, nil
	}
	if err := r.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return nil, "", err
	}
	mine := map[string]bool{}
	for _, p := range pods {
		mine[p.Name] = true
	}
	for i := range list.Items {
		p := &list.Items[i]
		if !mine[p.Name] {
			continue
		}
		delete(mine, p.Name)
		if p.Status.Phase == corev1.PodFailed {
			return nil, "", fmt.Errorf("the kubelet rejected pod %s: %s %s", p.Name, p.Status.Reason, p.Status.Message)
		}
		if p.Spec.NodeName == "" {
			names = append(names, p.Name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(mine))...), why, nil
}

// promisedOnce checks that no pod waited for a second start: all answers to the scheduler about a
// pod named one node. Only pods whose claims were released for pods of higher priority may have
// been moved.
func promisedOnce(t *testing.T, r *framework.Rig, pods []*corev1.Pod) {
	t.Helper()
	nodes := promises(r)
	contested := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.PriorityClassName != "" })
	promised := 0
	for _, p := range pods {
		if len(nodes[p.Name]) > 1 && (!contested || p.Spec.PriorityClassName != "") {
			t.Errorf("pod %s was promised %d nodes: %v", p.Name, len(nodes[p.Name]), slices.Sorted(maps.Keys(nodes[p.Name])))
		}
		promised += len(nodes[p.Name])
	}
	if promised == 0 {
		t.Error("no pod was promised any node, so this shows nothing")
	}
}

// promises are the nodes that answers to the scheduler named, by the name of the pod.
func promises(r *framework.Rig) map[string]map[string]bool {
	named := regexp.MustCompile(`starting standby node (\S+) of pool`)
	nodes := map[string]map[string]bool{}
	for _, a := range r.Recorder.Asked(framework.Filter) {
		for _, message := range a.Filter.FailedAndUnresolvableNodes {
			if m := named.FindStringSubmatch(message); m != nil {
				if nodes[a.Pod.Name] == nil {
					nodes[a.Pod.Name] = map[string]bool{}
				}
				nodes[a.Pod.Name][m[1]] = true
			}
		}
	}
	return nodes
}

func warm(t *testing.T, r *framework.Rig, pools []pool, changes ...func(*v1alpha1.AWSNodeClass)) {
	t.Helper()
	for _, p := range pools {
		o := framework.Pool(p.kind, p.size)
		o.Spec.Weight = &p.weight
		class := framework.Class(p.kind, family+p.kind)
		class.Spec.SubnetIDs = []string{"subnet-11111111", "subnet-22222222", "subnet-33333333"} // one in each zone
		for _, change := range changes {
			change(class)
		}
		if err := r.Client.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if err := r.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pools {
		if err := r.AwaitPool(t.Context(), p.kind,
			func(s v1alpha1.NodePoolStatus) bool { return s.Standby == p.size }); err != nil {
			t.Fatal(err)
		}
	}
}

// tidy removes the row's pods, and its pools and classes.
func tidy(t *testing.T, r *framework.Rig, row row) {
	t.Helper()
	if err := removePods(t.Context(), r); err != nil {
		t.Error(err)
	}
	remove(t, r, row.pools)
}

// remove removes the pools and their classes, and waits until nothing is left of them.
func remove(t *testing.T, r *framework.Rig, pools []pool) {
	t.Helper()
	for _, p := range pools {
		assert.Delete(t, r, assert.Pool(p.kind), framework.Class(p.kind, ""))
	}
	for _, p := range pools {
		err := framework.Until(t.Context(), longGuard, func(ctx context.Context) (bool, error) {
			nodes := &corev1.NodeList{}
			err := r.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.LabelPool: p.kind})
			if err != nil || len(nodes.Items) == 0 {
				return err == nil, err
			}
			return false, fmt.Errorf("%d nodes of pool %s are left", len(nodes.Items), p.kind)
		})
		if err != nil {
			t.Fatal(err)
		}
		// The class last: Stratos lets go of it only when no pool refers to it.
		assert.AwaitGone(t, r, assert.Pool(p.kind), framework.Class(p.kind, ""))
	}
}

func removePods(ctx context.Context, r *framework.Rig) error {
	err := r.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault),
		client.GracePeriodSeconds(0))
	return errors.Join(err, framework.Until(ctx, longGuard, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := r.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil || len(list.Items) == 0 {
			return err == nil, err
		}
		return false, fmt.Errorf("%d pods are left", len(list.Items))
	}))
}
