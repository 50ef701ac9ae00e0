package model

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// struck checks that a failed start counts against its node only where the cloud had accepted it.
// What others started may have looked like a start of ours.
func (r *rules) struck(old, n *corev1.Node) {
	if old == nil || n == nil || transition.Failures(n) <= transition.Failures(old) {
		return
	}
	i := r.w.machineOf(n)
	if i == nil || i.state() != provider.InstanceStopped || i.meddled.After(r.entered[n.Name]) {
		return
	}
	if usesOnly(r.w.classOfNode(n)) && !i.refusedTypes[i.kind()].at.Before(r.entered[n.Name]) {
		return // it has a reservation as what it is, and the cloud does not start it as that: another node may
	}
	if i.started.Before(r.entered[n.Name]) {
		r.w.breaks("strikes", "%s has a strike, and the cloud never accepted its start", n.Name)
	}
}
