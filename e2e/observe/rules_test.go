package observe

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// rule is an alert or a recording rule of the chart.
type rule struct {
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// chartRules are the rules of the chart's values everything-on, as Helm renders them.
func chartRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("../../charts/testdata/rendered/everything-on.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Kind string `json:"kind"`
			Spec struct {
				Groups []struct {
					Rules []rule `json:"rules"`
				} `json:"groups"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind != "PrometheusRule" {
			continue
		}
		var all []rule
		for _, g := range object.Spec.Groups {
			all = append(all, g.Rules...)
		}
		return all
	}
	t.Fatal("the chart renders no PrometheusRule")
	return nil
}

// story is how series go, a sample each minute, and from when until when the alert fires because of
// them.
type story struct {
	// series are in the notation of promqltest: 1x10 is a value and ten more like it, 0+2x10 one that
	// grows by 2.
	series string
	// fires is when the alert fires first, ends when it has ended; both zero for never.
	fires, ends time.Duration
	// says stands in the summary.
	says string
}

// length is how long a story is played.
const length = 3 * time.Hour

// TestAlerts plays for each alert what it is for, and what is no reason for it.
func TestAlerts(t *testing.T) {
	stories := alertStories()
	for _, r := range chartRules(t) {
		if r.Alert == "" {
			continue
		}
		if len(stories[r.Alert]) < 2 {
			t.Errorf("%s has %d stories, want one in which it fires, and one in which it does not", r.Alert,
				len(stories[r.Alert]))
		}
		for name, s := range stories[r.Alert] {
			t.Run(r.Alert+"/"+name, func(t *testing.T) { play(t, r, s) })
		}
	}
}

func play(t *testing.T, r rule, s story) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+indented(s.series))
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	var hold model.Duration
	if r.For != "" {
		if hold, err = model.ParseDuration(r.For); err != nil {
			t.Fatal(err)
		}
	}
	alert := rules.NewAlertingRule(r.Alert, expr, time.Duration(hold), 0, labels.FromMap(r.Labels),
		labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
	query := rules.EngineQueryFunc(engine, storage)
	for at := time.Duration(0); at <= length; at += time.Minute {
		if _, err := alert.Eval(context.Background(), 0, time.Unix(0, 0).Add(at), query, nil, 0); err != nil {
			t.Fatal(err)
		}
		fires, summary := false, ""
		for _, a := range alert.ActiveAlerts() {
			if a.State == rules.StateFiring {
				fires, summary = true, a.Annotations.Get("summary")
			}
		}
		if want := s.fires > 0 && at >= s.fires && at < s.ends; fires != want {
			t.Fatalf("at %s it fires: %t, want %t", at, fires, want)
		}
		if fires && !strings.Contains(summary, s.says) {
			t.Fatalf("its summary is %q, want %q in it", summary, s.says)
		}
	}
}

func indented(series string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.TrimSpace(series)) {
		if line = strings.TrimSpace(line); line != "" {
			out.WriteString("  " + line + "\n")
		}
	}
	return out.String()
}
