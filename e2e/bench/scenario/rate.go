package scenario

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// rateRounds is how often each side binds all pods.
const rateRounds = 3

// side is one of the two schedulers.
type side struct {
	name      string
	scheduler *controlplane.Process
	rates     []float64
}

// rateScenario: the same pods on the same nodes, bound by a scheduler with the extender, by one
// with an extender that does nothing, and by one without, in turn. A few nodes are standby.
func rateScenario(ctx context.Context, r *Run) error {
	return r.on(ctx, env.Options{Load: true}, func(s *env.Env) error {
		if err := s.Warm(ctx, poolName, 5); err != nil {
			return err
		}
		with, err := s.StartOurs(ctx)
		if err != nil {
			return err
		}
		idle, err := s.StartFloor(ctx)
		if err != nil {
			return err
		}
		s.Floor.KeepAll()
		without, err := s.StartPlain(ctx)
		if err != nil {
			return err
		}
		nodes := 0
		for _, size := range []int{r.n(100, 10), r.n(1000, 20)} {
			if err := s.AddNodes(ctx, env.LoadNodes(nodes, size, false)); err != nil {
				return err
			}
			nodes = size
			sides := []*side{{name: v1alpha1.SchedulerName, scheduler: with}, {name: env.FloorScheduler, scheduler: idle},
				{name: env.PlainScheduler, scheduler: without}}
			rows, err := rateOn(ctx, r, s, size, sides)
			if err != nil {
				return fmt.Errorf("%d nodes: %w", size, err)
			}
			r.add(rows...)
		}
		return nil
	})
}

// rateOn plays the sides in turn, each first as often as the others, and says what the first and
// the second of them lose against the last.
func rateOn(ctx context.Context, r *Run, s *env.Env, nodes int, sides []*side) ([]figures.Row, error) {
	pods := r.n(1000, 40)
	for round := range rateRounds {
		for turn := range sides {
			t := sides[(round+turn)%len(sides)]
			rate, err := rateOf(ctx, s, t, fmt.Sprintf("rate%d-%d-%s", nodes, round, t.name), pods)
			if err != nil {
				return nil, err
			}
			r.say("%d nodes, %s: %.0f pods/s", nodes, t.name, rate)
			t.rates = append(t.rates, rate)
		}
	}
	floor := figures.Median(sides[2].rates)
	row := func(name string, of *side) figures.Row {
		return figures.Row{
			Name:  fmt.Sprintf(name, nodes),
			Floor: figure(figures.Figure{Value: floor, Unit: figures.PerSecond}),
			Ours:  figure(figures.Figure{Value: figures.Median(of.rates), Unit: figures.PerSecond}),
			Note: fmt.Sprintf(
				"median of %d rounds of %d pods; floor is the same profile without an extender",
				rateRounds,
				pods,
			),
		}
	}
	ours := row("pods bound per second on %d running nodes", sides[0])
	ours.Target = atLeast(0.9*floor, "0.9 x without the extender")
	return []figures.Row{ours, row("pods bound per second on %d running nodes, with an extender that does nothing",
		sides[1])}, nil
}

// rateOf has all pods wait before the scheduler sees the first: it is stopped by a signal while
// they are created. What counts is the time from the first bound pod to the last.
func rateOf(ctx context.Context, s *env.Env, t *side, name string, count int) (rate float64, err error) {
	if err := t.scheduler.Signal(syscall.SIGSTOP); err != nil {
		return 0, err
	}
	_, err = env.CreateAll(ctx, s.Client, env.Pods(name, t.name, "10m", count))
	if err == nil {
		err = env.Pause(ctx, time.Second) // until the others have taken note of the pods
	}
	if err := errors.Join(err, t.scheduler.Signal(syscall.SIGCONT)); err != nil {
		return 0, err
	}
	if err := s.AwaitAllBound(ctx, count); err != nil {
		return 0, err
	}
	var bound []time.Time
	s.Seen.Look(func(v *env.View) {
		for _, p := range v.Pods {
			bound = append(bound, p.Bound)
		}
	})
	span := latest(bound).Sub(earliest(bound)).Seconds()
	if span <= 0 {
		return 0, fmt.Errorf("all of %d pods were bound at once", count)
	}
	return float64(count-1) / span, s.RemovePods(ctx)
}
