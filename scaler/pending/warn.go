package pending

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// warnAgain is how long an event about the same thing is not repeated: as long as the API server
// keeps events.
const warnAgain = time.Hour

// Warned remembers what was warned of. It is safe for concurrent use.
type Warned struct {
	// mu guards at.
	mu sync.Mutex
	at map[types.UID]time.Time
}

// Due reports whether it is time to warn of the object, and takes it that this is done.
func (w *Warned) Due(of types.UID, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, at := range w.at {
		if now.Sub(at) >= warnAgain {
			delete(w.at, uid)
		}
	}
	if _, lately := w.at[of]; lately {
		return false
	}
	if w.at == nil {
		w.at = map[types.UID]time.Time{}
	}
	w.at[of] = now
	return true
}

// warnSpread tells a pending pod that its hard spread over hosts counts stopped nodes: each is a
// domain without a pod, so such pods wake nodes one by one.
func (c *Reconciler) warnSpread(ctx context.Context, pod *corev1.Pod) error {
	if !countsStandby(pod) || decide.MayNotStart(pod) != "" || c.warnedLately(pod) {
		return nil
	}
	list := &corev1.NodeList{}
	if err := c.Reader.List(ctx, list,
		client.MatchingLabels{v1alpha1.LabelState: string(v1alpha1.StateStandby)}); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return nil
	}
	c.mu.Lock()
	c.warned[client.ObjectKeyFromObject(pod)] = said{why: string(pod.UID), at: c.Now()}
	c.mu.Unlock()
	c.Events.Eventf(
		pod,
		nil,
		corev1.EventTypeWarning,
		string(v1alpha1.ReasonSpreadCountsStandby),
		"Explain",
		"its topology spread over %s counts standby nodes as empty domains and so wakes them one by one; set nodeTaintsPolicy: Honor (docs/operate.md)",
		corev1.LabelHostname,
	)
	return nil
}

// warnedLately reports whether the pod was warned of within warnAgain. It changes nothing: whether
// there is something to warn of takes a list to find out. One worker at a time has a pod.
func (c *Reconciler) warnedLately(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.warned[client.ObjectKeyFromObject(pod)]
	return known && last.why == string(pod.UID) && c.Now().Sub(last.at) < warnAgain
}

// countsStandby reports whether the pod has a hard spread over hosts for which tainted nodes are
// domains, as is the default.
func countsStandby(pod *corev1.Pod) bool {
	for i := range pod.Spec.TopologySpreadConstraints {
		s := &pod.Spec.TopologySpreadConstraints[i]
		honors := s.NodeTaintsPolicy != nil && *s.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		if s.TopologyKey == corev1.LabelHostname && s.WhenUnsatisfiable == corev1.DoNotSchedule && !honors {
			return true
		}
	}
	return false
}
