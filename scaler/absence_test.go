package scaler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/scalertest"
)

// numbered makes a Node of instance "i-N" named "n-N".
func numbered(k int) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Name, n.UID = fmt.Sprintf("n-%d", k), types.UID(fmt.Sprintf("uid-%d", k))
		n.Annotations[v1alpha1.AnnotationInstanceID] = fmt.Sprintf("i-%d", k)
		n.Spec.ProviderID = fmt.Sprintf("fake:///zone-a/i-%d", k)
	}
}

// readyIs sets the status of the Node's Ready condition.
func readyIs(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
}

// step looks at one instance.
func (r *rig) stepOf(id v1alpha1.InstanceID) {
	r.t.Helper()
	if _, err := r.nodes.Reconcile(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
}

// hasNode reports whether the Node is there.
func (r *rig) hasNode(name string) bool {
	r.t.Helper()
	err := r.api.Get(r.t.Context(), client.ObjectKey{Name: name}, &corev1.Node{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	return err == nil
}

func (r *rig) degraded() metav1.Condition {
	r.t.Helper()
	r.reconcilePool()
	return *meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionDegraded)
}

// TestALaunchThatNoListShows counts for minutes: another in its place would be one too many.
func TestALaunchThatNoListShows(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		counts  time.Duration
	}{
		"for 5 minutes":         {10 * time.Minute, 5 * time.Minute},
		"until preWarm.timeout": {2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(1, 1, func(p *v1alpha1.NodePool) {
				p.Spec.PreWarm.Timeout = &metav1.Duration{Duration: c.timeout}
			}))
			r.sweep()
			r.reconcilePool()
			for at := time.Duration(0); at <= c.counts; at += 15 * time.Second {
				r.now = epoch().Add(at)
				r.sweep()
				r.reconcilePool()
			}
			if len(r.launches) != 1 {
				t.Fatalf("%d launches in %s, want 1", len(r.launches), c.counts)
			}
			r.now = r.now.Add(15 * time.Second)
			r.sweep()
			r.lookAt()
			r.now = r.now.Add(plan.WarmupBackoff(1)) // it counts as a warm-up that failed
			r.reconcilePool()
			if len(r.launches) != 2 {
				t.Errorf("%d launches after %s and a back-off, want 2", len(r.launches), c.counts)
			}
		})
	}
}

// TestTheSlotOfALaunchThatNoListShows stays, so that the next process asks for it again instead of
// launching another.
func TestTheSlotOfALaunchThatNoListShows(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	r.reconcilePool()
	r.now = r.now.Add(4 * time.Minute)
	r.sweep()
	r.reconcilePool()
	r.reconcilePool()
	r.want(`reserve {"next":1,"pending":[0]}`, "launch 0")
	launched := r.launches[0]
	r.sweep(instance(provider.InstancePending, called(launched.ClientToken),
		withTag(inventory.TagLaunch, launched.Tags[inventory.TagLaunch])))
	r.reconcilePool()
	r.now = r.now.Add(slotRetention)
	r.reconcilePool()
	r.want(`reserve {"next":1}`)
}

// TestANodeThatReportsStays whatever the cloud says of its instance, and the instance counts.
func TestANodeThatReportsStays(t *testing.T) {
	for name, known := range map[string]bool{"a sweep has shown it": true, "since before this process": false} {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			t.Run(name+", Ready="+string(status), func(t *testing.T) {
				r := newRig(t, nodeIn(v1alpha1.StateRunning, readyIs(status)), nodePool(1, 1), boundPod("busy"))
				if known {
					r.sweep(instance(provider.InstanceRunning))
				}
				for range 5 {
					r.now = r.now.Add(time.Minute)
					r.sweep()
					r.stepOf("i-c")
					r.reconcilePool()
				}
				if !r.hasNode("c") || len(r.launches) > 0 || r.pool().Status.Running != 1 {
					t.Fatalf("Node there: %t, %d launches, status %+v", r.hasNode("c"), len(r.launches), r.pool().Status)
				}
				n := r.node("c")
				readyIs(corev1.ConditionUnknown)(n)
				if err := r.api.Status().Update(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				r.stepOf("i-c")
				if r.hasNode("c") {
					t.Error("the Node stays although its kubelet is silent")
				}
			})
		}
	}
}

