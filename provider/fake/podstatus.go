package fake

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const (
	// noSuchCommandPrefix begins commands that exist in no image.
	noSuchCommandPrefix = v1alpha1.NoSuchCommand
	// pullBackOffAfter is how long ErrImagePull shows before ImagePullBackOff.
	pullBackOffAfter = time.Second
	// startErrorCode is containerd's exit code for a process that could not be started.
	startErrorCode = 128
)

// scene is what a pod's status depends on, apart from the pod.
type scene struct {
	now    time.Time
	pulls  map[string]time.Time
	has    func(image string) bool
	hostIP string
	// noNetwork: the network agent of this boot never gets ready.
	noNetwork bool
}

// podStatus returns what the kubelet says of the pod now and when that changes; zero for never. It
// decides nothing else, so equal input gives equal output.
func podStatus(pod *corev1.Pod, r *run, s scene) (corev1.PodStatus, time.Time) {
	next := agenda{now: s.now}
	status := corev1.PodStatus{HostIP: s.hostIP, HostIPs: []corev1.HostIP{{IP: s.hostIP}}}
	initStatuses, initialised := initContainerStatuses(pod, r, s, &next)
	status.InitContainerStatuses = initStatuses
	var started time.Time
	for _, c := range pod.Spec.Containers {
		if !initialised {
			status.ContainerStatuses = append(status.ContainerStatuses, waiting(c, r, "PodInitializing", ""))
			continue
		}
		cs := containerStatus(pod, c, r, s, &next)
		if run := cs.State.Running; run != nil && run.StartedAt.After(started) {
			started = run.StartedAt.Time
		}
		status.ContainerStatuses = append(status.ContainerStatuses, cs)
	}
	if !probePasses(pod, started, s, &next) {
		for i := range status.ContainerStatuses {
			status.ContainerStatuses[i].Ready = false
		}
	}
	if end, ok := endOf(pod, started); ok && all(status.ContainerStatuses, isRunning) && next.due(end) {
		for i := range status.ContainerStatuses {
			cs := &status.ContainerStatuses[i]
			cs.State, cs.Ready, cs.Started = exited(started), false, new(false)
		}
	}
	// The kubelet reports containers by name, not in the order of the spec.
	slices.SortFunc(status.ContainerStatuses, func(a, b corev1.ContainerStatus) int {
		return strings.Compare(a.Name,
			b.Name)
	})
	status.Phase = phaseOf(pod, &status)
	status.Conditions = podConditions(status, initialised)
	if !pod.CreationTimestamp.IsZero() {
		began := metav1.NewTime(s.now)
		status.StartTime = &began
	}
	if status.Phase != corev1.PodPending || len(pod.Spec.InitContainers) > 0 {
		status.PodIP, status.PodIPs = r.ip, []corev1.PodIP{{IP: r.ip}}
	}
	return status, next.next
}

// initContainerStatuses returns the states of the init containers, which run one after the other,
// and whether the pod's containers may run.
func initContainerStatuses(pod *corev1.Pod, r *run, s scene, next *agenda) ([]corev1.ContainerStatus, bool) {
	var statuses []corev1.ContainerStatus
	initialised := true
	for _, c := range pod.Spec.InitContainers {
		if !initialised {
			statuses = append(statuses, waiting(c, r, "PodInitializing", ""))
			continue
		}
		cs := containerStatus(pod, c, r, s, next)
		if cs.State.Running != nil && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
			cs.State = exited(cs.State.Running.StartedAt.Time)
			cs.Ready = true
		}
		initialised = initialised && cs.Ready
		statuses = append(statuses, cs)
	}
	return statuses, initialised
}

// probePasses reports whether the containers pass their readiness probe; without
// AnnotationReadyAfter they have none.
func probePasses(pod *corev1.Pod, started time.Time, s scene, next *agenda) bool {
	if s.noNetwork && isNetworkAgent(pod) {
		return false
	}
	d, err := time.ParseDuration(pod.Annotations[AnnotationReadyAfter])
	return err != nil || started.IsZero() || next.due(started.Add(d))
}

// isNetworkAgent reports whether the pod mounts a folder in which CNI plugins or their
// configuration lie.
func isNetworkAgent(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		if v.HostPath == nil {
			return false
		}
		path := strings.TrimRight(v.HostPath.Path, "/")
		return strings.HasSuffix(path, "cni/net.d") || strings.HasSuffix(path, "cni/bin")
	})
}

// containerStatus is one container's state, by its image first and its command then.
func containerStatus(pod *corev1.Pod, c corev1.Container, r *run, s scene, next *agenda) corev1.ContainerStatus {
	at, pulled := s.pulls[c.Image]
	switch {
	case !pulled && !s.has(c.Image):
		return waiting(c, r, "ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never",
			c.Image))
	case !next.due(at):
		return waiting(c, r, "ContainerCreating", "")
	case strings.HasPrefix(c.Image, missingImagePrefix):
		words := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference: %s: not found", c.Image,
			c.Image)
		if next.due(at.Add(pullBackOffAfter)) {
			return waiting(c, r, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, words))
		}
		return waiting(c, r, "ErrImagePull", words)
	case len(c.Command) > 0 && strings.HasPrefix(c.Command[0], noSuchCommandPrefix):
		return startFailed(pod, c, r, s.now)
	}
	began := metav1.NewTime(later(at, r.startedAfter))
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: pinned(c.Image), ContainerID: containerID(pod, c, r),
		Ready: true, Started: new(true), RestartCount: r.restarts,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func waiting(c corev1.Container, r *run, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, Started: new(false), RestartCount: r.restarts,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}
}

