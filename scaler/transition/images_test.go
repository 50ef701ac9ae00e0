package transition

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func TestWarmAgainRecordsWhatTheStartMustSurpass(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	n.Spec.Taints = nil // the network agent has removed the startup taint
	n = apply(t, n, WarmAgain(n, template(), "", epoch()))
	if Fresh(n, &n.Status.Conditions[0]) {
		t.Error("the Ready from before the stop counts as fresh")
	}
	if n.Labels[v1alpha1.LabelState] != "warmup" || !n.Spec.Unschedulable ||
		timeOf(n, v1alpha1.AnnotationWarmupStarted) != epoch() {
		t.Errorf("state %s, cordoned %v, annotations %v", n.Labels[v1alpha1.LabelState], n.Spec.Unschedulable, n.Annotations)
	}
	keys := ""
	for _, taint := range n.Spec.Taints {
		keys += taint.Key + " "
	}
	if keys != "cni stratos.sh/standby " {
		t.Errorf("taints %q", keys)
	}
	n = apply(t, n, Standby(n, template(), false, ""))
	if n.Annotations[v1alpha1.AnnotationWarmupStarted] != "" {
		t.Error("the mark of the warm-up stays on a standby node")
	}
}

// A standby node's record is from the moment at which the cloud said stopped. A report that came
// since is of another boot.
func TestWarmAgainKeepsTheRecordOfAStandbyNode(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	n = apply(t, n, Standby(n, template(), true, ""))
	recorded := n.Annotations[v1alpha1.AnnotationHeartbeatAtStop]
	n.Status.Conditions[0].LastHeartbeatTime.Time = epoch().Add(time.Minute)
	n = apply(t, n, WarmAgain(n, template(), "", epoch()))
	if got := n.Annotations[v1alpha1.AnnotationHeartbeatAtStop]; got != recorded {
		t.Errorf("recorded %s, want %s", got, recorded)
	}
}

func timeOf(n *corev1.Node, key string) time.Time {
	at, err := time.Parse(time.RFC3339, n.Annotations[key])
	if err != nil {
		return time.Time{}
	}
	return at
}

func TestImagesRecorded(t *testing.T) {
	n := apply(t, registered(), Warmup(registered(), template()))
	failure := ImageFailure{Since: epoch(), Image: "host:5000/a:1", Words: "ErrImagePull: not found"}
	n = apply(t, n, ImagePullFailed(n, failure))
	if got, ok := ImageFailureOf(n); !ok || got != failure {
		t.Errorf("read back %+v, want %+v", got, failure)
	}
	n = apply(t, n, ImagesRecorded(n, ImagesFound{Hash: "hash", RequiredHash: "required"}, epoch()))
	if n.Annotations[v1alpha1.AnnotationRequiredImagesHash] != "required" {
		t.Errorf("annotations %v, want the set of required images", n.Annotations)
	}
	if _, ok := ImageFailureOf(n); ok || n.Annotations[v1alpha1.AnnotationImagesHash] != "hash" ||
		n.Annotations[v1alpha1.AnnotationImagesChecked] != "" {
		t.Errorf("annotations %v", n.Annotations)
	}
	n = apply(t, n, Stopping(n, v1alpha1.StopEmpty, epoch()))
	n = apply(t, n, ImagesRecorded(n, ImagesFound{Failure: &failure}, epoch()))
	if n.Annotations[v1alpha1.AnnotationImagesHash]+n.Annotations[v1alpha1.AnnotationRequiredImagesHash] != "" ||
		timeOf(n, v1alpha1.AnnotationImagesChecked) != epoch() {
		t.Errorf("annotations of a stopping node %v", n.Annotations)
	}
	n = apply(t, n, Running(n, template(), epoch()))
	if n.Annotations[v1alpha1.AnnotationImagesChecked] != "" {
		t.Error("the look at the images of a stop that was cancelled would count for the next")
	}
}

func TestImageFailureOf(t *testing.T) {
	long := ImageFailure{Since: epoch(), Image: "a:1", Words: strings.Repeat("ü", 1000)}
	if got := len(long.String()); got > 600 {
		t.Errorf("%d bytes of a registry's words are kept", got)
	}
	for name, text := range map[string]string{"nothing": "", "no time": "soon a:1: no",
		"no words": "2026-03-01T12:00:00Z a"} {
		t.Run(name, func(t *testing.T) {
			n := bare()
			n.Annotations = map[string]string{v1alpha1.AnnotationImagePullFailed: text}
			if got, ok := ImageFailureOf(n); ok {
				t.Errorf("read %+v", got)
			}
		})
	}
	if diff := cmp.Diff("2026-03-01T12:00:00Z a:1: no", ImageFailure{Since: epoch(), Image: "a:1",
		Words: "no"}.String()); diff != "" {
		t.Error(diff)
	}
}
