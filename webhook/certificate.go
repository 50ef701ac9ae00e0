package webhook

import (
	"crypto/tls"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
)

// certificate measures how long the serving certificate is valid. It reads the file at each scrape,
// so that it shows a renewed one as soon as the kubelet has written it.
type certificate struct {
	folder string
	end    *prometheus.Desc
}

// RegisterMetrics registers the metrics of the certificate in the folder, tls.crt and tls.key.
func RegisterMetrics(registerer prometheus.Registerer, folder string) error {
	return registerer.Register(&certificate{folder: folder, end: prometheus.NewDesc(
		"stratos_serving_certificate_expiration_timestamp_seconds",
		"When the certificate ends by which the replica serves webhooks and the exposed extender, in seconds since 1970.",
		nil, nil)})
}

// Describe implements prometheus.Collector.
func (c *certificate) Describe(ch chan<- *prometheus.Desc) { ch <- c.end }

// Collect implements prometheus.Collector. A certificate that cannot be read has no series.
func (c *certificate) Collect(ch chan<- prometheus.Metric) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.folder, "tls.crt"), filepath.Join(c.folder, "tls.key"))
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(c.end, prometheus.GaugeValue, float64(pair.Leaf.NotAfter.Unix()))
}
