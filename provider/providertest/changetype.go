package providertest

import (
	"testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// typeChanger is the provider as one that changes types; nil where the subject has no other type.
func typeChanger(t *testing.T, s Subject) provider.TypeChanger {
	t.Helper()
	return capability[provider.TypeChanger](t, s, s.OtherType != "")
}

// standby launches an instance and stops it.
func standby(t *testing.T, s Subject) *provider.Instance {
	t.Helper()
	i := launch(t, s, provider.LaunchRequest{})
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(i.ID), false))
	s.WaitFor(t, i.ID, provider.InstanceStopped)
	return i
}

func checkType(t *testing.T, s Subject, id v1alpha1.InstanceID, want string) {
	t.Helper()
	got, err := s.Provider.GetInstance(t.Context(), string(id))
	must(t, "get", err)
	if got.Type != want {
		t.Errorf("the instance is %s, want %s", got.Type, want)
	}
}

// changeType goes to another type and back, with a start as each.
func changeType(t *testing.T, s Subject) {
	changer := typeChanger(t, s)
	if changer == nil {
		return
	}
	i := standby(t, s)
	for _, kind := range []string{s.OtherType, i.Type} {
		must(t, "change to "+kind, changer.ChangeInstanceType(t.Context(), string(i.ID), kind))
		checkType(t, s, i.ID, kind)
		must(t, "start", s.Provider.StartInstance(t.Context(), string(i.ID)))
		s.WaitFor(t, i.ID, provider.InstanceRunning)
		checkType(t, s, i.ID, kind)
		must(t, "stop", s.Provider.StopInstance(t.Context(), string(i.ID), false))
		s.WaitFor(t, i.ID, provider.InstanceStopped)
	}
}

// changeTypeAgain: by the same caller, by one whose first call took effect without an answer, and
// by one who asks when the instance has been started already.
func changeTypeAgain(t *testing.T, s Subject) {
	changer := typeChanger(t, s)
	if changer == nil {
		return
	}
	i := standby(t, s)
	s.LoseAnswer(t, i.ID)
	if err := changer.ChangeInstanceType(t.Context(), string(i.ID), s.OtherType); err != nil {
		checkType(t, s, i.ID, s.OtherType) // the provider itself may have asked again
	}
	for range 2 {
		must(t, "change again", changer.ChangeInstanceType(t.Context(), string(i.ID), s.OtherType))
	}
	checkType(t, s, i.ID, s.OtherType)
	must(t, "start", s.Provider.StartInstance(t.Context(), string(i.ID)))
	s.WaitFor(t, i.ID, provider.InstanceRunning)
	must(t, "change while it runs as that type", changer.ChangeInstanceType(t.Context(), string(i.ID), s.OtherType))
}

func changeTypeOfRunning(t *testing.T, s Subject) {
	changer := typeChanger(t, s)
	if changer == nil {
		return
	}
	i := launch(t, s, provider.LaunchRequest{})
	refused := func(while string) {
		t.Helper()
		if err := changer.ChangeInstanceType(t.Context(), string(i.ID), s.OtherType); !provider.IsIncorrectState(err) {
			t.Errorf("change while %s: %v, want an IncorrectStateError", while, err)
		}
		checkType(t, s, i.ID, i.Type)
	}
	refused("running")
	s.HoldStop(t, i.ID)
	must(t, "stop", s.Provider.StopInstance(t.Context(), string(i.ID), false))
	s.WaitFor(t, i.ID, provider.InstanceStopping)
	refused("stopping")
}

func changeTypeUnknown(t *testing.T, s Subject) {
	changer := typeChanger(t, s)
	if changer == nil {
		return
	}
	i := standby(t, s)
	if err := changer.ChangeInstanceType(t.Context(), string(i.ID), "no-such.type"); !provider.IsInvalidConfig(err) {
		t.Errorf("change to a type that there is not: %v, want an InvalidConfigError", err)
	}
	checkType(t, s, i.ID, i.Type)
	must(t, "start", s.Provider.StartInstance(t.Context(), string(i.ID)))
	s.WaitFor(t, i.ID, provider.InstanceRunning)
}
