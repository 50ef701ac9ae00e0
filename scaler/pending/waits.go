package pending

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wait is what is remembered of a pod while it is pending.
type wait struct {
	pod types.UID
	// refused is the time of the pod's condition, and since when this process first saw that one, by
	// its own clock.
	refused, since time.Time
	// passed: a running node took the pod by our check, though its scheduler had not bound it yet.
	passed bool
}

// waitOf returns what is remembered of the pod. A pod that was made anew under its name begins
// anew, and so does one that we saw before our clock was set back. The caller holds mu and stores
// what it changes.
func (c *Reconciler) waitOf(pod *corev1.Pod, now time.Time) wait {
	w, known := c.waits[client.ObjectKeyFromObject(pod)]
	if !known || w.pod != pod.UID || w.since.After(now) {
		return wait{pod: pod.UID, since: now}
	}
	return w
}

// explainIn is how long the extender still has to claim a node for the pod. The condition's time is
// another clock's and may be in our future: no pod waits for longer than explainAfter after we
// first saw the condition.
func (c *Reconciler) explainIn(pod *corev1.Pod, refused *corev1.PodCondition) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	w, at := c.waitOf(pod, now), refused.LastTransitionTime.Time
	if !w.refused.Equal(at) {
		w.refused, w.since = at, now
	}
	c.waits[client.ObjectKeyFromObject(pod)] = w
	return explainAfter - max(now.Sub(at), now.Sub(w.since))
}

// firstPass reports, once for each wait, that the pod passes. One that passes and still waits is
// refused for something that we do not check.
func (c *Reconciler) firstPass(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waitOf(pod, c.Now())
	first := !w.passed
	w.passed = true
	c.waits[client.ObjectKeyFromObject(pod)] = w
	return first
}
