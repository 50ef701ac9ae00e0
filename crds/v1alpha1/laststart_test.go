package v1alpha1

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLastStart: what is written can be read, in milliseconds, and is the same text for the same
// start. What another program wrote is no start.
func TestLastStart(t *testing.T) {
	last := LastStart{Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Phases: map[StartPhase]time.Duration{
		PhaseCall: 120 * time.Millisecond, PhaseMachine: 6 * time.Second, PhaseNetwork: 1234567 * time.Microsecond,
	}}
	const want = `{"started":"2026-03-01T12:00:00Z","call":0.120,"machine":6.000,"boot":0.000,"ready":0.000,` +
		`"network":1.235,"devices":0.000,"open":0.000}`
	if got := last.Text(); got != want {
		t.Errorf("written as %s", got)
	}
	read := func(text string) (LastStart, bool) {
		return LastStartOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			AnnotationLastStart: text}}})
	}
	got, ok := read(want)
	if !ok || !got.Started.Equal(last.Started) || got.Took() != 7355*time.Millisecond || got.Text() != want {
		t.Errorf("read as %+v, %v", got, ok)
	}
	for _, text := range []string{"", "soon", "{}", `{"started":"2026-03-01T12:00:00Z","call":-1}`,
		`{"started":"2026-03-01T12:00:00Z","call":1e300,"machine":0,"boot":0,"ready":0,"network":0,"devices":0,"open":0}`,
		`{"started":"yesterday","call":0,"machine":0,"boot":0,"ready":0,"network":0,"devices":0,"open":0}`} {
		if got, ok := read(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
