package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// AnnotationReadyAfter on a Pod: a duration after the start of its containers until they pass their
// readiness probe.
const AnnotationReadyAfter = "fake.stratos.sh/ready-after"

// AnnotationRunFor on a Pod: a duration after which its containers exit with 0. It needs a
// restartPolicy other than Always.
const AnnotationRunFor = "fake.stratos.sh/run-for"

// run is a pod on a machine in one boot.
type run struct {
	requests corev1.ResourceList
	// refusal is why the kubelet did not admit it; empty: admitted.
	refusal, refusalMessage string
	ip                      string
	restarts                int32
	// startedAfter is when the pod came in this boot: no container of it is older.
	startedAfter time.Time
	// written is the fingerprint of the last status that was sent.
	written string
	// endingSince is when its deletion was first seen.
	endingSince time.Time
}

// containersOf yields the init containers and the containers.
func containersOf(pod *corev1.Pod) iter.Seq[corev1.Container] {
	return func(yield func(corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for _, c := range list {
				if !yield(c) {
					return
				}
			}
		}
	}
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// admit takes the pod in, or refuses it as the kubelet does when it does not fit what the node
// reports. Of two pods that were bound into the same room the later loses, which is how tests see
// double booking.
func (m *machine) admit(pod *corev1.Pod) *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.life.reported {
		return nil
	}
	if known, ok := m.life.pods[pod.UID]; ok {
		return known
	}
	r := &run{startedAfter: time.Now(), requests: resourcehelper.PodRequests(pod,
		resourcehelper.PodResourcesOptions{UseStatusResources: true})}
	r.requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	if pod.Status.Phase == corev1.PodRunning && len(pod.Status.ContainerStatuses) > 0 {
		r.restarts = pod.Status.ContainerStatuses[0].RestartCount + 1
	}
	r.refusal, r.refusalMessage = m.life.refuses(r.requests, m.size.Capacity)
	if r.refusal == "" {
		addResources(m.life.used, r.requests, 1)
	}
	m.life.pods[pod.UID] = r
	return r
}

