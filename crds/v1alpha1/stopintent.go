package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StopIntent is what a Node says of its stop, in AnnotationStopIntent, AnnotationStopAsked and
// AnnotationStopReason.
// +kubebuilder:object:generate=false
type StopIntent struct {
	// At is when the intent was written, just before the cloud was asked. From then on the stop is
	// not cancelled. It is zero where none stands.
	At time.Time
	// LastAsked is when the cloud was last asked again; zero where it was asked once.
	LastAsked time.Time
	// Reason is why the node is taken down. It stands from the beginning of the drain on, and is empty
	// at the end of a warm-up.
	Reason StopReason
}

// StopIntentOf reads a Node's intent. A time that cannot be read is as good as none.
func StopIntentOf(node metav1.Object) StopIntent {
	return StopIntent{
		At:        TimeAnnotation(node, AnnotationStopIntent),
		LastAsked: TimeAnnotation(node, AnnotationStopAsked),
		Reason:    StopReason(node.GetAnnotations()[AnnotationStopReason]),
	}
}

// Stands reports whether the cloud was asked for the stop, or is about to be.
func (i StopIntent) Stands() bool { return !i.At.IsZero() }

// Force reports whether the guest is not waited for: its start failed, or its machine died.
func (i StopIntent) Force() bool { return i.Reason == StopFailed }

// WriteTo writes the intent on a Node. Times keep their fraction: they are compared with those of
// calls a moment later.
func (i StopIntent) WriteTo(node metav1.Object) {
	annotations := node.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range map[string]string{
		AnnotationStopIntent: inRFC3339(i.At), AnnotationStopAsked: inRFC3339(i.LastAsked),
		AnnotationStopReason: string(i.Reason),
	} {
		if value == "" {
			delete(annotations, key)
		} else {
			annotations[key] = value
		}
	}
	node.SetAnnotations(annotations)
}

func inRFC3339(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// TimeAnnotation reads an annotation that holds a time in RFC 3339; the zero time where there is
// none, or none that can be read.
func TimeAnnotation(object metav1.Object, key string) time.Time {
	t, err := time.Parse(time.RFC3339, object.GetAnnotations()[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

// StateSince is when the node's state began; zero where the Node does not say so: while it is
// standby, and in its first warm-up, which begins with its launch.
func StateSince(node metav1.Object) time.Time {
	key := ""
	switch NodeState(node.GetLabels()[LabelState]) {
	case StateStarting:
		key = AnnotationScaleUpStarted
	case StateRunning:
		key = AnnotationRunningSince
	case StateStopping, StateTerminating:
		key = AnnotationStoppingSince
	case StateWarmup:
		key = AnnotationWarmupStarted
	case StateStandby:
		return time.Time{}
	}
	return TimeAnnotation(node, key)
}
