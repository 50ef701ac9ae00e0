package scaler

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/pool"
)

// lookAt has the nodes controller look at every instance that was launched.
func (r *rig) lookAt() {
	r.t.Helper()
	for _, l := range r.launches {
		if _, err := r.nodes.Reconcile(r.t.Context(), v1alpha1.InstanceID(l.ClientToken)); err != nil {
			r.t.Error(err)
		}
	}
}

// endsAtOnce has the pool launch, and the cloud terminate what was launched.
func (r *rig) endsAtOnce() {
	r.t.Helper()
	r.reconcilePool()
	var list []*provider.Instance
	for _, e := range r.inventory.Of("p") {
		i := e.Instance
		i.State, i.StateReason, i.LaunchTime = provider.InstanceTerminated, "Client.InternalError", r.now
		i.Tags = maps.Clone(i.Tags)
		i.Tags[v1alpha1.AnnotationNodeClassHash] = (&v1alpha1.AWSNodeClass{}).SpecHash() // the rig's launches do not write it
		list = append(list, &i)
	}
	r.now = r.now.Add(2 * time.Second)
	r.sweep(list...)
	r.lookAt()
	r.reconcilePool()
}

func (r *rig) condition(kind string) metav1.Condition {
	return *meta.FindStatusCondition(r.pool().Status.Conditions, kind)
}

// TestWarmupsThatFailBackOff: instances that end before they have a Node. The pool says why after
// the first, launches wait a minute, doubling, and the next process goes on from the status.
func TestWarmupsThatFailBackOff(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.class(metav1.ConditionTrue, "")
	r.sweep()
	for count := int32(1); count <= 3; count++ {
		r.endsAtOnce()
		last := r.pool().Status.LastWarmupFailure
		if last == nil || last.Count != count || last.Reason != "vanished" ||
			!strings.Contains(last.Message, "Client.InternalError") || last.InstanceID == "" {
			t.Fatalf("status %+v, want failure %d with the cloud's words", last, count)
		}
		for _, kind := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionReady} {
			if got := r.condition(kind); got.Reason != string(v1alpha1.ReasonWarmupFailing) ||
				!strings.Contains(got.Message, "Client.InternalError") {
				t.Errorf("%s %s: %s", kind, got.Reason, got.Message)
			}
		}
		if got := testutil.ToFloat64(r.nodes.Metrics.FailedWarmups.WithLabelValues("p")); got != float64(count) {
			t.Errorf("metric %v, want %d", got, count)
		}
		if len(r.launches) != int(count) {
			t.Fatalf("%d launches after %d failures", len(r.launches), count)
		}
		wait := plan.WarmupBackoff(count)
		r.now = r.now.Add(wait - 3*time.Second)
		if next := r.reconcilePool(); len(r.launches) != int(count) || next <= 0 || next > 3*time.Second {
			t.Errorf("before the end of the back-off: %d launches, next look after %s", len(r.launches), next)
		}
		r.now = r.now.Add(4 * time.Second)
		failures := &pool.WarmupFailures{} // another process
		r.nodes.Warmups, r.pools.Warmups = failures, failures
	}
	if got := strings.Count(strings.Join(r.said(), "\n"), "WarmupFailed"); got != 3 {
		t.Errorf("%d events, want one for each failure", got)
	}
}

// TestReadyMeansThatThePoolWorks: False until minStandby was reached once, True while the pool
// refills.
func TestReadyMeansThatThePoolWorks(t *testing.T) {
	r := newRig(t, nodePool(5, 1), nodeIn(v1alpha1.StateStandby))
	r.class(metav1.ConditionTrue, "")
	r.sweep(instance(provider.InstanceTerminated))
	r.reconcilePool()
	if got := r.condition(v1alpha1.ConditionReady); got.Reason != string(v1alpha1.ReasonWarmingUp) {
		t.Errorf("before minStandby was reached: %s %s", got.Status, got.Reason)
	}
	r.sweep(instance(provider.InstanceStopped))
	r.reconcilePool()
	if got := r.condition(v1alpha1.ConditionReady); got.Status != metav1.ConditionTrue {
		t.Errorf("with minStandby: %s %s", got.Status, got.Reason)
	}
	r.sweep(instance(provider.InstanceTerminated))
	r.reconcilePool()
	if got := r.condition(v1alpha1.ConditionReady); got.Status != metav1.ConditionTrue ||
		!strings.Contains(got.Message, "0 of 1 standby") {
		t.Errorf("while it refills: %s: %s", got.Status, got.Message)
	}
	r.class(metav1.ConditionFalse, "no AMI matches")
	r.reconcilePool()
	if got := r.condition(v1alpha1.ConditionReady); got.Status != metav1.ConditionFalse ||
		!strings.Contains(got.Message, "no AMI matches") {
		t.Errorf("without its class: %s: %s", got.Status, got.Message)
	}
}

