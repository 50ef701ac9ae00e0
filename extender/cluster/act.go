package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

// Act carries a decision about the pod out: it has the claimed node started and reports that on the
// pod.
func Act(pod *corev1.Pod, d decide.Decision, start func(v1alpha1.NodeName), recorder events.EventRecorder) {
	switch d.Kind {
	case decide.Started, decide.Joined, decide.Reclaimed:
		start(d.Claim.Node)
		recorder.Eventf(pod, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonStandbyStarting), "Start",
			"%s", d.Claim.Message)
	case decide.Pass, decide.PassClaimed, decide.Waiting, decide.Unavailable, decide.NotOurs:
	}
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=patch

// Nudge writes the time to the Node: any event of a Node makes the scheduler try its unschedulable
// pods again. A Node that is gone is no error.
func Nudge(ctx context.Context, writer client.Writer, node v1alpha1.NodeName, now time.Time) error {
	at := now.UTC().Format(time.RFC3339Nano)
	body := `{"metadata":{"annotations":{"` + v1alpha1.AnnotationNudgedAt + `":"` + at + `"}}}`
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(node)}}
	return client.IgnoreNotFound(writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(body))))
}
