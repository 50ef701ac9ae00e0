package why

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Followed are facts that are kept up to date by watches.
type Followed struct {
	*follow.Lists
	pods, nodes, pools *follow.List
	events             []*follow.List
	missing            []string
}

// Follow reads what Gather reads, and keeps it up to date until the context ends.
func Follow(ctx context.Context, c client.WithWatch, q Query) (*Followed, error) {
	f := &Followed{Lists: follow.New(c)}
	missing := &Facts{}
	var err error
	if f.pods, err = f.Follow(ctx, &corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} },
		podOptions(q)...); err != nil {
		return nil, err
	}
	f.nodes, err = FollowNodes(ctx, f.Lists, client.HasLabels{v1alpha1.LabelPool})
	if err := missing.permitted(err, "list nodes"); err != nil {
		return nil, err
	}
	f.pools, err = f.Follow(ctx, &v1alpha1.NodePool{}, func() client.ObjectList { return &v1alpha1.NodePoolList{} })
	if err := missing.permitted(err, "list nodepools.stratos.sh"); err != nil {
		return nil, err
	}
	for _, fields := range followedEvents(q) {
		events, err := f.Follow(ctx, &eventsv1.Event{}, func() client.ObjectList { return &eventsv1.EventList{} },
			client.InNamespace(q.Namespace), fields)
		if err := missing.permitted(err, "list events.events.k8s.io"); err != nil {
			return nil, err
		}
		f.events = append(f.events, events)
	}
	f.missing = missing.Missing
	return f, nil
}

// FollowNodes follows the metadata of Nodes.
func FollowNodes(ctx context.Context, l *follow.Lists, options ...client.ListOption) (*follow.List, error) {
	return l.Follow(ctx, &metav1.PartialObjectMetadata{}, func() client.ObjectList { return nodeList() }, options...)
}

// followedEvents are the lists of events: for a single pod by its name, because one of the same
// name may come.
func followedEvents(q Query) []client.MatchingFields {
	if q.Pod != "" {
		return []client.MatchingFields{{"regarding.kind": "Pod", "regarding.name": q.Pod}}
	}
	return eventsByReason()
}

// Facts are those at present.
func (f *Followed) Facts() *Facts {
	facts := &Facts{
		Pods: dropEnded(follow.Items[corev1.Pod](f.pods)), Nodes: follow.Items[metav1.PartialObjectMetadata](f.nodes),
		Pools: follow.Items[v1alpha1.NodePool](f.pools), Missing: f.missing,
	}
	for _, list := range f.events {
		facts.Events = append(facts.Events, ours(follow.Items[eventsv1.Event](list))...)
	}
	return facts
}
