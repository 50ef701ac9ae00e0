package command

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clockSkew is how far another clock may be behind ours for its times to count for the start.
const clockSkew = time.Minute

// podTimes are those of the pod that was bound to the node first since its start: when it was
// created and bound (by the API server's clock and the scheduler's), and when its first container
// started (by the node's).
func podTimes(pods []corev1.Pod, started time.Time) []timed {
	var first *corev1.Pod
	for i := range pods {
		bound := boundAt(&pods[i])
		if bound.Before(started.Add(-clockSkew)) || isOfNode(&pods[i]) {
			continue
		}
		if first == nil || bound.Before(boundAt(first)) {
			first = &pods[i]
		}
	}
	if first == nil {
		return nil
	}
	name := "pod " + first.Namespace + "/" + first.Name
	times := []timed{{name + " created", first.CreationTimestamp}, {name + " bound", metav1.NewTime(boundAt(first))}}
	if at := containerStarted(first); !at.IsZero() {
		times = append(times, timed{name + ": first container started", at})
	}
	return times
}

// isOfNode reports whether the pod comes and goes with the node: it is static, or of a DaemonSet.
func isOfNode(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return p.Annotations[corev1.MirrorPodAnnotationKey] != "" || owner != nil && owner.Kind == "DaemonSet"
}

// boundAt is when the pod was bound; zero where it does not say so.
func boundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// containerStarted is when the first container of the pod started, init containers included; zero
// where none has.
func containerStarted(p *corev1.Pod) metav1.Time {
	var first metav1.Time
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			at := metav1.Time{}
			switch state := &statuses[i].State; {
			case state.Running != nil:
				at = state.Running.StartedAt
			case state.Terminated != nil:
				at = state.Terminated.StartedAt
			}
			if !at.IsZero() && (first.IsZero() || at.Before(&first)) {
				first = at
			}
		}
	}
	return first
}

// kubeletTimes are those of the kubelet's events about its start, by the node's clock.
func kubeletTimes(events []eventsv1.Event, started time.Time) []timed {
	var times []timed
	for _, reason := range []string{"Starting", "Rebooted"} {
		last := metav1.Time{}
		for i := range events {
			e := &events[i]
			at := e.DeprecatedLastTimestamp
			if e.Reason != reason || e.DeprecatedSource.Component != "kubelet" && e.ReportingController != "kubelet" {
				continue
			}
			if !e.EventTime.IsZero() {
				at = metav1.NewTime(e.EventTime.Time)
			}
			if at.After(last.Time) && !at.Time.Before(started.Add(-clockSkew)) {
				last = at
			}
		}
		if !last.IsZero() {
			times = append(times, timed{"event " + reason + " of the kubelet", last})
		}
	}
	return times
}