// startFailed is a container whose command does not exist, as kubelet with containerd shows it: its
// image is there, and it waits for another try, or has ended where the pod allows none.
func startFailed(pod *corev1.Pod, c corev1.Container, r *run, now time.Time) corev1.ContainerStatus {
	words := fmt.Sprintf(
		"failed to create containerd task: OCI runtime create failed: exec: %q: no such file or directory",
		c.Command[0],
	)
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: startErrorCode, Reason: "StartError", Message: words, FinishedAt: metav1.NewTime(now),
		ContainerID: containerID(pod, c, r),
	}}
	cs := waiting(c, r, "RunContainerError", words)
	cs.ImageID, cs.ContainerID = pinned(c.Image), containerID(pod, c, r)
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		cs.State = ended
		return cs
	}
	cs.LastTerminationState = ended
	return cs
}

func containerID(pod *corev1.Pod, c corev1.Container, r *run) string {
	return "containerd://" + strings.TrimPrefix(digest(fmt.Sprintf("%s/%s/%d", pod.UID, c.Name, r.restarts)), "sha256:")
}

func exited(started time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
		StartedAt: metav1.NewTime(started)}}
}

// endOf returns when the pod's work is done; false for a pod that runs forever.
func endOf(pod *corev1.Pod, started time.Time) (time.Time, bool) {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || started.IsZero() {
		return time.Time{}, false
	}
	d, err := time.ParseDuration(pod.Annotations[AnnotationRunFor])
	if err != nil {
		return time.Time{}, false
	}
	return started.Add(d), true
}

func isRunning(cs corev1.ContainerStatus) bool { return cs.State.Running != nil }

// neverStarted: waiting without a failed try before; such a container keeps its pod Pending.
func neverStarted(cs corev1.ContainerStatus) bool {
	return cs.State.Waiting != nil && cs.LastTerminationState.Terminated == nil
}

func hasEnded(cs corev1.ContainerStatus) bool { return cs.State.Terminated != nil }

func hasFailed(cs corev1.ContainerStatus) bool {
	return cs.State.Terminated != nil && cs.State.Terminated.ExitCode != 0
}

func all(statuses []corev1.ContainerStatus, is func(corev1.ContainerStatus) bool) bool {
	return count(statuses, is) == len(statuses)
}

func count(statuses []corev1.ContainerStatus, is func(corev1.ContainerStatus) bool) int {
	n := 0
	for _, cs := range statuses {
		if is(cs) {
			n++
		}
	}
	return n
}

// phaseOf follows the kubelet's rule.
func phaseOf(pod *corev1.Pod, status *corev1.PodStatus) corev1.PodPhase {
	statuses := status.ContainerStatuses
	switch {
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever && count(status.InitContainerStatuses, hasFailed) > 0:
		return corev1.PodFailed
	case count(statuses, neverStarted) > 0:
		return corev1.PodPending
	case pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || !all(statuses, hasEnded):
		return corev1.PodRunning
	case count(statuses, hasFailed) > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func podConditions(status corev1.PodStatus, initialised bool) []corev1.PodCondition {
	condition := func(kind corev1.PodConditionType, holds bool, reason string) corev1.PodCondition {
		if holds {
			return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
		}
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason}
	}
	ready := initialised && all(status.ContainerStatuses, func(cs corev1.ContainerStatus) bool { return cs.Ready })
	reason := "ContainersNotReady"
	if status.Phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}
	return []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, true, ""),
		condition(corev1.PodInitialized, initialised, "ContainersNotInitialized"),
		condition(corev1.PodReady, ready, reason),
		condition(corev1.ContainersReady, ready, reason),
	}
}

// refusedStatus is the pod that the kubelet did not admit.
func refusedStatus(r *run) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: r.refusal,
		Message: "Pod was rejected: " + r.refusalMessage,
	}
}

// keepPodTransitions sets transition times as a kubelet does, and keeps the start time of the pod's
// first boot.
func keepPodTransitions(pod *corev1.Pod, status *corev1.PodStatus) {
	if pod.Status.StartTime != nil {
		status.StartTime = pod.Status.StartTime
	}
	now := metav1.NewTime(time.Now())
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.LastTransitionTime = now
		for _, old := range pod.Status.Conditions {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
}

// fingerprintOf tells two statuses apart by what matters to a reader: phase, reasons and the
// containers' states.
func fingerprintOf(status corev1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s", status.Phase, status.Reason)
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, cs := range list {
			switch {
			case cs.State.Running != nil:
				fmt.Fprintf(&b, " running:%t", cs.Ready)
			case cs.State.Waiting != nil:
				b.WriteString(" " + cs.State.Waiting.Reason)
			case cs.State.Terminated != nil:
				b.WriteString(" ended:" + cs.State.Terminated.Reason)
			}
		}
	}
	return b.String()
}
