// Package provider is the contract between Stratos and a cloud. A provider knows instances, tags
// and states; it knows nothing of Nodes, pods or pools beyond the tags it is handed.
//
// Launching is not part of CloudProvider: it needs the cloud's own node class, so each provider has
// a LaunchInstance of its own that takes its class directly and a LaunchRequest.
package provider

import (
	"context"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// InstanceState is what the cloud says of an instance.
type InstanceState string

// The states of an instance.
const (
	InstancePending  InstanceState = "pending"
	InstanceRunning  InstanceState = "running"
	InstanceStopping InstanceState = "stopping"
	InstanceStopped  InstanceState = "stopped"
	// InstanceShuttingDown: it is being terminated and cannot be started again. Its guest, and so its
	// kubelet, may go on for minutes.
	InstanceShuttingDown InstanceState = "shutting-down"
	InstanceTerminated   InstanceState = "terminated"
	// InstanceUnknown: the state cannot be determined; no conclusion may be drawn from it.
	InstanceUnknown InstanceState = "unknown"
)

// Instance is a cloud's view of one instance.
type Instance struct {
	ID    v1alpha1.InstanceID
	State InstanceState
	// ProviderID is what the cloud's kubelet writes to Node.spec.providerID, for example
	// aws:///us-east-1a/i-0abc.
	ProviderID string
	// Type is the instance type, Zone the availability zone.
	Type string
	Zone string
	// Region where it lives; empty on clouds without regions.
	Region string
	// PrivateDNSName is the Node's name on clouds where the kubelet registers under it. May be empty.
	PrivateDNSName string
	LaunchTime     time.Time
	// StateReason holds the cloud's words for the last state change. May be empty.
	StateReason string
	Tags        map[string]string
	// Unfinished: its launch was interrupted and goes on only when it is asked for again under its
	// client token. Clouds whose launch is one call never say so.
	Unfinished bool
}

// CloudProvider is the lifecycle of instances that exist. Implementations are safe for concurrent
// use, may batch calls behind these one-item signatures, honour the caller's context, and return
// the typed errors of this package.
type CloudProvider interface {
	// StartInstance asks for a stopped instance to be started. nil means accepted, not running: the
	// instance may still fall back to stopped. Starting a pending or running instance is nil. Errors:
	// NotFound, InsufficientCapacity, IncorrectState (still stopping: wait and retry; shutting down,
	// terminated: never), RateLimit.
	StartInstance(ctx context.Context, instanceID string) error
	// StopInstance asks for a running instance to be stopped; force skips the guest's own shutdown.
	// nil means accepted. Stopping a stopping or stopped instance is nil. Errors: NotFound,
	// IncorrectState (pending: wait and retry; shutting down, terminated: never), InvalidConfig (the
	// instance is protected from it), RateLimit.
	StopInstance(ctx context.Context, instanceID string, force bool) error
	// TerminateInstance ends an instance permanently. Terminating a terminated instance, or one that
	// is shutting down, is nil. Errors: NotFound (also nothing left to do), InvalidConfig (the
	// instance is protected from it), RateLimit.
	TerminateInstance(ctx context.Context, instanceID string) error
	// GetInstanceState returns the state now, as far as the cloud's reads are consistent. Errors:
	// NotFound, RateLimit.
	GetInstanceState(ctx context.Context, instanceID string) (InstanceState, error)
	// GetInstance returns one instance. Errors: NotFound (no region in use has it, and each of them
	// answered), RateLimit.
	GetInstance(ctx context.Context, instanceID string) (*Instance, error)
	// ListInstances returns all instances that carry every one of the tags, terminated ones for as
	// long as the cloud remembers them, sorted by ID. Reads may lag behind writes by seconds: absence
	// right after a launch proves nothing. Where regions do not answer, the list of the others comes
	// with a PartialListError that names the failed ones: of their instances the list says nothing.
	// The list of one region is whole or missing. With any other error no list comes.
	ListInstances(ctx context.Context, tags map[string]string) ([]*Instance, error)
	// UpdateInstanceTags sets the given tags and leaves the others. Errors: NotFound, RateLimit.
	UpdateInstanceTags(ctx context.Context, instanceID string, tags map[string]string) error
}

// Locator is a cloud that has regions. Locate tells it in which region an instance is, by the
// providerID of the instance's Node, so that the instance is asked for there. What a provider knows
// of an instance already wins.
type Locator interface {
	Locate(instanceID, providerID string)
}

// TypeChanger is a cloud that can make a stopped instance another type.
type TypeChanger interface {
	// ChangeInstanceType makes the instance the type, with which it will start. Where it is the type
	// already, in whatever state, nil: a call whose answer was lost is made again. Errors: NotFound,
	// IncorrectState (it is not stopped), InvalidConfig (the type is none for this instance),
	// Unauthorized, RateLimit.
	ChangeInstanceType(ctx context.Context, instanceID, instanceType string) error
	// SharesQuota reports whether instances of the two types count against one quota of the
	// account, so that where it is used up neither helps.
	SharesQuota(one, other string) bool
}

// LaunchRequest is what a launch needs in addition to the cloud's node class.
type LaunchRequest struct {
	// ClientToken makes the launch idempotent: the same token returns the same instance. After a
	// refusal for which LaunchedNothing holds, the token may be used again with another class.
	ClientToken string
	// Tags to put on the instance and what belongs to it; the managed ones win over the class's.
	Tags map[string]string
	// Zone to launch into; empty: the provider spreads over the class's subnets.
	Zone string
	// Number of the launch within its pool, the same when it is asked for again: providers that have
	// to choose, such as a subnet, choose by it, so that a launch whose answer was lost is repeated as
	// it was. Successive launches have successive numbers.
	Number int64
	// Registration is for instances whose user data Stratos writes.
	Registration Registration
}

// Registration is what the Node of a pool is to register with. A provider adds the taint
// stratos.sh/standby, and leaves out the labels that a kubelet may not set.
type Registration struct {
	Labels                map[string]v1alpha1.LabelValue
	Taints, StartupTaints []v1alpha1.Taint
	// BootstrapToken is the token with which the kubelet of a Kubeadm class obtains its certificate,
	// of the form id.secret. It is a secret. Empty for other families.
	BootstrapToken string
}

// RegistrationOf is what the pool's template says of it. It has no token.
func RegistrationOf(pool *v1alpha1.NodePool) Registration {
	t := &pool.Spec.Template
	return Registration{Labels: t.Labels, Taints: t.Taints, StartupTaints: t.StartupTaints}
}
