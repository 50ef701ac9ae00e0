// Package providertest is the conformance suite of provider.CloudProvider. Every provider runs it:
// what the scaler may conclude from an answer must hold on each of them.
package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// unknownID has the form of an id and belongs to no instance.
const unknownID = "i-00000000deadbeef0"

// Subject is one provider under test, with nothing in it.
type Subject struct {
	Provider provider.CloudProvider
	// Launch launches one instance; equal requests are equal launches.
	Launch func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error)
	// WaitFor returns when the instance is in the state, and fails the test when that takes too long.
	// See Poll.
	WaitFor func(t *testing.T, id v1alpha1.InstanceID, state provider.InstanceState)
	// HoldStop makes the next stop of the instance stay in stopping until the test ends.
	HoldStop func(t *testing.T, id v1alpha1.InstanceID)
	// OtherType is a type that instances of Launch can become. "": the Provider is no TypeChanger.
	OtherType string
	// LoseAnswer makes the next change of the instance's type take effect without an answer, where
	// OtherType is set.
	LoseAnswer func(t *testing.T, id v1alpha1.InstanceID)
	// Reserves: the Provider is a Reserver.
	Reserves bool
	// FailRegion launches an instance in another region than Launch does, has that region answer
	// nothing any more, and returns its name. nil: the cloud has one region.
	FailRegion func(t *testing.T) string
	// Fallback are launches of a class with a fallback type. nil: classes of the cloud have none.
	Fallback *Fallback
}

// Fallback is a class with two types.
type Fallback struct {
	// Launch is Subject.Launch for the class.
	Launch func(ctx context.Context, req provider.LaunchRequest) (*provider.Instance, error)
	// First and Next are its types.
	First, Next string
	// Dry leaves no capacity in the zone for launches of the type.
	Dry func(t *testing.T, kind, zone string)
}

// Run runs the suite. create is called for each case.
func Run(t *testing.T, create func(t *testing.T) Subject) {
	t.Helper()
	cases := map[string]func(*testing.T, Subject){
		"a launched instance comes up and carries its tags":           launchComesUp,
		"launches are separate instances":                             launchesAreSeparate,
		"a client token launches one instance":                        clientToken,
		"a launch goes to the zone that it asks for":                  launchZone,
		"stop and start go through every state":                       stopAndStart,
		"starting what runs or is coming up is accepted":              startIdempotent,
		"stopping what is stopping or stopped is accepted":            stopIdempotent,
		"a start while stopping is an incorrect state":                startWhileStopping,
		"a stop while pending is accepted, or once it runs":           stopWhilePending,
		"a stop by force ends a stop that hangs":                      forcedStop,
		"terminating twice is accepted":                               terminateTwice,
		"a terminated instance neither starts nor stops":              terminatedStays,
		"an unknown instance is not found, whatever is asked":         unknownIsNotFound,
		"lists hold instances that carry all tags, sorted by id":      listByTags,
		"an empty list is no error":                                   emptyList,
		"a list without a region comes with an error that says so":    partialList,
		"updating tags sets some and leaves the others":               updateTags,
		"what is returned is the caller's to change":                  copies,
		"an ended context ends each call without effect":              endedContext,
		"a launch takes another zone before another type":             fallbackTypes,
		"a start asked by many at once is one start":                  concurrentStarts,
		"the provider id ends in the instance id and names a zone":    identity,
		"a stopped instance starts as another type":                   changeType,
		"a change of type asked again has no effect":                  changeTypeAgain,
		"only a stopped instance becomes another type":                changeTypeOfRunning,
		"an instance does not become a type that there is not":        changeTypeUnknown,
		"a stopped instance keeps the reservations that it is set to": setReservation,
		"only a stopped instance is set to other reservations":        setNoReservation,
	}
	names := make([]string, 0, len(cases))
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { cases[name](t, create(t)) })
	}
}

// Poll returns a WaitFor that asks the provider every few milliseconds for at most a minute, which
// is a hang guard: a busy machine takes its time.
func Poll(p provider.CloudProvider) func(*testing.T, v1alpha1.InstanceID, provider.InstanceState) {
	return func(t *testing.T, id v1alpha1.InstanceID, want provider.InstanceState) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			state, err := p.GetInstanceState(ctx, string(id))
			if err == nil && state == want {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("instance %s is %s (error %v), want %s", id, state, err, want)
			case <-ticker.C:
			}
		}
	}
}

