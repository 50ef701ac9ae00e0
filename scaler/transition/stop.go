package transition

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Stopping closes the node to pods before it is drained and stopped.
func Stopping(n *corev1.Node, reason v1alpha1.StopReason, now time.Time) Patch {
	is := leaveService(n, v1alpha1.StateStopping, reason, now)
	return patchFromTo(n, is)
}

// Terminating closes the node to pods before it is drained and its instance terminated.
func Terminating(n *corev1.Node, reason v1alpha1.StopReason, now time.Time) Patch {
	is := leaveService(n, v1alpha1.StateTerminating, reason, now)
	return patchFromTo(n, is)
}

func leaveService(n *corev1.Node, s v1alpha1.NodeState, reason v1alpha1.StopReason, now time.Time) *corev1.Node {
	running, failures := n.Annotations[v1alpha1.AnnotationRunningSince], n.Annotations[v1alpha1.AnnotationDrainFailures]
	is := toState(n, s)
	v1alpha1.StopIntent{Reason: reason}.WriteTo(is)
	// With its fraction: cut to the second, the time for binds in flight would be anything from
	// nothing to lifecycle.CordonTime.
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationStoppingSince, now.UTC().Format(time.RFC3339Nano))
	if running != "" { // max runtime counts on if the stop is cancelled
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationRunningSince, running)
	}
	if failures != "" { // this drain may fail too
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationDrainFailures, failures)
	}
	closeNode(is)
	return is
}

// StopIntent is the point after which the stop is not cancelled. It tests that no claim was
// published on the node.
func StopIntent(n *corev1.Node, now time.Time) Patch {
	is := editable(n)
	if !v1alpha1.StopIntentOf(n).Force() {
		recordAllocatable(n, is)
	}
	intend(is, now)
	return unlessClaimed(patchFromTo(n, is))
}

// intend records that Stratos is about to ask for the stop.
func intend(is *corev1.Node, now time.Time) {
	intent := v1alpha1.StopIntentOf(is)
	intent.At = now
	intent.WriteTo(is)
}

// unlessClaimed has the patch test that no claim is published on the node. The test comes last,
// when annotations are surely there: below a path that is missing it fails, also one for nothing.
func unlessClaimed(p Patch) Patch {
	return append(p, Op{Op: "test", Path: "/metadata/annotations/" + escape(v1alpha1.AnnotationClaims)})
}

// StopAsked says that the cloud is about to be asked again for a stop whose intent stands. It tests
// that it stands: another leader may have taken it back for a pod.
func StopAsked(n *corev1.Node, now time.Time) Patch {
	is := editable(n)
	intent := v1alpha1.StopIntentOf(n)
	intent.LastAsked = now
	intent.WriteTo(is)
	return append(stillIntended(n), patchFromTo(n, is)...)
}

// StopCancelled removes an intent of which nothing came. It tests that no replica has asked for the
// stop again since.
func StopCancelled(n *corev1.Node) Patch {
	is := editable(n)
	v1alpha1.StopIntent{Reason: v1alpha1.StopIntentOf(n).Reason}.WriteTo(is)
	return append(append(stillIntended(n), testAnnotation(n, v1alpha1.AnnotationStopAsked)), patchFromTo(n, is)...)
}

func stillIntended(n *corev1.Node) Patch {
	return Patch{testAnnotation(n, v1alpha1.AnnotationStopIntent)}
}

// WarmStop is the intent to stop an instance at the end of its warm-up. From then on the node is
// not promoted: the cloud's reads may show it running for a while, and a pod would land on a
// machine that goes down.
func WarmStop(n *corev1.Node, now time.Time) Patch {
	is := editable(n)
	raiseAllocatable(n, is)
	intend(is, now)
	return patchFromTo(n, is)
}

// StopAstray is the intent to stop the instance of a standby node that another client started and
// whose kubelet does not report. Like StopIntent it tests that no claim was published on the node.
func StopAstray(n *corev1.Node, now time.Time) Patch {
	is := leaveService(n, v1alpha1.StateStopping, v1alpha1.StopFailed, now)
	intend(is, now)
	return unlessClaimed(patchFromTo(n, is))
}

// Fence is the intent to stop the instance of a running node whose machine died. Its claims move.
func Fence(n *corev1.Node, now time.Time) Patch {
	is := leaveService(n, v1alpha1.StateStopping, v1alpha1.StopFailed, now)
	intend(is, now)
	return patchFromTo(n, is)
}

// StartGivenUp ends a start of which it is not known how far it came: the machine may yet report
// while it goes down. So the node is stopping, by an intent that is not cancelled, until the cloud
// says stopped; then it backs off until the given time. strike counts against the node.
func StartGivenUp(n *corev1.Node, strike bool, now, until time.Time) Patch {
	is := leaveService(n, v1alpha1.StateStopping, v1alpha1.StopFailed, now)
	intend(is, now)
	if strike {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, v1alpha1.AnnotationStartFailures, strconv.Itoa(Failures(n)+1))
	}
	setUntil(is, until)
	return patchFromTo(n, is)
}
