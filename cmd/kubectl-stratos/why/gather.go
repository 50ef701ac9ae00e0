// Package why explains why pods are pending. It reads the API server alone: pods, the claims on
// Nodes, the status of pools, and the events in which Stratos gives its reasons. So it needs no way
// to a replica of Stratos, and says the same whichever replica decided.
package why

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// pageSize bounds the objects of one answer of the API server.
const pageSize = 500

// Query says which pods are to be explained.
type Query struct {
	// Namespace of the pods; empty for all.
	Namespace string
	// Pod is the name of the only one; empty for all pending pods.
	Pod string
	// Labels that pods must have; nil for any. They are not looked at where Pod is set.
	Labels labels.Selector
}

// Facts are what the API server holds about pending pods.
type Facts struct {
	Pods []corev1.Pod
	// Nodes are those of pools.
	Nodes []metav1.PartialObjectMetadata
	Pools []v1alpha1.NodePool
	// Events are those that Stratos wrote on pods.
	Events []eventsv1.Event
	// Missing are the permissions that the user lacks, such as "list nodes". What they would have
	// shown is left out.
	Missing []string
}

// Gather reads the facts. It fails where pods cannot be read, where the named pod does not exist,
// and where anything cannot be read for another reason than a missing permission.
func Gather(ctx context.Context, c client.Reader, q Query) (*Facts, error) {
	facts := &Facts{}
	var err error
	if facts.Pods, err = readPods(ctx, c, q); err != nil {
		return nil, err
	}
	if len(facts.Pods) == 0 {
		return facts, nil
	}
	nodes := nodeList()
	err = EachPage(ctx, c, nodes, func() { facts.Nodes = append(facts.Nodes, nodes.Items...) },
		client.HasLabels{v1alpha1.LabelPool})
	if err := facts.permitted(err, "list nodes"); err != nil {
		return nil, err
	}
	pools := &v1alpha1.NodePoolList{}
	err = EachPage(ctx, c, pools, func() { facts.Pools = append(facts.Pools, pools.Items...) })
	if err := facts.permitted(err, "list nodepools.stratos.sh"); err != nil {
		return nil, err
	}
	for _, fields := range eventsOf(q, facts.Pods) {
		events := &eventsv1.EventList{}
		err = EachPage(ctx, c, events, func() { facts.Events = append(facts.Events, ours(events.Items)...) },
			client.InNamespace(q.Namespace), fields)
		if err := facts.permitted(err, "list events.events.k8s.io"); err != nil {
			return nil, err
		}
	}
	return facts, nil
}

// nodeList is an empty list of the metadata of Nodes.
func nodeList() *metav1.PartialObjectMetadataList {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	return nodes
}

// readPods reads the named pod, or all that are pending.
func readPods(ctx context.Context, c client.Reader, q Query) ([]corev1.Pod, error) {
	if q.Pod != "" {
		pod := &corev1.Pod{}
		err := c.Get(ctx, types.NamespacedName{Namespace: q.Namespace, Name: q.Pod}, pod)
		return []corev1.Pod{*pod}, err
	}
	var found []corev1.Pod
	pods := &corev1.PodList{}
	err := EachPage(ctx, c, pods, func() { found = append(found, pods.Items...) }, podOptions(q)...)
	return dropEnded(found), err
}

// podOptions choose the named pod, or those that are not bound.
func podOptions(q Query) []client.ListOption {
	if q.Pod != "" {
		return []client.ListOption{client.InNamespace(q.Namespace), client.MatchingFields{"metadata.name": q.Pod}}
	}
	options := []client.ListOption{client.InNamespace(q.Namespace), client.MatchingFields{"spec.nodeName": ""}}
	if q.Labels != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: q.Labels})
	}
	return options
}

// dropEnded leaves out pods that have ended without having been bound.
func dropEnded(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName == "" && p.Status.Phase != corev1.PodPending
	})
}

// eventsOf are the lists of events that are needed: one for a single pod, else one for each reason,
// because most events of a namespace are others'.
func eventsOf(q Query, pods []corev1.Pod) []client.MatchingFields {
	if q.Pod != "" {
		return []client.MatchingFields{{"regarding.uid": string(pods[0].UID)}}
	}
	return eventsByReason()
}

func eventsByReason() []client.MatchingFields {
	var out []client.MatchingFields
	for _, reason := range podReasons() {
		out = append(out, client.MatchingFields{"reason": string(reason)})
	}
	return out
}

// podReasons are those of the events in which Stratos tells what becomes of a pod.
func podReasons() []v1alpha1.Reason {
	return []v1alpha1.Reason{v1alpha1.ReasonStandbyStarting, v1alpha1.ReasonStandbyUnavailable, v1alpha1.ReasonColdLaunch}
}

// ours leaves those of the events that Stratos wrote on pods to tell what becomes of them.
func ours(events []eventsv1.Event) []eventsv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e eventsv1.Event) bool {
		return e.Regarding.Kind != "Pod" || !strings.HasPrefix(e.ReportingController, "stratos") ||
			!slices.Contains(podReasons(), v1alpha1.Reason(e.Reason))
	})
}

// EachPage lists page by page into the given list and calls use after each.
func EachPage(ctx context.Context, c client.Reader, list client.ObjectList, use func(),
	options ...client.ListOption) error {
	for next := ""; ; {
		page := append(slices.Clone(options), client.Limit(pageSize), client.Continue(next))
		if err := c.List(ctx, list, page...); err != nil {
			return err
		}
		use()
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// permitted takes in an error that says that the user lacks the permission, and returns any other.
func (f *Facts) permitted(err error, permission string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if !slices.Contains(f.Missing, permission) {
		f.Missing = append(f.Missing, permission)
	}
	return nil
}
