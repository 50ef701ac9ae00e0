package pending

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
)

// Offer is what a pool's class offers for a new instance.
type Offer struct {
	// Promised is a node as the class describes it, nil where it says nothing.
	Promised *corev1.Node
	// zones are those that the class launches into; none where the class does not say.
	zones []string
	// Daemons are the cluster's DaemonSets, whose pods take room on a new node.
	Daemons []*fit.Daemon
	// OfFirstType: an instance that is launched is of the class's first type, as far as is known.
	OfFirstType bool
}

// zoned is a class whose status says into which zones it launches.
type zoned interface{ Zones() []string }

// OfferOf is what the pool can launch.
func OfferOf(ctx context.Context, classes nodeclass.Kinds, pool *v1alpha1.NodePool, state *cluster.State) Offer {
	o := Offer{Promised: nodeclass.PromisedBy(ctx, classes, pool), Daemons: state.Daemons()}
	class, _, err := classes.Get(ctx, pool.Spec.Template.NodeClassRef)
	if z, ok := class.(zoned); ok && err == nil {
		o.zones = z.Zones()
	}
	o.OfFirstType = state.LaunchesFirstType(pool, o.zones)
	return o
}

// zoneLabelEBS is the label by which volumes of the EBS CSI driver say where they are. The driver
// puts it on its nodes.
const zoneLabelEBS = "topology.ebs.csi.aws.com/zone"

// inZoneOf are the labels of a node like the one that has these, in another zone.
func inZoneOf(labels map[string]string, zone string) map[string]string {
	out := make(map[string]string, len(labels)+2)
	for key, value := range labels {
		switch {
		case key == "topology.k8s.aws/zone-id" && labels[corev1.LabelTopologyZone] != zone: // the other zone's is not known
		case strings.HasSuffix(key, "/zone") && value == labels[corev1.LabelTopologyZone]:
			out[key] = zone
		default:
			out[key] = value
		}
	}
	out[corev1.LabelTopologyZone], out[zoneLabelEBS] = zone, zone
	return out
}

// patternOf is the first of the nodes that is of the class's first type, which launches try first,
// and that has run as it, else the first of all; nil for none.
func (o Offer) patternOf(nodes []*corev1.Node) *corev1.Node {
	if len(nodes) == 0 {
		return nil
	}
	at := slices.IndexFunc(nodes, func(n *corev1.Node) bool {
		return !o.isOfAnotherType(n) && decide.ReportsItsType(n)
	})
	return nodes[max(at, 0)]
}

// isOfAnotherType reports whether the node is known to be of another type than the class's first.
func (o Offer) isOfAnotherType(n *corev1.Node) bool {
	const label = corev1.LabelInstanceTypeStable
	return o.Promised != nil && o.Promised.Labels[label] != "" && n.Labels[label] != "" &&
		n.Labels[label] != o.Promised.Labels[label]
}

// newNode is a new node of the pool as pods will find it, like the one that the pool has or else as
// its class describes it. is may be nil. whole reports whether its resources are known.
func newNode(pool *v1alpha1.NodePool, is *corev1.Node, o Offer) (n *corev1.Node, whole bool) {
	n = &corev1.Node{}
	switch {
	case is != nil:
		n.Labels, n.Status.Allocatable, whole = maps.Clone(is.Labels), is.Status.Allocatable, true
		if recorded := is.Annotations[v1alpha1.AnnotationAllocatableAtStop]; recorded != "" {
			n.Annotations = map[string]string{v1alpha1.AnnotationAllocatableAtStop: recorded}
		}
		if o.Promised != nil && (o.isOfAnotherType(is) || !decide.ReportsItsType(is)) {
			o.asFirstType(n)
		}
	case o.Promised != nil:
		n.Labels, n.Status.Allocatable = maps.Clone(o.Promised.Labels), o.Promised.Status.Allocatable
	default:
		n.Labels = map[string]string{}
	}
	maps.Copy(n.Labels, pool.Spec.Template.Labels)
	n.Name = pool.Name + "-new"
	n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelState] = pool.Name, string(v1alpha1.StateStandby)
	if n.Labels[corev1.LabelHostname] != "" {
		n.Labels[corev1.LabelHostname] = n.Name
	}
	n.Spec.Taints = pool.Spec.Template.Taints
	return n, whole
}

// asFirstType changes a node that reports what another type has to a new one: launches try the
// first type first.
func (o Offer) asFirstType(n *corev1.Node) {
	const stable, beta = corev1.LabelInstanceTypeStable, corev1.LabelInstanceType
	if kind := o.Promised.Labels[stable]; kind != "" {
		n.Labels[stable] = kind
		if n.Labels[beta] != "" {
			n.Labels[beta] = kind
		}
	}
	n.Status.Allocatable = o.firstTypeHas(n.Status.Allocatable)
	recorded, err := v1alpha1.ParseResources(n.Annotations[v1alpha1.AnnotationAllocatableAtStop])
	if err == nil && len(recorded) > 0 { // a stopped node reports no device, so what was recorded counts
		n.Annotations[v1alpha1.AnnotationAllocatableAtStop] = v1alpha1.FormatResources(o.firstTypeHas(recorded))
	}
}

// firstTypeHas is what a new node offers, where a node of another type offers the list. What its
// kubelet leaves to pods is not known, and is at most its capacity: more than that of a fallback
// type, where that keeps more for itself. So an instance is launched for a pod that has room in
// the capacity, as for a pool that has no node yet, and tells. While the cloud is out of the first
// type it would be of a fallback type again.
func (o Offer) firstTypeHas(list corev1.ResourceList) corev1.ResourceList {
	out := list.DeepCopy()
	if o.OfFirstType {
		maps.Copy(out, o.Promised.Status.Allocatable)
		return out
	}
	for name, quantity := range out {
		if limit, ok := o.Promised.Status.Allocatable[name]; ok && quantity.Cmp(limit) > 0 {
			out[name] = limit
		}
	}
	return out
}

// serving returns why no new instance of the pool could serve the pod, nil where one could, and
// then in which of the class's zones: none means any.
func serving(
	judge *cluster.PodFit, pool *v1alpha1.NodePool, pattern *corev1.Node, o Offer,
) (zones []string, refusal *fit.Refusal) {
	n, whole := newNode(pool, pattern, o)
	if len(o.zones) == 0 {
		return nil, refusesEmpty(judge, decide.NodeOf(n, pool, o.Daemons...), whole)
	}
	for _, zone := range o.zones {
		there := n.DeepCopy()
		there.Labels = inZoneOf(n.Labels, zone)
		why := refusesEmpty(judge, decide.NodeOf(there, pool, o.Daemons...), whole)
		if why == nil {
			zones = append(zones, zone)
		}
		refusal = cmp.Or(refusal, why)
	}
	switch len(zones) {
	case 0:
		return nil, refusal
	case len(o.zones):
		return nil, nil
	}
	return zones, nil
}

// refusesEmpty checks on an empty node what does not depend on the other pods of the cluster.
// whole: its resources are known.
func refusesEmpty(judge *cluster.PodFit, n *decide.Node, whole bool) *fit.Refusal {
	pod := judge.Digest(n)
	refusal := cmp.Or(pod.Malformed(), pod.Selects(string(n.Name), n.Labels), pod.Schedulable(n.Taints, false))
	if refusal == nil && whole {
		refusal = fit.CheckResources(pod, &n.Node)
	}
	if refusal == nil {
		refusal = fit.CheckVolumes(pod, &n.Node)
	}
	return refusal
}
