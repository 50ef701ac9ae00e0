package charts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// rule is what is read of an alert or a recording rule.
type rule struct {
	Alert  string `json:"alert"`
	Record string `json:"record"`
	Expr   string `json:"expr"`
	For    string `json:"for"`

	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Rules []rule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// alerts are the alerts of the set everything-on, by name.
func alerts(t *testing.T) map[string]rule {
	t.Helper()
	found := map[string]rule{}
	for _, o := range ofKind(t, "PrometheusRule") {
		if o.set != "everything-on" {
			continue
		}
		var p prometheusRule
		if err := yaml.Unmarshal(o.document, &p); err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Spec.Groups {
			for _, r := range g.Rules {
				found[r.Alert] = r
			}
		}
	}
	return found
}

// metricName finds the names of metrics in an expression, without the suffix of a histogram's
// series.
var metricName = regexp.MustCompile(`stratos_[a-z_]+`)

// TestAlertsReadWhatTheyMean: each alert reads all the metrics that its meaning depends on, over
// the time that it names. An alert on a metric that Stratos does not serve would never fire.
func TestAlertsReadWhatTheyMean(t *testing.T) {
	served, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]struct {
		reads []string
		words []string
	}{
		"StratosLowStandby": {
			reads: []string{"stratos_nodepool_desired_standby", "stratos_nodepool_nodes_total", "stratos_nodepool_pool_size"},
			words: []string{`state="standby"`, `state!="warmup"`},
		},
		"StratosWarmupFailing": {
			reads: []string{"stratos_nodepool_consecutive_warmup_failures"},
			words: []string{">= 2"},
		},
		"StratosPoolPaused":    {reads: []string{"stratos_nodepool_paused"}, words: []string{"> 0"}},
		"StratosStartsFailing": {reads: []string{"stratos_nodepool_start_failures_total"}, words: []string{"[30m]", ">= 3"}},
		"StratosSlowScaleUp": {
			reads: []string{"stratos_nodepool_scaleup_duration_seconds"},
			words: []string{"[30m]", "> 45"}, // the threshold of the set
		},
		"StratosNodesOverdue": {reads: []string{"stratos_nodepool_overdue_nodes"}, words: []string{"pool, state", "> 0"}},
		"StratosStartupTaintsForced": {reads: []string{"stratos_nodepool_startup_taints_forced_total"},
			words: []string{"[1h]", "> 0"}},
		"StratosNodeClassNotReady": {reads: []string{"stratos_nodeclass_condition"},
			words: []string{`condition="Ready"`, `status="False"`}},
		"StratosCloudThrottled": {reads: []string{"stratos_cloud_provider_throttled_seconds_total"},
			words: []string{"[10m]", "> 300"}},
		"StratosNoLeader":        {words: []string{`leader_election_master_status{name="stratos"}`, "== 0"}},
		"StratosAbsent":          {words: []string{`absent(leader_election_master_status{name="stratos"})`}},
		"StratosSchedulerErrors": {reads: []string{"stratos_scheduler_error_pods"}, words: []string{"> 0"}},
		"StratosExtenderErrors": {reads: []string{"stratos_extender_requests_total"},
			words: []string{`code!~"2.."`, "[10m]", "> 0"}},
		"StratosCertificateEnds": {reads: []string{"stratos_serving_certificate_expiration_timestamp_seconds"},
			words: []string{"time()", "< 7"}},
	}
	found := alerts(t)
	for name, want := range table {
		t.Run(name, func(t *testing.T) {
			expr := found[name].Expr
			var reads []string
			for _, m := range metricName.FindAllString(expr, -1) {
				m = strings.TrimSuffix(m, "_bucket")
				reads = append(reads, m)
				if !strings.Contains(string(served), "| `"+m+"` |") {
					t.Errorf("docs/metrics.md has no %s", m)
				}
			}
			slices.Sort(reads)
			if got := slices.Compact(reads); !slices.Equal(got, want.reads) {
				t.Errorf("reads %q, want %q; expression %s", got, want.reads, expr)
			}
			for _, w := range want.words {
				if !strings.Contains(expr, w) {
					t.Errorf("the expression lacks %q: %s", w, expr)
				}
			}
		})
	}
}

// TestEachAlertHasItsRunbook: the annotation leads to a section of docs/alerts.md, which has one
// for each alert and no other.
func TestEachAlertHasItsRunbook(t *testing.T) {
	page, err := os.ReadFile("../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, found := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, found[1])
	}
	var names []string
	for name, r := range alerts(t) {
		if name == "" { // a recording rule
			continue
		}
		names = append(names, name)
		want := "https://github.com/stratos-sh/stratos/blob/main/docs/alerts.md#" + strings.ToLower(name)
		if got := r.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: runbook %q, want %q", name, got, want)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: labels %v, annotations %v", name, r.Labels, r.Annotations)
		}
	}
	slices.Sort(sections)
	slices.Sort(names)
	if !slices.Equal(sections, names) {
		t.Errorf("docs/alerts.md has %q, the chart %q", sections, names)
	}
}

