// Package suite shows the product on real kubelets: its tests run in the cluster of
// e2e/kind/kind.sh, by make e2e-kind or, where it is up already, make e2e-kind-test. Each makes the
// pools that it needs and leaves nothing behind.
package suite
