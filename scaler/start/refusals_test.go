package start

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
)

// refusal is how the cloud refuses starts as another type.
type refusal struct {
	quota             []string
	noChange, noStart func(id, kind string) error
	// as is the type that the node starts as in the end, "" where it does not start, changes how many
	// changes of its type are asked for in ten minutes, at most.
	as      string
	changes int
	// known: that there is none of type a is known before. stops is how many calls then find the
	// instance stopping.
	known bool
	stops int
}

// refusals are all kinds of them. The cloud has none of type a.
func refusals(r *typed) map[string]refusal {
	every := func(err error) func(string, string) error { return func(string, string) error { return err } }
	forKind := func(refused string, err error) func(string, string) error {
		return func(_, kind string) error {
			if kind == refused {
				return err
			}
			return nil
		}
	}
	slow := &provider.RateLimitError{Operation: "call", Err: errors.New("slow down")}
	wrong := &provider.InvalidConfigError{Field: "instance", Reason: "not this type"}
	none := &provider.InsufficientCapacityError{Err: errors.New("none left")}
	return map[string]refusal{
		"no capacity of any type":             {noStart: every(none), changes: 8},
		"a quota that two types share":        {quota: []string{"a", "b"}, as: "c", changes: 1},
		"a quota that all share":              {quota: []string{"a", "b", "c"}},
		"no permission to change":             {noChange: every(&provider.UnauthorizedError{Reason: "no"}), changes: 2},
		"one type is refused at the change":   {noChange: forKind("b", wrong), as: "c", changes: 2},
		"all types are refused at the change": {noChange: every(wrong), changes: 2},
		"one type is refused at the start":    {noStart: forKind("b", wrong), as: "c", changes: 2},
		"all types are refused at the start":  {noStart: every(wrong), changes: 4},
		"changes are throttled":               {noChange: every(slow), changes: 70},
		"starts are throttled":                {noStart: every(slow), changes: 1},
		"the instance stops at the change":    {known: true, stops: 1, as: "b", changes: 2},
		"the instance stops slowly":           {known: true, stops: 4, as: "b", changes: 5},
		"the instance never stops":            {known: true, stops: 1000, changes: 250},
		"the answer to a change is lost": {noChange: func(id, kind string) error {
			changed := r.kinds[id] == kind
			r.kinds[id] = kind // the cloud changes it, and says so when it is asked again
			if changed {
				return nil
			}
			return errors.New("connection reset")
		}, as: "b", changes: 2},
		"the answer to a start is lost": {noStart: first(1, errors.New("connection reset")), as: "b", changes: 1},
	}
}

// first is a cloud that refuses so many calls.
func first(n int, err error) func(string, string) error {
	return func(string, string) error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// TestRefusalsOfAChangeOfType: whatever the cloud refuses while a pod asks for a node again and
// again, no refusal ends the node or counts against it, and no call is made again without a
// backoff.
func TestRefusalsOfAChangeOfType(t *testing.T) {
	for name := range refusals(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTyped(t, stopped("x1", "x", "a", 1))
				c := refusals(r)[name]
				r.dry["x/a"], r.quota, r.stops = true, c.quota, c.stops
				if c.known {
					r.state.MarkOfferingUnavailable(decide.Offering{Zone: "x", Type: "a"}, time.Now())
				}
				if c.noChange != nil {
					r.noChange = c.noChange
				}
				if c.noStart != nil {
					r.noStart = c.noStart
				}
				r.run(func() { r.askFor(10 * time.Minute) })
				r.spared("x1")
				r.spaced()
				changes := 0
				for _, call := range r.calls {
					if strings.HasPrefix(call, "change ") {
						changes++
					}
				}
				if changes > c.changes {
					t.Errorf("%d changes of type, want %d at most: %q", changes, c.changes, r.calls)
				}
				if r.started != c.as {
					t.Errorf("the node has started as %q, want %q: %q", r.started, c.as, r.calls)
				}
			})
		})
	}
}

// askFor has one pod ask each second for so long.
func (r *typed) askFor(d time.Duration) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"}}
	r.state.SetPod(p)
	for range d / time.Second {
		r.placer.Place(p)
		<-time.After(time.Second)
	}
}

// spared: the node is on no way to its end, and nothing counts against it.
func (r *typed) spared(name string) {
	r.t.Helper()
	n := &corev1.Node{}
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		r.t.Fatal(err)
	}
	state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
	if state != v1alpha1.StateStandby && state != v1alpha1.StateStarting {
		r.t.Errorf("node %s is %s", name, state)
	}
	if strikes := n.Annotations[v1alpha1.AnnotationStartFailures]; strikes != "" {
		r.t.Errorf("node %s has failed %s starts", name, strikes)
	}
	kind, old := n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelInstanceType]
	if kind != old {
		r.t.Errorf("node %s is labelled %s and %s", name, kind, old)
	}
	if r.started != "" && r.started != kind {
		r.t.Errorf("node %s is labelled %s and started as %s", name, kind, r.started)
	}
}

// spaced: an equal call comes no sooner than after the shortest backoff.
func (r *typed) spaced() {
	r.t.Helper()
	last := map[string]time.Time{}
	for i, call := range r.calls {
		if before, again := last[call]; again && r.at[i].Sub(before) < retryFirst {
			r.t.Errorf("%s again after %s", call, r.at[i].Sub(before))
		}
		last[call] = r.at[i]
	}
}
