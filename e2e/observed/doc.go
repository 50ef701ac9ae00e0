// Package observed has a real Prometheus scrape a run on the real control plane: each panel of the
// dashboards gets data, and each alert of the chart fires once and ends. It has tests alone, which
// `make observe-test` runs, because to build Prometheus takes minutes.
package observed
