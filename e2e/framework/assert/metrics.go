package assert

import (
	"context"
	"strings"

	"github.com/stratos-sh/stratos/e2e/framework"
)

// MovedMetrics returns the metrics of the Stratos that serves them at the URL of which some sample
// is not zero; a histogram is one that has observed something.
func MovedMetrics(ctx context.Context, url string) (map[string]bool, error) {
	samples, err := framework.Samples(ctx, url, "stratos_")
	moved := map[string]bool{}
	for series, value := range samples {
		if name, _, _ := strings.Cut(series, "{"); value != 0 {
			moved[strings.TrimSuffix(name, "_count")] = true
		}
	}
	return moved, err
}
