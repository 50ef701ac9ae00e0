package fake

import "github.com/stratos-sh/stratos/provider/simcloud"

// What a fake cloud shares with every played cloud, under the names that its users know.
type (
	// Op is an operation of the cloud's API.
	Op = simcloud.Op
	// Call is one call of it.
	Call = simcloud.Call
	// Fault is something that goes wrong, FaultKind what.
	Fault     = simcloud.Fault
	FaultKind = simcloud.FaultKind
	// Action is something that happens to an instance without Stratos.
	Action = simcloud.Action
	// View is the truth about one instance.
	View = simcloud.View
	// Times say how long things take.
	Times = simcloud.Times
	// Capacity limits how many instances of a type may have power in a zone.
	Capacity = simcloud.Capacity
	// InstanceType is a size.
	InstanceType = simcloud.InstanceType
	// Limit is a token bucket.
	Limit = simcloud.Limit
)

// The operations.
const (
	OpLaunch     = simcloud.OpLaunch
	OpStart      = simcloud.OpStart
	OpStop       = simcloud.OpStop
	OpTerminate  = simcloud.OpTerminate
	OpGetState   = simcloud.OpGetState
	OpGet        = simcloud.OpGet
	OpList       = simcloud.OpList
	OpUpdateTags = simcloud.OpUpdateTags
	OpResolve    = simcloud.OpResolve
	OpChangeType = simcloud.OpChangeType
)

// The faults of calls and of instances.
const (
	FaultInsufficientCapacity = simcloud.FaultInsufficientCapacity
	FaultRateLimit            = simcloud.FaultRateLimit
	FaultIncorrectState       = simcloud.FaultIncorrectState
	FaultNotFound             = simcloud.FaultNotFound
	FaultInvalidConfig        = simcloud.FaultInvalidConfig
	FaultUnauthorized         = simcloud.FaultUnauthorized
	FaultOutage               = simcloud.FaultOutage
	FaultLostAnswer           = simcloud.FaultLostAnswer
	FaultLatency              = simcloud.FaultLatency
	FaultNoAddresses          = simcloud.FaultNoAddresses
	FaultStartFallsBack       = simcloud.FaultStartFallsBack
	FaultKubeletSilent        = simcloud.FaultKubeletSilent
	FaultNoNetwork            = simcloud.FaultNoNetwork
	FaultBootDelay            = simcloud.FaultBootDelay
	FaultDevicesLate          = simcloud.FaultDevicesLate
	FaultStopHangs            = simcloud.FaultStopHangs
)

// The actions of Control.Behind.
const (
	ActVanish    = simcloud.ActVanish
	ActStart     = simcloud.ActStart
	ActStop      = simcloud.ActStop
	ActTerminate = simcloud.ActTerminate
	ActReboot    = simcloud.ActReboot
	ActAge       = simcloud.ActAge

	ActCollectImages = simcloud.ActCollectImages
)

// ErrUnavailable is what the cloud answers in an outage.
var ErrUnavailable = simcloud.ErrUnavailable

// DefaultTimes returns the times of a Cloud with zero Options.
func DefaultTimes() Times { return simcloud.DefaultTimes() }

// ParseTypes reads instance types:
// "small=cpu:4,memory:16Gi,pods:110;gpu=cpu:8,memory:32Gi,example.com/gpu:1".
func ParseTypes(text string) ([]InstanceType, error) { return simcloud.ParseTypes(text) }

// ParseCapacity reads capacity limits: "zone/type=count;zone/type=count", where zone and type may
// be "*".
func ParseCapacity(text string) ([]Capacity, error) { return simcloud.ParseCapacity(text) }

// CountCalls counts the calls per operation.
func CountCalls(calls []Call) map[Op]int { return simcloud.CountCalls(calls) }
