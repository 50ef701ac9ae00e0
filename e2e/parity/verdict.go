package parity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/extender/fit"
)

// Verdict is what one side says of a pod on a node. The zero value is consent.
type Verdict struct {
	// Messages is why not; several where a filter has several objections.
	Messages []string
	// Unresolvable: evicting pods would not help.
	Unresolvable bool
	// Plugin names the plugin that refuses; it is "" where fit decides.
	Plugin string
	// Early: said of the pod before any node was looked at. The scheduler then asks no filter about
	// the node.
	Early bool
	// Failed: the scheduler could not tell, and places the pod nowhere. Its message then begins with
	// how it got there.
	Failed bool
}

func (v Verdict) fits() bool { return len(v.Messages) == 0 }

func (v Verdict) String() string {
	if v.fits() {
		return "it fits"
	}
	words := strings.Join(v.Messages, "; ")
	if v.Plugin != "" {
		words = v.Plugin + ": " + words
	}
	if v.Early {
		words = "before any node, " + words
	}
	if v.Unresolvable {
		words += " (no eviction helps)"
	}
	return words
}

func ofRefusal(refusal *fit.Refusal) Verdict {
	if refusal == nil {
		return Verdict{}
	}
	return Verdict{Messages: []string{refusal.Message}, Unresolvable: refusal.Unresolvable}
}

// Opinion is one side: its decisions about a pod, one for each node of the world in the world's
// order.
type Opinion func(pod *corev1.Pod) ([]Verdict, error)

// Disagreement is a pod and a node of which the two sides say different things.
type Disagreement struct {
	Pod, Node string
	// What differs: the decision, the message, or what preemption may conclude.
	What           string
	Scheduler, Fit Verdict
}

func (d Disagreement) String() string {
	return fmt.Sprintf("they disagree about the %s, pod %s on node %s\n  scheduler: %s\n  fit:       %s",
		d.What, d.Pod, d.Node, d.Scheduler, d.Fit)
}

// same reports whether a smaller world still shows this disagreement and not another one, which is
// shrunk separately.
func (d Disagreement) same(other Disagreement) bool {
	return d.Pod == other.Pod && d.Node == other.Node && d.What == other.What &&
		d.Scheduler.String() == other.Scheduler.String() && d.Fit.String() == other.Fit.String()
}

// difference names what two decisions differ in, "" for nothing.
func difference(scheduler, ours Verdict) string {
	switch {
	case scheduler.fits() != ours.fits():
		return "decision"
	case ours.fits():
		return ""
	case scheduler.Unresolvable != ours.Unresolvable:
		return "use of evictions"
	case !sameWords(scheduler, ours):
		return "message"
	default:
		return ""
	}
}

// sameWords: fit gives one objection where the scheduler may give several, and is free where the
// scheduler says nothing about the node.
func sameWords(scheduler, ours Verdict) bool {
	if scheduler.Messages[0] == messagePassedOver {
		return true
	}
	if scheduler.Failed {
		return strings.HasSuffix(scheduler.Messages[0], ours.Messages[0])
	}
	return slices.Contains(scheduler.Messages, ours.Messages[0])
}
