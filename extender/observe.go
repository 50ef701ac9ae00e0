package extender

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/extender/view"
)

// observed measures what waiting pods experience.
type observed struct {
	ledger  *claim.Ledger
	claims  *prometheus.Desc
	startup *prometheus.HistogramVec
}

func newObserved(registerer prometheus.Registerer, ledger *claim.Ledger) (*observed, error) {
	o := &observed{
		ledger: ledger,
		claims: prometheus.NewDesc("stratos_claims", "Pods that wait on a node that is not running yet.", []string{"pool"}, nil),
		startup: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stratos_pod_startup_seconds",
			Help:    "Time from the creation of a pod that waited for a node of a pool to its binding.",
			Buckets: []float64{.5, 1, 2, 3, 5, 8, 13, 20, 30, 45, 60, 90, 120, 180, 300, 600},
		}, []string{"pool", "path"}),
	}
	if err := registerer.Register(o.startup); err != nil {
		return nil, err
	}
	return o, registerer.Register(o)
}

// Describe implements prometheus.Collector.
func (o *observed) Describe(ch chan<- *prometheus.Desc) { ch <- o.claims }

// Collect implements prometheus.Collector: the gauge is the ledger itself, so it cannot go stale.
func (o *observed) Collect(ch chan<- prometheus.Metric) {
	for pool, n := range o.ledger.Waiting() {
		ch <- prometheus.MustNewConstMetric(o.claims, prometheus.GaugeValue, float64(n), string(pool))
	}
}

// released is told of every pod that had a claim when it was seen bound or gone.
func (o *observed) released(c claim.Claim, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return // deleted while it waited: it never started up
	}
	o.startup.WithLabelValues(string(c.Pool), "standby").Observe(time.Since(pod.CreationTimestamp.Time).Seconds())
}

func readyz(view *view.View) healthz.Checker {
	return func(*http.Request) error { return view.Ready() }
}
