package v1alpha1

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestStopIntentIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	for name, c := range map[string]struct {
		intent StopIntent
		want   map[string]string
		stands bool
		force  bool
	}{
		"none":    {},
		"a drain": {intent: StopIntent{Reason: StopEmpty}, want: map[string]string{AnnotationStopReason: "empty"}},
		"end of a warm-up": {intent: StopIntent{At: at}, stands: true,
			want: map[string]string{AnnotationStopIntent: "2026-03-01T12:00:00.123456789Z"}},
		"a start that failed, asked again": {intent: StopIntent{At: at, LastAsked: at.Add(time.Minute), Reason: StopFailed},
			stands: true, force: true, want: map[string]string{AnnotationStopReason: "failed",
				AnnotationStopIntent: "2026-03-01T12:00:00.123456789Z", AnnotationStopAsked: "2026-03-01T12:01:00.123456789Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Annotations = map[string]string{"other": "stays", AnnotationStopReason: "drift", AnnotationStopIntent: "old",
				AnnotationStopAsked: "old"}
			c.intent.WriteTo(node)
			want := map[string]string{"other": "stays"}
			maps.Copy(want, c.want)
			if diff := cmp.Diff(want, node.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.intent, StopIntentOf(node)); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if c.intent.Stands() != c.stands || c.intent.Force() != c.force {
				t.Errorf("stands %v, by force %v; want %v, %v", c.intent.Stands(), c.intent.Force(), c.stands, c.force)
			}
		})
	}
}

func TestStopIntentOnANodeWithoutAnnotations(t *testing.T) {
	node := &corev1.Node{}
	StopIntent{Reason: StopEmpty}.WriteTo(node)
	if got := StopIntentOf(node).Reason; got != StopEmpty {
		t.Errorf("reason %q, want %q", got, StopEmpty)
	}
}

func TestATimeThatCannotBeReadIsNone(t *testing.T) {
	node := &corev1.Node{}
	node.Annotations = map[string]string{AnnotationStopIntent: "yesterday"}
	if StopIntentOf(node).Stands() {
		t.Error("an intent stands whose time cannot be read")
	}
}
