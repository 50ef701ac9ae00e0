// Package csctl pins csctl, with which `stratos stack` is compared. It is a module of its own,
// because csctl requires other Kubernetes libraries than Stratos. No package imports it.
package csctl
