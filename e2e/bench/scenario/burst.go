package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

const (
	// burstCPU is what a pod of a burst asks for: NodeCPU of them fill a node.
	burstCPU = "1"
	// startBurst and startRate are EC2's published limit on StartInstances calls, which Stratos keeps
	// to by itself.
	startBurst, startRate = 5, 2.0
	// burstRounds is how often each size is played at full scale: of the account's 1000 starts at once
	// (EC2's published limit on instances) three times 313 are left over.
	burstRounds = 3
)

// burstTimes are those of one burst.
type burstTimes struct {
	last     time.Duration
	starts   int
	requests int
	// span is from the first call to the last.
	span time.Duration
}

// burstScenario: bursts of three sizes on EC2's protocol, the floor's and ours taking turns.
func burstScenario(ctx context.Context, r *Run) error {
	sizes := []int{r.n(50, 5), r.n(200, 10), r.n(1000, 20)}
	pool := (sizes[2]+env.NodeCPU-1)/env.NodeCPU + 2
	options := onEC2()
	options.Cloud = env.BootsIn(burstBoot(r))
	return r.on(ctx, options, func(s *env.Env) error {
		if err := withFloor(ctx, s); err != nil {
			return err
		}
		if err := s.Warm(ctx, poolName, pool); err != nil {
			return err
		}
		var growth []figures.Point
		for _, size := range sizes {
			floor, ours, err := burstsOf(ctx, r, s, size, pool)
			if err != nil {
				return fmt.Errorf("%d pods: %w", size, err)
			}
			r.add(burstRows(size, pool, floor, ours)...)
			growth = append(growth, figures.Point{Size: float64(size), Cost: medianLast(ours).Seconds()})
		}
		r.add(figures.Grown("growth of the burst with its pods", figures.Seconds, growth, 1.15, "at most n log n (n^1.15)"))
		return nil
	})
}

// burstBoot is how long machines boot here: longer than the burst takes. Nodes that come up are
// reported, opened and have their pods bound on the same few cores while the rest is still asked
// about, and boot time is not what is measured.
func burstBoot(r *Run) time.Duration { return time.Duration(r.n(13_000, 1_000)) * time.Millisecond }

func burstsOf(ctx context.Context, r *Run, s *env.Env, size, pool int) (floor figures.Samples, ours []burstTimes,
	err error) {
	for round := range r.n(burstRounds, 1) {
		f, err := floorBurst(ctx, s, size, round)
		if err != nil {
			return nil, nil, err
		}
		o, err := ourBurst(ctx, s, size, round)
		if err != nil {
			return nil, nil, err
		}
		r.say("%d pods: floor %s, ours %s, %d starts in %d calls", size, f.Round(time.Millisecond),
			o.last.Round(time.Millisecond), o.starts, o.requests)
		floor, ours = append(floor, f), append(ours, o)
		if err := s.AwaitStandby(ctx, poolName, pool); err != nil {
			return nil, nil, err
		}
	}
	return floor, ours, nil
}

// floorBurst is how long it takes until the do-nothing extender was asked about every pod.
func floorBurst(ctx context.Context, s *env.Env, size, round int) (time.Duration, error) {
	pods := env.Pods(fmt.Sprintf("floor%d-%d", size, round), env.FloorScheduler, burstCPU, size)
	began, err := env.CreateAll(ctx, s.Client, pods)
	if err != nil {
		return 0, err
	}
	asked, err := awaitAsked(ctx, s, pods)
	if err != nil {
		return 0, err
	}
	return latest(asked).Sub(earliest(began)), s.RemovePods(ctx)
}

// ourBurst is how long it takes until the last start is sent. It returns when all pods were bound
// and have been removed.
func ourBurst(ctx context.Context, s *env.Env, size, round int) (burstTimes, error) {
	before, requestsBefore, err := s.Starts(ctx)
	if err != nil {
		return burstTimes{}, err
	}
	began, err := env.CreateAll(ctx, s.Client, env.Pods(fmt.Sprintf("ours%d-%d", size, round), v1alpha1.SchedulerName,
		burstCPU, size))
	if err != nil {
		return burstTimes{}, err
	}
	if err := s.AwaitAllBound(ctx, size); err != nil {
		return burstTimes{}, err
	}
	starts, requests, err := s.Starts(ctx)
	if err != nil {
		return burstTimes{}, err
	}
	starts, requests = starts[len(before):], requests[len(requestsBefore):]
	if len(starts) == 0 {
		return burstTimes{}, fmt.Errorf("no node was started for %d pods", size)
	}
	t := burstTimes{starts: len(starts), requests: len(requests), span: latest(requests).Sub(earliest(requests))}
	t.last = starts[len(starts)-1].At.Sub(earliest(began))
	return t, s.RemovePods(ctx)
}