// TestRefusalsThatAreTheSameEverywhere: the quota is used up, the class is wrong, Stratos is not
// allowed to. One round is refused, then one call each after 5 s, doubling; a change of the class
// is tried at once.
func TestRefusalsThatAreTheSameEverywhere(t *testing.T) {
	for name, refusal := range map[string]error{
		"quota": &provider.InsufficientCapacityError{Type: "m5.large", Quota: true,
			Err: errors.New("VcpuLimitExceeded")},
		"invalid":      &provider.InvalidConfigError{Field: "spec.ami", Reason: "InvalidAMIID.NotFound"},
		"unauthorised": errors.New("UnauthorizedOperation"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(50, 30))
			r.sweep()
			r.launching = func(int) error { return refusal }
			r.reconcilePool()
			if calls := len(r.launches); calls != pool.LaunchesAtOnce {
				t.Fatalf("%d calls, want one round of %d", calls, pool.LaunchesAtOnce)
			}
			for step := int32(1); step <= 4; step++ {
				calls := len(r.launches)
				r.now = r.now.Add(plan.LaunchBackoff(step) - time.Second)
				r.reconcilePool()
				if got := r.condition(v1alpha1.ConditionDegraded); len(r.launches) != calls || got.Status != metav1.ConditionTrue {
					t.Fatalf("step %d: %d calls before its end, Degraded %s", step, len(r.launches)-calls, got.Status)
				}
				r.now = r.now.Add(time.Second)
				r.reconcilePool()
				if got := len(r.launches) - calls; got != 1 {
					t.Fatalf("step %d: %d calls, want one", step, got)
				}
			}
			pool := r.pool()
			pool.Spec.Template.Labels = map[string]string{"changed": "true"}
			if err := r.api.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			r.launching = nil
			r.reconcilePool()
			if got := r.condition(v1alpha1.ConditionDegraded); got.Status != metav1.ConditionFalse {
				t.Errorf("after a change: %s", got.Message)
			}
		})
	}
}

// TestAFallbackTypeMoreIsTriedAtOnce: the list is not in the class's hash, and a type of another
// quota may be launched while the quota of the first type is used up.
func TestAFallbackTypeMoreIsTriedAtOnce(t *testing.T) {
	class := awsClass()
	r := newRig(t, nodePool(50, 1), class)
	r.sweep()
	r.launching = func(int) error {
		return &provider.InsufficientCapacityError{Type: "m5.large", Quota: true, Err: errors.New("VcpuLimitExceeded")}
	}
	r.reconcilePool()
	r.reconcilePool()
	if len(r.launches) != 1 {
		t.Fatalf("%d launches before the change, want one", len(r.launches))
	}
	class.Spec.FallbackInstanceTypes = []string{"g4dn.xlarge"}
	if err := r.api.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	r.launching = nil
	r.reconcilePool()
	if got := r.condition(v1alpha1.ConditionDegraded); len(r.launches) != 2 || got.Status != metav1.ConditionFalse {
		t.Errorf("%d launches, want another one after the change; Degraded: %s", len(r.launches), got.Message)
	}
}

// TestLaunchesGoInRounds: what changes while a round is under way is seen before the next one, and
// what is not wanted any more is not asked for.
func TestLaunchesGoInRounds(t *testing.T) {
	r := newRig(t, nodePool(50, 30))
	r.sweep()
	if next := r.reconcilePool(); next != time.Millisecond || len(r.launches) != pool.LaunchesAtOnce {
		t.Fatalf("%d launches, next round after %s", len(r.launches), next)
	}
	pool := r.pool()
	pool.Spec.MinStandby = 12
	if err := r.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	r.reconcilePool()
	r.reconcilePool()
	if len(r.launches) != 12 {
		t.Errorf("%d launches, want 12", len(r.launches))
	}
	slots, err := plan.ParseSlots(r.pool().Annotations[v1alpha1.AnnotationLaunches])
	if err != nil || len(slots.Pending) != 12 {
		t.Errorf("slots %+v, %v; want those that were asked for", slots, err)
	}
}

// TestADeletedPoolLaunchesNoFurtherRound.
func TestADeletedPoolLaunchesNoFurtherRound(t *testing.T) {
	r := newRig(t, nodePool(50, 30))
	r.sweep()
	r.reconcilePool()
	if err := r.api.Delete(t.Context(), r.pool()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.pools.Reconcile(t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKey{Name: "p"}}); err != nil {
		t.Fatal(err)
	}
	if len(r.launches) != pool.LaunchesAtOnce {
		t.Errorf("%d launches, want those of the first round", len(r.launches))
	}
}
