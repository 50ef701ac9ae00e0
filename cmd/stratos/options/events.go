package options

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// maxNote is the longest note of an event in bytes. The API server refuses longer ones, which the
// recorder only logs.
const maxNote = 1024

const (
	// eventPause is how long an event is held back. A start needs the API server just then, for its
	// intent, and an event is not read sooner.
	eventPause = 2 * time.Second
	// eventsPerSecond is how many are written after eventsAtOnce. In a burst of 250 starts there are
	// some for each pod and node, which compete with the starts for the API server: with all of them
	// written at once the last start left a sixth to a third later.
	eventsPerSecond, eventsAtOnce = 25, 10
	// eventWait is the longest that the pace may hold an event back. A later one is lost, as events
	// may be: it would report what has long been over.
	eventWait = 2 * time.Minute
)

// PacedEvents returns the manager with event recorders that cut notes at maxNote, and that write no
// faster than eventsPerSecond between them. What is held when the process ends is lost.
func PacedEvents(mgr ctrl.Manager) ctrl.Manager {
	return pacedEvents{mgr, rate.NewLimiter(eventsPerSecond, eventsAtOnce)}
}

type pacedEvents struct {
	ctrl.Manager
	pace *rate.Limiter
}

// GetEventRecorder implements ctrl.Manager.
func (m pacedEvents) GetEventRecorder(name string) recorder.EventRecorder {
	return paced{m.Manager.GetEventRecorder(name), m.pace}
}

type paced struct {
	recorder recorder.EventRecorder
	pace     *rate.Limiter
}

// Eventf implements recorder.EventRecorder.
func (p paced) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	note = cut(fmt.Sprintf(note, args...))
	p.later(func() { p.recorder.Eventf(regarding, related, kind, reason, action, "%s", note) })
}

// AnnotatedEventf implements recorder.EventRecorder.
func (p paced) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string,
	kind, reason, action, note string, args ...any,
) {
	note = cut(fmt.Sprintf(note, args...))
	p.later(func() { p.recorder.AnnotatedEventf(regarding, related, annotations, kind, reason, action, "%s", note) })
}

func (p paced) later(write func()) {
	turn := p.pace.Reserve()
	if turn.Delay() > eventWait {
		turn.Cancel()
		return
	}
	time.AfterFunc(eventPause+turn.Delay(), write)
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
