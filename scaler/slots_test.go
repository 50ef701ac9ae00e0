package scaler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/inventory"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
)

// TestARefusedLaunchTakesANewNumber: the cloud keeps the token of a refused launch with its
// parameters, and the class may change before the next attempt.
func TestARefusedLaunchTakesANewNumber(t *testing.T) {
	for name, refusal := range map[string]error{
		"no capacity":    &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a", Err: errors.New("sold out")},
		"a wrong launch": &provider.InvalidConfigError{Field: "spec.ami", Reason: "InvalidAMIID.NotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodePool(5, 1))
			r.sweep()
			r.launching = func(n int) error {
				if n <= 2 {
					return refusal
				}
				return nil
			}
			if again := r.reconcilePool(); again != launchRetry {
				t.Errorf("looked at again after %v, want %v", again, launchRetry)
			}
			for range 2 {
				r.now = r.now.Add(plan.LaunchBackoff(2))
				r.reconcilePool()
			}
			r.want(`reserve {"next":1,"pending":[0]}`, "launch 0", `reserve {"next":2,"pending":[1]}`, "launch 1",
				`reserve {"next":3,"pending":[2]}`, "launch 2")
			if r.launches[0].ClientToken == r.launches[1].ClientToken {
				t.Error("the second number has the token of the first")
			}
			if meta.IsStatusConditionTrue(r.pool().Status.Conditions, v1alpha1.ConditionDegraded) {
				t.Error("Degraded did not turn back")
			}
			var said int
			for _, e := range r.said() {
				if strings.Contains(e, string(v1alpha1.ReasonReplenishing)) {
					said++
				}
			}
			if said != 1 {
				t.Errorf("said %d times that an instance is launched, want once", said)
			}
		})
	}
}

// TestNoCapacityIsAskedAboutEveryFiveSeconds: a write to the pool by its own reconcile queues it
// again.
func TestNoCapacityIsAskedAboutEveryFiveSeconds(t *testing.T) {
	r := newRig(t, nodePool(5, 2))
	r.sweep()
	r.launching = func(int) error {
		return &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a", Err: errors.New("sold out")}
	}
	r.reconcilePool()
	once := len(r.launches)
	r.now = r.now.Add(launchRetry - time.Second)
	if again := r.reconcilePool(); again != time.Second {
		t.Errorf("looked at again after %v, want 1s", again)
	}
	if len(r.launches) != once {
		t.Errorf("%d launches within %v, want %d", len(r.launches), launchRetry, once)
	}
	r.now = r.now.Add(time.Second)
	r.reconcilePool()
	if len(r.launches) != 2*once {
		t.Errorf("%d launches after %v, want %d: each may be for another zone", len(r.launches), launchRetry, 2*once)
	}
}

// TestARefusedLaunchThatNobodyNeedsGivesItsNumberBack.
func TestARefusedLaunchThatNobodyNeedsGivesItsNumberBack(t *testing.T) {
	r := newRig(t, nodePool(5, 1))
	r.sweep()
	r.launching = func(int) error {
		return &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a", Err: errors.New("no")}
	}
	r.reconcilePool()
	pool := r.pool()
	pool.Spec.MinStandby = 0
	if err := r.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	r.reconcilePool()
	r.want(`reserve {"next":1,"pending":[0]}`, "launch 0", `reserve {"next":1}`)
}

// TestALaunchThatMayHaveHappenedKeepsItsNumber: what another process asked for, and what had no
// answer.
func TestALaunchThatMayHaveHappenedKeepsItsNumber(t *testing.T) {
	sold := &provider.InsufficientCapacityError{Type: "m5.large", Zone: "a", Err: errors.New("sold out")}
	for name, c := range map[string]struct {
		pool    *v1alpha1.NodePool
		refusal error
		want    []string
	}{
		"no answer": {nodePool(5, 1), errors.New("connection reset"), []string{`reserve {"next":1,"pending":[0]}`, "launch 0",
			"launch 0"}},
		"throttled, perhaps after a lost answer": {
			nodePool(5, 1), &provider.RateLimitError{Operation: "RunInstances", Err: errors.New("slow down")},
			[]string{`reserve {"next":1,"pending":[0]}`, "launch 0", "launch 0"},
		},
		"asked for by an earlier process": {nodePool(5, 1, holding(`{"next":8,"pending":[7]}`)), sold,
			[]string{"launch 7", "launch 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.pool)
			r.sweep()
			r.launching = func(int) error { return c.refusal }
			r.reconcilePool()
			r.now = r.now.Add(launchRetry)
			r.reconcilePool()
			r.want(c.want...)
		})
	}
}

