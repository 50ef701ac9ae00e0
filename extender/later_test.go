package extender

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// An event about a pending pod leaves the API server to the start, and is not lost.
func TestEventsComeAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := events.NewFakeRecorder(1)
		later{recorder}.Eventf(&corev1.Pod{}, nil, corev1.EventTypeNormal, "StandbyStarting", "Start", "node %s", "a")
		<-time.After(eventPause - time.Nanosecond)
		synctest.Wait()
		if len(recorder.Events) > 0 {
			t.Errorf("said %q at once", <-recorder.Events)
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if got := <-recorder.Events; got != "Normal StandbyStarting node a" {
			t.Errorf("said %q", got)
		}
	})
}
