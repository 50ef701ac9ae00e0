package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// lastStart checks what a Node says of its last start. The patch that opens it writes that, and no
// other does. The phases last as long as the start by the clock of the process that opened the node
// and has seen all of the start.
func (r *rules) lastStart(old, n *corev1.Node) {
	text := n.Annotations[v1alpha1.AnnotationLastStart]
	if stateOf(old) != v1alpha1.StateStarting || stateOf(n) != v1alpha1.StateRunning {
		if text != old.Annotations[v1alpha1.AnnotationLastStart] {
			r.w.breaks("phases", "%s is %s, was %s, and its last start is written: %s", n.Name, stateOf(n), stateOf(old),
				text)
		}
		return
	}
	began, intended := time.Parse(time.RFC3339, old.Annotations[v1alpha1.AnnotationScaleUpStarted])
	last, told := v1alpha1.LastStartOf(n)
	asked := r.entered[n.Name]
	saw := func(p *process) bool {
		// Phases are in milliseconds, each rounded, and other calls may be made while the patch is sent.
		later := r.w.now.Add(p.skew).Sub(began) - last.Took()
		return p.born.Before(asked) && later > -5*time.Millisecond && later < time.Second
	}
	switch {
	case text == "":
		r.untold(n, asked)
	case !told || intended != nil || !slices.ContainsFunc(r.w.processes, saw):
		r.w.breaks("phases", "%s is opened %s after it was asked for, and says %s", n.Name, r.w.now.Sub(asked), text)
	}
}

// untold checks a start without phases: its process began in it or shortly before, or a fault kept
// the process from seeing the node before.
func (r *rules) untold(n *corev1.Node, asked time.Time) {
	begun := func(p *process) bool { return asked.Sub(p.born) < time.Minute || p.skew != 0 }
	if r.quiet(r.w.now.Sub(asked)+time.Minute) && !slices.ContainsFunc(r.w.processes, begun) {
		r.w.breaks("phases", "%s is opened, and its process has not told how it started", n.Name)
	}
}
