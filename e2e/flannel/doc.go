// Package flannel pins the flannel that a cluster of make e2e-kind has as its network;
// e2e/kind/flannel.sh builds it. It is a module of its own, so that no module inherits flannel's
// dependencies. Those that other modules of this repository have too are of the versions there, so
// that they are compiled once.
package flannel
