package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/framework"
)

// asked is when the first and the last machine were asked for, after the first pod's creation, and
// how many there were.
type asked struct {
	first, last time.Duration
	machines    int
}

// used is what both processes used in one window.
type used struct{ stratos, karpenter env.Usage }

func (b *both) usage() (used, error) {
	stratos, err := env.UsageOf(b.Ours.Process.PID())
	karpenter, err2 := env.UsageOf(b.karpenter.PID())
	return used{stratos, karpenter}, errors.Join(err, err2)
}

// idle counts what both use while nothing happens.
func (b *both) idle(ctx context.Context, d time.Duration, report *figures.Report) error {
	before, err := b.usage()
	if err != nil {
		return err
	}
	if err := env.Pause(ctx, d); err != nil {
		return err
	}
	after, err := b.usage()
	report.Rows = append(report.Rows, usageRows("idle for "+d.String(), before, after)...)
	return err
}

// usageRows have Karpenter's figures in the column of the floor.
func usageRows(window string, before, after used) []figures.Row {
	cpu := func(from, to env.Usage) *figures.Figure {
		return &figures.Figure{Value: (to.CPU - from.CPU).Seconds(), Unit: figures.CPUSeconds}
	}
	mib := func(v float64) *figures.Figure { return &figures.Figure{Value: v, Unit: figures.MiB} }
	return []figures.Row{
		{Scenario: "compare", Name: "processor time, " + window, Floor: cpu(before.karpenter, after.karpenter),
			Ours: cpu(before.stratos, after.stratos), Note: "floor is Karpenter"},
		{Scenario: "compare", Name: "resident memory, " + window, Floor: mib(after.karpenter.Resident),
			Ours: mib(after.stratos.Resident), Note: "floor is Karpenter"},
	}
}

// play plays the rounds of one stage, Stratos and Karpenter in turn, and counts over all of them
// what both use.
func (b *both) play(ctx context.Context, st stage, report *figures.Report) error {
	before, err := b.usage()
	if err != nil {
		return err
	}
	var first, last, theirFirst, theirLast figures.Samples
	machines, theirMachines := 0, 0
	for round := range st.rounds {
		ours, err := b.ours(ctx, st.pods, round)
		if err != nil {
			return fmt.Errorf("stratos: %w", err)
		}
		theirs, err := b.theirs(ctx, st.pods, round)
		if err != nil {
			return fmt.Errorf("karpenter: %w", err)
		}
		fmt.Fprintf(b.progress, "  %d pods: Stratos %s to %s, %d machines; Karpenter %s to %s, %d\n", st.pods,
			ours.first.Round(100*time.Microsecond),
			ours.last.Round(100*time.Microsecond), ours.machines, theirs.first.Round(time.Millisecond),
			theirs.last.Round(time.Millisecond), theirs.machines)
		first, last = append(first, ours.first), append(last, ours.last)
		theirFirst, theirLast = append(theirFirst, theirs.first), append(theirLast, theirs.last)
		machines, theirMachines = max(machines, ours.machines), max(theirMachines, theirs.machines)
	}
	after, err := b.usage()
	if err != nil {
		return err
	}
	head := figures.Row{
		Scenario: "compare", Name: firstOf(st.pods),
		Floor: secs(theirFirst.Quantile(0.5)), Ours: secs(first.Quantile(0.5)),
		Note: fmt.Sprintf("floor is Karpenter; %d rounds, in turn; largest %s, Karpenter's smallest %s", st.rounds,
			figures.Millis(first.Max()), figures.Secs(theirFirst.Quantile(0))),
	}
	if st.pods == 1 {
		most := theirFirst.Quantile(0.5).Seconds() / sooner
		head.Target = &figures.Target{Words: fmt.Sprintf("%d times sooner: %.0f ms", sooner, 1000*most), Limit: most}
	}
	until := theirLast.Quantile(0.5).Seconds()
	report.Rows = append(report.Rows, head, figures.Row{
		Scenario: "compare", Name: fmt.Sprintf("%d pods created -> last machine asked for, p50", st.pods),
		Floor: secs(theirLast.Quantile(0.5)), Ours: secs(last.Quantile(0.5)),
		Target: &figures.Target{Words: "sooner than Karpenter", Limit: until},
		Note:   fmt.Sprintf("at most %d machines, Karpenter %d", machines, theirMachines),
	})
	report.Rows = append(report.Rows, usageRows(fmt.Sprintf("%d rounds of %d pods for each", st.rounds, st.pods), before,
		after)...)
	return nil
}

// firstOf names the row of the first machine for so many pods.
func firstOf(pods int) string {
	return fmt.Sprintf("%d pods created -> first machine asked for, p50", pods)
}

func secs(d time.Duration) *figures.Figure {
	f := figures.Secs(d)
	return &f
}