// TestLaunchNumbersAreNeverUsedAgain: a token that was used would answer with an instance that is
// long gone.
func TestLaunchNumbersAreNeverUsedAgain(t *testing.T) {
	reported := func(p *v1alpha1.NodePool) {
		meta.SetStatusCondition(&p.Status.Conditions, metav1Condition(v1alpha1.ConditionReady))
	}
	launched := instance(provider.InstanceStopped, withTag(inventory.TagLaunch, "7.uid-p"))
	fromTime := `reserve {"next":1772366400001,"pending":[1772366400000]}`
	for name, c := range map[string]struct {
		pool  *v1alpha1.NodePool
		swept []*provider.Instance
		want  string
	}{
		"a new pool":             {nodePool(5, 1), nil, `reserve {"next":1,"pending":[0]}`},
		"the annotation is lost": {nodePool(5, 1, reported), nil, fromTime},
		"the annotation is lost, an instance has a number": {nodePool(5, 2), []*provider.Instance{launched}, fromTime},
		"replaced by an older one": {nodePool(5, 2, reported, holding(`{"next":4}`)),
			[]*provider.Instance{launched}, fromTime},
		"as it was written": {nodePool(5, 2, reported, holding(`{"next":8}`)),
			[]*provider.Instance{launched}, `reserve {"next":9,"pending":[8]}`},
		"numbers of an earlier pool of that name": {
			nodePool(5, 2), []*provider.Instance{instance(provider.InstanceStopped, withTag(inventory.TagLaunch, "7.another"))},
			`reserve {"next":1,"pending":[0]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.pool)
			r.sweep(c.swept...)
			r.reconcilePool()
			if len(r.log) == 0 || r.log[0] != c.want {
				t.Errorf("%v, want %s first", r.log, c.want)
			}
		})
	}
}

// TestAPoolIsReplacedWhileStratosRuns: kubectl replace writes the annotation of an older copy, and
// no instance of the later numbers is left.
func TestAPoolIsReplacedWhileStratosRuns(t *testing.T) {
	r := newRig(t, nodePool(5, 1, holding(`{"next":3}`)))
	r.sweep()
	r.reconcilePool()
	r.want(`reserve {"next":4,"pending":[3]}`, "launch 3")
	pool := r.pool()
	pool.Annotations[v1alpha1.AnnotationLaunches] = `{"next":3}`
	if err := r.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(lifecycle.LaunchUnseen + time.Second) // no sweep has shown it
	r.sweep()
	ended := v1alpha1.InstanceID(r.launches[0].ClientToken)
	r.inventory.Note(ended, func(e *inventory.Entry) { e.EndExplained = true }) // Stratos terminated it
	r.reconcilePool()
	r.reconcilePool()
	for _, l := range r.launches[1:] {
		if l.ClientToken == r.launches[0].ClientToken {
			t.Errorf("number %d was used again", l.Number)
		}
	}
	if len(r.launches) != 2 {
		t.Errorf("%d launches, want 2", len(r.launches))
	}
}

// TestAPoolThatWasOnlyReadIsReplaced: the numbers were used before this process began.
func TestAPoolThatWasOnlyReadIsReplaced(t *testing.T) {
	r := newRig(t, nodePool(5, 0, holding(`{"next":3}`)))
	r.sweep()
	r.reconcilePool()
	pool := r.pool()
	pool.Spec.MinStandby = 1
	pool.Annotations[v1alpha1.AnnotationLaunches] = `{"next":1}`
	if err := r.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	r.reconcilePool()
	r.want(`reserve {"next":1772366400001,"pending":[1772366400000]}`, "launch 1772366400000")
}
