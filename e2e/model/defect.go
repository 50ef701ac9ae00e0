package model

import (
	"time"

	"github.com/stratos-sh/stratos/provider"
)

// defect is what is wrong with a class whose instances never become standby nodes.
type defect string

// The defects.
const (
	// endsAtOnce: the cloud accepts a launch and terminates the instance (no grant for its key, no
	// room for its volumes).
	endsAtOnce defect = "the instance is terminated at once"
	// neverRegisters: the user data does not join the cluster.
	neverRegisters defect = "no Node registers"
	// neverReady: the kubelet registers and never reports Ready.
	neverReady defect = "the kubelet is never Ready"
	// endsIncomplete: the user data powers each instance off before its warm-up is complete.
	endsIncomplete defect = "the instance stops incomplete"
	// launchesRefused: the cloud refuses the class.
	launchesRefused defect = "launches are refused"
)

// launchRefused is the cloud's answer to a launch of a class that it refuses.
func (w *World) launchRefused() error {
	if w.defect != launchesRefused {
		return nil
	}
	w.refusedLaunches++
	return &provider.InvalidConfigError{Field: "spec.iamInstanceProfile", Reason: "Invalid IAM Instance Profile name"}
}

// launch powers a new instance on, unless the cloud ends it at once.
func (w *World) launch(i *instance) {
	if w.defect != endsAtOnce {
		w.power(i)
		return
	}
	w.after(w.between(time.Second, 3*time.Second), func() {
		i.reason = "Client.InternalError: Client error on launch"
		w.cloud.become(i, provider.InstanceTerminated)
	})
}
