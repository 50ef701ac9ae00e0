package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stratos-sh/stratos/provider"
)

// Calls makes calls to one cloud: each waits for its limit, is timed and counted, and a refusal for
// its rate slows those that follow.
type Calls struct {
	provider string
	limiter  *Limiter
	calls    *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	waited   *prometheus.CounterVec
	failed   func(op Operation, took time.Duration, err error)
}

// NewCalls registers the metrics. name is the value of their label provider.
func NewCalls(name string, l *Limiter, registerer prometheus.Registerer) (*Calls, error) {
	c := &Calls{
		provider: name, limiter: l,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stratos_cloud_provider_calls_total",
			Help: "Calls to the cloud, by what came of them.",
		}, []string{"provider", "operation", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stratos_cloud_provider_latency_seconds",
			Help:    "Time from a call to the cloud to its answer, without the wait for the rate limit.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"provider", "operation"}),
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stratos_cloud_provider_throttled_seconds_total",
			Help: "Time that calls to the cloud waited for Stratos's own rate limit, summed over the calls.",
		}, []string{"provider", "operation"}),
	}
	for _, collector := range []prometheus.Collector{c.calls, c.latency, c.waited} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("cloud provider metrics: %w", err)
		}
	}
	return c, nil
}

// ReportFailures has a function called for each call that fails. The SDK makes some again, so that
// their callers see no error, and the metrics do not say why they failed. It is to be set before
// the first call, and before Under.
func (c *Calls) ReportFailures(failed func(op Operation, took time.Duration, err error)) {
	c.failed = failed
}

// Under returns Calls that count in the same metrics and wait for the limits of another limiter: a
// cloud's limits are often those of a region.
func (c *Calls) Under(l *Limiter) *Calls {
	other := *c
	other.limiter = l
	return &other
}

// Do makes one call. Where the context ends before the limit allows it, the call is not made and
// the error is the context's.
func (c *Calls) Do(ctx context.Context, op Operation, call func() error) error {
	if err := c.Wait(ctx, op); err != nil {
		return err
	}
	return c.Make(op, call)
}

// Wait is the first half of Do: it returns when the limit allows one call, which is then made by
// Make. Who gathers what goes into the call gathers until Wait returns.
func (c *Calls) Wait(ctx context.Context, op Operation) error {
	asked := time.Now()
	err := c.limiter.Wait(ctx, op)
	c.waited.WithLabelValues(c.provider, string(op)).Add(time.Since(asked).Seconds())
	return err
}

// Make is the second half of Do.
func (c *Calls) Make(op Operation, call func() error) error {
	called := time.Now()
	err := call()
	took := time.Since(called)
	if err != nil && c.failed != nil {
		c.failed(op, took, err)
	}
	c.latency.WithLabelValues(c.provider, string(op)).Observe(took.Seconds())
	c.calls.WithLabelValues(c.provider, string(op), status(err)).Inc()
	if provider.IsRateLimit(err) {
		c.limiter.Throttled(op)
	}
	return err
}

// status words what came of a call for the metrics.
func status(err error) string {
	switch {
	case err == nil:
		return "ok"
	case provider.IsRateLimit(err):
		return "throttled"
	case provider.IsNotFound(err):
		return "not_found"
	case provider.IsInsufficientCapacity(err):
		return "insufficient_capacity"
	case provider.IsIncorrectState(err):
		return "incorrect_state"
	case provider.IsInvalidConfig(err):
		return "invalid_config"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	}
	return "error"
}
