package scenario

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/bench/stand"
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

// rateScenario: the same pods on the same nodes, bound by a scheduler with the extender and by one without, in turn. A few nodes are standby.
func rateScenario(ctx context.Context, r *Run) error {
	return r.on(ctx, stand.Options{Load: true}, func(s *stand.Stand) error {
		if err := s.Warm(ctx, poolName, 5); err != nil {
			return err
		}
		with, err := s.StartOurs(ctx)
		if err != nil {
			return err
		}
		without, err := s.StartPlain(ctx)
		if err != nil {
			return err
		}
		nodes := 0
		for _, size := range []int{r.n(100, 10), r.n(1000, 20)} {
			if err := s.AddNodes(ctx, stand.LoadNodes(nodes, size, false)); err != nil {
				return err
			}
			nodes = size
			row, err := rateOn(ctx, r, s, size, &side{name: v1alpha1.SchedulerName, scheduler: with}, &side{name: stand.PlainScheduler, scheduler: without})
			if err != nil {
				return fmt.Errorf("%d nodes: %w", size, err)
			}
			r.add(row)
		}
		return nil
	})
}

func rateOn(ctx context.Context, r *Run, s *stand.Stand, nodes int, with, without *side) (figures.Row, error) {
	pods := r.n(1000, 40)
	for round := range rateRounds {
		turns := []*side{with, without}
		if round%2 == 1 {
			turns[0], turns[1] = turns[1], turns[0]
		}
		for _, t := range turns {
			rate, err := rateOf(ctx, s, t, fmt.Sprintf("rate%d-%d-%s", nodes, round, t.name), pods)
			if err != nil {
				return figures.Row{}, err
			}
			r.say("%d nodes, %s: %.0f pods/s", nodes, t.name, rate)
			t.rates = append(t.rates, rate)
		}
	}
	ours, floor := figures.Median(with.rates), figures.Median(without.rates)
	return figures.Row{
		Name:  fmt.Sprintf("pods bound per second on %d running nodes", nodes),
		Floor: figure(figures.Figure{Value: floor, Unit: figures.PerSecond}), Ours: figure(figures.Figure{Value: ours, Unit: figures.PerSecond}),
		Target: atLeast(0.9*floor, "0.9 x without the extender"),
		Note:   fmt.Sprintf("median of %d rounds of %d pods; floor is the same profile without the extender", rateRounds, pods),
	}, nil
}

// rateOf has all pods wait before the scheduler sees the first: it is stopped by a signal while they are created. What counts is the time from the
// first bound pod to the last.
func rateOf(ctx context.Context, s *stand.Stand, t *side, name string, count int) (rate float64, err error) {
	if err := t.scheduler.Signal(syscall.SIGSTOP); err != nil {
		return 0, err
	}
	_, err = stand.CreateAll(ctx, s.Client, stand.Pods(name, t.name, "10m", count))
	if err == nil {
		err = stand.Pause(ctx, time.Second) // until the others have taken note of the pods
	}
	if err := errors.Join(err, t.scheduler.Signal(syscall.SIGCONT)); err != nil {
		return 0, err
	}
	if err := s.Seen.Await(ctx, "every pod bound", func(v *stand.View) bool { return v.BoundPods == count }); err != nil {
		return 0, err
	}
	var bound []time.Time
	s.Seen.Look(func(v *stand.View) {
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
