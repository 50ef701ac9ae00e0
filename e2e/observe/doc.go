// Package observe holds the chart's alerts and dashboards to Prometheus' own packages.
package observe
