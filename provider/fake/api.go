package fake

import (
	"context"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// API is everything that can be asked of a fake cloud. *Cloud answers in process, *Client over
// HTTP.
type API interface {
	provider.CloudProvider
	provider.TypeChanger
	// LaunchInstance launches one instance of the class. Errors: InvalidConfig, InsufficientCapacity,
	// RateLimit.
	LaunchInstance(ctx context.Context, class *v1alpha1.AWSNodeClass, req provider.LaunchRequest) (*provider.Instance,
		error)
	// ResolveNodeClass returns what the class's selectors stand for and the capacity of its type;
	// conditions are the caller's. Errors: InvalidConfig, RateLimit.
	ResolveNodeClass(ctx context.Context, class *v1alpha1.AWSNodeClass) (v1alpha1.AWSNodeClassStatus, error)
	Control
}

// Control is what tests and demonstrations do to the cloud itself. None of it is logged, limited or
// subject to faults.
type Control interface {
	// AddFault arms a fault and returns its id.
	AddFault(ctx context.Context, f Fault) (string, error)
	// Faults returns the faults that are armed, in the order of their arming.
	Faults(ctx context.Context) ([]Fault, error)
	// ClearFaults disarms every fault, and ends what they hold up: a hanging stop completes.
	ClearFaults(ctx context.Context) error
	// SetTimes changes the times that are not zero in t; negative means none. What is under way keeps
	// its old times.
	SetTimes(ctx context.Context, t Times) error
	// SetCapacity replaces the capacity limits.
	SetCapacity(ctx context.Context, limits []Capacity) error
	// SetLimits replaces the rate limits; empty: no limits.
	SetLimits(ctx context.Context, limits map[Op]Limit) error
	// Calls returns the log of calls, oldest first. The log keeps the last 100,000 calls.
	Calls(ctx context.Context) ([]Call, error)
	// Snapshot returns the truth about all instances the cloud remembers, without lag, sorted by id.
	Snapshot(ctx context.Context) ([]View, error)
	// Behind acts on an instance behind Stratos's back. Errors: NotFound, IncorrectState.
	Behind(ctx context.Context, instanceID string, action Action) error
}

var (
	_ API = (*Cloud)(nil)
	_ API = (*Client)(nil)
)
