package scaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// refusal is a stop or termination that the cloud refused, or a start that it refused or that came
// to nothing.
type refusal struct {
	reason v1alpha1.Reason
	words  string
	// at is when the cloud last refused it.
	at time.Time
}

// holds reports whether a refusal still tells something after a sweep: until the instance is in
// another state. A start that failed does until the instance runs, because it may have been shown
// as pending in between.
func (r refusal) holds(before, now provider.InstanceState) bool {
	return before == now || r.reason == v1alpha1.ReasonStartFailed && now != provider.InstanceRunning
}

// isRefusal reports whether the cloud refused a stop or termination for a reason that does not pass
// by itself.
func isRefusal(err error) bool {
	return err != nil && !provider.IsNotFound(err) && !provider.IsRateLimit(err) && !provider.IsIncorrectState(err) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// answered takes in the cloud's answer to a stop or termination of the instance. A refusal becomes
// an event, once for each reason, and shows in Degraded of the pool.
func (c *nodes) answered(g gathered, reason v1alpha1.Reason, err error) {
	switch {
	case err == nil:
		c.inventory.accepted(g.instance.ID)
	case isRefusal(err) && c.inventory.refused(g.instance.ID, refusal{reason: reason, words: err.Error(), at: c.now()}):
		c.event(g, corev1.EventTypeWarning, reason, shortened(err.Error()))
	}
}

// shortened cuts the cloud's words to what an event holds.
func shortened(words string) string {
	if len(words) <= refusalWords {
		return words
	}
	return strings.ToValidUTF8(words[:refusalWords], "") + "..."
}

// refused notes a refusal of the instance, and reports whether it is another one than before.
func (i *inventory) refused(id v1alpha1.InstanceID, r refusal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	e, ok := i.instances[id]
	if !ok {
		return false
	}
	before := e.refusal
	e.refusal = r
	i.instances[id] = e
	return before.reason != r.reason || before.words != r.words
}

// accepted forgets a refusal of the instance.
func (i *inventory) accepted(id v1alpha1.InstanceID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.instances[id]; ok {
		e.refusal = refusal{}
		i.instances[id] = e
	}
}

// degradedBy is the refusal that the pool's condition shows, with the number of its instances; ""
// for none.
func (i *inventory) degradedBy(pool v1alpha1.PoolName, now time.Time) (v1alpha1.Reason, string) {
	refused := slices.DeleteFunc(i.of(pool), func(e entry) bool {
		return e.refusal.reason == "" || now.Sub(e.refusal.at) > refusalHolds
	})
	if len(refused) == 0 {
		return "", ""
	}
	first := refused[0]
	if others := len(refused) - 1; others > 0 {
		return first.refusal.reason, fmt.Sprintf("instance %s and %d more: %s", first.ID, others, first.refusal.words)
	}
	return first.refusal.reason, fmt.Sprintf("instance %s: %s", first.ID, first.refusal.words)
}
