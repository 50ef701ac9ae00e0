// Package parity holds extender/fit against the filters of the real kube-scheduler: random worlds
// of nodes, pods and volumes are checked by both, and every answer must be the same: the decision,
// the message that people read, and what preemption may conclude. So it holds the labels that
// Stratos writes against the node controller of cloud controller managers.
//
// It is a module of its own, because it imports k8s.io/kubernetes, whose Go API is not stable:
// nothing that is shipped, and no other test, shall inherit that.
package parity
