package simcloud

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// FaultKind is what goes wrong.
type FaultKind string

// Faults of a call: it returns the error and nothing happens, unless said otherwise.
const (
	FaultInsufficientCapacity FaultKind = "InsufficientCapacity"
	FaultRateLimit            FaultKind = "RateLimit"
	FaultIncorrectState       FaultKind = "IncorrectState"
	FaultNotFound             FaultKind = "NotFound"
	// FaultInvalidConfig: wrong region, expired credentials, AMI gone; Reason carries the cloud's
	// words.
	FaultInvalidConfig FaultKind = "InvalidConfig"
	// FaultUnauthorized: a policy does not allow the call.
	FaultUnauthorized FaultKind = "Unauthorized"
	// FaultOutage: the API answers nothing but ErrUnavailable.
	FaultOutage FaultKind = "Outage"
	// FaultLostAnswer: the call takes effect, its caller gets ErrUnavailable.
	FaultLostAnswer FaultKind = "LostAnswer"
	// FaultLatency: the call takes effect Delay later. The caller's context is honoured meanwhile.
	FaultLatency FaultKind = "Latency"
	// FaultNoAddresses: the subnet (in Zone, if set) has no address left; launches go to the next one.
	FaultNoAddresses FaultKind = "NoAddresses"
)

// Faults of an instance: the call that sets them off succeeds. They strike once per start, launch
// or stop.
const (
	// FaultStartFallsBack: pending, then stopped again (a launch: terminated), with Reason as its
	// state reason.
	FaultStartFallsBack FaultKind = "StartFallsBack"
	// FaultKubeletSilent: the instance runs, its kubelet never reports in this boot.
	FaultKubeletSilent FaultKind = "KubeletSilent"
	// FaultNoNetwork: the kubelet reports Ready, the CNI never reports in this boot.
	FaultNoNetwork FaultKind = "NoNetwork"
	// FaultBootDelay: the boot takes Delay longer.
	FaultBootDelay FaultKind = "BootDelay"
	// FaultDevicesLate: extended resources are reported Delay after Ready.
	FaultDevicesLate FaultKind = "DevicesLate"
	// FaultStopHangs: stays stopping until a stop by force, or until the faults are cleared.
	FaultStopHangs FaultKind = "StopHangs"
	// FaultUnseen: lists and looks do not show the instance, as if it did not exist. Calls that change
	// it work. It has neither Count nor Probability.
	FaultUnseen FaultKind = "Unseen"
)

// ErrUnavailable is what the cloud answers in an outage. It is none of provider's typed errors, as
// in the real world.
var ErrUnavailable = errors.New("service unavailable")

// Fault is something that goes wrong. Empty match fields match everything.
type Fault struct {
	// ID is given by AddFault.
	ID   string
	Kind FaultKind
	// Op, Instance, Zone and Type say what is struck.
	Op         Op
	Instance   v1alpha1.InstanceID
	Zone, Type string
	// Skip lets that many matches pass first; Count strikes that many times after, 0 without end.
	Skip, Count int
	// Probability of striking a match, 0 meaning always.
	Probability float64
	// Delay of FaultLatency, FaultBootDelay and FaultDevicesLate.
	Delay time.Duration
	// Reason is the cloud's words. Optional.
	Reason string
}

// armed is a Fault with its count-downs. The Cloud's lock guards it.
type armed struct {
	Fault
	left int
	skip int
}

// Target is what a call, or a part of one, is about. Empty fields are unknown, and no fault that
// names one strikes.
type Target struct {
	Op         Op
	ID         v1alpha1.InstanceID
	Zone, Type string
}

// NoAddresses is how a subnet without free addresses is told from a zone without capacity.
const NoAddresses = "InsufficientFreeAddressesInSubnet"

func (f *Fault) matches(t Target) bool {
	return (f.Op == "" || f.Op == t.Op) &&
		(f.Instance == "" || f.Instance == t.ID) &&
		(f.Zone == "" || f.Zone == t.Zone) &&
		(f.Type == "" || f.Type == t.Type)
}

// unseen reports whether an armed fault hides the instance from reads.
func (b *Book) unseen(inst *Instance) bool {
	t := Target{ID: inst.ID, Zone: inst.Zone, Type: inst.Type}
	return slices.ContainsFunc(b.faults, func(f armed) bool { return f.Kind == FaultUnseen && f.matches(t) })
}

func (k FaultKind) known() bool {
	switch k {
	case FaultInsufficientCapacity, FaultRateLimit, FaultIncorrectState, FaultNotFound, FaultInvalidConfig,
		FaultUnauthorized, FaultOutage, FaultLostAnswer, FaultLatency, FaultNoAddresses, FaultStartFallsBack,
		FaultKubeletSilent, FaultNoNetwork, FaultBootDelay, FaultDevicesLate, FaultStopHangs, FaultUnseen:
		return true
	}
	return false
}

// Strike returns the first armed fault of the kind that hits the target and counts it down; nil for
// none.
func (b *Book) Strike(t Target, kinds ...FaultKind) *Fault {
	for _, kind := range kinds {
		for i := range b.faults {
			if f := &b.faults[i]; f.Kind == kind && f.matches(t) && b.fires(f) {
				return &f.Fault
			}
		}
	}
	return nil
}

func (b *Book) fires(f *armed) bool {
	if f.Count > 0 && f.left == 0 {
		return false
	}
	if f.skip > 0 {
		f.skip--
		return false
	}
	if f.Probability > 0 && b.random.Float64() >= f.Probability {
		return false
	}
	f.left--
	return true
}

// failure returns the error of a call fault.
func (f *Fault) failure(t Target, state provider.InstanceState) error {
	words := func(fallback string) error {
		if f.Reason != "" {
			return errors.New(f.Reason)
		}
		return errors.New(fallback)
	}
	switch f.Kind {
	case FaultInsufficientCapacity:
		return &provider.InsufficientCapacityError{Type: t.Type, Zone: t.Zone, Err: words("InsufficientInstanceCapacity")}
	case FaultNoAddresses:
		return &provider.InsufficientCapacityError{Type: t.Type, Zone: t.Zone, Err: words(NoAddresses)}
	case FaultRateLimit:
		return &provider.RateLimitError{Operation: string(t.Op), Err: words("RequestLimitExceeded")}
	case FaultIncorrectState:
		return &provider.IncorrectStateError{ID: string(t.ID), State: state, Op: verb(t.Op)}
	case FaultNotFound:
		return &provider.InstanceNotFoundError{ID: string(t.ID)}
	case FaultInvalidConfig:
		return &provider.InvalidConfigError{Field: "cloud", Reason: words("the cloud refuses the configuration").Error()}
	case FaultUnauthorized:
		return &provider.UnauthorizedError{Operation: string(t.Op),
			Reason: words("You are not authorized to perform this operation.").Error()}
	default:
		if f.Reason != "" {
			return fmt.Errorf("%w: %s", ErrUnavailable, f.Reason)
		}
		return ErrUnavailable
	}
}

// verb is the word for an operation in an IncorrectStateError.
func verb(op Op) string {
	switch op {
	case OpStart:
		return "start"
	case OpStop:
		return "stop"
	case OpTerminate:
		return "terminate"
	case OpChangeType:
		return "change the type of"
	case OpSetReservation:
		return "set the reservation of"
	default:
		return string(op)
	}
}
