package extender

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// eventPause is how long events about pending pods are held back. The start itself needs the API
// server just then, for its intent, and an event is not read sooner; what kube-scheduler writes
// into the pod's condition says the same at once.
const eventPause = time.Second

// later holds events back. One that is still held when the process ends is lost, as events may be.
type later struct{ recorder events.EventRecorder }

// Eventf implements events.EventRecorder.
func (l later) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	time.AfterFunc(eventPause, func() { l.recorder.Eventf(regarding, related, kind, reason, action, note, args...) })
}
