// Package flannel shows the product in a cluster whose network is flannel: kind.sh brings it up
// with STRATOS_KIND_SUITE=flannel.
package flannel
