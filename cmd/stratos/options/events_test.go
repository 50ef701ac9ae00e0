package options

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// recorded keeps the note of the last event, which a recorder formats like fmt.Sprintf.
type recorded struct{ note string }

func (r *recorded) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	r.note = fmt.Sprintf(note, args...)
}

func (r *recorded) AnnotatedEventf(regarding, related runtime.Object, _ map[string]string,
	kind, reason, action, note string, args ...any,
) {
	r.Eventf(regarding, related, kind, reason, action, note, args...)
}

// recording is a manager of which only the recorder is asked for.
type recording struct {
	ctrl.Manager
	recorder *recorded
}

func (m recording) GetEventRecorder(string) recorder.EventRecorder { return m.recorder }

// TestEventNotesAreCut: the API server refuses an event whose note has more than 1024 bytes, and
// says so nowhere.
func TestEventNotesAreCut(t *testing.T) {
	for name, c := range map[string]struct{ note, want string }{
		"short":                  {"a pod waits", "a pod waits"},
		"nothing":                {"", ""},
		"as long as it may be":   {strings.Repeat("a", 1024), strings.Repeat("a", 1024)},
		"a byte more":            {strings.Repeat("a", 1025), strings.Repeat("a", 1024)},
		"runes of two bytes":     {strings.Repeat("é", 700), strings.Repeat("é", 512)},
		"runes on both sides":    {"a" + strings.Repeat("é", 700), "a" + strings.Repeat("é", 511)},
		"runes of four bytes":    {strings.Repeat("😀", 300), strings.Repeat("😀", 256)},
		"invalid bytes":          {strings.Repeat("\xff.", 600), strings.Repeat("\uFFFD.", 256)},
		"what looks like a verb": {"100%s" + strings.Repeat("%d", 600), "100%s" + strings.Repeat("%d", 509) + "%"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorded{}
			events := ShortNotes(recording{recorder: r}).GetEventRecorder("any")
			for event, write := range map[string]func(){
				"plain": func() {
					events.Eventf(&corev1.Pod{}, nil, corev1.EventTypeWarning, "StandbyUnavailable", "Explain", "%s", c.note)
				},
				"annotated": func() {
					events.AnnotatedEventf(&corev1.Pod{}, nil, map[string]string{"a": "b"}, corev1.EventTypeWarning,
						"StandbyUnavailable", "Explain", "%s", c.note)
				},
			} {
				write()
				if r.note != c.want || !utf8.ValidString(r.note) || len(r.note) > 1024 {
					t.Errorf("%s: %d bytes: %q, want %d bytes: %q", event, len(r.note), r.note, len(c.want), c.want)
				}
			}
		})
	}
}