// ours has the pods wait for Stratos's nodes, and puts everything back.
func (b *both) ours(ctx context.Context, count, round int) (asked, error) {
	before, _, err := b.Starts(ctx)
	if err != nil {
		return asked{}, err
	}
	pods := env.Pods(fmt.Sprintf("stratos-%d-%d", count, round), v1alpha1.SchedulerName, podCPU, count)
	for _, p := range pods {
		p.Spec.NodeSelector = map[string]string{v1alpha1.LabelPool: poolName}
		p.Spec.Tolerations = []corev1.Toleration{{Key: v1alpha1.TaintDedicated, Operator: corev1.TolerationOpExists}}
	}
	began, err := env.CreateAll(ctx, b.Client, pods)
	if err != nil {
		return asked{}, err
	}
	if err := b.AwaitAllBound(ctx, count); err != nil {
		return asked{}, err
	}
	starts, _, err := b.Starts(ctx)
	if err != nil {
		return asked{}, err
	}
	starts = starts[len(before):]
	if len(starts) == 0 {
		return asked{}, errors.New("no node was started")
	}
	from := slices.MinFunc(began, time.Time.Compare)
	a := asked{first: starts[0].At.Sub(from), last: starts[len(starts)-1].At.Sub(from), machines: len(starts)}
	return a, b.putBack(ctx)
}

// putBack removes the pods and waits until Stratos's nodes are standby again.
func (b *both) putBack(ctx context.Context) error {
	if err := b.RemovePods(ctx); err != nil {
		return err
	}
	nodes := 0
	b.Seen.Look(func(v *env.View) {
		for _, n := range v.Nodes {
			if n.Pool == poolName {
				nodes++
			}
		}
	})
	return b.AwaitStandby(ctx, poolName, nodes)
}

// theirs has the pods wait for Karpenter's nodes, and puts everything back.
func (b *both) theirs(ctx context.Context, count, round int) (asked, error) {
	created, err := b.created(ctx)
	if err != nil {
		return asked{}, err
	}
	began, err := env.CreateAll(ctx, b.Client, env.Pods(fmt.Sprintf("karpenter-%d-%d", count, round),
		env.PlainScheduler, podCPU, count))
	if err == nil {
		err = b.AwaitAllBound(ctx, count)
	}
	at, watched := created()
	if err := errors.Join(err, watched); err != nil {
		return asked{}, err
	}
	if len(at) < nodesFor(count) {
		return asked{}, fmt.Errorf("%d NodeClaims were seen, and %d pods are bound", len(at), count)
	}
	from := slices.MinFunc(began, time.Time.Compare)
	a := asked{first: at[0].Sub(from), last: at[len(at)-1].Sub(from), machines: len(at)}
	return a, errors.Join(b.RemovePods(ctx), b.removeClaims(ctx))
}

// created follows the NodeClaims. The function that it returns ends that, and gives the times at
// which new ones were seen.
func (b *both) created(ctx context.Context) (func() ([]time.Time, error), error) {
	ctx, stop := context.WithCancel(ctx)
	var at []time.Time
	wait, err := framework.Follow(ctx, b.Client, nodeClaims(), func(e watch.Event) {
		if e.Type == watch.Added {
			at = append(at, time.Now())
		}
	})
	if err != nil {
		stop()
		return nil, err
	}
	return func() ([]time.Time, error) {
		stop()
		err := wait()
		return at, err
	}, nil
}

// removeClaims deletes all NodeClaims, and waits until Karpenter has let go of them and their Nodes
// are gone.
func (b *both) removeClaims(ctx context.Context) error {
	list := nodeClaims()
	if err := b.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := client.IgnoreNotFound(b.Client.Delete(ctx, &list.Items[i])); err != nil {
			return err
		}
	}
	if err := b.awaitNoClaims(ctx, patience); err == nil {
		return nil
	}
	// What is left over is cut off: it is not what is measured, and the next round must not find a
	// node with room.
	if err := b.cutOff(ctx); err != nil {
		return err
	}
	return b.awaitNoClaims(ctx, framework.HangGuard)
}

// patience is how long Karpenter has to let go of NodeClaims in its own order.
const patience = 45 * time.Second

func (b *both) awaitNoClaims(ctx context.Context, limit time.Duration) error {
	return framework.Until(ctx, limit, func(ctx context.Context) (bool, error) {
		list, nodes := nodeClaims(), &corev1.NodeList{}
		if err := errors.Join(b.Client.List(ctx, list), b.Client.List(ctx, nodes,
			client.HasLabels{karpenterPool})); err != nil {
			return false, err
		}
		if len(list.Items)+len(nodes.Items) == 0 {
			return true, nil
		}
		return false, fmt.Errorf("%d NodeClaims and %d Nodes of Karpenter's are left", len(list.Items), len(nodes.Items))
	})
}

// karpenterPool is the label of Karpenter's Nodes.
const karpenterPool = "karpenter.sh/nodepool"

// cutOff takes the finalizers from Karpenter's Nodes and NodeClaims and deletes them.
func (b *both) cutOff(ctx context.Context) error {
	list, nodes := nodeClaims(), &corev1.NodeList{}
	if err := errors.Join(b.Client.List(ctx, list), b.Client.List(ctx, nodes,
		client.HasLabels{karpenterPool})); err != nil {
		return err
	}
	var left []client.Object
	for i := range nodes.Items {
		left = append(left, &nodes.Items[i])
	}
	for i := range list.Items {
		left = append(left, &list.Items[i])
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, o := range left {
		err := errors.Join(client.IgnoreNotFound(b.Client.Patch(ctx, o, free)),
			client.IgnoreNotFound(b.Client.Delete(ctx, o)))
		if err != nil {
			return err
		}
	}
	return nil
}