// launch launches and waits until the instance runs.
func launch(t *testing.T, s Subject, req provider.LaunchRequest) *provider.Instance {
	t.Helper()
	instance, err := s.Launch(t.Context(), req)
	if err != nil {
		t.Fatalf("launch: %v", err)
	}
	s.WaitFor(t, instance.ID, provider.InstanceRunning)
	return instance
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func launchComesUp(t *testing.T, s Subject) {
	tags := map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "here", v1alpha1.TagClusterUID: "uid-here",
		"team": "a",
	}
	launched, err := s.Launch(t.Context(), provider.LaunchRequest{ClientToken: "up", Tags: tags})
	must(t, "launch", err)
	if launched.State != provider.InstancePending && launched.State != provider.InstanceRunning {
		t.Errorf("state after launch is %s, want pending or running", launched.State)
	}
	s.WaitFor(t, launched.ID, provider.InstanceRunning)
	got, err := s.Provider.GetInstance(t.Context(), string(launched.ID))
	must(t, "get", err)
	want := *launched
	want.State, want.StateReason = provider.InstanceRunning, got.StateReason
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("the running instance differs from the launched one (-launched +running):\n%s", diff)
	}
	for key, value := range tags {
		if got.Tags[key] != value {
			t.Errorf("tag %s is %q, want %q", key, got.Tags[key], value)
		}
	}
	if got.Type == "" || got.Zone == "" || got.LaunchTime.IsZero() {
		t.Errorf("type %q, zone %q, launch time %v: none may be empty", got.Type, got.Zone, got.LaunchTime)
	}
}

// launchZone asks for each of the zones that launches without one go to.
func launchZone(t *testing.T, s Subject) {
	zones := map[string]bool{}
	for n := range int64(4) {
		i := launch(t, s, provider.LaunchRequest{ClientToken: fmt.Sprintf("any-%d", n), Number: n})
		zones[i.Zone] = true
	}
	for zone := range zones {
		for n := range int64(2) {
			i := launch(t, s, provider.LaunchRequest{ClientToken: fmt.Sprintf("%s-%d", zone, n), Number: n, Zone: zone})
			if i.Zone != zone {
				t.Errorf("a launch for zone %s went to %s", zone, i.Zone)
			}
		}
	}
	_, err := s.Launch(t.Context(), provider.LaunchRequest{ClientToken: "nowhere", Zone: "no-such-zone"})
	if !provider.IsInvalidConfig(err) {
		t.Errorf("a launch for a zone that the class does not have: %v, want an invalid configuration", err)
	}
}

// fallbackTypes makes the first type end in one zone after the other, so that launches without a
// zone take the next zone, and then the next type.
func fallbackTypes(t *testing.T, s Subject) {
	f := s.Fallback
	if f == nil {
		return
	}
	launchOf := func(token, zone, kind string) *provider.Instance {
		req := provider.LaunchRequest{ClientToken: token, Zone: zone, Tags: map[string]string{"launch": token}}
		i, err := f.Launch(t.Context(), req)
		must(t, "launch "+token, err)
		if i.Type != kind || zone != "" && i.Zone != zone {
			t.Fatalf("launch %s is of type %s in %s, want %s in %q", token, i.Type, i.Zone, kind, zone)
		}
		s.WaitFor(t, i.ID, provider.InstanceRunning)
		again, err := f.Launch(t.Context(), req)
		must(t, "launch again "+token, err)
		all, err := s.Provider.ListInstances(t.Context(), req.Tags)
		must(t, "list", err)
		if again.ID != i.ID || len(all) != 1 {
			t.Errorf("launch %s made %s and %s, %d instances", token, i.ID, again.ID, len(all))
		}
		return i
	}
	first := launchOf("all-zones", "", f.First)
	f.Dry(t, f.First, first.Zone)
	second := launchOf("another-zone", "", f.First)
	if second.Zone == first.Zone {
		t.Errorf("a launch as %s went to %s, which has none", f.First, second.Zone)
	}
	launchOf("one-zone", first.Zone, f.Next)
	f.Dry(t, f.First, second.Zone)
	third := launchOf("the-last-zone", "", f.First)
	f.Dry(t, f.First, third.Zone)
	launchOf("no-zone", "", f.Next)
}

