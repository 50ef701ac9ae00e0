// Package plugin runs kubectl-stratos against a real control plane on which situations were
// planted.
package plugin
