// Package parity holds extender/fit against the filters of the real kube-scheduler: random worlds
// of nodes, pods and volumes are judged by both, and every answer must be the same: the decision,
// the message that people read, and what preemption may conclude.
//
// It is a module of its own, because it imports k8s.io/kubernetes, which promises no API to
// importers: nothing that is shipped, and no other test, shall inherit that.
package parity