func launchesAreSeparate(t *testing.T, s Subject) {
	a := launch(t, s, provider.LaunchRequest{ClientToken: "a"})
	b := launch(t, s, provider.LaunchRequest{ClientToken: "b"})
	if a.ID == b.ID || a.ProviderID == b.ProviderID {
		t.Errorf("two launches share id %s or provider id %s", a.ID, a.ProviderID)
	}
}

func clientToken(t *testing.T, s Subject) {
	req := provider.LaunchRequest{ClientToken: "once", Tags: map[string]string{"pool": "x"}}
	first := launch(t, s, req)
	second, err := s.Launch(t.Context(), req)
	must(t, "launch again", err)
	if first.ID != second.ID {
		t.Errorf("the token launched %s and %s", first.ID, second.ID)
	}
	all, err := s.Provider.ListInstances(t.Context(), map[string]string{"pool": "x"})
	must(t, "list", err)
	if len(all) != 1 {
		t.Errorf("there are %d instances, want 1", len(all))
	}
}

func stopAndStart(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{}).ID
	for range 2 {
		must(t, "stop", s.Provider.StopInstance(t.Context(), string(id), false))
		s.WaitFor(t, id, provider.InstanceStopped)
		must(t, "start", s.Provider.StartInstance(t.Context(), string(id)))
		s.WaitFor(t, id, provider.InstanceRunning)
	}
	must(t, "stop by force", s.Provider.StopInstance(t.Context(), string(id), true))
	s.WaitFor(t, id, provider.InstanceStopped)
}

func startIdempotent(t *testing.T, s Subject) {
	launched, err := s.Launch(t.Context(), provider.LaunchRequest{})
	must(t, "launch", err)
	must(t, "start while pending", s.Provider.StartInstance(t.Context(), string(launched.ID)))
	s.WaitFor(t, launched.ID, provider.InstanceRunning)
	must(t, "start while running", s.Provider.StartInstance(t.Context(), string(launched.ID)))
}

func stopIdempotent(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{}).ID
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(id), false))
	must(t, "stop while stopping", s.Provider.StopInstance(t.Context(), string(id), false))
	s.WaitFor(t, id, provider.InstanceStopped)
	must(t, "stop while stopped", s.Provider.StopInstance(t.Context(), string(id), false))
	must(t, "stop by force while stopped", s.Provider.StopInstance(t.Context(), string(id), true))
}

func startWhileStopping(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{}).ID
	s.HoldStop(t, id)
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(id), false))
	s.WaitFor(t, id, provider.InstanceStopping)
	if err := s.Provider.StartInstance(t.Context(), string(id)); !provider.IsIncorrectState(err) {
		t.Errorf("start while stopping: %v, want an IncorrectStateError", err)
	}
	s.WaitFor(t, id, provider.InstanceStopping)
}

// stopWhilePending: a cloud may refuse to stop an instance until it runs, and says so by its state.
func stopWhilePending(t *testing.T, s Subject) {
	launched, err := s.Launch(t.Context(), provider.LaunchRequest{})
	must(t, "launch", err)
	if err := s.Provider.StopInstance(t.Context(), string(launched.ID), true); err != nil {
		if !provider.IsIncorrectState(err) {
			t.Fatalf("stop by force while pending: %v, want nil or an IncorrectStateError", err)
		}
		s.WaitFor(t, launched.ID, provider.InstanceRunning)
		must(t, "stop by force once it runs", s.Provider.StopInstance(t.Context(), string(launched.ID), true))
	}
	s.WaitFor(t, launched.ID, provider.InstanceStopped)
}

func forcedStop(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{}).ID
	s.HoldStop(t, id)
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(id), false))
	s.WaitFor(t, id, provider.InstanceStopping)
	must(t, "stop by force", s.Provider.StopInstance(t.Context(), string(id), true))
	s.WaitFor(t, id, provider.InstanceStopped)
}

