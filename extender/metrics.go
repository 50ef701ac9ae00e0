package extender

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
)

// requestMetrics are the extender's own. The label verb is one of the three verbs, or verbOther.
type requestMetrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	deciding  *prometheus.HistogramVec
	decisions *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*requestMetrics, error) {
	m := &requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stratos_extender_requests_total",
			Help: "Requests of kube-scheduler answered by the extender, by verb and HTTP status code.",
		}, []string{"verb", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stratos_extender_request_duration_seconds",
			Help:    "Time from the request's header to the end of the answer, by verb.",
			Buckets: durationBuckets(),
		}, []string{"verb"}),
		deciding: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stratos_extender_decision_duration_seconds",
			Help:    "Time from the end of the request to the beginning of the answer, by verb: what the extender itself takes, without the network.",
			Buckets: durationBuckets(),
		}, []string{"verb"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stratos_extender_decisions_total",
			Help: "Answers to filter, by what was decided for the pod.",
		}, []string{"decision"}),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.duration, m.deciding, m.decisions} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("extender metrics: %w", err)
		}
	}
	m.expectErrors()
	return m, nil
}

// expectErrors makes the series of the refusals. A series that begins with its first error has no
// increase, and the alert would miss that error.
func (m *requestMetrics) expectErrors() {
	for _, verb := range []string{verbFilter, verbPrioritize, verbPreempt} {
		for _, code := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusInternalServerError, http.StatusServiceUnavailable} {
			m.requests.WithLabelValues(verb, strconv.Itoa(code))
		}
	}
	for _, code := range []int{http.StatusNotFound, http.StatusMethodNotAllowed} {
		m.requests.WithLabelValues(verbOther, strconv.Itoa(code))
	}
}

// durationBuckets begin at 50 microseconds, where a repeated ask lies, are dense around the
// target of 5 ms for 5000 candidates, and end where kube-scheduler gives up (httpTimeout 2 s).
func durationBuckets() []float64 {
	return []float64{
		50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 7.5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2,
	}
}

func (m *requestMetrics) observe(verb string, code int, elapsed time.Duration) {
	m.requests.WithLabelValues(verb, strconv.Itoa(code)).Inc()
	m.duration.WithLabelValues(verb).Observe(elapsed.Seconds())
}

// RegisterMetrics registers all of the extender's metrics, for their documentation.
func RegisterMetrics(registerer prometheus.Registerer) error {
	_, err := newMetrics(registerer)
	_, observed := newObserved(registerer, cluster.New(decide.NewClaims(), time.Now), time.Now)
	return errors.Join(err, observed)
}
