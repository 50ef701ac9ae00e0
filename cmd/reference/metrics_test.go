package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestEveryMetricPassesPromlint: one gauge is named _total. Its name is older than the rule, users
// know it, and so it stays.
func TestEveryMetricPassesPromlint(t *testing.T) {
	list, err := all()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range list {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		if m.kind == "histogram" {
			fmt.Fprintf(&text, "%s_bucket{le=\"+Inf\"} 1\n%s_sum 1\n%s_count 1\n", m.name, m.name, m.name)
			continue
		}
		fmt.Fprintf(&text, "%s 1\n", m.name)
	}
	problems, err := promlint.New(strings.NewReader(text.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range problems {
		found = append(found, p.Metric)
	}
	if want := []string{"stratos_nodepool_nodes_total"}; !slices.Equal(found, want) {
		t.Errorf("promlint complains of %q, want %q only: %v", found, want, problems)
	}
}

// TestNamesOfMetrics are an interface: dashboards and alerts hang on them.
func TestNamesOfMetrics(t *testing.T) {
	list, err := all()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, strings.TrimPrefix(m.name, "stratos_")+" "+m.kind+" "+m.labels)
	}
	want := []string{
		"claims gauge pool",
		"cloud_provider_batch_size histogram provider, operation",
		"cloud_provider_calls_total counter provider, operation, status",
		"cloud_provider_latency_seconds histogram provider, operation",
		"cloud_provider_throttled_seconds_total counter provider, operation",
		"extender_decision_duration_seconds histogram verb",
		"extender_decisions_total counter decision",
		"extender_request_duration_seconds histogram verb",
		"extender_requests_total counter verb, code",
		"nodeclass_condition gauge kind, class, condition, status",
		"nodepool_condition gauge pool, condition, status",
		"nodepool_consecutive_warmup_failures gauge pool",
		"nodepool_cost_per_hour gauge pool, state, currency",
		"nodepool_desired_standby gauge pool",
		"nodepool_drain_duration_seconds histogram pool",
		"nodepool_nodes_total gauge pool, state",
		"nodepool_overdue_nodes gauge pool, state",
		"nodepool_paused gauge pool",
		"nodepool_pool_size gauge pool",
		"nodepool_scaledown_total counter pool, reason",
		"nodepool_scaleup_duration_seconds histogram pool",
		"nodepool_scaleup_total counter pool, trigger",
		"nodepool_start_failures_total counter pool, reason",
		"nodepool_start_phase_seconds histogram pool, phase",
		"nodepool_starting_nodes gauge pool",
		"nodepool_startup_taint_duration_seconds histogram pool",
		"nodepool_startup_taints_forced_total counter pool",
		"nodepool_unpriced_nodes gauge pool",
		"nodepool_warmup_duration_seconds histogram pool",
		"nodepool_warmup_failures_total counter pool, reason",
		"nominations_total counter result",
		"pod_startup_seconds histogram pool, path",
		"replica_claims_total counter result",
		"scheduler_error_pods gauge scheduler",
		"serving_certificate_expiration_timestamp_seconds gauge ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("metrics:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
