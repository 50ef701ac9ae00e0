package extender

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// observed measures what pending pods experience.
type observed struct {
	state          *cluster.State
	claims, paused *prometheus.Desc
	startup        *prometheus.HistogramVec
	now            func() time.Time
}

func newObserved(registerer prometheus.Registerer, v *cluster.State, now func() time.Time) (*observed, error) {
	o := &observed{
		state: v, now: now,
		claims: prometheus.NewDesc("stratos_claims", "Pods that wait on a node that is not running yet.", []string{"pool"},
			nil),
		paused: prometheus.NewDesc("stratos_nodepool_paused",
			"1 where the pool is paused (annotation stratos.sh/paused), else 0. A replica that exports 1 begins nothing new in the pool.",
			[]string{"pool"}, nil),
		startup: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stratos_pod_startup_seconds",
			Help:    "Time from the creation of a pod that waited for a node of a pool to its binding, by its path: standby, the node was started from standby; reclaimed, the drain of the node was cancelled for the pod; promoted, the node opened at the end of a warm-up that had begun before the pod was created; cold, the instance was launched after the pod was created.",
			Buckets: []float64{.5, 1, 2, 3, 5, 8, 13, 20, 30, 45, 60, 90, 120, 180, 300, 600},
		}, []string{"pool", "path"}),
	}
	if err := registerer.Register(o.startup); err != nil {
		return nil, err
	}
	return o, registerer.Register(o)
}

// Describe implements prometheus.Collector.
func (o *observed) Describe(ch chan<- *prometheus.Desc) { ch <- o.claims; ch <- o.paused }

// Collect implements prometheus.Collector: the gauges are the cluster state itself, so they cannot
// go stale.
func (o *observed) Collect(ch chan<- prometheus.Metric) {
	for pool, n := range o.state.PendingClaims() {
		ch <- prometheus.MustNewConstMetric(o.claims, prometheus.GaugeValue, float64(n), string(pool))
	}
	for pool, is := range o.state.PausedPools() {
		value := 0.0
		if is {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(o.paused, prometheus.GaugeValue, value, string(pool))
	}
}

// released is called for every pod that had a claim, or for which a warm node was opened, when it
// is seen bound or gone. Of several replicas the one that made the claim measures.
func (o *observed) released(c decide.Claim, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || c.Adopted {
		return // a pod that was deleted while it waited never started up
	}
	o.startup.WithLabelValues(string(c.Pool), string(c.Path)).Observe(o.now().Sub(pod.CreationTimestamp.Time).Seconds())
}

func readyz(view *cluster.State) healthz.Checker {
	return func(*http.Request) error { return view.Ready() }
}
