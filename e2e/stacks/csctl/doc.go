// Package csctl pins csctl, with which `stratos stack` is compared, and the cluster-stack operator,
// which reads what `stratos stack create` makes. It is a module of its own, because both require
// other Kubernetes libraries than Stratos. No package imports it.
package csctl