func terminateTwice(t *testing.T, s Subject) {
	for name, prepare := range map[string]func(v1alpha1.InstanceID){
		"running": func(v1alpha1.InstanceID) {},
		"stopped": func(id v1alpha1.InstanceID) {
			must(t, "stop", s.Provider.StopInstance(t.Context(), string(id), false))
			s.WaitFor(t, id, provider.InstanceStopped)
		},
	} {
		id := launch(t, s, provider.LaunchRequest{ClientToken: name}).ID
		prepare(id)
		must(t, "terminate while "+name, s.Provider.TerminateInstance(t.Context(), string(id)))
		s.WaitFor(t, id, provider.InstanceTerminated)
		must(t, "terminate again", s.Provider.TerminateInstance(t.Context(), string(id)))
	}
}

func terminatedStays(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{}).ID
	must(t, "terminate", s.Provider.TerminateInstance(t.Context(), string(id)))
	s.WaitFor(t, id, provider.InstanceTerminated)
	if err := s.Provider.StartInstance(t.Context(), string(id)); !provider.IsIncorrectState(err) {
		t.Errorf("start: %v, want an IncorrectStateError", err)
	}
	if err := s.Provider.StopInstance(t.Context(), string(id), true); !provider.IsIncorrectState(err) {
		t.Errorf("stop: %v, want an IncorrectStateError", err)
	}
}

// calls returns each call on one instance by name.
func calls(p provider.CloudProvider, id v1alpha1.InstanceID) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"StartInstance":     func(ctx context.Context) error { return p.StartInstance(ctx, string(id)) },
		"StopInstance":      func(ctx context.Context) error { return p.StopInstance(ctx, string(id), false) },
		"TerminateInstance": func(ctx context.Context) error { return p.TerminateInstance(ctx, string(id)) },
		"GetInstanceState": func(ctx context.Context) error {
			_, err := p.GetInstanceState(ctx, string(id))
			return err
		},
		"GetInstance": func(ctx context.Context) error {
			instance, err := p.GetInstance(ctx, string(id))
			if err != nil && instance != nil {
				return fmt.Errorf("an instance beside the error %w", err)
			}
			return err
		},
		"UpdateInstanceTags": func(ctx context.Context) error {
			return p.UpdateInstanceTags(ctx, string(id), map[string]string{"late": "yes"})
		},
	}
	if changer, can := p.(provider.TypeChanger); can {
		all["ChangeInstanceType"] = func(ctx context.Context) error {
			return changer.ChangeInstanceType(ctx, string(id), "other")
		}
	}
	return all
}

func unknownIsNotFound(t *testing.T, s Subject) {
	for _, id := range []v1alpha1.InstanceID{unknownID, "", "i-x/../y z?%41"} {
		for name, call := range calls(s.Provider, id) {
			if err := call(t.Context()); !provider.IsNotFound(err) {
				t.Errorf("%s(%q): %v, want an InstanceNotFoundError", name, id, err)
			}
		}
	}
}

func listByTags(t *testing.T, s Subject) {
	var web []v1alpha1.InstanceID
	for i := range 4 {
		tags := map[string]string{"pool": "web", "cluster": "a", "odd name=/&": "ü?#"}
		web = append(web, launch(t, s, provider.LaunchRequest{ClientToken: fmt.Sprint("web", i), Tags: tags}).ID)
	}
	launch(t, s, provider.LaunchRequest{ClientToken: "same pool, other cluster",
		Tags: map[string]string{"pool": "web", "cluster": "b"}})
	launch(t, s, provider.LaunchRequest{ClientToken: "part of the tags", Tags: map[string]string{"cluster": "a"}})
	slices.Sort(web)
	for name, tags := range map[string]map[string]string{
		"two plain tags": {"pool": "web", "cluster": "a"},
		"odd characters": {"odd name=/&": "ü?#"},
	} {
		got, err := s.Provider.ListInstances(t.Context(), tags)
		must(t, "list", err)
		var ids []v1alpha1.InstanceID
		for _, instance := range got {
			ids = append(ids, instance.ID)
		}
		if diff := cmp.Diff(web, ids); diff != "" {
			t.Errorf("list by %s (-want +got):\n%s", name, diff)
		}
	}
}

func emptyList(t *testing.T, s Subject) {
	launch(t, s, provider.LaunchRequest{Tags: map[string]string{"pool": "a"}})
	got, err := s.Provider.ListInstances(t.Context(), map[string]string{"pool": "b"})
	if err != nil || len(got) != 0 {
		t.Errorf("list of nothing: %d instances, error %v", len(got), err)
	}
}

