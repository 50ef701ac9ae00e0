package framework

import (
	"context"
	"strconv"
	"strings"
)

// Samples returns the samples of the process that serves its metrics at the URL, by series as it is
// printed: the name and, in braces, the labels in order. It leaves out names without the prefix.
func Samples(ctx context.Context, url, prefix string) (map[string]float64, error) {
	text, err := call(ctx, url+"/metrics", nil)
	return ParseSamples(string(text), prefix), err
}

// ParseSamples reads the samples in the text.
func ParseSamples(text, prefix string) map[string]float64 {
	samples := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || !strings.HasPrefix(line, prefix) {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			samples[line[:at]] = value
		}
	}
	return samples
}

// Metric sums the series of the metric whose labels contain the text, 0 if there is none.
func Metric(ctx context.Context, url, name, labels string) (float64, error) {
	samples, err := Samples(ctx, url, name+"{")
	sum := 0.0
	for series, value := range samples {
		if strings.Contains(series[len(name):], labels) {
			sum += value
		}
	}
	return sum, err
}
