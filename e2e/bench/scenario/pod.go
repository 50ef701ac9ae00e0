package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	// wholeNode is what a pod asks for that has its node to itself: of NodeCPU no second one fits.
	wholeNode = "3"
	// between is the quiet after each pod, so that rounds are of one pod each.
	between = 20 * time.Millisecond
	// podBatch is how many rounds follow each other before all nodes go back to standby, podBoot how
	// long machines boot meanwhile: longer than the batch takes. A machine that comes up has its node
	// reported, opened and its pod bound, on the same few cores, and boot time is not what is
	// measured. The batch is small because the pods of earlier rounds wait, and each start has the
	// scheduler ask about all of them again.
	podBatch = 25
	podBoot  = 3 * time.Second
	// afterStops is until everybody has taken note of a batch that has stopped.
	afterStops = time.Second
	// readyBatch is how many nodes stay up before all go back.
	readyBatch = 100
)

// podTimes are those of many rounds of one pod.
type podTimes struct {
	// start is from the pod's creation to the start, floor to the answer to the one Node patch of the
	// do-nothing extender, ready from the kubelet's Ready to the bound pod.
	start, floor, ready figures.Samples
	// starts is how many there were.
	starts int
}

// podScenario: rounds of one pod for Stratos and one for the floor, taking turns. As many rounds as
// the pool has nodes make a batch, after which all stop again, so that no round meets a node that
// the round before has left up.
func podScenario(ctx context.Context, r *Run) error {
	rounds := r.n(1000, 5)
	return r.on(ctx, env.Options{Cloud: env.BootsIn(podBoot)}, func(s *env.Env) error {
		if err := withFloor(ctx, s); err != nil {
			return err
		}
		if err := s.FloorWrites(ctx); err != nil {
			return err
		}
		times, err := podRounds(ctx, r, s, rounds, podBatch, true)
		if err != nil {
			return err
		}
		for _, q := range []struct {
			share float64
			extra time.Duration
			name  string
		}{{0.5, 2 * time.Millisecond, "p50"}, {0.99, 30 * time.Millisecond, "p99"}} {
			floor, ours := times.floor.Quantile(q.share), times.start.Quantile(q.share)
			r.add(figures.Row{
				Name: "one pod created -> StartInstances sent, " + q.name, Floor: figure(figures.Millis(floor)),
				Ours:   figure(figures.Millis(ours)),
				Target: atMost(figures.Millis(floor+q.extra).Value, "floor + %s = %s", q.extra, figures.Millis(floor+q.extra)),
				Note: fmt.Sprintf("%d rounds, floor and ours taking turns; largest %s, floor's %s", len(times.start),
					figures.Millis(times.start.Max()), figures.Millis(times.floor.Max())),
			})
		}
		r.add(exactly("starts for single pods", times.starts, rounds, "one for each round"))
		return nil
	})
}

// readyScenario is the other end of such rounds, without the floor's pods between them. Each round
// waits until its pod is bound: other pending pods would be asked about before it, each as often as
// any node changes. Scenario burst measures bursts.
func readyScenario(ctx context.Context, r *Run) error {
	rounds := r.n(400, 5)
	return r.on(ctx, env.Options{Cloud: env.BootsIn(200 * time.Millisecond)}, func(s *env.Env) error {
		if _, err := s.StartOurs(ctx); err != nil {
			return err
		}
		times, err := podRounds(ctx, r, s, rounds, readyBatch, false)
		if err != nil {
			return err
		}
		p50, p99 := times.ready.Quantile(0.5), times.ready.Quantile(0.99)
		r.add(
			figures.Row{Name: "kubelet reports Ready -> first waiting pod bound, p50", Ours: figure(figures.Millis(p50))},
			figures.Row{
				Name: "kubelet reports Ready -> first waiting pod bound, p99", Ours: figure(figures.Millis(p99)),
				Target: atMost(250, "250 ms"),
				Note:   fmt.Sprintf("%d nodes; largest %s", len(times.ready), figures.Millis(times.ready.Max())),
			},
		)
		return nil
	})
}

