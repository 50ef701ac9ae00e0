package start

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

const testReservation = "cr-1"

func (r *typed) SetReservation(_ context.Context, id string, want v1alpha1.CapacityReservation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call("set %s to %q", id, strings.TrimSpace(string(want.Preference)+" "+want.Target()))
	if err := r.notSet(id); err != nil {
		return err
	}
	r.set[id] = want
	return nil
}

// newReserving is newTyped with a class that wants the reservation, to which all instances are set.
func newReserving(t *testing.T, want v1alpha1.CapacityReservation, room int, change func(*v1alpha1.AWSNodeClass),
	nodes ...*corev1.Node) *typed {
	r := newTyped(t, nodes...)
	c := classOf("a", "b")
	c.Spec.CapacityReservation = &want
	c.Status.CapacityReservation = &v1alpha1.CapacityReservationStatus{ID: testReservation, InstanceType: "a", Zone: "x"}
	if change != nil {
		change(c)
	}
	r.state.SetNodeClass(c)
	r.roomLeft = room
	for _, n := range nodes {
		r.set[string(InstanceOf(n))] = want
	}
	return r
}

// TestStartsAndReservations: two pods, one after the other, each of which takes a node.
func TestStartsAndReservations(t *testing.T) {
	id := v1alpha1.CapacityReservation{ID: testReservation}
	only := v1alpha1.CapacityReservation{ID: testReservation, Preference: v1alpha1.ReservationOnly}
	group := v1alpha1.CapacityReservation{ResourceGroupARN: "group", Preference: v1alpha1.ReservationOnly}
	ended := func(c *v1alpha1.AWSNodeClass) { c.Status.CapacityReservation.Ended = true }
	silent := func(c *v1alpha1.AWSNodeClass) { c.Spec.CapacityReservation, c.Status.CapacityReservation = nil, nil }
	for name, c := range map[string]struct {
		want   v1alpha1.CapacityReservation
		room   int
		change func(*v1alpha1.AWSNodeClass)
		dry    string
		calls  []string
	}{
		"it has room": {want: id, room: 2, dry: "x/a", calls: []string{"start i-x1 as a", "start i-x2 as a"}},
		"it has no room: On-Demand of the same type": {want: id,
			calls: []string{"start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a", `set i-x2 to ""`, "start i-x2 as a"}},
		"no room, and none On-Demand: another type": {want: id, dry: "x/a",
			calls: []string{"start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a",
				"change i-x1 to b", `set i-x1 to ""`, "start i-x1 as b",
				"change i-x2 to b", `set i-x2 to ""`, "start i-x2 as b"}},
		"no room, and nothing else is allowed": {want: only, calls: []string{"start i-x1 as a"}},
		"a group without room: another type of it": {want: group, room: 0,
			calls: []string{"start i-x1 as a", "change i-x1 to b", "start i-x1 as b"}},
		"it has ended, and the instances are still set to it": {want: id, change: ended,
			calls: []string{"start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a",
				"start i-x2 as a", `set i-x2 to ""`, "start i-x2 as a"}},
		"it has ended, and nothing else is allowed": {want: only, room: 2, change: ended},
		"set by hand, and it has room": {want: id, room: 2, change: silent,
			calls: []string{"start i-x1 as a", "start i-x2 as a"}},
		"set by hand, and it has no room": {want: id, change: silent,
			calls: []string{"start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a",
				"start i-x2 as a", `set i-x2 to ""`, "start i-x2 as a"}},
		"set by hand, without room, and none On-Demand": {want: id, change: silent, dry: "x/a",
			calls: []string{"start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a",
				"change i-x1 to b", "start i-x1 as b",
				"change i-x2 to b", "start i-x2 as b", `set i-x2 to ""`, "start i-x2 as b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReserving(t, c.want, c.room, c.change, stopped("x1", "x", "a", 1), stopped("x2", "x", "a", 1))
				r.dry[c.dry] = true
				r.run(func() {
					r.pend()
					synctest.Wait()
					r.pend()
					synctest.Wait()
				})
				r.want(c.calls...)
			})
		})
	}
}

// TestAReservationThatIsFullIsTriedAgain: after its backoff, and then the instance is set to it by
// the sweep.
func TestAReservationThatIsFullIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserving(t, v1alpha1.CapacityReservation{ID: testReservation}, 0, nil, stopped("x1", "x", "a", 1),
			stopped("x2", "x", "a", 1))
		r.run(func() {
			r.pend()
			<-time.After(4 * time.Minute)
			r.roomLeft = 1
			r.pend()
			synctest.Wait()
		})
		r.want("start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a", "start i-x2 as a")
	})
}

// TestAStartThatMayNotLeaveItsReservation: without the permission no node is asked for for 5
// minutes, while the reservation is full.
func TestAStartThatMayNotLeaveItsReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserving(t, v1alpha1.CapacityReservation{ID: testReservation}, 0, nil, stopped("x1", "x", "a", 1),
			stopped("x2", "x", "a", 1))
		r.notSet = func(string) error { return &provider.UnauthorizedError{Operation: "Modify", Reason: "no"} }
		r.run(func() { r.pend(); synctest.Wait(); r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", `set i-x1 to ""`)
		r.is("x2", v1alpha1.StateStandby, "a")
	})
}

