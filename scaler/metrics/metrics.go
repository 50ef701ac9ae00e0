// Package metrics has the metrics of the scaler. docs/metrics.md lists them.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Metrics are what the scaler measures. Names and labels are listed in docs/names.md.
type Metrics struct {
	nodes, starting, poolSize, desired  *prometheus.GaugeVec
	Scaleup, Scaledown                  *prometheus.CounterVec
	WarmupFailures, StartFailures       *prometheus.CounterVec
	StartupTaintsForced                 *prometheus.CounterVec
	ScaleupDuration, WarmupDuration     *prometheus.HistogramVec
	DrainDuration, StartupTaintDuration *prometheus.HistogramVec
	StartPhase                          *prometheus.HistogramVec
	SchedulerErrors, FailedWarmups      *prometheus.GaugeVec
	Nominations, ReplicaClaims          *prometheus.CounterVec
}

// New registers the metrics.
func New(registerer prometheus.Registerer) (*Metrics, error) {
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
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stratos_nodepool_" + name, Help: help,
			Buckets: seconds}, append(pool, labels...))
	}
	m := &Metrics{
		nodes:    gauge("nodes_total", "Nodes of the pool, by state.", "state"),
		starting: gauge("starting_nodes", "Nodes of the pool whose start is under way."),
		poolSize: gauge("pool_size", "The pool's poolSize."),
		FailedWarmups: gauge(
			"consecutive_warmup_failures",
			"Warm-ups of the present class and template that failed one after another; those that were launched together count once. Launches back off meanwhile.",
		),
		desired: gauge("desired_standby", "The pool's minStandby."),
		Scaleup: counter(
			"scaleup_total",
			"Starts that the cloud accepted, by what asked for them: filter, the extender's answer to a scheduler; pending, Stratos's own look at pods (of other schedulers, with a claim that moved, or bound to the node); cold, pods that no standby node could serve, so that an instance was launched for them. A launched instance that powers itself off when it is warm counts again when it is started.",
			"trigger",
		),
		Scaledown: counter("scaledown_total", "Running nodes taken down, by reason.", "reason"),
		WarmupFailures: counter("warmup_failures_total", "Warm-ups that did not end in a standby node, by reason.",
			"reason"),
		StartupTaintsForced: counter("startup_taints_forced_total",
			"Nodes whose startup taints were removed because the wait for their network was over, not because it was up."),
		StartFailures: counter("start_failures_total", "Starts that did not end in a running node, by reason.",
			"reason"),
		ScaleupDuration: histogram("scaleup_duration_seconds",
			"Time from the start intent to the node being open to pods."),
		StartPhase: histogram("start_phase_seconds",
			"Time of each phase of a start: call, machine, boot, ready, network, devices, open. Their sum is the value in scaleup_duration_seconds. Starts that a new leader took over are left out.",
			"phase"),
		WarmupDuration: histogram("warmup_duration_seconds", "Time from the launch to a complete warm-up."),
		DrainDuration:  histogram("drain_duration_seconds", "Time from closing a node to its stop intent."),
		StartupTaintDuration: histogram("startup_taint_duration_seconds",
			"Time from the start intent to the removal of startup taints."),
		SchedulerErrors: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stratos_scheduler_error_pods",
			Help: "Pods over which their scheduler fails (reason SchedulerError), by its name.",
		}, []string{"scheduler"}),
		Nominations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stratos_nominations_total",
			Help: "Nominations of pods to their claimed nodes, by what came of them: written; cleared, because the claim had ended; refused by the API server; slow, without an answer within 5 s; failed; skipped for 5 s after a slow one, so that no node opens late.",
		}, []string{"result"}),
		ReplicaClaims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stratos_replica_claims_total",
			Help: "Claims for replicas that their owner was still to create, by what came of them: claimed, when they were made; then used by a replica that came, or released.",
		}, []string{"result"}),
	}
	err := m.register(registerer)
	return m, err
}

func (m *Metrics) register(registerer prometheus.Registerer) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		m.nodes, m.starting, m.poolSize, m.desired, m.Scaleup, m.Scaledown, m.WarmupFailures, m.StartFailures,
		m.StartupTaintsForced, m.ScaleupDuration, m.WarmupDuration, m.DrainDuration, m.StartupTaintDuration,
		m.StartPhase, m.SchedulerErrors, m.FailedWarmups, m.Nominations, m.ReplicaClaims,
	} {
		errs = append(errs, registerer.Register(c))
	}
	return errors.Join(errs...)
}

// States writes the gauges that mirror a pool's status.
func (m *Metrics) States(p *v1alpha1.NodePool, count map[v1alpha1.NodeState]int32) {
	for _, s := range allStates() {
		m.nodes.WithLabelValues(p.Name, string(s)).Set(float64(count[s]))
	}
	m.starting.WithLabelValues(p.Name).Set(float64(count[v1alpha1.StateStarting]))
	m.poolSize.WithLabelValues(p.Name).Set(float64(p.Spec.PoolSize))
	m.desired.WithLabelValues(p.Name).Set(float64(p.Spec.MinStandby))
	// A series that begins with its first start has no increase, and the alert on slow starts would
	// miss that start.
	m.ScaleupDuration.WithLabelValues(p.Name)
	for _, phase := range v1alpha1.StartPhases() {
		m.StartPhase.WithLabelValues(p.Name, string(phase))
	}
	m.StartupTaintsForced.WithLabelValues(p.Name) // the same for its alert
	m.ExpectStarts(v1alpha1.PoolName(p.Name))
}

// The reasons of failed starts in addition to those of start.Refusal.
const (
	StartTimeout  = "timeout"
	StartReplaced = "replaced"
)

// startFailures are the reasons of failed starts.
func startFailures() []string {
	return []string{"capacity", "stopping", "refused", StartTimeout, StartReplaced}
}

// ExpectStarts makes the series of failed starts of a pool. A series that begins with a failure has
// no increase, and the alert would miss it.
func (m *Metrics) ExpectStarts(pool v1alpha1.PoolName) {
	for _, reason := range startFailures() {
		m.StartFailures.WithLabelValues(string(pool), reason)
	}
}

// WarmupsFailing writes how many warm-ups of the pool failed one after another; nil is none.
func (m *Metrics) WarmupsFailing(p *v1alpha1.NodePool, failing *v1alpha1.WarmupFailure) {
	count := int32(0)
	if failing != nil {
		count = failing.Count
	}
	m.FailedWarmups.WithLabelValues(p.Name).Set(float64(count))
}

// Forget drops the gauges of a pool that is gone; counters stay, as Prometheus wants them.
func (m *Metrics) Forget(pool v1alpha1.PoolName) {
	for _, g := range []*prometheus.GaugeVec{m.nodes, m.starting, m.poolSize, m.desired, m.FailedWarmups} {
		g.DeletePartialMatch(prometheus.Labels{"pool": string(pool)})
	}
}

func allStates() []v1alpha1.NodeState {
	return []v1alpha1.NodeState{
		v1alpha1.StateWarmup, v1alpha1.StateStandby, v1alpha1.StateStarting,
		v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateTerminating,
	}
}
