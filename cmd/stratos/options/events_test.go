package options

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// recorded keeps the notes of the events, which a recorder formats like fmt.Sprintf.
type recorded struct {
	mu    sync.Mutex
	notes []string
}

func (r *recorded) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(note, args...))
}

func (r *recorded) AnnotatedEventf(regarding, related runtime.Object, _ map[string]string,
	kind, reason, action, note string, args ...any,
) {
	r.Eventf(regarding, related, kind, reason, action, note, args...)
}

// said are the notes so far.
func (r *recorded) said() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notes)
}

// recording is a manager of which only recorders are asked for.
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
			synctest.Test(t, func(t *testing.T) {
				r := &recorded{}
				events := PacedEvents(recording{recorder: r}).GetEventRecorder("any")
				events.Eventf(&corev1.Pod{}, nil, corev1.EventTypeWarning, "StandbyUnavailable", "Explain", "%s", c.note)
				events.AnnotatedEventf(&corev1.Pod{}, nil, map[string]string{"a": "b"}, corev1.EventTypeWarning,
					"StandbyUnavailable", "Explain", "%s", c.note)
				<-time.After(eventPause)
				for _, said := range r.said() {
					if said != c.want || !utf8.ValidString(said) || len(said) > 1024 {
						t.Errorf("%d bytes: %q, want %d bytes: %q", len(said), said, len(c.want), c.want)
					}
				}
				if n := len(r.said()); n != 2 {
					t.Errorf("%d events, want both", n)
				}
			})
		})
	}
}

// TestEventsComeAfterTheStart: an event leaves the API server to the start, and is not lost.
func TestEventsComeAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorded{}
		events := PacedEvents(recording{recorder: r}).GetEventRecorder("any")
		events.Eventf(&corev1.Pod{}, nil, corev1.EventTypeNormal, "StandbyStarting", "Start", "node %s", "a")
		<-time.After(eventPause - time.Nanosecond)
		if said := r.said(); len(said) > 0 {
			t.Errorf("said %q at once", said)
		}
		<-time.After(time.Nanosecond)
		if said := r.said(); !slices.Equal(said, []string{"node a"}) {
			t.Errorf("said %q", said)
		}
	})
}

// TestEventsOfABurstAreSpread: those of all recorders together. What would wait for too long is
// lost, and does not keep later ones waiting.
func TestEventsOfABurstAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorded{}
		mgr := PacedEvents(recording{recorder: r})
		one, other := mgr.GetEventRecorder("one"), mgr.GetEventRecorder("other")
		const lost = 500
		kept := eventsAtOnce + int(eventWait.Seconds())*eventsPerSecond
		for range (kept + lost) / 2 {
			one.Eventf(&corev1.Pod{}, nil, corev1.EventTypeNormal, "StandbyStarting", "Start", "one")
			other.Eventf(&corev1.Node{}, nil, corev1.EventTypeNormal, "ScaleUp", "Start", "other")
		}
		<-time.After(eventPause)
		for second := range 10 {
			want := eventsAtOnce + second*eventsPerSecond
			if n := len(r.said()); n != want {
				t.Fatalf("%d events %d s after the first, want %d", n, second, want)
			}
			<-time.After(time.Second)
		}
		<-time.After(eventWait)
		if n := len(r.said()); n != kept {
			t.Errorf("%d events in all, want %d", n, kept)
		}
	})
}
