package v1alpha1

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StartPhase is a part of a start. Each begins where the one before ends, the first with the start
// intent.
// +kubebuilder:validation:MaxLength=32
type StartPhase string

// The phases of a start, in their order.
const (
	// PhaseCall ends when the cloud accepts the call, or shows that the instance comes up.
	PhaseCall StartPhase = "call"
	// PhaseMachine ends when the cloud shows that the instance runs.
	PhaseMachine StartPhase = "machine"
	// PhaseBoot ends with the first status of the kubelet that has a new bootID.
	PhaseBoot StartPhase = "boot"
	// PhaseReady ends when the kubelet is Ready.
	PhaseReady StartPhase = "ready"
	// PhaseNetwork ends when the network is up too.
	PhaseNetwork StartPhase = "network"
	// PhaseDevices ends when the devices are back too, and the taints of agents are gone.
	PhaseDevices StartPhase = "devices"
	// PhaseOpen ends when the API server has answered the patch that opens the node.
	PhaseOpen StartPhase = "open"
)

// StartPhases are the phases of a start, in their order.
func StartPhases() []StartPhase {
	return []StartPhase{
		PhaseCall, PhaseMachine, PhaseBoot, PhaseReady, PhaseNetwork, PhaseDevices, PhaseOpen,
	}
}

// LastStart is how the last start of a node went: the value of AnnotationLastStart.
// +kubebuilder:object:generate=false
type LastStart struct {
	// Started is when the start intent was written.
	Started time.Time
	// Phases are how long each phase took. PhaseOpen is the time until the patch was sent that has the
	// annotation.
	Phases map[StartPhase]time.Duration
}

// LastStartOf reads the annotation; false where there is none, or none that can be read.
func LastStartOf(node metav1.Object) (LastStart, bool) {
	text := []byte(node.GetAnnotations()[AnnotationLastStart])
	var at struct {
		Started time.Time `json:"started"`
	}
	var values map[string]any
	if json.Unmarshal(text, &at) != nil || json.Unmarshal(text, &values) != nil {
		return LastStart{}, false
	}
	last := LastStart{Started: at.Started, Phases: map[StartPhase]time.Duration{}}
	for _, phase := range StartPhases() {
		seconds, ok := values[string(phase)].(float64)
		if !ok || seconds < 0 || seconds > longestStart.Seconds() {
			return LastStart{}, false
		}
		last.Phases[phase] = time.Duration(math.Round(seconds*1000)) * time.Millisecond
	}
	return last, true
}

// longestStart bounds what is read as a phase: readyTimeout is at most a day.
const longestStart = 7 * 24 * time.Hour

// Took is how long the whole start took.
func (l LastStart) Took() time.Duration {
	took := time.Duration(0)
	for _, d := range l.Phases {
		took += d
	}
	return took
}

// Text writes the annotation: JSON with the time of the intent and the seconds of each phase, in
// order.
func (l LastStart) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, `{"started":%q`, l.Started.UTC().Format(time.RFC3339))
	for _, phase := range StartPhases() {
		fmt.Fprintf(&out, `,%q:%.3f`, phase, l.Phases[phase].Seconds())
	}
	return out.String() + "}"
}