// refuses returns the kubelet's reason and message for a pod that does not fit; empty for one that
// does.
func (l *life) refuses(requests, capacity corev1.ResourceList) (string, string) {
	// The kubelet's own order, so that a pod that lacks several things gets the reason it would really
	// get.
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		if reason, message := l.lacks(name, requests, capacity); reason != "" {
			return reason, message
		}
	}
	for name := range requests {
		if !simcloud.IsExtended(name) {
			continue
		}
		if wanted := requests[name]; !l.devices && !wanted.IsZero() {
			return "UnexpectedAdmissionError",
				fmt.Sprintf("Allocate failed due to no healthy devices present; cannot allocate unhealthy devices %s", name)
		}
		if reason, message := l.lacks(name, requests, capacity); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

func (l *life) lacks(name corev1.ResourceName, requests, capacity corev1.ResourceList) (string, string) {
	wanted, used, total := requests[name], l.used[name], capacity[name]
	sum := used.DeepCopy()
	sum.Add(wanted)
	if wanted.IsZero() || sum.Cmp(total) <= 0 {
		return "", ""
	}
	return "OutOf" + string(
			name,
		), fmt.Sprintf(
			"Node didn't have enough resource: %s, requested: %s, used: %s, capacity: %s",
			name,
			wanted.String(),
			used.String(),
			total.String(),
		)
}

// addResources adds sign times the requests to the sum.
func addResources(sum, requests corev1.ResourceList, sign int) {
	for name, quantity := range requests {
		total := sum[name]
		if sign > 0 {
			total.Add(quantity)
		} else {
			total.Sub(quantity)
		}
		sum[name] = total
	}
}

// release gives the pod's room back, whatever became of it.
func (m *machine) release(uid types.UID, keep bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.life.pods[uid]
	if !ok {
		return
	}
	if r.refusal == "" && r.requests != nil {
		addResources(m.life.used, r.requests, -1)
	}
	r.requests = nil
	if !keep {
		delete(m.life.pods, uid)
	}
}

// syncPod brings one pod to where it should be by now. Pods of a machine that is off have no
// kubelet: they stay as they are.
func (m *Machines) syncPod(ctx context.Context, k key) (time.Duration, error) {
	pod := m.cachedPod(k)
	if pod == nil {
		return 0, nil
	}
	mach := m.onNode(v1alpha1.NodeName(pod.Spec.NodeName))
	if mach == nil {
		return 0, nil
	}
	l := mach.now()
	if !l.up || !l.reported || l.ending {
		return 0, nil
	}
	if finished(pod) {
		mach.release(pod.UID, true)
		if pod.DeletionTimestamp == nil {
			return 0, nil
		}
		return 0, m.remove(ctx, mach, l.boot.Number, pod)
	}
	r := mach.admit(pod)
	switch {
	case r == nil:
		return 0, nil
	case m.cachedPod(k) == nil:
		// It went while we admitted it, so podGone may have come too early to give its room back.
		mach.release(pod.UID, false)
		return 0, nil
	case pod.DeletionTimestamp != nil:
		return m.endPod(ctx, mach, l.boot.Number, pod, r)
	case r.refusal != "":
		return 0, m.writePod(ctx, mach, l.boot.Number, pod, r, refusedStatus(r))
	}
	return m.runPod(ctx, mach, l.boot.Number, pod, r)
}

func (m *Machines) cachedPod(k key) *corev1.Pod {
	object, ok, err := m.pods.GetStore().GetByKey(k.pod.String())
	if err != nil || !ok {
		return nil
	}
	if pod, ok := object.(*corev1.Pod); ok && pod.UID == k.uid {
		return pod
	}
	return nil
}

// endPod lets a deleted pod end and removes it.
func (m *Machines) endPod(ctx context.Context, mach *machine, bootNumber int, pod *corev1.Pod, r *run) (time.Duration,
	error) {
	now := time.Now()
	mach.mu.Lock()
	if r.endingSince.IsZero() {
		r.endingSince = now
	}
	end := r.endingSince.Add(m.power.Times().PodStop)
	mach.mu.Unlock()
	if end.After(now) {
		return end.Sub(now), nil
	}
	return 0, m.remove(ctx, mach, bootNumber, pod)
}

// remove is the kubelet's last word on a deleted pod.
func (m *Machines) remove(ctx context.Context, mach *machine, bootNumber int, pod *corev1.Pod) error {
	_, err := mach.speak(bootNumber, func() error {
		options := metav1.NewPreconditionDeleteOptions(string(pod.UID))
		var now int64
		options.GracePeriodSeconds = &now
		err := m.o.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	return nil
}

// runPod pulls what is missing, starts the containers and reports them.
func (m *Machines) runPod(ctx context.Context, mach *machine, bootNumber int, pod *corev1.Pod, r *run) (time.Duration,
	error) {
	now := time.Now()
	pull := m.power.Times().Pull
	mach.mu.Lock()
	mach.wantImages(pod, now, pull)
	landed := mach.landImages(pod, now)
	if landed {
		mach.life.imagesDirty = true
	}
	if r.ip == "" {
		r.ip = m.podIP(mach, pod)
	}
	status, next := podStatus(pod, r, mach.scene(now))
	mach.mu.Unlock()
	if landed {
		m.queue.AddAfter(key{machine: mach.ID}, imageReportDelay)
	}
	if err := m.writePod(ctx, mach, bootNumber, pod, r, status); err != nil {
		return 0, err
	}
	if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
		mach.release(pod.UID, true)
		return 0, nil
	}
	if next.IsZero() {
		return 0, nil
	}
	return max(time.Millisecond, time.Until(next)), nil
}

// scene is what a pod's status follows from on this machine. The caller holds m.mu.
func (m *machine) scene(now time.Time) scene {
	return scene{now: now, pulls: m.life.pulls, has: m.hasImage, hostIP: m.Address, noNetwork: m.life.boot.NoNetwork}
}

// started notes the newest start of a container: a later boot must not repeat that second.
func (m *machine) started(status corev1.PodStatus) {
	m.Disk.Lock()
	defer m.Disk.Unlock()
	for _, cs := range status.ContainerStatuses {
		if run := cs.State.Running; run != nil && run.StartedAt.After(m.Disk.Heartbeat) {
			m.Disk.Heartbeat = run.StartedAt.Time
		}
	}
}

// podIP returns an address of 100.64.0.0/10 that no other pod has had recently; the node's own with
// hostNetwork.
func (m *Machines) podIP(mach *machine, pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return mach.Address
	}
	n := m.podSeq.Add(1) % (1 << 22)
	return fmt.Sprintf("100.%d.%d.%d", 64+n>>16, n>>8&0xff, n&0xff)
}

// writePod sends a status if it differs from the last one sent.
func (m *Machines) writePod(ctx context.Context, mach *machine, bootNumber int, pod *corev1.Pod, r *run,
	status corev1.PodStatus) error {
	print := fingerprintOf(status)
	mach.mu.Lock()
	same := r.written == print
	mach.mu.Unlock()
	if same {
		return nil
	}
	keepPodTransitions(pod, &status)
	spoken, err := mach.speak(bootNumber, func() error {
		patch := podPatch(pod, status)
		_, err := m.o.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		// Gone, or another pod of that name: there is nothing to report on.
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("report pod: %w", err)
	}
	if spoken {
		mach.mu.Lock()
		r.written = print
		mach.mu.Unlock()
		mach.started(status)
	}
	return nil
}

// podPatch is the strategic merge patch that makes the status so. Two lists need care, as they
// merge by key: the pod's addresses, where the one of an earlier boot would stay beside the new
// one, which the API server refuses, and the conditions, where the reason of an earlier refusal
// would stay on a condition that holds now.
func podPatch(pod *corev1.Pod, status corev1.PodStatus) []byte {
	conditions := make([]map[string]any, 0, len(status.Conditions))
	for _, c := range status.Conditions {
		condition := map[string]any{"type": c.Type, "status": c.Status, "lastTransitionTime": c.LastTransitionTime,
			"reason": nil, "message": nil}
		if c.Reason != "" {
			condition["reason"] = c.Reason
		}
		conditions = append(conditions, condition)
	}
	var content map[string]any
	if err := json.Unmarshal(mustJSON(status), &content); err != nil {
		panic(fmt.Sprintf("fake: %v", err))
	}
	delete(content, "conditions")
	if len(conditions) > 0 {
		content["conditions"] = conditions
	}
	if len(status.PodIPs) > 0 {
		content["podIPs"] = []map[string]any{{"$patch": "replace"}, {"ip": status.PodIP}}
	}
	return mustJSON(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": content})
}
