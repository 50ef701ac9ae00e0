package plan

import (
	"time"

	"github.com/stratos-sh/stratos/extender/decide"
)

const (
	// warmupBackoffFirst and warmupBackoffMost bound how long launches back off after failed warm-ups.
	// A class that can never work costs 6 instances in its first hour then.
	warmupBackoffFirst = time.Minute
	warmupBackoffMost  = time.Hour
	// launchBackoffFirst and launchBackoffMost bound it after launches that the cloud refused.
	launchBackoffFirst = 5 * time.Second
	launchBackoffMost  = 5 * time.Minute
)

// WarmupBackoff is how long launches back off after so many failed warm-ups in a row.
func WarmupBackoff(failures int32) time.Duration {
	return decide.Backoff{First: warmupBackoffFirst, Max: warmupBackoffMost}.After(int(failures))
}

// LaunchBackoff is how long launches back off after so many refusals in a row.
func LaunchBackoff(refusals int32) time.Duration {
	return decide.Backoff{First: launchBackoffFirst, Max: launchBackoffMost}.After(int(refusals))
}