// TestManyNodesThatTheCloudDoesNotKnow: Stratos does not trust a cloud that forgets many at once.
func TestManyNodesThatTheCloudDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, unknown int
		deleted        bool
	}{
		"three of three":          {3, 3, true},
		"four of four":            {4, 4, false},
		"four of forty":           {40, 4, true},
		"five of forty":           {40, 5, false},
		"four, one after another": {10, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			oneByOne := strings.Contains(name, "one after another")
			objects := []client.Object{nodePool(50, 0)}
			for k := range c.nodes {
				objects = append(objects, nodeIn(v1alpha1.StateStandby, numbered(k), readyIs(corev1.ConditionUnknown)))
			}
			r := newRig(t, objects...)
			show := func(from int) {
				var list []*provider.Instance
				for k := from; k < c.nodes; k++ {
					list = append(list, instance(provider.InstanceStopped, called(fmt.Sprintf("i-%d", k)),
						withTag(v1alpha1.LabelState, "standby")))
				}
				r.now = r.now.Add(time.Minute)
				r.sweep(list...)
			}
			show(0)
			for k := range c.unknown {
				if oneByOne {
					show(k + 1)
				} else {
					show(c.unknown)
				}
				r.stepOf(v1alpha1.InstanceID(fmt.Sprintf("i-%d", k)))
			}
			last := fmt.Sprintf("n-%d", c.unknown-1)
			if r.hasNode(last) == c.deleted {
				t.Errorf("Node %s there: %t", last, r.hasNode(last))
			}
			if !oneByOne && r.hasNode("n-0") == c.deleted {
				t.Errorf("Node n-0 there: %t", r.hasNode("n-0"))
			}
			told := slices.ContainsFunc(r.said(), func(s string) bool { return strings.Contains(s, "InstancesNotFound") })
			cond := r.degraded()
			if told == c.deleted || (cond.Status == metav1.ConditionTrue) == c.deleted {
				t.Errorf("told: %t, Degraded %+v", told, cond)
			}
			if c.deleted {
				return
			}
			if r.launches != nil || int(r.pool().Status.Total) < c.nodes-c.unknown+1 {
				t.Errorf("%d launches, status %+v", len(r.launches), r.pool().Status)
			}
			show(0)
			if cond := r.degraded(); cond.Status != metav1.ConditionFalse {
				t.Errorf("the cloud knows them again, and Degraded is %+v", cond)
			}
		})
	}
}

// TestNodesOfAnUnknownAccount: a process that begins with other credentials than the last finds
// nothing, and believes none of it.
func TestNodesOfAnUnknownAccount(t *testing.T) {
	objects := []client.Object{nodePool(5, 5)}
	for k := range 5 {
		objects = append(objects, nodeIn(v1alpha1.StateStandby, numbered(k), readyIs(corev1.ConditionUnknown)))
	}
	r := newRig(t, objects...)
	r.sweep()
	for k := range 5 {
		r.stepOf(v1alpha1.InstanceID(fmt.Sprintf("i-%d", k)))
	}
	if cond := r.degraded(); cond.Reason != "InstancesNotFound" {
		t.Errorf("Degraded %+v", cond)
	}
	if !r.hasNode("n-0") || !r.hasNode("n-4") || len(r.launches) > 0 || r.pool().Status.Standby != 5 {
		t.Errorf("%d launches, status %+v", len(r.launches), r.pool().Status)
	}
	for k := range 3 { // a person deletes what is really gone
		if err := r.api.Delete(t.Context(), nodeIn(v1alpha1.StateStandby, numbered(k))); err != nil {
			t.Fatal(err)
		}
	}
	r.now = r.now.Add(time.Minute)
	r.sweep()
	r.stepOf("i-3")
	r.stepOf("i-4")
	if r.hasNode("n-3") || r.hasNode("n-4") {
		t.Error("two that the cloud does not know are left, and their Nodes stay")
	}
}

