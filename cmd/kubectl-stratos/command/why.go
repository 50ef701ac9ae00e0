package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/why"
)

// explained is what why prints as JSON and YAML.
type explained struct {
	Pods []why.Explanation `json:"pods"`
	// MissingPermissions are those that the user lacks.
	MissingPermissions []string `json:"missingPermissions,omitempty"`
}

func (s *shared) why() *cobra.Command {
	var out output
	var all bool
	var selector string
	cmd := &cobra.Command{
		Use:   "why [POD]",
		Short: "Say why a pod is pending; without a name, a line for each pending pod",
		Example: `  # why is this pod pending, and what happens next
  kubectl stratos why web-7d4b9 -n shop
  # a line for each pending pod of the cluster
  kubectl stratos why -A`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			q, err := s.query(args, all, selector)
			if err != nil {
				return err
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			facts, err := why.Gather(cmd.Context(), c, q)
			if err != nil {
				return s.explain(err)
			}
			if out.watch {
				facts.PrintMissing(s.ErrOut)
				return s.watchWhy(cmd.Context(), &out, c, q)
			}
			return s.printWhy(&out, q, facts)
		},
		ValidArgsFunction: s.completeNames(metadataOf("Pod"), true, client.MatchingFields{"spec.nodeName": ""}),
	}
	out.addFlags(cmd)
	out.addWatchFlag(cmd)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "look at the pods of all namespaces")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "labels that the pods must have, such as app=web")
	return cmd
}

// query reads the arguments and flags.
func (s *shared) query(args []string, all bool, selector string) (q why.Query, err error) {
	if len(args) > 0 {
		q.Pod = args[0]
	}
	if q.Pod != "" && (all || selector != "") {
		return q, fmt.Errorf("a pod is named: --all-namespaces and --selector are for several pods")
	}
	if !all {
		if q.Namespace, err = s.namespace(); err != nil {
			return q, err
		}
	}
	if selector != "" {
		if q.Labels, err = labels.Parse(selector); err != nil {
			return q, fmt.Errorf("--selector: %w", err)
		}
	}
	return q, nil
}

func (s *shared) printWhy(out *output, q why.Query, facts *why.Facts) error {
	now := s.now()
	all := facts.Explain(now)
	defer facts.PrintMissing(s.ErrOut)
	switch {
	case out.format == "name":
		for i := range all {
			fmt.Fprintln(s.Out, "pod/"+all[i].Pod)
		}
		return nil
	case !out.isTable():
		return s.printAs(out.format, explained{all, facts.Missing})
	case len(all) == 0:
		fmt.Fprintln(s.ErrOut, "No pending pods found.")
		return nil
	case q.Pod != "":
		return all[0].Describe(s.Out, now)
	}
	return out.printTable(s, why.Table(all, now, q.Namespace == ""))
}

func (s *shared) watchWhy(ctx context.Context, out *output, c client.WithWatch, q why.Query) error {
	followed, err := why.Follow(ctx, c, q)
	if err != nil {
		return err
	}
	withNamespace := q.Namespace == ""
	view := func() watched {
		now := s.now()
		all := followed.Facts().Explain(now)
		w := watched{Table: why.Table(all, now, withNamespace)}
		for i := range all {
			w.names = append(w.names, all[i].Namespace+"/"+all[i].Pod)
			w.signs = append(w.signs, all[i].Sign())
		}
		return w
	}
	columns := len(why.Table(nil, s.now(), withNamespace).ColumnDefinitions)
	return s.watch(ctx, out, followed.Lists, view, func(name string) []any {
		namespace, pod, _ := strings.Cut(name, "/")
		if !withNamespace {
			return goneRow(columns, 2, notPending)(pod)
		}
		cells := goneRow(columns, 3, notPending)(namespace)
		cells[1] = pod
		return cells
	})
}

// notPending stands as the cause of a pod that is bound or gone since.
const notPending = "NotPending"
