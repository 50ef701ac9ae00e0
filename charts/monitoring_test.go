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
		"StratosSlowScaleUp": {
			reads: []string{"stratos_nodepool_scaleup_duration_seconds"},
			words: []string{"[30m]", "> 45"}, // slowScaleUpSeconds of the set
		},
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
		for _, p := range policy.Spec.Ingress[0].Ports {
			if p.Port.Type != intstr.Int {
				t.Errorf("%s: port %q is a name", o, p.Port.String())
			}
			open = append(open, p.Port.IntVal)
		}
		slices.Sort(open)
		slices.Sort(served[o.set])
		if !slices.Equal(open, served[o.set]) {
			t.Errorf("%s: opens %v, the pods serve %v", o, open, served[o.set])
		}
	}
}
