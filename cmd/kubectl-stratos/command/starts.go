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
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// startsPage is the page about slow starts. It has a section for each phase, of the phase's name.
const startsPage = "docs/slow-starts.md"

// poolStarts is what the last starts of a pool took, in seconds.
type poolStarts struct {
	Pool string `json:"pool"`
	// Starts is absent before the first start.
	Starts  *v1alpha1.StartSeconds `json:"starts,omitempty"`
	Slowest v1alpha1.StartPhase    `json:"slowest,omitempty"`
	Page    string                 `json:"page,omitempty"`
}

func (s *shared) starts() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "starts [POOL|NODE]",
		Short: "Show how long each phase of a start takes, and which is the slowest",
		Long: `Show how long each phase of a start takes, and which is the slowest.

Of pools it shows what half of the last starts took at most, and with -o wide what 95 % of them
did. Of a node it shows its last start, and what other clocks say of it.`,
		Example: `  # where the seconds go, by pool
  kubectl stratos starts
  # the last start of a node
  kubectl stratos starts ip-10-0-12-7.ec2.internal`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			return s.explain(s.showStarts(cmd.Context(), &out, c, args))
		},
		ValidArgsFunction: s.completeNames(poolList, false),
	}
	out.addFlags(cmd)
	return cmd
}

// showStarts shows those of all pools, of the named pool, or of the node of that name.
func (s *shared) showStarts(ctx context.Context, out *output, c client.Reader, args []string) error {
	pools, err := readPools(ctx, c, args, "")
	if err == nil {
		return s.printStarts(out, poolStartsOf(pools))
	}
	if len(args) == 0 || !apierrors.IsNotFound(err) {
		return err
	}
	nodes, err := readNodes(ctx, c, args, "", "")
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%q is neither a pool nor a node", args[0])
	case err != nil:
		return err
	}
	start, err := readNodeStart(ctx, c, &nodes[0])
	if err != nil {
		return err
	}
	return s.printNodeStart(out, start)
}

func poolStartsOf(pools []v1alpha1.NodePool) []poolStarts {
	all := make([]poolStarts, len(pools))
	for i := range pools {
		starts := pools[i].Status.StartSeconds
		all[i] = poolStarts{Pool: pools[i].Name, Starts: starts}
		if starts != nil {
			all[i].Slowest = slowestPhase(starts.Phases)
			all[i].Page = pageOf(all[i].Slowest)
		}
	}
	slices.SortFunc(all, func(a, b poolStarts) int { return strings.Compare(a.Pool, b.Pool) })
	return all
}

// slowestPhase is the one that takes longest, of several the one with the slower slow starts, of
// these the first; "" where none takes half a second.
func slowestPhase(phases []v1alpha1.StartPhaseSeconds) v1alpha1.StartPhase {
	slowest := v1alpha1.StartPhaseSeconds{}
	for _, p := range phases {
		if cmp.Or(cmp.Compare(p.P50, slowest.P50), cmp.Compare(p.P95, slowest.P95)) > 0 {
			slowest = p
		}
	}
	return slowest.Name
}

// pageOf is the section that says what helps; "" for no phase.
func pageOf(phase v1alpha1.StartPhase) string {
	if phase == "" {
		return ""
	}
	return startsPage + "#" + string(phase)
}

func (s *shared) printStarts(out *output, all []poolStarts) error {
	switch {
	case out.format == "name":
		for i := range all {
			fmt.Fprintln(s.Out, "nodepool.stratos.sh/"+all[i].Pool)
		}
		return nil
	case !out.isTable():
		return s.printAs(out.format, map[string]any{"pools": all})
	case len(all) == 0:
		fmt.Fprintln(s.ErrOut, "No pools found.")
		return nil
	}
	return out.printTable(s, startsTable(all))
}

func startsTable(all []poolStarts) *metav1.Table {
	columns, slow := []string{"Name", "Starts", "Usual"}, []string{"Slow"}
	for _, phase := range v1alpha1.StartPhases() {
		columns = append(columns, title(phase))
		slow = append(slow, "Slow-"+title(phase))
	}
	table := newTable(append(columns, "Slowest", "What-Helps"), slow...)
	for i := range all {
		p := &all[i]
		starts := cmp.Or(p.Starts, &v1alpha1.StartSeconds{})
		usual, slow := []any{p.Pool, starts.Count, seconds(p.Starts != nil, starts.P50)},
			[]any{seconds(p.Starts != nil, starts.P95)}
		for _, phase := range v1alpha1.StartPhases() {
			at := slices.IndexFunc(starts.Phases, func(f v1alpha1.StartPhaseSeconds) bool { return f.Name == phase })
			f := v1alpha1.StartPhaseSeconds{}
			if at >= 0 {
				f = starts.Phases[at]
			}
			usual, slow = append(usual, seconds(at >= 0, f.P50)), append(slow, seconds(at >= 0, f.P95))
		}
		usual = append(usual, cmp.Or(string(p.Slowest), none), cmp.Or(p.Page, none))
		table.Rows = append(table.Rows, metav1.TableRow{Cells: append(usual, slow...)})
	}
	return table
}

