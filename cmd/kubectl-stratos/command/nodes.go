package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/why"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func (s *shared) nodes() *cobra.Command {
	var out output
	var selector, pool string
	cmd := &cobra.Command{
		Use:   "nodes [NAME...]",
		Short: "Show the nodes of pools: their state, since when, and what keeps them from starting",
		Long: `Show the nodes of pools: their state, since when, and what keeps them from starting.

Only the metadata of the Nodes is read, so -o json and -o yaml show no spec and no status.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			nodes, err := readNodes(cmd.Context(), c, args, pool, selector)
			if err != nil {
				return s.explain(err)
			}
			if out.watch {
				return s.watchNodes(cmd.Context(), &out, c, args, pool, selector)
			}
			return s.printNodes(&out, nodes, len(args) == 1)
		},
		ValidArgsFunction: s.completeNames(metadataOf("Node"), false, client.HasLabels{v1alpha1.LabelPool}),
	}
	out.addFlags(cmd)
	out.addWatchFlag(cmd)
	cmd.Flags().StringVar(&pool, "pool", "", "show the nodes of this pool alone")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "labels that the nodes must have, such as stratos.sh/state=standby")
	return cmd
}

// readNodes reads the metadata of the named nodes, or of all nodes of pools with the labels.
func readNodes(ctx context.Context, c client.Reader, names []string, pool, selector string) (
	[]metav1.PartialObjectMetadata, error) {
	if len(names) > 0 && (selector != "" || pool != "") {
		return nil, fmt.Errorf("nodes are named: --selector and --pool are for all nodes")
	}
	kind := corev1.SchemeGroupVersion.WithKind("Node")
	var nodes []metav1.PartialObjectMetadata
	for _, name := range names {
		node := metav1.PartialObjectMetadata{}
		node.SetGroupVersionKind(kind)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return nil, err
		}
		if node.Labels[v1alpha1.LabelPool] == "" {
			return nil, fmt.Errorf("node %q is not of a pool", name)
		}
		nodes = append(nodes, node)
	}
	if len(names) > 0 {
		return nodes, nil
	}
	chosen, err := nodeSelector(pool, selector)
	if err != nil {
		return nil, err
	}
	list := metadataOf("Node")().(*metav1.PartialObjectMetadataList)
	err = why.EachPage(ctx, c, list, func() { nodes = append(nodes, list.Items...) },
		client.MatchingLabelsSelector{Selector: chosen})
	return nodes, err
}

// nodeSelector selects nodes of the pool, of any where it is empty.
func nodeSelector(pool, selector string) (labels.Selector, error) {
	chosen, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	operator, values := selection.Exists, []string(nil)
	if pool != "" {
		operator, values = selection.Equals, []string{pool}
	}
	ofPool, err := labels.NewRequirement(v1alpha1.LabelPool, operator, values)
	if err != nil {
		return nil, fmt.Errorf("--pool: %w", err)
	}
	return chosen.Add(*ofPool), nil
}

func (s *shared) watchNodes(ctx context.Context, out *output, c client.WithWatch, names []string,
	pool, selector string) error {
	chosen, err := nodeSelector(pool, selector)
	if err != nil {
		return err
	}
	lists := follow.New(c)
	list, err := why.FollowNodes(ctx, lists, client.MatchingLabelsSelector{Selector: chosen})
	if err != nil {
		return err
	}
	view := func() watched {
		nodes := named(follow.Items[metav1.PartialObjectMetadata](list), names,
			func(n *metav1.PartialObjectMetadata) string { return n.Name })
		w := watched{Table: nodeTable(nodes, s.now())}
		w.signs = signsOf(w.Table, "Age", "For")
		for i := range nodes {
			w.names = append(w.names, nodes[i].Name)
		}
		return w
	}
	return s.watch(ctx, out, lists, view, goneRow(len(nodeTable(nil, s.now()).ColumnDefinitions), 2, "deleted"))
}

func (s *shared) printNodes(out *output, nodes []metav1.PartialObjectMetadata, single bool) error {
	if !out.isTable() {
		objects := make([]runtime.Object, len(nodes))
		for i := range nodes {
			objects[i] = &nodes[i]
		}
		return out.printObjects(s, corev1.SchemeGroupVersion.WithKind("Node"), objects, single)
	}
	if len(nodes) == 0 {
		fmt.Fprintln(s.ErrOut, "No nodes of pools found.")
		return nil
	}
	slices.SortFunc(nodes, func(a, b metav1.PartialObjectMetadata) int {
		return cmp.Or(strings.Compare(a.Labels[v1alpha1.LabelPool], b.Labels[v1alpha1.LabelPool]),
			strings.Compare(a.Name, b.Name))
	})
	return out.printTable(s, nodeTable(nodes, s.now()))
}

func nodeTable(nodes []metav1.PartialObjectMetadata, now time.Time) *metav1.Table {
	table := newTable([]string{"Name", "Pool", "State", "For", "Claims", "Age", "Note"}, "Instance", "Type", "Zone")
	for i := range nodes {
		n := &nodes[i]
		since := none
		if at := why.StateSince(n); at != nil {
			since = duration.HumanDuration(now.Sub(at.Time))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			n.Name, n.Labels[v1alpha1.LabelPool], cmp.Or(n.Labels[v1alpha1.LabelState], none), since, claimsOn(n),
			duration.HumanDuration(now.Sub(n.CreationTimestamp.Time)), cmp.Or(noteOf(n, now), none),
			cmp.Or(n.Annotations[v1alpha1.AnnotationInstanceID], none), cmp.Or(n.Labels[corev1.LabelInstanceTypeStable], none),
			cmp.Or(n.Labels[corev1.LabelTopologyZone], none),
		}})
	}
	return table
}

// claimsOn counts the claims that are published on the node.
func claimsOn(n *metav1.PartialObjectMetadata) int {
	text := n.Annotations[v1alpha1.AnnotationClaims]
	if text == "" {
		return 0
	}
	return strings.Count(text, ",") + 1
}

// noteOf is what keeps the node from starting, or why it goes.
func noteOf(n *metav1.PartialObjectMetadata, now time.Time) string {
	var notes []string
	if n.DeletionTimestamp != nil {
		notes = append(notes, "is being deleted")
	}
	if until := v1alpha1.TimeAnnotation(n, v1alpha1.AnnotationUnavailableUntil); until.After(now) {
		notes = append(notes, "backs off until "+until.UTC().Format(time.RFC3339))
	}
	if failures := n.Annotations[v1alpha1.AnnotationStartFailures]; failures != "" {
		notes = append(notes, "failed starts in a row: "+failures)
	}
	if reason := v1alpha1.StopIntentOf(n).Reason; reason != "" {
		notes = append(notes, "reason of its stop: "+string(reason))
	}
	if n.Annotations[v1alpha1.AnnotationReplace] == "true" {
		notes = append(notes, "to be replaced")
	}
	if n.Annotations[v1alpha1.AnnotationDoNotDisrupt] == "true" {
		notes = append(notes, "do not disrupt")
	}
	return strings.Join(notes, "; ")
}
