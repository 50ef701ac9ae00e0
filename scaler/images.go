package scaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list;watch
// +kubebuilder:rbac:namespace=release,groups="",resources=pods,verbs=create

// refusedRest is how long a pod that the kubelet refused stays before another is made: a kubelet without room would refuse them all.
const refusedRest = 30 * time.Second

// pulls is what is known of the images of one node.
type pulls struct {
	wanted []string
	pods   []*corev1.Pod
	plan.Pulled
}

// failure is the first image that could not be pulled, and whether that was told of this try; nil for none. What was told stays as it is: the
// kubelet's words change each time, and those of the first are the registry's.
func (p *pulls) failure(g *gathered, now time.Time) (*transition.ImageFailure, bool) {
	f := p.firstFailure(now)
	known, ok := transition.ImageFailureOf(g.node)
	if f == nil || !ok || known.Image != f.Image || known.Since.Before(began(g).Truncate(time.Second)) {
		return f, false
	}
	return &known, true
}

// began is when the node's kubelet was asked for its images this time.
func began(g *gathered) time.Time {
	if g.Node.State == v1alpha1.StateStopping {
		return g.Node.StoppingSince
	}
	return g.Node.WarmupStarted
}

func (p *pulls) firstFailure(now time.Time) *transition.ImageFailure {
	switch {
	case len(p.Failed) > 0:
		return &transition.ImageFailure{Since: now, Image: p.Failed[0].Image, Words: p.Failed[0].Words}
	case p.Refused != "":
		return &transition.ImageFailure{Since: now, Image: p.wanted[0], Words: "kubelet refused the pod that pulls: " + p.Refused}
	}
	return nil
}

// daemonSets are all of the cluster's, not to be changed: they are the cache's own.
func daemonSets(ctx context.Context, reader client.Reader) ([]*appsv1.DaemonSet, error) {
	list := &appsv1.DaemonSetList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	out := make([]*appsv1.DaemonSet, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// pullsOf reads the images that the node shall have, and of the pods on it those that pull them.
func (c *nodes) pullsOf(ctx context.Context, g *gathered, pods []corev1.Pod) (pulls, error) {
	p := pulls{}
	for i := range pods {
		if claim.Pulls(&pods[i]) && pods[i].Spec.NodeName == g.node.Name && pods[i].Namespace == c.namespace {
			p.pods = append(p.pods, &pods[i])
		}
	}
	if g.pool == nil || !asksForImages(v1alpha1.NodeState(g.node.Labels[v1alpha1.LabelState])) {
		return p, nil
	}
	sets, err := daemonSets(ctx, c.reader)
	if err != nil {
		return p, err
	}
	p.wanted = plan.Images(g.pool, g.node, sets)
	p.Pulled = plan.Judge(p.wanted, p.current())
	return p, nil
}

// asksForImages: in other states nothing follows from the images, and most nodes are in those.
func asksForImages(s v1alpha1.NodeState) bool {
	return s == v1alpha1.StateWarmup || s == v1alpha1.StateStopping
}

// current are the pods that pull the set that is wanted now.
func (p *pulls) current() []*corev1.Pod {
	hash := plan.HashImages(p.wanted)
	return slices.DeleteFunc(slices.Clone(p.pods), func(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.LabelPull] != hash })
}

// state is what the decision depends on.
func (p *pulls) state(g *gathered, now time.Time) lifecycle.ImageState {
	stopping := g.Node.State == v1alpha1.StateStopping
	recorded := g.node.Annotations[v1alpha1.AnnotationImagesHash] == plan.HashImages(p.wanted)
	switch {
	case len(p.wanted) == 0,
		stopping && !g.Node.ImagesChecked.IsZero(),
		!stopping && recorded:
		return lifecycle.ImagesPresent
	case len(p.current()) == 0, p.Refused != "" && p.rested(now):
		return lifecycle.ImagesUnknown
	case p.Open == 0 && (len(p.Failed) == 0 || stopping || !required(g.pool)):
		// Before a stop nobody waits for a registry: a node without its images is refreshed while it stands by.
		return lifecycle.ImagesSettled
	case len(p.Failed) == 0 && p.Refused == "":
		return lifecycle.ImagesPulling
	}
	if _, told := p.failure(g, now); told {
		return lifecycle.ImagesFailingTold
	}
	return lifecycle.ImagesFailing
}

func (p *pulls) rested(now time.Time) bool {
	return !slices.ContainsFunc(p.current(), func(pod *corev1.Pod) bool { return now.Sub(pod.CreationTimestamp.Time) < refusedRest })
}

func required(p *v1alpha1.NodePool) bool {
	return p.Spec.PreWarm.ImagePullPolicyOrDefault() == v1alpha1.ImagesRequired
}

func (c *nodes) actOnImages(ctx context.Context, g gathered, a lifecycle.Action) error {
	switch a {
	case lifecycle.PullImages:
		return c.pullImages(ctx, g)
	case lifecycle.TellImages:
		return c.tellImages(ctx, g)
	default:
		return c.recordImages(ctx, g)
	}
}

// pullImages makes the pods that pull, and takes away what pulled another set or was refused.
func (c *nodes) pullImages(ctx context.Context, g gathered) error {
	if err := c.stopPulling(ctx, g); err != nil {
		return err
	}
	request := plan.Pull{
		Namespace: c.namespace, Node: g.node, Pool: g.template.Pool, Instance: g.instance.ID,
		Images: g.pulls.wanted, Secrets: g.pool.Spec.PreWarm.ImagePullSecrets,
	}
	for _, pod := range request.Pods() {
		// One that exists was made a moment ago, and the cache does not show it yet.
		if err := c.client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			// The namespace is not there, or its policy or quota refuses the pod: people have to know. Not wrapped, because what was not found
			// is not the Node.
			c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonImagePullFailed, "the pod that pulls images cannot be made: "+err.Error())
			return fmt.Errorf("create a pod that pulls images: %v", err) //nolint:errorlint // see above
		}
	}
	c.poke()
	return nil
}