// burstRows compare the median round; starts and calls the worst.
func burstRows(size, pool int, floor figures.Samples, ours []burstTimes) []figures.Row {
	need := (size + env.NodeCPU - 1) / env.NodeCPU
	floorMedian := floor.Quantile(0.5)
	// A start that is decided while the bucket is empty waits for the next call, which is half a
	// second away at most.
	limit := floorMedian.Seconds()*1.2 + 1/startRate
	last := medianLast(ours)
	worst := ours[0]
	calls, allowed := 0, 0.0
	for _, o := range ours {
		if abs(o.starts-need) > abs(worst.starts-need) {
			worst = o
		}
		if most := startBurst + startRate*o.span.Seconds(); calls == 0 || float64(o.requests)-most > float64(calls)-allowed {
			calls, allowed = o.requests, most
		}
	}
	return []figures.Row{
		{
			Name: fmt.Sprintf("%d pods created -> last start sent", size), Floor: figure(figures.Secs(floorMedian)),
			Ours:   figure(figures.Secs(last)),
			Target: atMost(limit, "1.2 x floor + %.1f s of the cloud's limit = %.2f s", 1/startRate, limit),
			Note:   fmt.Sprintf("median of %d rounds, on %d standby nodes", len(ours), pool),
		},
		exactly(fmt.Sprintf("starts for %d pods", size), worst.starts, need, "the worst of all rounds"),
		{
			Name: fmt.Sprintf("StartInstances calls for %d pods", size), Ours: figure(figures.Number(calls)),
			Target: atMost(allowed, "5 + 2/s x duration = %.1f", allowed), Note: "the worst of all rounds",
		},
	}
}

func medianLast(ours []burstTimes) time.Duration {
	var last figures.Samples
	for _, o := range ours {
		last = append(last, o.last)
	}
	return last.Quantile(0.5)
}

func abs(n int) int { return max(n, -n) }

func earliest(times []time.Time) time.Time {
	first := times[0]
	for _, t := range times {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

func latest(times []time.Time) time.Time {
	last := times[0]
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// trickleScenario: pods come one by one, four for each node that starts.
func trickleScenario(ctx context.Context, r *Run) error {
	const gap = 400 * time.Millisecond
	count := r.n(100, 8)
	need := (count + env.NodeCPU - 1) / env.NodeCPU
	return r.on(ctx, onEC2(), func(s *env.Env) error {
		if _, err := s.StartOurs(ctx); err != nil {
			return err
		}
		if err := s.Warm(ctx, poolName, need+2); err != nil {
			return err
		}
		pods := env.Pods("trickle", v1alpha1.SchedulerName, burstCPU, count)
		created, err := trickle(ctx, s, pods, gap)
		if err != nil {
			return err
		}
		starts, requests, err := s.Starts(ctx)
		if err != nil {
			return err
		}
		r.add(trickleRows(s, pods, created, gap)...)
		r.add(exactly("starts in the trickle", len(starts), need, fmt.Sprintf("%d pods, one every %s", count, gap)))
		if len(requests) == 0 {
			return fmt.Errorf("no StartInstances call was made")
		}
		allowed := startBurst + startRate*latest(requests).Sub(earliest(requests)).Seconds()
		r.add(figures.Row{
			Name: "StartInstances calls in the trickle", Ours: figure(figures.Number(len(requests))),
			Target: atMost(allowed, "5 + 2/s x duration = %.1f", allowed),
		})
		return nil
	})
}

func trickle(ctx context.Context, s *env.Env, pods []*corev1.Pod, gap time.Duration) ([]time.Time, error) {
	created := make([]time.Time, len(pods))
	for i, p := range pods {
		created[i] = time.Now()
		if err := s.Client.Create(ctx, p); err != nil {
			return nil, err
		}
		if err := env.Pause(ctx, gap); err != nil {
			return nil, err
		}
	}
	return created, s.AwaitAllBound(ctx, len(pods))
}

// trickleRows: who found room on a running node waits for the scheduler alone, who needed a start
// for the boot too.
func trickleRows(s *env.Env, pods []*corev1.Pod, created []time.Time, gap time.Duration) []figures.Row {
	var waited figures.Samples
	s.Seen.Look(func(v *env.View) {
		for i, p := range pods {
			if seen := v.Pods[p.Name]; seen != nil {
				waited = append(waited, seen.Bound.Sub(created[i]))
			}
		}
	})
	return []figures.Row{
		{Name: "pod of the trickle created -> bound, p50", Ours: figure(figures.Millis(waited.Quantile(0.5)))},
		{
			Name: "pod of the trickle created -> bound, p99", Ours: figure(figures.Millis(waited.Quantile(0.99))),
			Note: fmt.Sprintf("a machine boots in %s; one pod every %s", env.BootTime, gap),
		},
	}
}