// title is the name of the phase over its column.
func title(phase v1alpha1.StartPhase) string {
	return strings.ToUpper(string(phase[:1])) + string(phase[1:])
}

func seconds(known bool, count int32) string {
	if !known {
		return none
	}
	return fmt.Sprintf("%ds", count)
}

// timed is a moment that another clock than ours has noted.
type timed struct {
	What string      `json:"what"`
	At   metav1.Time `json:"at"`
}

// nodeStart is the last start of a node.
type nodeStart struct {
	Node string `json:"node"`
	Pool string `json:"pool"`
	// Started is when the start intent was written, and Phases are the seconds of each phase; absent
	// where they are not known.
	Started *metav1.Time                    `json:"started,omitempty"`
	Phases  map[v1alpha1.StartPhase]float64 `json:"phases,omitempty"`
	Took    float64                         `json:"took,omitempty"`
	Slowest v1alpha1.StartPhase             `json:"slowest,omitempty"`
	Page    string                          `json:"page,omitempty"`
	// Others are in whole seconds, by other clocks, in the order of their times.
	Others []timed `json:"otherClocks,omitempty"`
	// MissingPermissions are those that the user lacks.
	MissingPermissions []string `json:"missingPermissions,omitempty"`
}

// readNodeStart reads what is known of the node's last start.
func readNodeStart(ctx context.Context, c client.Reader, node *metav1.PartialObjectMetadata) (*nodeStart, error) {
	start := &nodeStart{Node: node.Name, Pool: node.Labels[v1alpha1.LabelPool]}
	last, ok := v1alpha1.LastStartOf(node)
	if !ok {
		return start, nil
	}
	start.describe(last)
	pods, events := &corev1.PodList{}, &eventsv1.EventList{}
	err := c.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name})
	if err := start.permitted(err, "list pods"); err != nil {
		return nil, err
	}
	err = c.List(ctx, events, client.MatchingFields{"regarding.kind": "Node", "regarding.name": node.Name})
	if err := start.permitted(err, "list events.events.k8s.io"); err != nil {
		return nil, err
	}
	start.Others = append(podTimes(pods.Items, last.Started), kubeletTimes(events.Items, last.Started)...)
	slices.SortStableFunc(start.Others, func(a, b timed) int { return a.At.Compare(b.At.Time) })
	return start, nil
}

// describe takes in what Stratos has written on the Node.
func (n *nodeStart) describe(last v1alpha1.LastStart) {
	started := metav1.NewTime(last.Started)
	n.Started, n.Took, n.Phases = &started, last.Took().Seconds(), map[v1alpha1.StartPhase]float64{}
	longest := time.Duration(0)
	for _, phase := range v1alpha1.StartPhases() {
		took := last.Phases[phase]
		n.Phases[phase] = took.Seconds()
		if took > longest {
			n.Slowest, longest = phase, took
		}
	}
	n.Page = pageOf(n.Slowest)
}

// permitted takes in an error that says that the user lacks the permission, and returns any other.
func (n *nodeStart) permitted(err error, permission string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	n.MissingPermissions = append(n.MissingPermissions, permission)
	return nil
}

func (s *shared) printNodeStart(out *output, n *nodeStart) error {
	switch {
	case out.format == "name":
		fmt.Fprintln(s.Out, "node/"+n.Node)
		return nil
	case !out.isTable():
		return s.printAs(out.format, n)
	case n.Started == nil:
		fmt.Fprintf(s.ErrOut, "The phases of the last start of node %q are not known: it has not been started, "+
			"or a new leader took the start over.\n", n.Node)
		return nil
	}
	fmt.Fprintf(s.Out, "Node:        %s\nPool:        %s\nStarted:     %s\nTook:        %.1fs\n", n.Node, n.Pool,
		n.Started.UTC().Format(time.RFC3339), n.Took)
	fmt.Fprintf(s.Out, "Slowest:     %s\nWhat helps:  %s\n\n", cmp.Or(string(n.Slowest), none), cmp.Or(n.Page, none))
	phases := newTable([]string{"Phase", "Took"})
	for _, phase := range v1alpha1.StartPhases() {
		phases.Rows = append(phases.Rows, metav1.TableRow{Cells: []any{string(phase),
			fmt.Sprintf("%.1fs", n.Phases[phase])}})
	}
	if err := out.printTable(s, phases); err != nil {
		return err
	}
	if len(n.MissingPermissions) > 0 {
		fmt.Fprintf(s.ErrOut, "You may not %s: what that would show is left out.\n",
			strings.Join(n.MissingPermissions, ", or "))
	}
	if len(n.Others) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out, "\nBy other clocks, in whole seconds (those of the API server, the scheduler and the node):")
	others := newTable([]string{"Time", "What"})
	for _, o := range n.Others {
		others.Rows = append(others.Rows, metav1.TableRow{Cells: []any{o.At.UTC().Format(time.RFC3339), o.What}})
	}
	return out.printTable(s, others)
}
