package observed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// panelQueries are the queries of all dashboards with their variables filled in, by the dashboard
// and the title of the panel.
func panelQueries(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../charts/stratos/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards %v, %v", files, err)
	}
	fill := strings.NewReplacer("$cluster", ".*", "$namespace", ".*", "$pool", ".*", "$__rate_interval", "1m")
	queries := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title   string `json:"title"`
				Targets []struct {
					Expr string `json:"expr"`
				} `json:"targets"`
			} `json:"panels"`
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatal(err)
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				name := strings.TrimSuffix(filepath.Base(file), ".json") + "/" + panel.Title
				queries[name] = append(queries[name], fill.Replace(target.Expr))
			}
		}
	}
	return queries
}