// TestAReservationIsNotLeftForWhatIsNotThere: its zone is known to have none of the type On-Demand,
// and there is no other type.
func TestAReservationIsNotLeftForWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserving(t, v1alpha1.CapacityReservation{ID: testReservation}, 0,
			func(c *v1alpha1.AWSNodeClass) { c.Spec.FallbackInstanceTypes, c.Status.InstanceTypes = nil, nil },
			stopped("x1", "x", "a", 1))
		r.state.MarkOfferingUnavailable(decide.Offering{Zone: "x", Type: "a"}, time.Now())
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a")
	})
}

// TestAStartThatFindsItsReservationFull: another node's start shows while the intent is written
// that the reservation has no room. The zone is known to have none of the type On-Demand, and there
// is no other type.
func TestAStartThatFindsItsReservationFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserving(t, v1alpha1.CapacityReservation{ID: testReservation}, 0,
			func(c *v1alpha1.AWSNodeClass) { c.Spec.FallbackInstanceTypes, c.Status.InstanceTypes = nil, nil },
			stopped("x1", "x", "a", 1))
		r.state.MarkOfferingUnavailable(decide.Offering{Zone: "x", Type: "a"}, time.Now())
		r.written = func() {
			r.state.MarkOfferingUnavailable(decide.Offering{Zone: "x", Type: "a", Reservation: testReservation}, time.Now())
		}
		r.run(func() { r.pend(); synctest.Wait() })
		r.want()
		n := &corev1.Node{}
		if err := r.api.Get(t.Context(), client.ObjectKey{Name: "x1"}, n); err != nil {
			t.Fatal(err)
		}
		if n.Labels[v1alpha1.LabelState] != string(v1alpha1.StateStandby) ||
			n.Annotations[v1alpha1.AnnotationUnavailableUntil] == "" {
			t.Errorf("the node is %v, %v; want it standby, and backing off", n.Labels, n.Annotations)
		}
	})
}

// TestAMissingPermissionIsAskedForOnce: also where the instances are set by hand, and each start
// shows only then that they have to leave.
func TestAMissingPermissionIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserving(t, v1alpha1.CapacityReservation{ID: testReservation}, 0,
			func(c *v1alpha1.AWSNodeClass) { c.Spec.CapacityReservation, c.Status.CapacityReservation = nil, nil },
			stopped("x1", "x", "a", 1), stopped("x2", "x", "a", 1))
		r.notSet = func(string) error { return &provider.UnauthorizedError{Operation: "Modify", Reason: "no"} }
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as a", `set i-x1 to ""`, "start i-x2 as a")
	})
}

// TestARetriedStartLeavesItsReservationOnce: the call that follows is repeated alone.
func TestARetriedStartLeavesItsReservationOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserving(t, v1alpha1.CapacityReservation{ID: testReservation}, 0, nil, stopped("x1", "x", "a", 1))
		times := 0
		r.noStart = func(string, string) error {
			if times++; times < 3 {
				return &provider.RateLimitError{Operation: "StartInstances", Err: errors.New("slow down")}
			}
			return nil
		}
		r.run(func() { r.pend(); <-time.After(time.Minute) })
		r.want("start i-x1 as a", `set i-x1 to ""`, "start i-x1 as a", "start i-x1 as a", "start i-x1 as a")
	})
}

