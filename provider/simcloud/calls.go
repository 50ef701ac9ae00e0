package simcloud

import (
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Call is one call of the cloud's API.
type Call struct {
	// Seq numbers the calls from 1 in the order in which they took effect.
	Seq int64
	// At is when the call arrived, to the nanosecond.
	At time.Time
	Op Op
	// Instance is the one addressed, or launched. Empty for lists and failed launches.
	Instance v1alpha1.InstanceID
	// Force is StopInstance's argument.
	Force bool
	// Err is the text of the error that was returned, empty for success.
	Err string
}

// MaxCalls bounds the log: an hour of a busy test fits, a demonstration left running does not fill
// the memory.
const MaxCalls = 100_000

// CountCalls counts the calls per operation.
func CountCalls(calls []Call) map[Op]int {
	counts := map[Op]int{}
	for _, call := range calls {
		counts[call.Op]++
	}
	return counts
}

// Record appends to the log of calls.
func (b *Book) Record(call Call, err error) {
	b.seq++
	call.Seq = b.seq
	if err != nil {
		call.Err = err.Error()
	}
	if len(b.calls) >= MaxCalls {
		// A tenth at a time, so that the copy is rare.
		b.calls = append(b.calls[:0], b.calls[MaxCalls/10:]...)
	}
	b.calls = append(b.calls, call)
}

// Op is an operation of the cloud's API.
type Op string

// The operations.
const (
	OpLaunch     Op = "LaunchInstance"
	OpStart      Op = "StartInstance"
	OpStop       Op = "StopInstance"
	OpTerminate  Op = "TerminateInstance"
	OpGetState   Op = "GetInstanceState"
	OpGet        Op = "GetInstance"
	OpList       Op = "ListInstances"
	OpUpdateTags Op = "UpdateInstanceTags"
	OpResolve    Op = "ResolveNodeClass"
	OpChangeType Op = "ChangeInstanceType"

	OpSetReservation Op = "SetReservation"
)
