package assert

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// MovedMetrics returns the metrics at the address of which some sample is not zero; a histogram is
// one that has observed something.
func MovedMetrics(ctx context.Context, url string) (map[string]bool, error) {
	samples, err := Samples(ctx, url, "stratos_")
	moved := map[string]bool{}
	for series, value := range samples {
		if name, _, _ := strings.Cut(series, "{"); value != 0 {
			moved[strings.TrimSuffix(name, "_count")] = true
		}
	}
	return moved, err
}

// Samples returns the samples at the address whose names begin with the prefix, by series as it is
// printed: the name and, in braces, the labels in order.
func Samples(ctx context.Context, url, prefix string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	samples := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || !strings.HasPrefix(line, prefix) {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			samples[line[:at]] = value
		}
	}
	return samples, nil
}