// TestNetworkPolicyOpensThePodsPorts: by number, because network policy controllers drop rules with
// the name of a port of an init container, and Stratos is one beside a scheduler. The numbers are
// those of the same set's pods, the probes' apart.
func TestNetworkPolicyOpensThePodsPorts(t *testing.T) {
	served := map[string][]int32{}
	for _, o := range ofKind(t, "Deployment") {
		for _, c := range containers(deployment(t, o)) {
			for _, p := range c.Ports {
				if p.Name != "probes" {
					served[o.set] = append(served[o.set], p.ContainerPort)
				}
			}
		}
	}
	for _, o := range ofKind(t, "NetworkPolicy") {
		var policy networkingv1.NetworkPolicy
		o.decode(t, &policy)
		var open []int32
		for _, rule := range policy.Spec.Ingress {
			for _, p := range rule.Ports {
				if p.Port.Type != intstr.Int {
					t.Errorf("%s: port %q is a name", o, p.Port.String())
				}
				open = append(open, p.Port.IntVal)
			}
		}
		slices.Sort(open)
		slices.Sort(served[o.set])
		if !slices.Equal(open, served[o.set]) {
			t.Errorf("%s: opens %v, the pods serve %v", o, open, served[o.set])
		}
	}
}

// monitor is what a ServiceMonitor and a PodMonitor have in common. Package helm applies both to
// the API server, with the operator's definitions.
type monitor struct {
	Spec struct {
		Endpoints           []endpoint `json:"endpoints"`
		PodMetricsEndpoints []endpoint `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

type endpoint struct {
	Port              string           `json:"port"`
	Interval          string           `json:"interval"`
	BearerTokenFile   string           `json:"bearerTokenFile"`
	Relabelings       []map[string]any `json:"relabelings"`
	MetricRelabelings []map[string]any `json:"metricRelabelings"`
	Authorization     *struct {
		Credentials struct {
			Name string `json:"name"`
		} `json:"credentials"`
	} `json:"authorization"`
}

// TestMonitors: the scheduler's metrics are asked for with a token, Stratos's own without one,
// because they are served in plain HTTP.
func TestMonitors(t *testing.T) {
	checked := 0
	for _, o := range slices.Concat(ofKind(t, "ServiceMonitor"), ofKind(t, "PodMonitor")) {
		var m monitor
		if err := yaml.Unmarshal(o.document, &m); err != nil {
			t.Fatal(err)
		}
		for _, e := range slices.Concat(m.Spec.Endpoints, m.Spec.PodMetricsEndpoints) {
			checked++
			secret := ""
			if e.Authorization != nil {
				secret = e.Authorization.Credentials.Name
			}
			wantSecret := ""
			if o.set == "peers" && e.Port == "scheduler" {
				wantSecret = "prometheus-token"
			}
			if secret != wantSecret || (e.BearerTokenFile != "") != (e.Port == "scheduler" && wantSecret == "") {
				t.Errorf("%s, %s: authorization by Secret %q, token file %q", o, e.Port, secret, e.BearerTokenFile)
			}
			if rules := len(e.Relabelings) + len(e.MetricRelabelings); rules != map[bool]int{true: 2}[o.set == "peers"] {
				t.Errorf("%s, %s: %d rules", o, e.Port, rules)
			}
		}
		want := map[string]int{"peers": 2, "pod-monitor": 1}[o.set]
		if n := len(m.Spec.PodMetricsEndpoints); o.Kind == "PodMonitor" && n != want {
			t.Errorf("%s: %d endpoints: without authorization the scheduler refuses", o, n)
		}
	}
	if checked < 8 {
		t.Errorf("%d endpoints, which is less than there are", checked)
	}
}

// TestNetworkPolicyPeers: each port for the peers of the values, and for everyone where they name
// none.
func TestNetworkPolicyPeers(t *testing.T) {
	for _, o := range ofKind(t, "NetworkPolicy") {
		var policy networkingv1.NetworkPolicy
		o.decode(t, &policy)
		ports := valuesOf(t, o.set).Ports
		for _, rule := range policy.Spec.Ingress {
			for _, p := range rule.Ports {
				want := ""
				switch {
				case o.set != "peers":
				case p.Port.IntValue() == ports.Webhook:
					want = "10.0.0.0/16"
				default:
					want = "monitoring"
				}
				got := ""
				for _, peer := range rule.From {
					if peer.IPBlock != nil {
						got += peer.IPBlock.CIDR
					} else {
						got += peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
					}
				}
				if got != want {
					t.Errorf("%s: port %s is open to %q, want %q", o, p.Port, got, want)
				}
			}
		}
	}
}
