package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// alertLines finds an alert in the chart's values, with the comment above it.
var alertLines = regexp.MustCompile(`(?m)^    # -- (.*)\n    (Stratos\w+): (\{.*\})$`)

// alertValues are what the chart lets a user set of an alert.
type alertValues struct {
	Threshold *float64 `json:"threshold"`
	Window    string   `json:"window"`
	For       string   `json:"for"`
	Severity  string   `json:"severity"`
}

// alertTable has the alerts in the order of the chart's values, and their defaults.
func alertTable(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var values struct {
		PrometheusRule struct {
			Alerts map[string]alertValues `json:"alerts"`
		} `json:"prometheusRule"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	var table bytes.Buffer
	table.WriteString("| alert | fires when | threshold | window | for | severity |\n|---|---|---|---|---|---|\n")
	lines := alertLines.FindAllStringSubmatch(string(text), -1)
	for _, line := range lines {
		a := values.PrometheusRule.Alerts[line[2]]
		threshold := ""
		if a.Threshold != nil {
			threshold = fmt.Sprint(*a.Threshold)
		}
		fmt.Fprintf(&table, "| [`%s`](#%s) | %s | %s | %s | %s | %s |\n", line[2], strings.ToLower(line[2]), cell(line[1]),
			threshold, a.Window, a.For, a.Severity)
	}
	if got, want := len(lines), len(values.PrometheusRule.Alerts); got != want || want == 0 {
		return "", fmt.Errorf("%s: %d of %d alerts stand on one line below a comment", file, got, want)
	}
	return table.String(), nil
}
