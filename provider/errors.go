package provider

import (
	"errors"
	"fmt"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// InstanceNotFoundError: the instance does not exist, as far as the cloud's reads are consistent.
type InstanceNotFoundError struct{ ID string }

func (e *InstanceNotFoundError) Error() string { return fmt.Sprintf("instance %s not found", e.ID) }

// RateLimitError: the cloud refused the call for its rate. Nothing happened; retry with backoff.
type RateLimitError struct {
	Operation string
	Err       error
}

func (e *RateLimitError) Error() string {
	return fmt.Sprintf("%s: request rate exceeded: %v", e.Operation, e.Err)
}

// Unwrap returns the cloud's own error.
func (e *RateLimitError) Unwrap() error { return e.Err }

// InsufficientCapacityError: the zone has no room for the type now. Other zones and types may have,
// unless it is a quota.
type InsufficientCapacityError struct {
	Type, Zone string
	// Quota: the account may not have more of the type's family in the region, whatever the zone.
	Quota bool
	// Reservation: the reservation that the instance is to use has no room for it, or has ended.
	// Without the reservation the zone may have room.
	Reservation bool
	Err         error
}

func (e *InsufficientCapacityError) Error() string {
	return fmt.Sprintf("insufficient capacity for %s in %s: %v", e.Type, e.Zone, e.Err)
}

// Unwrap returns the cloud's own error.
func (e *InsufficientCapacityError) Unwrap() error { return e.Err }

// InvalidConfigError: the launch configuration is wrong; retrying without a change is useless.
type InvalidConfigError struct {
	Field, Reason string
	// Condition is the reason of the class's condition Ready. Empty: ResolveFailed.
	Condition v1alpha1.Reason
}

func (e *InvalidConfigError) Error() string {
	return fmt.Sprintf("invalid configuration: %s: %s", e.Field, e.Reason)
}

// IncorrectStateError: the instance's state does not allow the operation.
type IncorrectStateError struct {
	ID    string
	State InstanceState
	Op    string
}

func (e *IncorrectStateError) Error() string {
	return fmt.Sprintf("cannot %s instance %s in state %s", e.Op, e.ID, e.State)
}

// UnauthorizedError: a policy of the cloud does not allow the caller the operation. Only checks and
// ChangeInstanceType and SetReservation, without which a pool goes on, return it: to other calls a
// missing permission is a failure that may be gone at the next call.
type UnauthorizedError struct {
	Operation, Reason string
}

func (e *UnauthorizedError) Error() string { return fmt.Sprintf("%s: %s", e.Operation, e.Reason) }

// IsUnauthorized reports whether err says that a policy does not allow the operation.
func IsUnauthorized(err error) bool { return is[*UnauthorizedError](err) }

// IsNotFound reports whether err says that the instance does not exist.
func IsNotFound(err error) bool { return is[*InstanceNotFoundError](err) }

// IsRateLimit reports whether err says that the call was refused for its rate.
func IsRateLimit(err error) bool { return is[*RateLimitError](err) }

// IsInsufficientCapacity reports whether err says that the cloud has no room.
func IsInsufficientCapacity(err error) bool { return is[*InsufficientCapacityError](err) }

// IsQuota reports whether err says that a quota of the account is used up.
func IsQuota(err error) bool {
	var full *InsufficientCapacityError
	return errors.As(err, &full) && full.Quota
}

// IsReservation reports whether err says that a reservation has no room.
func IsReservation(err error) bool {
	var full *InsufficientCapacityError
	return errors.As(err, &full) && full.Reservation
}

// ConditionReason is the reason of the condition Ready of a class that cannot be resolved for err.
func ConditionReason(err error) v1alpha1.Reason {
	var wrong *InvalidConfigError
	if errors.As(err, &wrong) && wrong.Condition != "" {
		return wrong.Condition
	}
	return v1alpha1.ReasonResolveFailed
}

// IsInvalidConfig reports whether err says that the configuration is wrong.
func IsInvalidConfig(err error) bool { return is[*InvalidConfigError](err) }

// LaunchedNothing reports whether err, the answer to a launch that was asked for once, proves that
// nothing was launched. A throttled call proves nothing: an earlier attempt of it may have lost its
// answer.
func LaunchedNothing(err error) bool { return IsInsufficientCapacity(err) || IsInvalidConfig(err) }

// IsIncorrectState reports whether err says that the instance's state forbids the operation.
func IsIncorrectState(err error) bool { return is[*IncorrectStateError](err) }

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
