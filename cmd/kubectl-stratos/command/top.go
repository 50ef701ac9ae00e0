package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/follow"
	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/top"
	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/why"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

func (s *shared) top() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Watch pools, starts under way and pending pods",
		Long: `Watch pools, starts under way and pending pods.

It looks at the pods of all namespaces, or of the one that --namespace names. Without a terminal it
prints a line for each change.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			return s.show(cmd.Context(), c)
		},
	}
}

// show follows the facts until the user or the context ends it.
func (s *shared) show(ctx context.Context, c client.WithWatch) error {
	followed, err := s.followAll(ctx, c)
	if err != nil {
		return s.explain(err)
	}
	classes, err := followClasses(ctx, followed.Lists)
	if err != nil {
		return s.explain(err)
	}
	data := func() top.Data { return s.topData(followed, classes) }
	if s.onTerminal() {
		return top.Run(ctx, s.In, s.Out, data, followed.Changed())
	}
	followed.Facts().PrintMissing(s.ErrOut)
	if classes == nil {
		fmt.Fprintln(s.ErrOut, noCosts)
	}
	return s.watch(ctx, &output{}, followed.Lists, func() watched { return topLines(data()) },
		goneRow(len(topLines(top.Data{}).ColumnDefinitions), 1, "ended"))
}

func (s *shared) followAll(ctx context.Context, c client.WithWatch) (*why.Followed, error) {
	q := why.Query{}
	if s.flags.Namespace != nil {
		q.Namespace = *s.flags.Namespace
	}
	return why.Follow(ctx, c, q)
}

// onTerminal reports whether the command reads from and writes to a terminal.
func (s *shared) onTerminal() bool {
	for _, stream := range []any{s.In, s.Out} {
		file, is := stream.(*os.File)
		if !is || !term.IsTerminal(int(file.Fd())) {
			return false
		}
	}
	return true
}

// topData are the facts as they are drawn.
func (s *shared) topData(followed *why.Followed, classes *follow.List) top.Data {
	facts, now := followed.Facts(), s.now()
	data := top.Data{Context: s.context(), Now: now, Problem: facts.WhatIsMissing()}
	if data.Problem == "" && classes == nil {
		data.Problem = noCosts
	}
	if err := followed.Err(); err != nil {
		data.Problem = Words(err)
	}
	usual := map[string]time.Duration{}
	known := pricesOf(follow.Items[v1alpha1.AWSNodeClass](classes), facts.Nodes)
	for i := range facts.Pools {
		p := &facts.Pools[i]
		status, _ := statusOf(p)
		n := &p.Status
		cost, currency := known.costOf(p)
		data.Pools = append(data.Pools, top.Pool{
			Name: p.Name, Status: status, Running: n.Running, Starting: n.Starting, Standby: n.Standby, Warmup: n.Warmup,
			Other: n.Stopping + n.Terminating, Size: p.Spec.PoolSize,
			Cost: cost, Currency: currency,
		})
		if n.StartSeconds != nil {
			usual[p.Name] = time.Duration(n.StartSeconds.P50) * time.Second
		}
	}
	data.Starts = startsOf(facts.Nodes, usual)
	for _, e := range facts.Explain(now) {
		data.Pods = append(data.Pods, top.Pod{Name: e.Namespace + "/" + e.Pod, Cause: string(e.Cause), Since: e.Since.Time,
			Why: e.InOneLine(now)})
	}
	return data
}

func startsOf(nodes []metav1.PartialObjectMetadata, usual map[string]time.Duration) []top.Start {
	var starts []top.Start
	for i := range nodes {
		n := &nodes[i]
		since := why.StateSince(n)
		if v1alpha1.NodeState(n.Labels[v1alpha1.LabelState]) != v1alpha1.StateStarting || since == nil {
			continue
		}
		pool := n.Labels[v1alpha1.LabelPool]
		starts = append(starts, top.Start{Node: n.Name, Pool: pool, Since: since.Time, Usual: usual[pool]})
	}
	return starts
}

// context is the name of the kubeconfig's context, "" where there is none.
func (s *shared) context() string {
	if s.flags.Context != nil && *s.flags.Context != "" {
		return *s.flags.Context
	}
	raw, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// topLines are the rows of a view without a terminal.
func topLines(data top.Data) watched {
	w := watched{Table: &metav1.Table{}}
	for _, name := range []string{"Object", "Status", "Details"} {
		w.ColumnDefinitions = append(w.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	add := func(object, status, details, sign string) {
		w.names, w.signs = append(w.names, object), append(w.signs, status+" "+sign)
		w.Rows = append(w.Rows, metav1.TableRow{Cells: []any{object, status, cmp.Or(details, none)}})
	}
	for _, p := range data.Pools {
		nodes := fmt.Sprintf("%d running, %d starting, %d standby, %d warming up, %d other, poolSize %d", p.Running, p.Starting,
			p.Standby, p.Warmup, p.Other, p.Size)
		if p.Currency != "" {
			nodes += fmt.Sprintf(", %.2f %s per hour", p.Cost, p.Currency)
		}
		add("pool/"+p.Name, p.Status, nodes, nodes)
	}
	for _, n := range data.Starts {
		details := "of pool " + n.Pool
		if n.Usual > 0 {
			details += ", usually " + n.Usual.String()
		}
		add("node/"+n.Node, string(v1alpha1.StateStarting), details, "")
	}
	for _, p := range data.Pods {
		add("pod/"+p.Name, p.Cause, p.Why, "")
	}
	return w
}
