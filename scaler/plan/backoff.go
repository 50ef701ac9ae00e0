package plan

import "time"

const (
	// warmupBackoffFirst and warmupBackoffMost bound how long launches back off after failed warm-ups. A class that can
	// never work costs 6 instances in its first hour then.
	warmupBackoffFirst = time.Minute
	warmupBackoffMost  = time.Hour
	// launchBackoffFirst and launchBackoffMost bound it after launches that the cloud refused.
	launchBackoffFirst = 5 * time.Second
	launchBackoffMost  = 5 * time.Minute
)

// WarmupBackoff is how long launches back off after so many failed warm-ups in a row.
func WarmupBackoff(failures int32) time.Duration {
	return doubled(warmupBackoffFirst, warmupBackoffMost, failures)
}

// LaunchBackoff is how long launches back off after so many refusals in a row.
func LaunchBackoff(refusals int32) time.Duration {
	return doubled(launchBackoffFirst, launchBackoffMost, refusals)
}

// doubled is first, doubled with every failure after the first, and at most most.
func doubled(first, most time.Duration, failures int32) time.Duration {
	d := first
	for range min(failures-1, 16) { // 16 doublings are past every bound
		d = min(2*d, most)
	}
	return d
}
