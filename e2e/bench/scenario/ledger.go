package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/provider/fake"
)

// ledgerScenario asks /filter about one pod after the other, without a scheduler, so that each ask
// makes a claim and starts a node. No machine that starts ever gets up, so that the claims hold
// ever more starting nodes. Then it asks about all the pods again.
func ledgerScenario(ctx context.Context, r *Run) error {
	steps := r.steps(1000, 16)
	pool := steps[len(steps)-1]
	return r.on(ctx, env.Options{}, func(s *env.Env) error {
		if err := s.Warm(ctx, poolName, pool); err != nil {
			return err
		}
		if _, err := s.Cloud.AddFault(ctx, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpStart,
			Type: env.InstanceType}); err != nil {
			return err
		}
		pods := env.Pods("ledger", v1alpha1.SchedulerName, wholeNode, pool)
		if _, err := env.CreateAll(ctx, s.Client, pods); err != nil {
			return err
		}
		names := standbyNames(s)
		asker := env.NewAsker(s.Ours.Extender, nil)
		defer asker.Close()
		var fresh, again []figures.Point
		var firstP50, lastP50, lastP99 time.Duration
		done := 0
		for _, size := range steps {
			first, err := askAbout(ctx, asker, pods[done:size], names)
			if err != nil {
				return err
			}
			repeated, err := askAbout(ctx, asker, pods[:size], names)
			if err != nil {
				return err
			}
			if done == 0 {
				firstP50 = first.Quantile(0.5)
			}
			done, lastP50, lastP99 = size, first.Quantile(0.5), first.Quantile(0.99)
			r.say("%d starting: a new claim %s, asked again %s", size, lastP50, repeated.Quantile(0.5))
			fresh = append(fresh, figures.Point{Size: float64(size), Cost: figures.Millis(lastP50).Value})
			again = append(again, figures.Point{Size: float64(size), Cost: figures.Millis(repeated.Quantile(0.5)).Value})
		}
		r.add(
			figures.Row{
				Name:  fmt.Sprintf("/filter that claims and starts, up to %d starting nodes, p50", pool),
				Floor: figure(figures.Millis(firstP50)), Ours: figure(figures.Millis(lastP50)),
				Note: fmt.Sprintf("%d candidates; floor is the same with at most %d starting nodes; p99 %s", len(names), steps[0],
					figures.Millis(lastP99)),
			},
			figures.Grown("growth of a new claim with the starting nodes", figures.Milliseconds, fresh, 1.15,
				"at most linear (n^1.15)"),
			figures.Grown("growth of a repeated ask with the starting nodes", figures.Milliseconds, again, 1.15,
				"at most linear (n^1.15)"),
		)
		return startsOf(ctx, r, s, pool)
	})
}

// startsOf waits until every claim has led to its start.
func startsOf(ctx context.Context, r *Run, s *env.Env, want int) error {
	got := 0
	err := framework.Until(ctx, framework.HangGuard, func(ctx context.Context) (bool, error) {
		starts, _, err := s.Starts(ctx)
		got = len(starts)
		return got >= want, err
	})
	if err != nil {
		return fmt.Errorf("%d starts of %d: %w", got, want, err)
	}
	r.add(exactly("starts for the pods in the ledger", got, want, "one node for each pod"))
	return nil
}

func standbyNames(s *env.Env) []string {
	var names []string
	s.Seen.Look(func(v *env.View) {
		for name := range v.Nodes {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names
}

func askAbout(ctx context.Context, a *env.Asker, pods []*corev1.Pod, names []string) (figures.Samples, error) {
	var took figures.Samples
	for _, p := range pods {
		question, err := env.Question(p, names)
		if err != nil {
			return nil, err
		}
		_, t, err := a.Ask(ctx, framework.Filter, question)
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	return took, nil
}

// callsWindow is how long Describe calls are counted.
const callsWindow = 60 * time.Second

// callsScenario counts what EC2 is asked in a minute in which nothing happens, with few nodes and
// with many.
func callsScenario(ctx context.Context, r *Run) error {
	return r.on(ctx, onEC2(), func(s *env.Env) error {
		sizes := []int{r.n(10, 2), r.n(800, 20)}
		var rates []float64
		for i, size := range sizes {
			toSize := s.Grow
			if i == 0 {
				toSize = func(ctx context.Context, name string, size int) error { return s.Warm(ctx, name, size) }
			}
			if err := toSize(ctx, poolName, size); err != nil {
				return err
			}
			if err := env.Pause(ctx, settled); err != nil { // what the warm-up has in flight is over
				return err
			}
			rate, err := describesPerMinute(ctx, s)
			if err != nil {
				return err
			}
			r.say("%d nodes: %.1f Describe calls per minute", size, rate)
			rates = append(rates, rate)
		}
		r.add(figures.Row{
			Name:   fmt.Sprintf("Describe calls per minute, %d nodes", sizes[1]),
			Floor:  figure(figures.Figure{Value: rates[0], Unit: figures.PerMinute}),
			Ours:   figure(figures.Figure{Value: rates[1], Unit: figures.PerMinute}),
			Target: atMost(rates[0]+1, "as many as with %d nodes, and 1 for where the minute begins", sizes[0]),
			Note:   fmt.Sprintf("floor is the same pool with %d nodes", sizes[0]),
		})
		return nil
	})
}

func describesPerMinute(ctx context.Context, s *env.Env) (float64, error) {
	before, err := describes(ctx, s)
	if err != nil {
		return 0, err
	}
	if err := env.Pause(ctx, callsWindow); err != nil {
		return 0, err
	}
	after, err := describes(ctx, s)
	return float64(after-before) / callsWindow.Minutes(), err
}

func describes(ctx context.Context, s *env.Env) (int, error) {
	all, err := s.EC2Requests(ctx)
	n := 0
	for _, q := range all {
		if strings.HasPrefix(string(q.Action), "Describe") {
			n++
		}
	}
	return n, err
}
