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

// rateRounds is how often each side binds all pods at full scale.
const rateRounds = 5

// side is one of the schedulers.
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
			if err := rateOn(ctx, r, s, fmt.Sprintf("%d running nodes", size), r.n(1000, 40), sides); err != nil {
				return fmt.Errorf("%d nodes: %w", size, err)
			}
		}
		ours, floor, err := s.StartSlow(ctx)
		if err != nil {
			return err
		}
		// Half the pods: their binding takes its time at this rate.
		return rateOn(ctx, r, s, fmt.Sprintf("%d running nodes, the scheduler's client at its default %d/s", nodes,
			env.DefaultQPS), r.n(500, 40),
			[]*side{{name: env.SlowScheduler, scheduler: ours}, {name: env.SlowFloorScheduler, scheduler: floor}})
	})
}

// rateOn plays the sides in turn, another one first in each round, and compares the first with
// the second, which is an extender that does nothing, and that with the third, if there is one.
func rateOn(ctx context.Context, r *Run, s *env.Env, where string, pods int, sides []*side) error {
	rounds := r.n(rateRounds, 1)
	for round := range rounds {
		for turn := range sides {
			t := sides[(round+turn)%len(sides)]
			rate, err := rateOf(ctx, s, t, fmt.Sprintf("rate-%d-%s", round, t.name), pods)
			if err != nil {
				return err
			}
			r.say("%s, %s: %.0f pods/s", where, t.name, rate)
			t.rates = append(t.rates, rate)
		}
	}
	row := func(name string, of, floor *side, floorIs string) figures.Row {
		return figures.Row{
			Name:  name,
			Floor: figure(figures.Figure{Value: figures.Median(floor.rates), Unit: figures.PerSecond}),
			Ours:  figure(figures.Figure{Value: figures.Median(of.rates), Unit: figures.PerSecond}),
			Note:  fmt.Sprintf("median of %d rounds of %d pods in turn; floor is %s", rounds, pods, floorIs),
		}
	}
	ours := row("pods bound per second on "+where, sides[0], sides[1], "an extender that does nothing")
	ours.Target = atLeast(0.95*ours.Floor.Value, "0.95 x an extender that does nothing")
	r.add(ours)
	if len(sides) > 2 {
		r.add(row("pods bound per second on "+where+", with an extender that does nothing", sides[1], sides[2],
			"the same profile without an extender"))
	}
	return nil
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