func partialList(t *testing.T, s Subject) {
	here := launch(t, s, provider.LaunchRequest{})
	if s.FailRegion == nil {
		if all, err := s.Provider.ListInstances(t.Context(), nil); err != nil || len(all) != 1 {
			t.Errorf("list of the one region: %d instances, error %v", len(all), err)
		}
		return
	}
	failed := s.FailRegion(t)
	all, err := s.Provider.ListInstances(t.Context(), nil)
	partial, ok := provider.AsPartialList(err)
	if !ok || len(partial.Failed) != 1 || partial.Failed[0].Name != failed || partial.Answered == 0 {
		t.Fatalf("error %v, want a PartialListError that names %s", err, failed)
	}
	if len(all) != 1 || all[0].ID != here.ID || all[0].Region == failed {
		t.Errorf("%d instances beside the error, want the one of the region that answers", len(all))
	}
}

func updateTags(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{Tags: map[string]string{"keep": "1", "change": "1"}}).ID
	must(t, "update", s.Provider.UpdateInstanceTags(t.Context(), string(id), map[string]string{"change": "2", "add": "3"}))
	got, err := s.Provider.GetInstance(t.Context(), string(id))
	must(t, "get", err)
	for key, want := range map[string]string{"keep": "1", "change": "2", "add": "3"} {
		if got.Tags[key] != want {
			t.Errorf("tag %s is %q, want %q", key, got.Tags[key], want)
		}
	}
	listed, err := s.Provider.ListInstances(t.Context(), map[string]string{"change": "1"})
	if err != nil || len(listed) != 0 {
		t.Errorf("the old value still lists %d instances, error %v", len(listed), err)
	}
}

func copies(t *testing.T, s Subject) {
	tags := map[string]string{"pool": "a"}
	launched := launch(t, s, provider.LaunchRequest{Tags: tags})
	tags["pool"] = "spoilt by the caller"
	launched.Tags["pool"] = "spoilt through the launch"
	listed, err := s.Provider.ListInstances(t.Context(), nil)
	must(t, "list", err)
	listed[0].Tags["pool"] = "spoilt through the list"
	got, err := s.Provider.GetInstance(t.Context(), string(launched.ID))
	must(t, "get", err)
	if got.Tags["pool"] != "a" {
		t.Errorf("the tag is %q", got.Tags["pool"])
	}
}

func endedContext(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{Tags: map[string]string{"pool": "a"}}).ID
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	every := calls(s.Provider, id)
	every["ListInstances"] = func(ctx context.Context) error {
		instances, err := s.Provider.ListInstances(ctx, nil)
		if len(instances) > 0 {
			return fmt.Errorf("%d instances beside the error %w", len(instances), err)
		}
		return err
	}
	every["LaunchInstance"] = func(ctx context.Context) error {
		_, err := s.Launch(ctx, provider.LaunchRequest{ClientToken: "late", Tags: map[string]string{"late": "yes"}})
		return err
	}
	for name, call := range every {
		if err := call(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
	s.WaitFor(t, id, provider.InstanceRunning)
	late, err := s.Provider.ListInstances(t.Context(), map[string]string{"late": "yes"})
	if err != nil || len(late) != 0 {
		t.Errorf("a call whose context had ended took effect on %d instances, error %v", len(late), err)
	}
}

func concurrentStarts(t *testing.T, s Subject) {
	id := launch(t, s, provider.LaunchRequest{}).ID
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(id), false))
	s.WaitFor(t, id, provider.InstanceStopped)
	const callers = 16
	results := make(chan error, callers)
	for range callers {
		go func() { results <- s.Provider.StartInstance(t.Context(), string(id)) }()
	}
	for range callers {
		if err := <-results; err != nil {
			t.Errorf("start: %v", err)
		}
	}
	s.WaitFor(t, id, provider.InstanceRunning)
}

func identity(t *testing.T, s Subject) {
	got := launch(t, s, provider.LaunchRequest{})
	want := "/" + got.Zone + "/" + string(got.ID)
	if len(got.ProviderID) <= len(want) || got.ProviderID[len(got.ProviderID)-len(want):] != want {
		t.Errorf("provider id %q does not end in %q", got.ProviderID, want)
	}
}
