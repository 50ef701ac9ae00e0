package observe

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// others are the metrics of other programs that rules and dashboards read, with whose they are.
func others() map[string]string {
	return map[string]string{
		"leader_election_master_status": "client-go, in Stratos",
		"kube_node_spec_taint":          "kube-state-metrics",
	}
}

// dashboard is what is read of one.
type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
		} `json:"list"`
	} `json:"templating"`
}

// dashboards are the chart's, by the names of their files.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("../../charts/stratos/files/dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[filepath.Base(file)] = d
	}
	return found
}

// queries are those of the chart's rules and dashboards, by where they stand. The variables of
// dashboards have values.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, r := range chartRules(t) {
		found["rule "+r.Alert+r.Record] = r.Expr
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				found[file+", "+p.Title+": "+target.Expr] = variables.Replace(target.Expr)
			}
		}
	}
	return found
}

// TestDashboards: each query is about the cluster and the namespace that were chosen, and about the
// chosen pools where its metric has them. Claims, which every replica knows, are not added up.
func TestDashboards(t *testing.T) {
	all := dashboards(t)
	if got, want := slices.Sorted(maps.Keys(all)), []string{"fleet.json", "health.json", "starts.json"}; !slices.Equal(got,
		want) {
		t.Errorf("dashboards %q, want %q", got, want)
	}
	uids := map[string]bool{}
	for file, d := range all {
		uids[d.UID] = true
		var variables []string
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
		}
		if len(variables) < 3 || !slices.Equal(variables[:3], []string{"datasource", "cluster", "namespace"}) {
			t.Errorf("%s has the variables %q", file, variables)
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				expr := target.Expr
				if !strings.Contains(expr, `cluster=~"$cluster",namespace=~"$namespace"`) ||
					strings.Contains(expr, "stratos_nodepool_") && !strings.Contains(expr, `pool=~"$pool"`) {
					t.Errorf("%s, %s: not about what was chosen: %s", file, p.Title, expr)
				}
				if claims := strings.Index(expr, "stratos_claims"); claims >= 0 && !strings.HasSuffix(expr[:claims], ") (") {
					t.Errorf("%s, %s: no maximum over the replicas: %s", file, p.Title, expr)
				}
			}
		}
	}
	if len(uids) != len(all) {
		t.Errorf("%d dashboards have %d uids", len(all), len(uids))
	}
}

// TestQueries: each parses, and reads metrics that exist.
func TestQueries(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(stratos_[a-z_]+)` \\| ([a-z]+)").FindAllStringSubmatch(string(page), -1) {
		served[m[1]] = true
		if m[2] == "histogram" {
			served[m[1]+"_bucket"], served[m[1]+"_sum"], served[m[1]+"_count"] = true, true, true
		}
	}
	for name := range others() {
		served[name] = true
	}
	all := queries(t)
	for _, where := range slices.Sorted(maps.Keys(all)) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(all[where])
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		read := 0
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if s, is := n.(*parser.VectorSelector); is {
				read++
				if !served[s.Name] {
					t.Errorf("%s reads %s, which nothing serves", where, s.Name)
				}
			}
			return nil
		})
		if read == 0 {
			t.Errorf("%s reads no metric", where)
		}
	}
}
