// Package cni shows the product beside network agents whose pods a test makes Ready, one of them
// with the real controller of Cilium's operator: kind.sh brings their cluster up with
// STRATOS_KIND_SUITE=cni.
package cni
