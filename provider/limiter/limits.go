// Package limiter keeps the calls to a cloud below the rates at which the cloud refuses them: a
// token bucket for each operation, which lowers its rate when the cloud refuses all the same. It
// counts calls, not instances: a provider that puts many instances into one call uses Calls below
// its batches; one that does not is wrapped as a whole by Wrap.
package limiter

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Operation is a call as the cloud's limits count it. The names are EC2's.
type Operation string

// The operations.
const (
	RunInstances       Operation = "RunInstances"
	StartInstances     Operation = "StartInstances"
	StopInstances      Operation = "StopInstances"
	TerminateInstances Operation = "TerminateInstances"
	DescribeInstances  Operation = "DescribeInstances"
	CreateTags         Operation = "CreateTags"
	// ModifyInstanceAttribute changes the type of one instance.
	ModifyInstanceAttribute Operation = "ModifyInstanceAttribute"
	// ModifyInstanceCapacityReservationAttributes sets the reservation of one instance.
	ModifyInstanceCapacityReservationAttributes Operation = "ModifyInstanceCapacityReservationAttributes"
)

// ResolveNodeClass is what a cloud that is asked for a class as a whole calls it. It is measured,
// not limited.
const ResolveNodeClass Operation = "ResolveNodeClass"

// Operations are all of them, in the order in which they are printed.
func Operations() []Operation {
	return []Operation{RunInstances, StartInstances, StopInstances, TerminateInstances, DescribeInstances, CreateTags,
		ModifyInstanceAttribute, ModifyInstanceCapacityReservationAttributes}
}

// Limit is a token bucket: Burst calls at once, PerSecond more each second. The zero Limit is none.
type Limit struct {
	Burst     int
	PerSecond float64
}

// most bounds what a flag may ask for: no cloud allows more, and sums stay finite.
const most = 10000

// off is how a flag says that there is no limit.
const off = "off"

// Default is what one account and region may do. The bursts are those that Stratos has always
// documented, those of ModifyInstance... are EC2's for calls that change something; each second
// refills what EC2 publishes ("Request throttling for the Amazon EC2 API"), but no more than the
// burst.
func Default() map[Operation]Limit {
	return map[Operation]Limit{
		RunInstances:       {Burst: 5, PerSecond: 2},
		StartInstances:     {Burst: 5, PerSecond: 2},
		StopInstances:      {Burst: 5, PerSecond: 5},
		TerminateInstances: {Burst: 5, PerSecond: 5},
		DescribeInstances:  {Burst: 20, PerSecond: 20},
		CreateTags:         {Burst: 10, PerSecond: 10},

		ModifyInstanceAttribute:                     {Burst: 50, PerSecond: 5},
		ModifyInstanceCapacityReservationAttributes: {Burst: 50, PerSecond: 5},
	}
}

// Resources is how many instances the calls of one account and region may name, as EC2 publishes it
// in addition to the limits on the calls themselves.
func Resources() map[Operation]Limit {
	return map[Operation]Limit{
		StartInstances:     {Burst: 1000, PerSecond: 2},
		StopInstances:      {Burst: 1000, PerSecond: 20},
		TerminateInstances: {Burst: 1000, PerSecond: 20},
	}
}

// Parse reads "burst/perSecond", such as 5/2, or "off", which is the zero Limit. The error says
// what is allowed.
func Parse(text string) (Limit, error) {
	if text == off {
		return Limit{}, nil
	}
	first, second, both := strings.Cut(text, "/")
	burst, err := strconv.Atoi(first)
	perSecond, err2 := strconv.ParseFloat(second, 64)
	if !both || err != nil || err2 != nil || burst < 1 || burst > most || !(perSecond > 0 && perSecond <= most) {
		return Limit{}, fmt.Errorf(
			"%q is not burst/perSecond, a whole number from 1 to %d and a number above 0 and at most %d, such as 5/2, and not %s",
			text,
			most,
			most,
			off,
		)
	}
	return Limit{Burst: burst, PerSecond: perSecond}, nil
}

// String is what Parse reads.
func (l Limit) String() string {
	if l.none() {
		return off
	}
	return strconv.Itoa(l.Burst) + "/" + strconv.FormatFloat(l.PerSecond, 'g', -1, 64)
}

// Share is the part of the limit that one of several replicas may use. Its burst is rounded down,
// so that the shares together are no more than the whole, but never to nothing: a replica that may
// not call at all is no replica.
func (l Limit) Share(share float64) Limit {
	if l.none() {
		return l
	}
	return Limit{Burst: max(1, int(math.Floor(float64(l.Burst)*share))), PerSecond: l.PerSecond * share}
}

func (l Limit) none() bool { return l == Limit{} }
