package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/pool"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list;watch
// +kubebuilder:rbac:namespace=release,groups="",resources=pods,verbs=create

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
}

// failure is the first image that could not be pulled, and whether that was reported for this try;
// nil for none.
func (p *pulls) failure(g *gathered, now time.Time) (*transition.ImageFailure, bool) {
	return p.firstOf(g, slices.Concat(p.requiredFailures(), p.bestEffortFailures()), now)
}

// firstOf is the first of the failures. What was told stays as it is: the kubelet's words change
// each time, and those of the first are the registry's.
func (p *pulls) firstOf(g *gathered, failures []plan.Failure, now time.Time) (*transition.ImageFailure, bool) {
	if len(failures) == 0 {
		return p.denied, p.denied != nil
	}
	f := &transition.ImageFailure{Since: now, Image: failures[0].Image, Words: failures[0].Words}
	if known := failureOfThisTry(g); known != nil && known.Image == f.Image {
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

// failureOfThisTry is what the Node remembers since its kubelet was asked this time; nil for
// nothing.
func failureOfThisTry(g *gathered) *transition.ImageFailure {
	known, ok := transition.ImageFailureOf(g.node)
	if !ok || known.Since.Before(began(g).Truncate(time.Second)) {
		return nil
	}
	return &known
}

// began is when the node's kubelet was asked for its images this time.
func began(g *gathered) time.Time {
	if g.Node.State == v1alpha1.StateStopping {
		return g.Node.StoppingSince
	}
	return g.Node.WarmupStarted
}

// pullsOf reads the images that the node shall have, and of the pods on it those that pull them.
func (c *Reconciler) pullsOf(ctx context.Context, g *gathered, pods []corev1.Pod) (pulls, error) {
	p := pulls{}
	for i := range pods {
		if decide.IsImagePullPod(&pods[i], c.Namespace) && pods[i].Spec.NodeName == g.node.Name {
			p.pods = append(p.pods, &pods[i])
		}
	}
	if g.pool == nil || !asksForImages(v1alpha1.NodeState(g.node.Labels[v1alpha1.LabelState])) {
		return p, nil
	}
	sets, err := pool.DaemonSets(ctx, c.Reader)
	if err != nil {
		return p, err
	}
	p.wanted = plan.Images(g.pool, g.node, sets, c.RequiredDaemonSets)
	p.required, p.bestEffort = plan.Judge(p.wanted, p.pods)
	if known := failureOfThisTry(g); known != nil && slices.Contains(p.bestEffort.Unasked, known.Image) {
		p.denied = known
	}
	return p, nil
}

// asksForImages: in other states nothing follows from the images, and most nodes are in those.
func asksForImages(s v1alpha1.NodeState) bool {
	return s == v1alpha1.StateWarmup || s == v1alpha1.StateStopping
}

// state is what the decision depends on.
func (p *pulls) state(g *gathered, now time.Time) lifecycle.ImageState {
	stopping := g.Node.State == v1alpha1.StateStopping
	failing := len(p.required.Failed)+len(p.required.Refused) > 0
	switch {
	case len(p.wanted.All()) == 0, stopping && !g.Node.ImagesChecked.IsZero(), !stopping && p.recorded(g):
		return lifecycle.ImagesPresent
	case p.toAsk(g, now):
		return lifecycle.ImagesUnknown
	case p.tried() && (stopping || p.required.Missing() == 0):
		// Before a stop no registry is waited for: a node without its images is refreshed while it is
		// standby.
		return lifecycle.ImagesSettled
	case !failing:
		return lifecycle.ImagesPulling
	}
	if _, told := p.failure(g, now); told {
		return lifecycle.ImagesFailureReported
	}
	return lifecycle.ImagesFailing
}

// recorded reports whether the images were looked at in this try. A best-effort image that failed
// in an earlier one is tried again, and one that has become required since, too.
func (p *pulls) recorded(g *gathered) bool {
	if g.node.Annotations[v1alpha1.AnnotationImagesHash] != p.wanted.Hash() {
		return false
	}
	known, ok := transition.ImageFailureOf(g.node)
	return !ok || !p.wanted.Has(known.Image) || !p.wanted.Requires(known.Image) && failureOfThisTry(g) != nil
}

// toAsk reports whether pods are to be made. What the kubelet has refused is told first. Pods with
// best-effort images wait while a required one fails: the Node remembers one failure, and it has to
// be that one.
func (p *pulls) toAsk(g *gathered, now time.Time) bool {
	switch {
	case len(p.required.Unasked) > 0:
		return true
	case len(p.required.Refused) > 0 && p.rested(now):
		_, told := p.failure(g, now)
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

func (c *Reconciler) actOnImages(ctx context.Context, g gathered, a lifecycle.Action) error {
	switch a {
	case lifecycle.PullImages:
		return c.pullImages(ctx, g)
	case lifecycle.TellImages:
		return c.tellImages(ctx, g)
	default:
		return c.recordImages(ctx, g)
	}
}

// pullImages makes the pods that are missing, and takes away those that pull another set. Where the
// kubelet has refused one, all are made anew.
func (c *Reconciler) pullImages(ctx context.Context, g gathered) error {
	current := g.pulls.wanted.Current(g.pulls.pods)
	if len(g.pulls.required.Refused) > 0 {
		current = nil
	}
	for _, pod := range g.pulls.pods {
		if !slices.Contains(current, pod) {
			if err := c.deletePull(ctx, pod); err != nil {
				return err
			}
		}
	}
	request := plan.Pull{
		Namespace: string(c.Namespace), Node: g.node, Pool: g.template.Pool, Instance: g.instance.ID,
		Images: g.pulls.wanted, Secrets: g.pool.Spec.PreWarm.ImagePullSecrets,
	}
	var denied []plan.Failure
	for _, pod := range request.Pods() {
		if slices.ContainsFunc(current, func(is *corev1.Pod) bool { return is.Name == pod.Name }) {
			continue
		}
		f, err := c.createPull(ctx, g, pod)
		if err != nil {
			return err
		}
		denied = append(denied, f...)
	}
	c.Poke()
	return c.denyPulls(ctx, g, denied)
}

// createPull makes a pod that pulls. Where the API server refuses it, people have to know: the
// namespace is not there, or its policy or quota is against it. For a pod with best-effort images
// that is a failure of its first image, because no node waits for it.
func (c *Reconciler) createPull(ctx context.Context, g gathered, pod *corev1.Pod) ([]plan.Failure, error) {
	image := pod.Spec.Containers[0].Image // admission may write another one into what is created
	err := c.Client.Create(ctx, pod)
	if err == nil || apierrors.IsAlreadyExists(err) { // made a moment ago, and the cache does not show it yet
		return nil, nil
	}
	words := "the pod that pulls images cannot be made: " + err.Error()
	if refusedByServer(err) && !g.pulls.wanted.Requires(image) {
		return []plan.Failure{{Image: image, Words: words}}, nil
	}
	c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonImagePullFailed, words)
	// Not wrapped, because what was not found is not the Node.
	return nil, fmt.Errorf("create a pod that pulls images: %v", err) //nolint:errorlint // see above
}

// refusedByServer reports whether the API server or admission would answer the same again, as
// opposed to a failure that passes.
func refusedByServer(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	passes := code == http.StatusConflict || code == http.StatusTooManyRequests
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && !passes
}

// denyPulls remembers on the Node that pods with best-effort images cannot be made.
func (c *Reconciler) denyPulls(ctx context.Context, g gathered, denied []plan.Failure) error {
	if len(denied) == 0 || g.pulls.denied != nil {
		return nil
	}
	failure := transition.ImageFailure{Since: c.Now(), Image: denied[0].Image, Words: denied[0].Words}
	if err := c.patch(ctx, g.node, transition.ImagePullFailed(g.node, failure)); err != nil {
		return err
	}
	c.tellFailures(g, denied)
	return nil
}

// stopPulling deletes the pods that pull on the node.
func (c *Reconciler) stopPulling(ctx context.Context, g gathered) error {
	var errs []error
	for _, pod := range g.pulls.pods {
		errs = append(errs, c.deletePull(ctx, pod))
	}
	return errors.Join(errs...)
}

// deletePull deletes a pod that pulls. Nothing of ours runs in it, so it goes at once, whether its
// kubelet is there or not.
func (c *Reconciler) deletePull(ctx context.Context, pod *corev1.Pod) error {
	uid := pod.UID
	err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// syncPulls deletes pull pods that are not needed any more: the node was wanted again, or stopped,
// before they were through.
func (c *Reconciler) syncPulls(ctx context.Context, g gathered) error {
	if g.Node == nil || asksForImages(g.Node.State) && g.Node.Images != lifecycle.ImagesPresent {
		return nil
	}
	return c.stopPulling(ctx, g)
}

func (c *Reconciler) tellImages(ctx context.Context, g gathered) error {
	f, _ := g.pulls.failure(&g, c.Now())
	if err := c.patch(ctx, g.node, transition.ImagePullFailed(g.node, *f)); err != nil {
		return err
	}
	c.tellFailures(g, g.pulls.requiredFailures())
	return nil
}

// tellFailures says so on the Node and on the pool, each image once.
func (c *Reconciler) tellFailures(g gathered, failures []plan.Failure) {
	for _, f := range failures {
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonImagePullFailed, f.Image+": "+f.Words)
		c.Events.Eventf(g.pool, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonImagePullFailed), "PullImages",
			"node %s: %s: %s", g.node.Name, f.Image, f.Words)
	}
	c.Poke()
}

// recordImages writes down what the kubelet has come to. A set in which a required image is missing
// counts as none.
func (c *Reconciler) recordImages(ctx context.Context, g gathered) error {
	p := &g.pulls
	failures := slices.Concat(p.requiredFailures(), p.bestEffortFailures(), p.late())
	failure, told := p.firstOf(&g, failures, c.Now())
	found := transition.ImagesFound{Failure: failure}
	if p.required.Missing() == 0 {
		found.Hash, found.RequiredHash = p.wanted.Hash(), plan.HashImages(p.wanted.Required)
	}
	if err := c.patch(ctx, g.node, transition.ImagesRecorded(g.node, found, c.Now())); err != nil {
		return err
	}
	if failure != nil && !told {
		c.tellFailures(g, failures)
	}
	c.Poke()
	return c.stopPulling(ctx, g)
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
