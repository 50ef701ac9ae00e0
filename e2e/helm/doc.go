// Package helm renders and lints the chart by the libraries of Helm 3 and Helm 4, writes what make
// generate writes for it, and holds the chart to a real API server in its tests. It is a module of
// its own, because no other module shall inherit what two Helms require.
package helm

import (
	// Only so that go.mod requires the modules, whose CustomResourceDefinitions the tests read from
	// their folders.
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)
