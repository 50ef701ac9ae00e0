package scaler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// refreshRest is how long after an image could not be pulled no standby node of the pool is started to pull it: a registry that is down, or a tag
// that does not exist, must not cost the running of instances again and again.
const refreshRest = 15 * time.Minute

// nodeImages is what is known of the images of one of the pool's nodes.
type nodeImages struct {
	node    *corev1.Node
	wanted  []string
	present bool
	// failure is an image of the wanted ones that could not be pulled; nil for none.
	failure *transition.ImageFailure
}

// images judges the pool's nodes, sorted by name.
func (c *pools) images(ctx context.Context, pool *v1alpha1.NodePool, nodes []corev1.Node) ([]nodeImages, error) {
	sets, err := daemonSets(ctx, c.client)
	if err != nil {
		return nil, err
	}
	var out []nodeImages
	for i := range nodes {
		n := &nodes[i]
		if n.Labels[v1alpha1.LabelState] == "" {
			continue
		}
		wanted := plan.Images(pool, n, sets)
		im := nodeImages{node: n, wanted: wanted, present: len(wanted) == 0 || n.Annotations[v1alpha1.AnnotationImagesHash] == plan.HashImages(wanted)}
		if f, ok := transition.ImageFailureOf(n); ok && slices.Contains(wanted, f.Image) {
			im.failure = &f
		}
		out = append(out, im)
	}
	slices.SortFunc(out, func(a, b nodeImages) int { return strings.Compare(a.node.Name, b.node.Name) })
	return out, nil
}

// refresh starts standby nodes whose images are not those that the pool wants now, a few at a time, to pull what is missing.
func (c *pools) refresh(ctx context.Context, pool *v1alpha1.NodePool, images []nodeImages) error {
	var standby, busy int32
	var stale []*corev1.Node
	for i := range images {
		n := images[i].node
		switch state := v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]); {
		case images[i].failure != nil && c.now().Sub(images[i].failure.Since) < refreshRest:
			return nil
		case disrupted(n):
			busy++
		case state == v1alpha1.StateStandby:
			standby++
			if !images[i].present && c.startable(n) {
				stale = append(stale, n)
			}
		}
	}
	n := plan.Refreshes(standby, pool.Spec.MinStandby, pool.Spec.Disruption.BudgetOrDefault(pool.Spec.PoolSize), busy)
	for _, node := range stale[:min(int(n), len(stale))] {
		if err := c.refreshNode(ctx, pool, node); err != nil {
			return err
		}
	}
	return nil
}

// disrupted: it takes part of disruption.budget.
func disrupted(n *corev1.Node) bool {
	switch v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) {
	case v1alpha1.StateWarmup:
		return n.Annotations[v1alpha1.AnnotationWarmupStarted] != "" && n.Annotations[v1alpha1.AnnotationWarmedAt] != ""
	case v1alpha1.StateTerminating:
		reason := v1alpha1.StopReason(n.Annotations[v1alpha1.AnnotationStopReason])
		return reason == v1alpha1.StopDrift || reason == v1alpha1.StopRuntime
	}
	return false
}

// startable: nobody has marked the node, it is not resting after a failed start, and no pod is promised room on it.
func (c *pools) startable(n *corev1.Node) bool {
	return n.Annotations[v1alpha1.AnnotationDoNotStart] != "true" && n.Annotations[v1alpha1.AnnotationCordoned] == "true" &&
		!c.now().Before(timeMark(n, v1alpha1.AnnotationUnavailableUntil)) && len(c.ledger.On(v1alpha1.NodeName(n.Name))) == 0
}

// refreshNode writes the intent and asks for the start. The patch tests that the node is standby still: a pod may be waking it.
func (c *pools) refreshNode(ctx context.Context, pool *v1alpha1.NodePool, n *corev1.Node) error {
	t := transition.TemplateOf(pool, v1alpha1.PoolName(pool.Name), instanceOf(n))
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	err := c.client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, transition.WarmAgain(n, t, c.now()).JSON()))
	if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.events.Eventf(n, nil, corev1.EventTypeNormal, string(v1alpha1.ReasonWarmupStarted), "Refresh", "images have changed or are missing")
	c.warmUp(v1alpha1.NodeName(n.Name))
	c.poke()
	return nil
}

// imagesCondition says how far the pool's nodes are. A failure counts until the image is there or no longer wanted.
func (c *pools) imagesCondition(ctx context.Context, pool *v1alpha1.NodePool, images []nodeImages) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionImagesPulled, Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonImagesPresent), ObservedGeneration: pool.Generation}
	wanting, done := 0, 0
	var broken []string
	for _, im := range images {
		if len(im.wanted) == 0 {
			continue
		}
		wanting++
		if im.present {
			done++
		}
		if im.failure != nil {
			broken = append(broken, fmt.Sprintf("node %s: %s: %s", im.node.Name, im.failure.Image, im.failure.Words))
		}
	}
	progress := fmt.Sprintf("%d of %d nodes have their images", done, wanting)
	switch {
	case len(broken) > 0:
		cond.Status, cond.Reason = metav1.ConditionFalse, string(v1alpha1.ReasonImagePullFailed)
		cond.Message = fmt.Sprintf("%s; %d cannot pull one; %s", progress, len(broken), broken[0])
	case done < wanting:
		cond.Status, cond.Reason = metav1.ConditionUnknown, string(v1alpha1.ReasonImagesPending)
		cond.Message = progress + c.underWay(ctx, pool)
	case wanting > 0:
		cond.Message = progress
	case len(pool.Spec.PreWarm.ImagesToPull) > 0:
		cond.Status, cond.Reason, cond.Message = metav1.ConditionUnknown, string(v1alpha1.ReasonImagesPending), "no node has come to pull images yet"
	default:
		cond.Message = "no images are to be pulled"
	}
	return cond
}

// underWay tells of the pulls that kubelets are at.
func (c *pools) underWay(ctx context.Context, pool *v1alpha1.NodePool) string {
	list := &corev1.PodList{}
	err := c.client.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name}, client.HasLabels{v1alpha1.LabelPull})
	if err != nil {
		return ""
	}
	pulled, all := 0, 0
	for i := range list.Items {
		pod := &list.Items[i]
		if !claim.Pulls(pod) {
			continue
		}
		var asked []string
		for j := range pod.Spec.Containers {
			asked = append(asked, pod.Spec.Containers[j].Image)
		}
		all += len(asked)
		pulled += plan.Judge(asked, []*corev1.Pod{pod}).Present
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d pulls under way are done", pulled, all)
}

// byDaemonSet: its images may be wanted on the nodes of every pool.
func (c *pools) byDaemonSet(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v1alpha1.NodePoolList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil // the sweep brings every pool back within seconds
	}
	out := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		out[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return out
}

// syncImages refreshes nodes and sets the condition. That is independent of launches: where they fail, standby nodes are refreshed all the same.
func (c *pools) syncImages(ctx context.Context, pool *v1alpha1.NodePool, nodes []corev1.Node) (*metav1.Condition, error) {
	images, err := c.images(ctx, pool, nodes)
	if err != nil {
		return nil, err
	}
	cond := c.imagesCondition(ctx, pool, images)
	return &cond, c.refresh(ctx, pool, images)
}

func setCondition(pool *v1alpha1.NodePool, cond *metav1.Condition) {
	if cond != nil {
		meta.SetStatusCondition(&pool.Status.Conditions, *cond)
	}
}
