package scaler

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// metrics are what the scaler measures. Names and labels are listed in docs/names.md.
type metrics struct {
	nodes, starting, poolSize, desired  *prometheus.GaugeVec
	scaleup, scaledown                  *prometheus.CounterVec
	warmupFailures, startFailures       *prometheus.CounterVec
	scaleupDuration, warmupDuration     *prometheus.HistogramVec
	drainDuration, startupTaintDuration *prometheus.HistogramVec
	schedulerErrors, failedWarmups      *prometheus.GaugeVec
}

// newMetrics registers the metrics.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	pool := []string{"pool"}
	seconds := []float64{.1, .25, .5, 1, 2, 3, 5, 8, 13, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stratos_nodepool_" + name, Help: help},
			append(pool, labels...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stratos_nodepool_" + name, Help: help},
			append(pool, labels...))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stratos_nodepool_" + name, Help: help,
			Buckets: seconds}, pool)
	}
	m := &metrics{
		nodes:    gauge("nodes_total", "Nodes of the pool, by state.", "state"),
		starting: gauge("starting_nodes", "Nodes of the pool whose start is under way."),
		poolSize: gauge("pool_size", "The pool's poolSize."),
		failedWarmups: gauge(
			"consecutive_warmup_failures",
			"Warm-ups of the present class and template that failed one after another; those that were launched together count once. Launches back off meanwhile.",
		),
		desired: gauge("desired_standby", "The pool's minStandby."),
		scaleup: counter(
			"scaleup_total",
			"Starts that the cloud accepted, by what asked for them: filter, the extender's answer to a scheduler; pending, Stratos's own look at pods (of other schedulers, with a claim that moved, or bound to the node); cold, pods that no standby node could serve, so that an instance was launched for them. A launched instance that powers itself off when it is warm counts again when it is started.",
			"trigger",
		),
		scaledown: counter("scaledown_total", "Running nodes taken down, by reason.", "reason"),
		warmupFailures: counter("warmup_failures_total", "Warm-ups that did not end in a standby node, by reason.",
			"reason"),
		startFailures: counter("start_failures_total", "Starts that did not end in a running node, by reason.",
			"reason"),
		scaleupDuration: histogram("scaleup_duration_seconds",
			"Time from the start intent to the node being open to pods."),
		warmupDuration: histogram("warmup_duration_seconds", "Time from the launch to a complete warm-up."),
		drainDuration:  histogram("drain_duration_seconds", "Time from closing a node to its stop intent."),
		startupTaintDuration: histogram("startup_taint_duration_seconds",
			"Time from the start intent to the removal of startup taints."),
		schedulerErrors: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stratos_scheduler_error_pods",
			Help: "Pods over which their scheduler fails (reason SchedulerError), by its name.",
		}, []string{"scheduler"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.nodes, m.starting, m.poolSize, m.desired, m.scaleup, m.scaledown, m.warmupFailures, m.startFailures,
		m.scaleupDuration, m.warmupDuration, m.drainDuration, m.startupTaintDuration, m.schedulerErrors, m.failedWarmups,
	} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}

// states writes the gauges that mirror a pool's status.
func (m *metrics) states(p *v1alpha1.NodePool, count map[v1alpha1.NodeState]int32) {
	for _, s := range allStates() {
		m.nodes.WithLabelValues(p.Name, string(s)).Set(float64(count[s]))
	}
	m.starting.WithLabelValues(p.Name).Set(float64(count[v1alpha1.StateStarting]))
	m.poolSize.WithLabelValues(p.Name).Set(float64(p.Spec.PoolSize))
	m.desired.WithLabelValues(p.Name).Set(float64(p.Spec.MinStandby))
	// A series that begins with its first start has no increase, and the alert on slow starts would
	// miss that start.
	m.scaleupDuration.WithLabelValues(p.Name)
}

// warmupsFailing writes how many warm-ups of the pool failed one after another; nil is none.
func (m *metrics) warmupsFailing(p *v1alpha1.NodePool, failing *v1alpha1.WarmupFailure) {
	count := int32(0)
	if failing != nil {
		count = failing.Count
	}
	m.failedWarmups.WithLabelValues(p.Name).Set(float64(count))
}

// forget drops the gauges of a pool that is gone; counters stay, as Prometheus wants them.
func (m *metrics) forget(pool v1alpha1.PoolName) {
	for _, g := range []*prometheus.GaugeVec{m.nodes, m.starting, m.poolSize, m.desired, m.failedWarmups} {
		g.DeletePartialMatch(prometheus.Labels{"pool": string(pool)})
	}
}

func allStates() []v1alpha1.NodeState {
	return []v1alpha1.NodeState{
		v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting,
		v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateTerminating,
	}
}

// RegisterMetrics registers all of the scaler's metrics, for their documentation.
func RegisterMetrics(registerer prometheus.Registerer) error {
	_, err := newMetrics(registerer)
	return err
}
