package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRowsOfAlerts(t *testing.T) {
	got, err := alertTable(root + "/charts/stratos/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n| [`StratosPoolPaused`](#stratospoolpaused) | A pool is paused. |  |  | 1h | warning |\n",
		" `threshold` seconds. | 60 | 30m | 5m | warning |\n", " | 0 | 1h |  | warning |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestAnAlertWithoutACommentIsAnError: its row would be missing.
func TestAnAlertWithoutACommentIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	values := "prometheusRule:\n  alerts:\n    # -- One.\n    StratosOne: {for: 1m}\n    StratosTwo: {for: 1m}\n"
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := alertTable(file); err == nil || !strings.Contains(err.Error(), "1 of 2 alerts") {
		t.Errorf("error = %v", err)
	}
}
