package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

const (
	// refusalHolds is how long a refused stop or termination shows in Degraded after the cloud last
	// refused it. It is asked for again every 30 s at least, so after that it is not asked for any
	// more.
	refusalHolds = 5 * time.Minute
	// refusalWords bounds the cloud's words in an event, whose note has at most 1024 bytes.
	refusalWords = 800
)

// Refusal is a stop or termination that the cloud refused, or a start that it refused or that came
// to nothing.
type Refusal struct {
	Reason  v1alpha1.Reason
	Message string
	// At is when the cloud last refused it.
	At time.Time
}

// holds reports whether a refusal still tells something after a sweep: until the instance is in
// another state. A start that failed does until the instance runs, because it may have been shown
// as pending in between.
func (r Refusal) holds(before, now provider.InstanceState) bool {
	return before == now || r.Reason == v1alpha1.ReasonStartFailed && now != provider.InstanceRunning
}

// IsRefusal reports whether the cloud refused a stop or termination for a reason that does not pass
// by itself.
func IsRefusal(err error) bool {
	return err != nil && !provider.IsNotFound(err) && !provider.IsRateLimit(err) && !provider.IsIncorrectState(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// Shortened cuts the cloud's words to what an event holds.
func Shortened(words string) string {
	if len(words) <= refusalWords {
		return words
	}
	return strings.ToValidUTF8(words[:refusalWords], "") + "..."
}

// Refused notes a refusal of the instance, and reports whether it is another one than before.
func (i *Inventory) Refused(id v1alpha1.InstanceID, r Refusal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	e, ok := i.instances[id]
	if !ok {
		return false
	}
	before := e.refusal
	e.refusal = r
	i.instances[id] = e
	return before.Reason != r.Reason || before.Message != r.Message
}

// Accepted forgets a refusal of the instance.
func (i *Inventory) Accepted(id v1alpha1.InstanceID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok {
		e.refusal = Refusal{}
		i.instances[id] = e
	}
}

// DegradedBy is the refusal that the pool's condition shows, with the number of its instances; ""
// for none.
func (i *Inventory) DegradedBy(pool v1alpha1.PoolName, now time.Time) (v1alpha1.Reason, string) {
	refused := slices.DeleteFunc(i.Of(pool), func(e Entry) bool {
		return e.refusal.Reason == "" || now.Sub(e.refusal.At) > refusalHolds
	})
	if len(refused) == 0 {
		return "", ""
	}
	first := refused[0]
	if others := len(refused) - 1; others > 0 {
		return first.refusal.Reason, fmt.Sprintf("instance %s and %d more: %s", first.ID, others, first.refusal.Message)
	}
	return first.refusal.Reason, fmt.Sprintf("instance %s: %s", first.ID, first.refusal.Message)
}
