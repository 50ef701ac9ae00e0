package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// none stands in a cell for what is not there.
const none = "-"

func (s *shared) pools() *cobra.Command {
	var out output
	var selector string
	cmd := &cobra.Command{
		Use:   "pools [NAME...]",
		Short: "Show the pools: their nodes by state, how long a start takes, and what is wrong",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			pools, err := readPools(cmd.Context(), c, args, selector)
			if err != nil {
				return s.explain(err)
			}
			if out.watch {
				return s.watchPools(cmd.Context(), &out, c, args, selector)
			}
			return s.printPools(cmd.Context(), &out, c, pools, len(args) == 1)
		},
		ValidArgsFunction: s.completeNames(poolList, false),
	}
	out.addFlags(cmd)
	out.addWatchFlag(cmd)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "labels that the pools must have, such as team=web")
	return cmd
}

// readPools reads the named pools, or all with the labels.
func readPools(ctx context.Context, c client.Reader, names []string, selector string) ([]v1alpha1.NodePool, error) {
	if len(names) > 0 && selector != "" {
		return nil, fmt.Errorf("pools are named: --selector is for all pools")
	}
	if len(names) == 0 {
		labels, err := labels.Parse(selector)
		if err != nil {
			return nil, fmt.Errorf("--selector: %w", err)
		}
		list := &v1alpha1.NodePoolList{}
		err = c.List(ctx, list, client.MatchingLabelsSelector{Selector: labels})
		return list.Items, err
	}
	var pools []v1alpha1.NodePool
	for _, name := range names {
		pool := v1alpha1.NodePool{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &pool); err != nil {
			return nil, err
		}
		pools = append(pools, pool)
	}
	return pools, nil
}

func (s *shared) watchPools(ctx context.Context, out *output, c client.WithWatch, names []string,
	selector string) error {
	chosen, err := labels.Parse(selector)
	if err != nil {
		return err
	}
	lists := follow.New(c)
	list, err := lists.Follow(ctx, &v1alpha1.NodePool{}, poolList, client.MatchingLabelsSelector{Selector: chosen})
	if err != nil {
		return err
	}
	costs := func() prices { return prices{} }
	if out.format == wide {
		if costs, err = s.followPrices(ctx, lists); err != nil {
			return err
		}
	}
	view := func() watched {
		pools := named(follow.Items[v1alpha1.NodePool](list), names, func(p *v1alpha1.NodePool) string { return p.Name })
		w := watched{Table: poolTable(pools, costs(), s.now())}
		w.signs = signsOf(w.Table, "Age")
		for i := range pools {
			w.names = append(w.names, pools[i].Name)
		}
		return w
	}
	return s.watch(ctx, out, lists, view, goneRow(len(poolTable(nil, prices{}, s.now()).ColumnDefinitions), 1, "Deleted"))
}

// named leaves those of the names, all where there are none.
func named[T any](all []T, names []string, name func(*T) string) []T {
	return slices.DeleteFunc(all, func(o T) bool { return len(names) > 0 && !slices.Contains(names, name(&o)) })
}

func (s *shared) printPools(ctx context.Context, out *output, c client.Reader, pools []v1alpha1.NodePool,
	single bool) error {
	if !out.isTable() {
		objects := make([]runtime.Object, len(pools))
		for i := range pools {
			objects[i] = &pools[i]
		}
		return out.printObjects(s, v1alpha1.GroupVersion().WithKind("NodePool"), objects, single)
	}
	if len(pools) == 0 {
		fmt.Fprintln(s.ErrOut, "No pools found.")
		return nil
	}
	slices.SortFunc(pools, func(a, b v1alpha1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	var known prices
	if out.format == wide {
		var err error
		if known, err = s.readPrices(ctx, c); err != nil {
			return s.explain(err)
		}
	}
	return out.printTable(s, poolTable(pools, known, s.now()))
}

func poolTable(pools []v1alpha1.NodePool, known prices, now time.Time) *metav1.Table {
	table := newTable([]string{"Name", "Status", "Standby", "Starting", "Running", "Other", "Size", "Usual-Start", "Age"},
		"Slow-Start", "Min-Standby", "Cost/h", "Class", "Message")
	for i := range pools {
		p := &pools[i]
		status, message := statusOf(p)
		usual, slow := none, none
		if t := p.Status.StartSeconds; t != nil {
			usual, slow = fmt.Sprintf("%ds", t.P50), fmt.Sprintf("%ds", t.P95)
		}
		n := &p.Status
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			p.Name, status, n.Standby, n.Starting, n.Running, n.Warmup + n.Stopping + n.Terminating,
			fmt.Sprintf("%d/%d", n.Total, p.Spec.PoolSize), usual, duration.HumanDuration(now.Sub(p.CreationTimestamp.Time)),
			slow, p.Spec.MinStandby, known.cell(p), cmp.Or(p.Spec.Template.NodeClassRef.Name, none), cmp.Or(message, none),
		}})
	}
	return table
}

// statusOf is the most important thing to know about the pool, in one word, and its message.
func statusOf(p *v1alpha1.NodePool) (status, message string) {
	conditions := p.Status.Conditions
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	degraded := meta.FindStatusCondition(conditions, v1alpha1.ConditionDegraded)
	switch {
	case p.DeletionTimestamp != nil:
		return "Deleting", "its nodes are removed first"
	case p.IsPaused():
		return "Paused", "nothing new begins; kubectl stratos resume " + p.Name
	case degraded != nil && degraded.Status == metav1.ConditionTrue:
		return degraded.Reason, degraded.Message
	case ready == nil:
		return "Unknown", "Stratos has not looked at it yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason, ready.Message
	}
	return "Ready", ""
}
