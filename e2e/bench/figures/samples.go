package figures

import (
	"math"
	"slices"
	"time"
)

// Samples are durations of one kind, in any order.
type Samples []time.Duration

// Quantile is the smallest sample that at least the share q of all samples does not exceed (nearest
// rank, so it is always one that was measured). Of no samples it is 0.
func (s Samples) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Max is the largest sample, 0 of none.
func (s Samples) Max() time.Duration { return s.Quantile(1) }

// Median is that of numbers: of an even count the mean of the two in the middle, of none 0.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