// TestAnInstanceThatShutsDown is not gone: it takes no pods and no start, and counts until it is
// terminated. Its Node stays until then, or until its kubelet does not report any more.
func TestAnInstanceThatShutsDown(t *testing.T) {
	ends := func() *provider.Instance {
		return instance(provider.InstanceShuttingDown, withTag(v1alpha1.LabelState, "terminating"))
	}
	for _, state := range []v1alpha1.NodeState{
		v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting, v1alpha1.StateRunning, v1alpha1.StateStopping,
	} {
		t.Run(string(state), func(t *testing.T) {
			r := newRig(t, nodeIn(state, scalertest.Reporting), nodePool(1, 1), boundPod("busy"))
			r.sweep(ends())
			for range 3 {
				r.stepOf("i-c")
				r.reconcilePool()
			}
			n := r.node("c")
			if n.Labels[v1alpha1.LabelState] != "terminating" || !n.Spec.Unschedulable {
				t.Errorf("state %s, cordoned: %t", n.Labels[v1alpha1.LabelState], n.Spec.Unschedulable)
			}
			if s := r.pool().Status; s.Terminating != 1 || s.Total != 1 || len(r.launches) > 0 {
				t.Errorf("status %+v, %d launches", s, len(r.launches))
			}
			if slices.ContainsFunc(r.log, func(s string) bool {
				return strings.HasPrefix(s, "terminate") ||
					strings.HasPrefix(s, "stop")
			}) {
				t.Errorf("calls %q", r.log)
			}
			readyIs(corev1.ConditionUnknown)(n)
			if err := r.api.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			r.known["i-c"] = ends()
			r.stepOf("i-c")
			r.reconcilePool()
			if s := r.pool().Status; r.hasNode("c") || s.Terminating != 1 || len(r.launches) > 0 {
				t.Errorf("its kubelet is silent: Node there %t, status %+v, %d launches", r.hasNode("c"), s, len(r.launches))
			}
			r.sweep(instance(provider.InstanceTerminated))
			r.stepOf("i-c")
			r.reconcilePool()
			if len(r.launches) != 1 {
				t.Errorf("%d launches after its end, want 1", len(r.launches))
			}
		})
	}
}

// TestAnEndThatWasAskedForIsNoFailedWarmUp: the cloud controller deletes the Node of an instance
// that Stratos has just ended, while the last sweep still shows it stopped. It looks like one that
// never had a Node.
func TestAnEndThatWasAskedForIsNoFailedWarmUp(t *testing.T) {
	for name, launched := range map[string]time.Duration{
		"it stopped": time.Minute, "preWarm.timeout has passed": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			old := func(i *provider.Instance) { i.LaunchTime = epoch().Add(-launched) }
			r := newRig(t, nodeIn(v1alpha1.StateTerminating), nodePool(1, 1))
			r.sweep(instance(provider.InstanceRunning, old))
			r.sweep(instance(provider.InstanceStopped, old))
			r.stepOf("i-c")
			r.want("terminate i-c")
			if err := r.api.Delete(t.Context(), r.node("c")); err != nil {
				t.Fatal(err)
			}
			r.stepOf("i-c")
			r.reconcilePool()
			if failure := r.pool().Status.LastWarmupFailure; failure != nil {
				t.Errorf("status shows a failed warm-up: %+v", failure)
			}
			if said := r.said(); slices.ContainsFunc(said, func(s string) bool {
				return strings.Contains(s, "WarmupFailed")
			}) {
				t.Errorf("events %q", said)
			}
			r.sweep(instance(provider.InstanceTerminated, old))
			r.reconcilePool()
			if len(r.launches) != 1 {
				t.Errorf("%d launches in its place, want 1", len(r.launches))
			}
		})
	}
}
