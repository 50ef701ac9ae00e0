package lifecycle

import "time"

// MaxDrainBackoff bounds how long a node waits after drains that did not end.
const MaxDrainBackoff = 24 * time.Hour

// DrainBackoff is how long a node waits after so many failed drains in a row: as long as a drain
// may take, doubling.
func DrainBackoff(failures int, drainTimeout time.Duration) time.Duration {
	backoff := drainTimeout
	for range failures - 1 {
		if backoff *= 2; backoff >= MaxDrainBackoff {
			break
		}
	}
	return min(backoff, MaxDrainBackoff)
}

// drainsAgain is when the node may be drained again, after a drain that did not end. It is zero
// where none has failed.
func drainsAgain(o *Observation) time.Time {
	if o.Node.DrainFailed.IsZero() {
		return time.Time{}
	}
	return o.Node.DrainFailed.Add(DrainBackoff(o.Node.DrainFailures, o.Policy.DrainTimeout))
}
