package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/scaler/plan"
	"github.com/stratos-sh/stratos/scaler/transition"
)

// refreshRest is how long after a required image could not be pulled no standby node of the pool is
// started to pull it: a registry that is down, or a tag that does not exist, must not cost the
// running of instances again and again. After a best-effort image could not be pulled it is doubled
// for each other node of the pool that lacks one, up to maxRefreshRest.
const (
	refreshRest    = 15 * time.Minute
	maxRefreshRest = 6 * time.Hour
)

// lack is what of the images that the pool wants is missing on a node.
type lack int

const (
	lacksNothing lack = iota
	lacksBestEffort
	lacksRequired
)

// lackOf reads what the Node remembers of its images. An earlier version did not tell the required
// ones apart.
func lackOf(n *corev1.Node, wanted plan.Wanted) lack {
	if len(wanted.All()) == 0 { // what it has of an earlier set does not matter, and a warm-up would not write it anew
		return lacksNothing
	}
	all := n.Annotations[v1alpha1.AnnotationImagesHash] == wanted.Hash()
	failure, failed := transition.ImageFailureOf(n)
	failed = failed && wanted.Has(failure.Image)
	switch {
	case all && !failed:
		return lacksNothing
	case failed && wanted.Requires(failure.Image):
		return lacksRequired
	case all, n.Annotations[v1alpha1.AnnotationRequiredImagesHash] == plan.HashImages(wanted.Required):
		return lacksBestEffort
	}
	return lacksRequired
}

// nodeImages is what is known of the images of one of the pool's nodes.
type nodeImages struct {
	node   *corev1.Node
	wanted plan.Wanted
	lack   lack
	// failure is an image of the wanted ones that could not be pulled; nil for none.
	failure *transition.ImageFailure
}

// poolImages is what is known of the images of a pool's nodes, sorted by name.
type poolImages struct {
	nodes []nodeImages
	// lacking are the nodes on which images are missing.
	lacking map[v1alpha1.NodeName]lack
	// backingOff: an image of that kind could not be pulled a short time ago.
	backingOff map[lack]bool
}

// images returns the state of the images on the pool's nodes.
func (c *Reconciler) images(ctx context.Context, pool *v1alpha1.NodePool, nodes []corev1.Node) (poolImages, error) {
	sets, err := DaemonSets(ctx, c.Client)
	if err != nil {
		return poolImages{}, err
	}
	out := poolImages{lacking: map[v1alpha1.NodeName]lack{}}
	for i := range nodes {
		n := &nodes[i]
		if n.Labels[v1alpha1.LabelState] == "" {
			continue
		}
		wanted := plan.Images(pool, n, sets, c.RequiredDaemonSets)
		im := nodeImages{node: n, wanted: wanted, lack: lackOf(n, wanted)}
		if f, ok := transition.ImageFailureOf(n); ok && wanted.Has(f.Image) {
			im.failure = &f
		}
		out.nodes = append(out.nodes, im)
		out.lacking[v1alpha1.NodeName(n.Name)] = im.lack
	}
	slices.SortFunc(out.nodes, func(a, b nodeImages) int { return strings.Compare(a.node.Name, b.node.Name) })
	out.backingOff = backingOff(out.nodes, c.Now())
	return out, nil
}

// backingOff returns the kinds of which no images are pulled to standby nodes now. While a required
// image fails, those of best effort wait too; the other way round they do not.
func backingOff(nodes []nodeImages, now time.Time) map[lack]bool {
	var required, bestEffort time.Time
	rest := refreshRest
	for _, im := range nodes {
		switch {
		case im.failure == nil:
		case im.wanted.Requires(im.failure.Image):
			required = later(required, im.failure.Since)
		default:
			if !bestEffort.IsZero() {
				rest = min(2*rest, maxRefreshRest)
			}
			bestEffort = later(bestEffort, im.failure.Since)
		}
	}
	failing := now.Sub(required) < refreshRest
	return map[lack]bool{lacksRequired: failing, lacksBestEffort: failing || now.Sub(bestEffort) < rest}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stale reports whether images that the pool wants are not on the node, and may be pulled to it
// now.
func (p poolImages) stale(node v1alpha1.NodeName) bool {
	lacks := p.lacking[node]
	return lacks != lacksNothing && !p.backingOff[lacks]
}

// refreshing: it was complete before, and is warming up to pull images.
func refreshing(n *corev1.Node) bool {
	return n.Labels[v1alpha1.LabelState] == string(v1alpha1.StateWarmup) &&
		n.Annotations[v1alpha1.AnnotationWarmupStarted] != "" && n.Annotations[v1alpha1.AnnotationWarmedAt] != ""
}

// startable: no person has marked the node, it does not back off after a failed start, and no pod
// has a claim on it.
func (c *Reconciler) startable(n *corev1.Node) bool {
	return n.Annotations[v1alpha1.AnnotationDoNotStart] != "true" &&
		n.Annotations[v1alpha1.AnnotationCordoned] == "true" &&
		!c.Now().Before(v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationUnavailableUntil)) &&
		len(c.State.ClaimsOn(v1alpha1.NodeName(n.Name))) == 0
}

// imagesCondition says how far the pool's nodes are. A failure counts until the image is there or
// no longer wanted.
func (c *Reconciler) imagesCondition(ctx context.Context, pool *v1alpha1.NodePool, images poolImages) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionImagesPulled, Status: metav1.ConditionTrue,
		Reason: string(v1alpha1.ReasonImagesPresent), ObservedGeneration: pool.Generation}
	wanting, done := 0, 0
	var broken []string
	for _, im := range images.nodes {
		if len(im.wanted.All()) == 0 {
			continue
		}
		wanting++
		if im.lack == lacksNothing {
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
		cond.Status, cond.Reason, cond.Message = metav1.ConditionUnknown, string(v1alpha1.ReasonImagesPending),
			"no node has come to pull images yet"
	default:
		cond.Message = "no images are to be pulled"
	}
	return cond
}

// underWay describes the pulls that kubelets are at.
func (c *Reconciler) underWay(ctx context.Context, pool *v1alpha1.NodePool) string {
	list := &corev1.PodList{}
	err := c.Client.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabels{v1alpha1.LabelPool: pool.Name},
		client.HasLabels{v1alpha1.LabelPull})
	if err != nil {
		return ""
	}
	pulled, all := 0, 0
	for i := range list.Items {
		if pod := &list.Items[i]; decide.IsImagePullPod(pod, c.Namespace) {
			there, asked := plan.Progress(pod)
			pulled, all = pulled+there, all+asked
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d pulls under way are done", pulled, all)
}

// byDaemonSet: its images may be wanted on the nodes of every pool.
func (c *Reconciler) byDaemonSet(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v1alpha1.NodePoolList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil // the sweep brings every pool back within seconds
	}
	out := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		out[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return out
}

func setCondition(pool *v1alpha1.NodePool, cond *metav1.Condition) {
	if cond != nil {
		meta.SetStatusCondition(&pool.Status.Conditions, *cond)
	}
}