// TestReservationsOfStandbyNodes: what their instances are to be set to, and when.
func TestReservationsOfStandbyNodes(t *testing.T) {
	id := v1alpha1.CapacityReservation{ID: testReservation}
	none := v1alpha1.CapacityReservation{}
	for name, c := range map[string]struct {
		is     v1alpha1.CapacityReservation
		kind   string
		change func(*v1alpha1.AWSNodeClass)
		want   *v1alpha1.CapacityReservation
	}{
		"as it is to be":       {is: id, kind: "a"},
		"taken out of it":      {is: none, kind: "a", want: &id},
		"of another type":      {is: none, kind: "b"},
		"of another type, set": {is: id, kind: "b", want: &none},
		"it has ended":         {is: id, kind: "a", change: func(c *v1alpha1.AWSNodeClass) { c.Status.CapacityReservation.Ended = true }, want: &none},
		"the class says nothing": {is: id, kind: "a",
			change: func(c *v1alpha1.AWSNodeClass) { c.Spec.CapacityReservation = nil }},
		"the class says Open": {is: id, kind: "a", want: &none,
			change: func(c *v1alpha1.AWSNodeClass) {
				*c.Spec.CapacityReservation = v1alpha1.CapacityReservation{Preference: "Open"}
			}},
		"the cloud has not said": {is: none, kind: "a",
			change: func(c *v1alpha1.AWSNodeClass) { c.Status.CapacityReservation = nil }},
		"ended, and nothing else allowed": {is: v1alpha1.CapacityReservation{ID: testReservation, Preference: "Only"}, kind: "a",
			change: func(c *v1alpha1.AWSNodeClass) {
				c.Spec.CapacityReservation.Preference, c.Status.CapacityReservation.Ended = "Only", true
			}},
		"ended, nothing else allowed, and never set to it": {is: none, kind: "a",
			change: func(c *v1alpha1.AWSNodeClass) {
				c.Spec.CapacityReservation.Preference, c.Status.CapacityReservation.Ended = "Only", true
			}},
	} {
		t.Run(name, func(t *testing.T) {
			n := stopped("x1", "x", "a", 1)
			r := newReserving(t, id, 0, c.change, n)
			if diff := cmp.Diff(c.want, r.starter.Reserves(n, c.kind, c.is)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSettingAReservation: not while the node is claimed, and not again before the cloud can show
// it.
func TestSettingAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := v1alpha1.CapacityReservation{ID: testReservation}
		n := stopped("x1", "x", "a", 1)
		r := newReserving(t, id, 1, nil, n, stopped("x2", "x", "a", 1))
		r.run(func() {
			r.starter.SetReservation("x2", id)
			synctest.Wait()
			r.pend() // on x1
			synctest.Wait()
			r.starter.SetReservation("x1", id)
			synctest.Wait()
		})
		r.want(`set i-x2 to "cr-1"`, "start i-x1 as a")
		if again := r.starter.Reserves(stopped("x2", "x", "a", 1), "a", v1alpha1.CapacityReservation{}); again != nil {
			t.Errorf("it is set again at once, to %+v", again)
		}
		r.starter.ForgetReservation("x2") // it has been started
		if again := r.starter.Reserves(stopped("x2", "x", "a", 1), "a", v1alpha1.CapacityReservation{}); again == nil {
			t.Error("it is not set again after a start")
		}
	})
}

// TestReservationsWithoutAPermission: one call shows it for all nodes, for 5 minutes.
func TestReservationsWithoutAPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := v1alpha1.CapacityReservation{ID: testReservation}
		nodes := []*corev1.Node{stopped("x1", "x", "a", 1), stopped("x2", "x", "a", 1)}
		r := newReserving(t, id, 1, nil, nodes...)
		r.notSet = func(string) error { return &provider.UnauthorizedError{Operation: "Modify", Reason: "no"} }
		due := func() (n int) {
			for _, node := range nodes {
				if r.starter.Reserves(node, "a", v1alpha1.CapacityReservation{}) != nil {
					n++
				}
			}
			return n
		}
		var got []int
		r.run(func() {
			for _, node := range nodes {
				r.starter.SetReservation(v1alpha1.NodeName(node.Name), id)
				synctest.Wait()
			}
			<-time.After(4 * time.Minute)
			got = append(got, due())
			<-time.After(2 * time.Minute)
			got = append(got, due())
		})
		r.want(`set i-x1 to "cr-1"`)
		if !slices.Equal(got, []int{0, 2}) {
			t.Errorf("nodes to be set after 4 and 6 minutes: %v", got)
		}
	})
}

// TestARefusedReservationIsLeftAlone for 5 minutes, whatever starts there are.
func TestARefusedReservationIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := v1alpha1.CapacityReservation{ID: testReservation}
		n := stopped("x1", "x", "a", 1)
		r := newReserving(t, id, 1, nil, n)
		r.notSet = func(string) error { return &provider.InvalidConfigError{Field: "instance", Reason: "no"} }
		due := func() bool { return r.starter.Reserves(n, "a", v1alpha1.CapacityReservation{}) != nil }
		var got []bool
		r.run(func() {
			r.starter.SetReservation("x1", id)
			<-time.After(4 * time.Minute)
			r.starter.ForgetReservation("x1") // a start was refused meanwhile
			got = append(got, due())
			<-time.After(2 * time.Minute)
			got = append(got, due())
		})
		if !slices.Equal(got, []bool{false, true}) {
			t.Errorf("due after 4 and 6 minutes: %v", got)
		}
	})
}

// TestAStartRefusedToTheOnlyTypeWithAReservation: an instance that has a reservation as what it is,
// and may not run without, becomes no other type, so that its node is at fault.
func TestAStartRefusedToTheOnlyTypeWithAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := v1alpha1.CapacityReservation{ID: testReservation, Preference: v1alpha1.ReservationOnly}
		r := newReserving(t, only, 1, func(c *v1alpha1.AWSNodeClass) { c.Status.CapacityReservation.InstanceType = "b" },
			stopped("x1", "x", "b", 1))
		r.noStart = func(string, string) error {
			return &provider.InvalidConfigError{Field: "instance", Reason: "the type needs ENA"}
		}
		r.run(func() { r.pend(); synctest.Wait() })
		r.want("start i-x1 as b")
		n := &corev1.Node{}
		if err := r.api.Get(t.Context(), client.ObjectKey{Name: "x1"}, n); err != nil {
			t.Fatal(err)
		}
		if got := n.Annotations[v1alpha1.AnnotationStartFailures]; got != "1" {
			t.Errorf("the start counts %q times against the node, want once", got)
		}
	})
}
