package node

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// stepClock knows since when this process has seen each instance in the step that it is in.
// Deadlines count from then, by a clock that only ever goes on: the times that are written on Nodes
// are the wall clock's, which may have been stepped by hours since, here or where they were
// written.
type stepClock struct {
	// elapsed is how long the process has run, by the monotonic clock.
	elapsed func() time.Duration
	// mu guards the fields below.
	mu   sync.Mutex
	seen map[v1alpha1.InstanceID]stepRecord
	// deleted is since when this process has seen that the pods of an instance are being deleted.
	deleted map[v1alpha1.InstanceID]map[types.UID]time.Duration
}

// stepRecord is when an instance was first seen at all, and in which step since when.
type stepRecord struct {
	first time.Duration
	step  string
	at    time.Duration
}

// NewStepClock returns a clock that goes by the time for which the process has run.
func NewStepClock(elapsed func() time.Duration) *stepClock {
	return &stepClock{elapsed: elapsed, seen: map[v1alpha1.InstanceID]stepRecord{},
		deleted: map[v1alpha1.InstanceID]map[types.UID]time.Duration{}}
}

// since is when the instance was first seen in the step, reckoned back from now; in a first
// warm-up, when it was first seen. It is zero where no clock runs.
func (w *stepClock) since(id v1alpha1.InstanceID, step string, now time.Time) time.Time {
	if w == nil {
		return time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.elapsed()
	s, ok := w.seen[id]
	switch {
	case !ok:
		s = stepRecord{first: at, step: step, at: at}
	case s.step != step:
		s.step, s.at = step, at
	}
	w.seen[id] = s
	if step == firstWarmup {
		return now.Add(s.first - at)
	}
	return now.Add(s.at - at)
}

// forget drops an instance that is gone.
func (w *stepClock) forget(id v1alpha1.InstanceID) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, id)
	delete(w.seen, id+reportSuffix)
	delete(w.deleted, id)
}

// firstWarmup is the step from the launch to the end of the first warm-up, whether there is a Node
// yet or not: preWarm.timeout is for all of it. An instance whose Node is deleted is in it
// again, with nothing left of its time.
const firstWarmup = string(v1alpha1.StateWarmup)

// stepOf tells one step of an instance's life from another, the same step of a later life included.
func stepOf(n *corev1.Node) string {
	if n == nil || n.Labels[v1alpha1.LabelState] == "" {
		return firstWarmup
	}
	began := []string{n.Labels[v1alpha1.LabelState]}
	for _, key := range []string{
		v1alpha1.AnnotationScaleUpStarted, v1alpha1.AnnotationStoppingSince, v1alpha1.AnnotationStopIntent,
		v1alpha1.AnnotationWarmupStarted,
		v1alpha1.AnnotationImagesChecked, // the drain's own time begins when the images were looked at
	} {
		if at := n.Annotations[key]; at != "" {
			began = append(began, key+"="+at)
		}
	}
	return strings.Join(began, " ")
}

// reportSuffix marks what the clock knows of the reports of an instance's kubelet.
const reportSuffix = "/report"

// unreported is since when this process has seen that Ready of the Node is Unknown with the
// heartbeat that it has. It is zero where the kubelet reports, or no clock runs. The heartbeat is
// only compared with itself.
func (w *stepClock) unreported(id v1alpha1.InstanceID, n *corev1.Node, now time.Time) time.Time {
	if n == nil {
		return time.Time{}
	}
	ready := transition.Condition(n, corev1.NodeReady)
	if ready == nil {
		return time.Time{}
	}
	since := w.since(id+reportSuffix, fmt.Sprintf("%s %s %s", n.UID, ready.Status, ready.LastHeartbeatTime), now)
	if ready.Status != corev1.ConditionUnknown {
		return time.Time{}
	}
	return since
}

// deletedSince is since when this process has seen that which of the instance's pods is being
// deleted, reckoned back from now. It is nil where no clock runs.
func (w *stepClock) deletedSince(id v1alpha1.InstanceID, pods []corev1.Pod, now time.Time) map[types.UID]time.Time {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known, since := w.elapsed(), map[types.UID]time.Duration{}, map[types.UID]time.Time{}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil {
			continue
		}
		first, seen := w.deleted[id][p.UID]
		if !seen {
			first = at
		}
		known[p.UID], since[p.UID] = first, now.Add(first-at)
	}
	if delete(w.deleted, id); len(known) > 0 {
		w.deleted[id] = known
	}
	return since
}
