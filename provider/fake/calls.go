package fake

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

// maxCalls bounds the log: an hour of a busy test fits, a demonstration left running does not fill the memory.
const maxCalls = 100_000

// CountCalls counts the calls per operation.
func CountCalls(calls []Call) map[Op]int {
	counts := map[Op]int{}
	for _, call := range calls {
		counts[call.Op]++
	}
	return counts
}

// record appends to the log. The caller holds the lock.
func (c *Cloud) record(call Call, err error) {
	c.seq++
	call.Seq = c.seq
	if err != nil {
		call.Err = err.Error()
	}
	if len(c.calls) >= maxCalls {
		// A tenth at a time, so that the copy is rare.
		c.calls = append(c.calls[:0], c.calls[maxCalls/10:]...)
	}
	c.calls = append(c.calls, call)
}
