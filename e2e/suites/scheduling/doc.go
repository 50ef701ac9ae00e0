// Package scheduling proves on a real control plane what happens between kube-scheduler and the
// extender: starts at filter time, taints and cordons checked as the stock profile checks them, and
// preemption that never evicts in vain.
package scheduling
