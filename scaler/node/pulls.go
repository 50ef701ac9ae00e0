package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// refusedRest is how long a pod that the kubelet refused stays before another is made: a kubelet
// without room would refuse them all.
const refusedRest = 30 * time.Second

// pulls is what is known of the images of one node.
type pulls struct {
	wanted               plan.Wanted
	pods                 []*corev1.Pod
	required, bestEffort plan.Pulled
	// denied is why a pod with best-effort images cannot be made, as the Node remembers it of this
	// try; nil for no such pod.
	denied *transition.ImageFailure
	// reported is the failure that the Node remembers since its kubelet was asked this time; nil for
	// none.
	reported *transition.ImageFailure
	node     *corev1.Node
}

// failure is the first image that could not be pulled, and whether that was reported for this try;
// nil for none.
func (p *pulls) failure(now time.Time) (*transition.ImageFailure, bool) {
	return p.firstOf(slices.Concat(p.requiredFailures(), p.bestEffortFailures()), now)
}

// firstOf is the first of the failures. What was told stays as it is: the kubelet's words change
// each time, and those of the first are the registry's.
func (p *pulls) firstOf(failures []plan.Failure, now time.Time) (*transition.ImageFailure, bool) {
	if len(failures) == 0 {
		return p.denied, p.denied != nil
	}
	f := &transition.ImageFailure{Since: now, Image: failures[0].Image, Words: failures[0].Words}
	if known := p.reported; known != nil && known.Image == f.Image {
		return known, true
	}
	return f, false
}

// requiredFailures are the required images that cannot be pulled, of those in pods that the kubelet
// refused the first: the others have the same reason.
func (p *pulls) requiredFailures() []plan.Failure {
	return slices.Concat(p.required.Failed, oneOf(p.required.Refused))
}

func (p *pulls) bestEffortFailures() []plan.Failure {
	return slices.Concat(p.bestEffort.Failed, oneOf(p.bestEffort.Refused))
}

func oneOf(failures []plan.Failure) []plan.Failure { return failures[:min(len(failures), 1)] }

// reportedFailure is what the Node remembers since its kubelet was asked for its images this time;
// nil for nothing.
func reportedFailure(node *corev1.Node, n *lifecycle.Node) *transition.ImageFailure {
	began := n.WarmupStarted
	if n.State == v1alpha1.StateStopping {
		began = n.StoppingSince
	}
	known, ok := transition.ImageFailureOf(node)
	if !ok || known.Since.Before(began.Truncate(time.Second)) {
		return nil
	}
	return &known
}

// pullsOf are the images that the node shall have, and of the pods on it those that pull them.
func pullsOf(r *raw, n *lifecycle.Node) pulls {
	p := pulls{node: r.node, pods: r.pullPods()}
	if r.pool == nil || !asksForImages(n.State) {
		return p
	}
	p.reported = reportedFailure(r.node, n)
	p.wanted = plan.Images(r.pool, r.node, r.daemonSets, r.requiredDaemonSets)
	p.required, p.bestEffort = plan.Judge(p.wanted, p.pods)
	if known := p.reported; known != nil && slices.Contains(p.bestEffort.Unasked, known.Image) {
		p.denied = known
	}
	return p
}

// pullPods are the pods that pull images on the node.
func (r *raw) pullPods() []*corev1.Pod {
	var out []*corev1.Pod
	for i := range r.pods {
		if decide.IsImagePullPod(&r.pods[i], r.namespace) && r.pods[i].Spec.NodeName == r.node.Name {
			out = append(out, &r.pods[i])
		}
	}
	return out
}

// asksForImages: in other states nothing follows from the images, and most nodes are in those.
func asksForImages(s v1alpha1.NodeState) bool {
	return s == v1alpha1.StateWarmup || s == v1alpha1.StateStopping
}

// state is what the decision depends on.
func (p *pulls) state(n *lifecycle.Node, now time.Time) lifecycle.ImageState {
	stopping := n.State == v1alpha1.StateStopping
	failing := len(p.required.Failed)+len(p.required.Refused) > 0
	switch {
	case len(p.wanted.All()) == 0, stopping && !n.ImagesChecked.IsZero(), !stopping && p.recorded():
		return lifecycle.ImagesPresent
	case p.toAsk(now):
		return lifecycle.ImagesUnknown
	case p.tried() && (stopping || p.required.Missing() == 0):
		// Before a stop no registry is waited for: a node without its images is refreshed while it is
		// standby.
		return lifecycle.ImagesSettled
	case !failing:
		return lifecycle.ImagesPulling
	}
	if _, told := p.failure(now); told {
		return lifecycle.ImagesFailureReported
	}
	return lifecycle.ImagesFailing
}

// recorded reports whether the images were looked at in this try. A best-effort image that failed
// in an earlier one is tried again, and one that has become required since, too.
func (p *pulls) recorded() bool {
	if p.node.Annotations[v1alpha1.AnnotationImagesHash] != p.wanted.Hash() {
		return false
	}
	known, ok := transition.ImageFailureOf(p.node)
	return !ok || !p.wanted.Has(known.Image) || !p.wanted.Requires(known.Image) && p.reported != nil
}

// toAsk reports whether pods are to be made. What the kubelet has refused is told first. Pods with
// best-effort images wait while a required one fails: the Node remembers one failure, and it has to
// be that one.
func (p *pulls) toAsk(now time.Time) bool {
	switch {
	case len(p.required.Unasked) > 0:
		return true
	case len(p.required.Refused) > 0 && p.rested(now):
		_, told := p.failure(now)
		return told
	case len(p.required.Failed)+len(p.required.Refused) > 0:
		return false
	}
	return len(p.bestEffort.Unasked) > 0 && p.denied == nil
}

// tried reports whether the kubelet has come to each image, or will not. A best-effort image is not
// asked for again.
func (p *pulls) tried() bool {
	return len(p.required.Open)+len(p.required.Refused)+len(p.required.Unasked)+len(p.bestEffort.Open) == 0
}

func (p *pulls) rested(now time.Time) bool {
	return !slices.ContainsFunc(p.wanted.Current(p.pods), func(pod *corev1.Pod) bool {
		return now.Sub(pod.CreationTimestamp.Time) < refusedRest
	})
}

// late is the first best-effort image that nothing was known of when preWarm.timeout was over; none
// before.
func (p *pulls) late() []plan.Failure {
	open := slices.Concat(p.bestEffort.Open, p.bestEffort.Unasked)
	if len(open) == 0 || p.denied != nil {
		return nil
	}
	return []plan.Failure{{Image: open[0], Words: "not pulled within preWarm.timeout"}}
}
