package lifecycle

import (
	"time"

	"github.com/stratos-sh/stratos/extender/decide"
)

// MaxDrainBackoff bounds how long a node waits after drains that did not end.
const MaxDrainBackoff = 24 * time.Hour

// DrainBackoff is how long a node waits after drains in a row that failed: as long as a drain may
// take, doubling.
func DrainBackoff(drainTimeout time.Duration) decide.Backoff {
	return decide.Backoff{First: drainTimeout, Max: MaxDrainBackoff}
}

// drainsAgain is when the node may be drained again, after a drain that did not end. It is zero
// where none has failed.
func drainsAgain(o *Observation) time.Time {
	if o.Node.DrainFailed.IsZero() {
		return time.Time{}
	}
	return o.Node.DrainFailed.Add(DrainBackoff(o.Policy.DrainTimeout).After(o.Node.DrainFailures))
}
