package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/scaler/lifecycle"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=list;watch
// +kubebuilder:rbac:namespace=release,groups="",resources=pods,verbs=create

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
	p := pullsOf(&g.raw, g.Node)
	current := p.wanted.Current(p.pods)
	if len(p.required.Refused) > 0 {
		current = nil
	}
	for _, pod := range p.pods {
		if !slices.Contains(current, pod) {
			if err := c.deletePull(ctx, pod); err != nil {
				return err
			}
		}
	}
	request := plan.Pull{
		Namespace: string(c.Namespace), Node: g.node, Pool: g.instance.Pool(), Instance: g.instance.ID,
		Images: p.wanted, Secrets: g.pool.Spec.PreWarm.ImagePullSecrets,
	}
	var denied []plan.Failure
	for _, pod := range request.Pods() {
		if slices.ContainsFunc(current, func(is *corev1.Pod) bool { return is.Name == pod.Name }) {
			continue
		}
		f, err := c.createPull(ctx, g, p.wanted, pod)
		if err != nil {
			return err
		}
		denied = append(denied, f...)
	}
	c.Poke()
	if len(denied) == 0 || p.denied != nil {
		return nil
	}
	return c.denyPulls(ctx, g, denied)
}

// createPull makes a pod that pulls. Where the API server refuses it, people have to know: the
// namespace is not there, or its policy or quota is against it. For a pod with best-effort images
// that is a failure of its first image, because no node waits for it.
func (c *Reconciler) createPull(
	ctx context.Context, g gathered, wanted plan.Wanted, pod *corev1.Pod,
) ([]plan.Failure, error) {
	image := pod.Spec.Containers[0].Image // admission may write another one into what is created
	err := c.Client.Create(ctx, pod)
	if err == nil || apierrors.IsAlreadyExists(err) { // made a moment ago, and the cache does not show it yet
		return nil, nil
	}
	words := "the pod that pulls images cannot be made: " + err.Error()
	if refusedByServer(err) && !wanted.Requires(image) {
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
	for _, pod := range g.pullPods() {
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
	p := pullsOf(&g.raw, g.Node)
	f, _ := p.failure(c.Now())
	if err := c.patch(ctx, g.node, transition.ImagePullFailed(g.node, *f)); err != nil {
		return err
	}
	c.tellFailures(g, p.requiredFailures())
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
	p := pullsOf(&g.raw, g.Node)
	failures := slices.Concat(p.requiredFailures(), p.bestEffortFailures(), p.late())
	failure, told := p.firstOf(failures, c.Now())
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
