// Package outages proves what goes on while the API server is gone for a minute, that two leaders
// have one effect, and that kube-controller-manager evicts beside standby nodes as it does without
// them. Its tests mostly wait, each on a rig of its own, so they run side by side.
package outages
