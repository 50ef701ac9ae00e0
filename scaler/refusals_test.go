package scaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

func metav1Condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "x"}
}

// protected is what the EC2 provider says of an instance with stop or termination protection.
func protected(attribute string) error {
	return &provider.InvalidConfigError{
		Field: "instance i-c", Reason: "OperationNotPermitted: The instance 'i-c' may not be touched. Modify its '" +
			attribute + "' instance attribute.",
	}
}

// step lets the node loop look at instance i-c once, whatever comes of it.
func (r *rig) step() {
	_, _ = r.nodes.Reconcile(r.t.Context(), "i-c")
}

// TestARefusedStopOrTerminationIsSaid once per reason, with the cloud's words, and shows in
// Degraded until it works.
func TestARefusedStopOrTerminationIsSaid(t *testing.T) {
	stop := func(r *rig, err error) { r.stopping = err }
	terminate := func(r *rig, err error) { r.terminating = err }
	for name, c := range map[string]struct {
		state  v1alpha1.NodeState
		refuse func(*rig, error)
		first  error
		second error
		reason string
	}{
		"a stop": {v1alpha1.StateStopping, stop, protected("disableApiStop"),
			errors.New("StopInstances: UnauthorizedOperation: no"), "StopRefused"},
		"a termination": {v1alpha1.StateTerminating, terminate, protected("disableApiTermination"),
			errors.New("UnauthorizedOperation: no"), "TerminationRefused"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), nodeIn(c.state, markedAt(v1alpha1.AnnotationStoppingSince,
				epoch().Add(-time.Minute))))
			running := instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, string(c.state)))
			events := func() (n int, last string) {
				for _, e := range r.said() {
					if strings.Contains(e, c.reason) {
						n, last = n+1, e
					}
				}
				return n, last
			}
			degraded := func() metav1.Condition {
				r.reconcilePool()
				return *meta.FindStatusCondition(r.pool().Status.Conditions, v1alpha1.ConditionDegraded)
			}
			tries := func(n int) {
				for range n {
					r.now = r.now.Add(30 * time.Second)
					r.sweep(running)
					r.step()
				}
			}
			c.refuse(r, c.first)
			tries(4)
			if n, e := events(); n != 1 || !strings.Contains(e, "Warning") || !strings.Contains(e, "OperationNotPermitted") {
				t.Errorf("%d events, last %q; want one with the cloud's words", n, e)
			}
			if got := degraded(); got.Status != metav1.ConditionTrue || got.Reason != c.reason ||
				!strings.Contains(got.Message, "OperationNotPermitted: The instance 'i-c'") {
				t.Errorf("Degraded is %+v", got)
			}
			c.refuse(r, c.second)
			tries(3)
			if n, e := events(); n != 1 || !strings.Contains(e, "UnauthorizedOperation") {
				t.Errorf("%d events for another reason, last %q", n, e)
			}
			if got := degraded(); !strings.Contains(got.Message, "UnauthorizedOperation") {
				t.Errorf("Degraded is %+v", got)
			}
			c.refuse(r, nil)
			tries(1)
			if got := degraded(); got.Status != metav1.ConditionFalse {
				t.Errorf("accepted, and Degraded is %+v", got)
			}
		})
	}
}

// TestWhatIsNoRefusal is tried again without a word: it passes by itself.
func TestWhatIsNoRefusal(t *testing.T) {
	for name, err := range map[string]error{
		"throttled":             &provider.RateLimitError{Operation: "StopInstances", Err: errors.New("slow down")},
		"pending":               &provider.IncorrectStateError{ID: "i-c", State: provider.InstancePending, Op: "stop"},
		"an instance that ends": &provider.InstanceNotFoundError{ID: "i-c"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStopping, markedAt(v1alpha1.AnnotationStoppingSince,
				epoch().Add(-time.Minute))))
			r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "stopping")))
			r.stopping = err
			r.step()
			r.reconcilePool()
			if meta.IsStatusConditionTrue(r.pool().Status.Conditions, v1alpha1.ConditionDegraded) {
				t.Error("Degraded is True")
			}
			for _, e := range r.said() {
				if strings.Contains(e, "StopRefused") {
					t.Error(e)
				}
			}
		})
	}
}

// TestARefusalIsForgotten when the stop is not asked for any more, and with its instance.
func TestARefusalIsForgotten(t *testing.T) {
	for name, after := range map[string]func(*rig){
		"nobody asks any more": func(r *rig) {
			r.now = r.now.Add(refusalHolds + time.Second)
			r.sweep(instance(provider.InstanceRunning))
		},
		"the instance stops by itself": func(r *rig) {
			r.now = r.now.Add(time.Second)
			r.sweep(instance(provider.InstanceStopped))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 0), nodeIn(v1alpha1.StateStopping, markedAt(v1alpha1.AnnotationStoppingSince,
				epoch().Add(-time.Minute))))
			r.sweep(instance(provider.InstanceRunning))
			r.stopping = protected("disableApiStop")
			r.step()
			r.reconcilePool()
			if !meta.IsStatusConditionTrue(r.pool().Status.Conditions, v1alpha1.ConditionDegraded) {
				t.Fatal("Degraded is not True")
			}
			after(r)
			r.reconcilePool()
			if meta.IsStatusConditionTrue(r.pool().Status.Conditions, v1alpha1.ConditionDegraded) {
				t.Error("Degraded is still True")
			}
		})
	}
}