// podRounds plays the rounds in batches.
func podRounds(ctx context.Context, r *Run, s *env.Env, rounds, batch int, withFloor bool) (*podTimes, error) {
	pool := min(batch, rounds)
	if err := s.Warm(ctx, poolName, pool); err != nil {
		return nil, err
	}
	times := &podTimes{}
	for done := 0; done < rounds; done += pool {
		if err := playBatch(ctx, s, times, fmt.Sprintf("round%d", done), min(pool, rounds-done), withFloor); err != nil {
			return nil, err
		}
		r.say("%d of %d rounds", len(times.start), rounds)
		if err := s.RemovePods(ctx); err != nil {
			return nil, err
		}
		if err := s.AwaitStandby(ctx, poolName, pool); err != nil {
			return nil, err
		}
		if err := env.Pause(ctx, afterStops); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func playBatch(ctx context.Context, s *env.Env, times *podTimes, name string, rounds int, withFloor bool) error {
	before, _, err := s.Starts(ctx)
	if err != nil {
		return err
	}
	ours := env.Pods(name, v1alpha1.SchedulerName, wholeNode, rounds)
	floors := env.Pods(name+"-floor", env.FloorScheduler, wholeNode, rounds)
	created := make([]time.Time, rounds)
	for i := range rounds {
		turns := []func() error{func() error { return oneOfOurs(ctx, s, ours[i], i+1, &created[i]) }}
		if withFloor {
			turns = append(turns, func() error { return oneOfFloor(ctx, s, floors[i], times) })
		}
		if i%2 == 1 && withFloor {
			turns[0], turns[1] = turns[1], turns[0]
		}
		if !withFloor {
			turns = append(turns, func() error { return s.AwaitAllBound(ctx, i+1) })
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return err
			}
			if err := env.Pause(ctx, between); err != nil {
				return err
			}
		}
	}
	if err := s.AwaitAllBound(ctx, rounds); err != nil {
		return err
	}
	starts, _, err := s.Starts(ctx)
	if err != nil {
		return err
	}
	times.starts += len(starts) - len(before)
	return times.take(s, ours, created, starts[len(before):])
}

// oneOfOurs creates the pod and waits until the next node of the pool is awake.
func oneOfOurs(ctx context.Context, s *env.Env, pod *corev1.Pod, awake int, created *time.Time) error {
	*created = time.Now()
	if err := s.Client.Create(ctx, pod); err != nil {
		return err
	}
	return s.Seen.Await(ctx, "a node started", func(v *env.View) bool { return v.Awake(poolName) >= awake })
}

// oneOfFloor creates a pod for the floor, waits until it was asked about and removes it.
func oneOfFloor(ctx context.Context, s *env.Env, pod *corev1.Pod, times *podTimes) error {
	created := time.Now()
	if err := s.Client.Create(ctx, pod); err != nil {
		return err
	}
	asked, err := awaitAsked(ctx, s, []*corev1.Pod{pod})
	if err != nil {
		return err
	}
	times.floor = append(times.floor, asked[0].Sub(created))
	return s.Client.Delete(ctx, pod)
}

// awaitAsked waits until the floor was asked about all of the pods.
func awaitAsked(ctx context.Context, s *env.Env, pods []*corev1.Pod) ([]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, framework.HangGuard)
	defer cancel()
	names := env.Names(pods)
	for {
		changed := s.Floor.Changed()
		asked, all := s.Floor.Asked(names)
		if err := s.Floor.Failed(); err != nil {
			return nil, fmt.Errorf("the floor's write: %w", err)
		}
		if all {
			return asked, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("the floor was not asked about every one of %d pods: %w", len(pods), ctx.Err())
		}
	}
}

// take pairs each pod with the start of the node that it was bound to.
func (t *podTimes) take(s *env.Env, pods []*corev1.Pod, created []time.Time, starts []env.Start) error {
	at := map[v1alpha1.InstanceID]time.Time{}
	for _, start := range starts {
		if at[start.Instance].IsZero() {
			at[start.Instance] = start.At
		}
	}
	var err error
	s.Seen.Look(func(v *env.View) {
		for i, p := range pods {
			seen := v.Pods[p.Name]
			if seen == nil || v.Nodes[seen.Node] == nil || at[v.Nodes[seen.Node].Instance].IsZero() {
				err = fmt.Errorf("pod %s is on no node that was started in its batch: %+v", p.Name, seen)
				return
			}
			node := v.Nodes[seen.Node]
			t.start = append(t.start, at[node.Instance].Sub(created[i]))
			t.ready = append(t.ready, seen.Bound.Sub(node.Ready))
		}
	})
	return err
}
