package fake

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// killedCode is the exit code of a container that was ended by a signal that it did not handle.
const killedCode = 137

// shutDown is the graceful node shutdown of a kubelet. Its first act is Ready=False; then it ends
// the device plugins and the pods, which stay as Failed. Calico's agent says that it goes. What is
// not said when the power goes stays unsaid.
func (m *Machines) shutDown(ctx context.Context, mach *machine, bootNumber int) error {
	_, err := m.reportStatus(ctx, mach, bootNumber, func() statusReport { return mach.lastReport(time.Now()) })
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range m.podsOf(mach) {
		if r := mach.running(pod); r != nil && !finished(pod) {
			errs = append(errs, m.writePod(ctx, mach, bootNumber, pod, r, mach.endedStatus(pod, r)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	mach.update(bootNumber, func(l *life) { l.on, l.up = false, false })
	return nil
}

// lastReport is what a kubelet says when it was told that the node shuts down.
func (m *machine) lastReport(now time.Time) statusReport {
	report := m.fullReport(now, false, false)
	for i := range report.Conditions {
		c := &report.Conditions[i]
		if c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, "KubeletNotReady", shutdownMessage
		}
	}
	if down := m.script.cni.down; down.Type != "" {
		down.LastHeartbeatTime = metav1.NewTime(now.Truncate(time.Second))
		report.Conditions = append(report.Conditions, down)
	}
	return report
}

// running returns what is known of the pod in this boot; nil for nothing.
func (m *machine) running(pod *corev1.Pod) *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.life.pods[pod.UID]; r != nil && r.refusal == "" {
		return r
	}
	return nil
}

// endedStatus is the pod that the shutdown has ended.
func (m *machine) endedStatus(pod *corev1.Pod, r *run) corev1.PodStatus {
	m.mu.Lock()
	status, _ := podStatus(pod, r, m.scene(time.Now()))
	m.mu.Unlock()
	status.Phase, status.Reason = corev1.PodFailed, "Terminated"
	status.Message = "Pod was terminated in response to imminent node shutdown."
	for i := range status.ContainerStatuses {
		cs := &status.ContainerStatuses[i]
		if run := cs.State.Running; run != nil {
			cs.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: killedCode, Reason: "Error", StartedAt: run.StartedAt, FinishedAt: metav1.Now(),
			}}
		}
		cs.Ready, cs.Started = false, new(false)
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.Reason = corev1.ConditionFalse, "PodFailed"
		}
	}
	return status
}
