package ground

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// MovedMetrics returns the metrics at the address of which some sample is not zero; a histogram is one that has observed something.
func MovedMetrics(ctx context.Context, url string) (map[string]bool, error) {
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
	moved := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "{")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]), 64)
		if err == nil && value != 0 && strings.HasPrefix(name, "stratos_") {
			moved[strings.TrimSuffix(name, "_count")] = true
		}
	}
	return moved, nil
}