// stopPulling deletes the pods that pull on the node. Nothing runs in them, so they go at once, whether their kubelet is there or not.
func (c *nodes) stopPulling(ctx context.Context, g gathered) error {
	var errs []error
	for _, pod := range g.pulls.pods {
		uid := pod.UID
		err := c.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
		if !apierrors.IsConflict(err) {
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(errs...)
}

// syncPulls takes away pods that nobody waits for any more: the node was wanted again, or stopped, before they were through.
func (c *nodes) syncPulls(ctx context.Context, g gathered) error {
	if g.Node == nil || asksForImages(g.Node.State) && g.Node.Images != lifecycle.ImagesPresent {
		return nil
	}
	return c.stopPulling(ctx, g)
}

func (c *nodes) tellImages(ctx context.Context, g gathered) error {
	f, _ := g.pulls.failure(&g, c.now())
	if err := c.patch(ctx, g.node, transition.ImagePullFailed(g.node, *f)); err != nil {
		return err
	}
	c.imagesFailed(g)
	return nil
}

// imagesFailed says so on the Node and on the pool, each image once.
func (c *nodes) imagesFailed(g gathered) {
	for _, f := range g.pulls.Failed {
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonImagePullFailed, f.Image+": "+f.Words)
		c.events.Eventf(g.pool, nil, corev1.EventTypeWarning, string(v1alpha1.ReasonImagePullFailed), "PullImages", "node %s: %s: %s", g.node.Name, f.Image, f.Words)
	}
	if len(g.pulls.Failed) == 0 {
		c.event(g, corev1.EventTypeWarning, v1alpha1.ReasonImagePullFailed, g.pulls.Refused)
	}
	c.poke()
}

// recordImages writes down what the kubelet has come to. Of a pool that requires its images an incomplete set counts as none.
func (c *nodes) recordImages(ctx context.Context, g gathered) error {
	failure, told := g.pulls.failure(&g, c.now())
	hash := plan.HashImages(g.pulls.wanted)
	if failure != nil && required(g.pool) {
		hash = ""
	}
	if err := c.patch(ctx, g.node, transition.ImagesRecorded(g.node, hash, failure, c.now())); err != nil {
		return err
	}
	if failure != nil && !told {
		c.imagesFailed(g)
	}
	c.poke()
	return c.stopPulling(ctx, g)
}
