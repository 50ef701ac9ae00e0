package options

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// maxNote is the longest note of an event in bytes. The API server refuses longer ones, which the
// recorder only logs.
const maxNote = 1024

// ShortNotes returns the manager with event recorders that cut notes at maxNote.
func ShortNotes(mgr ctrl.Manager) ctrl.Manager { return shortNotes{mgr} }

type shortNotes struct{ ctrl.Manager }

// GetEventRecorder implements ctrl.Manager.
func (m shortNotes) GetEventRecorder(name string) recorder.EventRecorder {
	return cutting{m.Manager.GetEventRecorder(name)}
}

type cutting struct{ recorder recorder.EventRecorder }

// Eventf implements recorder.EventRecorder.
func (c cutting) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	c.recorder.Eventf(regarding, related, kind, reason, action, "%s", cut(fmt.Sprintf(note, args...)))
}

// AnnotatedEventf implements recorder.EventRecorder.
func (c cutting) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string,
	kind, reason, action, note string, args ...any,
) {
	note = cut(fmt.Sprintf(note, args...))
	c.recorder.AnnotatedEventf(regarding, related, annotations, kind, reason, action, "%s", note)
}

// cut shortens the note to maxNote bytes without splitting a rune. Invalid bytes are replaced
// before, because the encoding of the request does that too and makes the note longer.
func cut(note string) string {
	note = strings.ToValidUTF8(note, string(utf8.RuneError))
	if len(note) <= maxNote {
		return note
	}
	end := maxNote
	for !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end]
}
