package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

// settled is how long a process is left alone before its memory is read, window how long its
// processor time is counted.
const (
	settled = 8 * time.Second
	window  = 20 * time.Second
	// reportEvery is a kubelet's nodeStatusReportFrequency.
	reportEvery = 5 * time.Minute
)

// memoryScenario: many nodes and ten times as many pods, by steps.
func memoryScenario(ctx context.Context, r *Run) error {
	return r.on(ctx, env.Options{Load: true}, func(s *env.Env) error {
		if err := s.Warm(ctx, poolName, 5); err != nil {
			return err
		}
		empty, err := usage(s.Ours.Process)
		if err != nil {
			return err
		}
		var growth []figures.Point
		nodes, last := 0, env.Usage{}
		for _, size := range r.steps(5000, 40) {
			if err := s.AddNodes(ctx, env.LoadNodes(nodes, size, false)); err != nil {
				return err
			}
			if err := s.AddPods(ctx, env.LoadPods(10*nodes, 10*size, size)); err != nil {
				return err
			}
			nodes = size
			if err := env.Pause(ctx, settled); err != nil {
				return err
			}
			if last, err = usage(s.Ours.Process); err != nil {
				return err
			}
			r.say("%d nodes, %d pods: %.0f MiB", size, 10*size, last.Resident)
			growth = append(growth, figures.Point{Size: float64(size), Cost: last.Resident - empty.Resident})
		}
		if err := s.KeepHeap(); err != nil {
			r.say("%v", err)
		}
		r.add(figures.Row{
			Name:   fmt.Sprintf("resident memory with %d nodes and %d pods", nodes, 10*nodes),
			Floor:  figure(figures.Figure{Value: empty.Resident, Unit: figures.MiB}),
			Ours:   figure(figures.Figure{Value: last.Resident, Unit: figures.MiB}),
			Target: atMost(400, "400 MiB"),
			Note:   fmt.Sprintf("floor is the same process before, with 5 nodes; most while they were made %.0f MiB", last.Peak),
		})
		r.add(figures.Grown("growth of memory with its nodes", figures.MiB, growth, 1.15, "at most linear (n^1.15)"))
		return cpuRow(ctx, r, s, nodes)
	})
}

// cpuRow counts the processor time while the nodes report as often as kubelets do and nothing else
// happens.
func cpuRow(ctx context.Context, r *Run, s *env.Env, nodes int) error {
	before, err := usage(s.Ours.Process)
	if err != nil {
		return err
	}
	began, reports := time.Now(), 0
	for every := reportEvery / time.Duration(nodes); time.Since(began) < window; reports++ {
		if err := report(ctx, s.Client, env.LoadName(reports%nodes)); err != nil {
			return err
		}
		if err := env.Pause(ctx, every); err != nil {
			return err
		}
	}
	after, err := usage(s.Ours.Process)
	if err != nil {
		return err
	}
	took := time.Since(began)
	r.add(figures.Row{
		Name: fmt.Sprintf("processor with %d nodes and %d pods, nothing to do", nodes, 10*nodes),
		Ours: figure(figures.Figure{Value: 100 * (after.CPU - before.CPU).Seconds() / took.Seconds(), Unit: figures.Percent}),
		Note: fmt.Sprintf("of one core, over %s; %d nodes reported meanwhile, each every %s", took.Round(time.Second),
			reports, reportEvery),
	})
	return nil
}

// report is a kubelet's heartbeat in the Node's status.
func report(ctx context.Context, c client.Client, node string) error {
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	n := &corev1.Node{}
	n.Name = node
	return c.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

// restartScenario: how long from the start of the process until it is ready, by steps.
func restartScenario(ctx context.Context, r *Run) error {
	return r.on(ctx, env.Options{Load: true}, func(s *env.Env) error {
		if err := s.Warm(ctx, poolName, 5); err != nil {
			return err
		}
		var growth []figures.Point
		nodes := 0
		var floor, ours figures.Samples
		for _, size := range r.steps(5000, 40) {
			if err := s.AddNodes(ctx, env.LoadNodes(nodes, size, false)); err != nil {
				return err
			}
			nodes = size
			var err error
			if floor, ours, err = restarts(ctx, s); err != nil {
				return fmt.Errorf("%d nodes: %w", size, err)
			}
			r.say("%d nodes: %s, a list takes %s", size, ours.Quantile(0.5), floor.Quantile(0.5))
			growth = append(growth, figures.Point{Size: float64(size), Cost: ours.Quantile(0.5).Seconds()})
		}
		used, err := usage(s.Ours.Process)
		if err != nil {
			return err
		}
		r.add(figures.Row{
			Name:  fmt.Sprintf("process started -> ready, %d nodes", nodes),
			Floor: figure(figures.Secs(floor.Quantile(0.5))), Ours: figure(figures.Secs(ours.Quantile(0.5))),
			Note: fmt.Sprintf("median of %d; floor is one list of the same nodes by a client; most memory meanwhile %.0f MiB",
				len(ours), used.Peak),
		})
		r.add(figures.Grown("growth of the restart with its nodes", figures.Seconds, growth, 1.15,
			"at most n log n (n^1.15)"))
		return nil
	})
}

// restarts ends Stratos as planned and starts it again, beside a list of the same nodes.
func restarts(ctx context.Context, s *env.Env) (floor, ours figures.Samples, err error) {
	for range 3 {
		began := time.Now()
		if err := s.Client.List(ctx, &corev1.NodeList{}); err != nil {
			return nil, nil, err
		}
		floor = append(floor, time.Since(began))
		if err := s.Ours.Process.Stop(); err != nil {
			return nil, nil, err
		}
		began = time.Now()
		if err := s.Ours.Process.Start(ctx); err != nil {
			return nil, nil, err
		}
		ours = append(ours, time.Since(began))
	}
	return floor, ours, nil
}

// scaledownScenario: nodes that all empty at once, by steps.
func scaledownScenario(ctx context.Context, r *Run) error {
	steps := r.steps(500, 10)
	pool := steps[len(steps)-1]
	// The time that Stratos has to wait and that the machines take.
	floor := env.EmptyTTL + time.Second + env.StopTime
	return r.on(ctx, env.Options{}, func(s *env.Env) error {
		if _, err := s.StartOurs(ctx); err != nil {
			return err
		}
		if err := s.Warm(ctx, poolName, pool); err != nil {
			return err
		}
		var growth []figures.Point
		var took time.Duration
		for _, size := range steps {
			pods := env.Pods(fmt.Sprintf("up%d", size), v1alpha1.SchedulerName, wholeNode, size)
			if _, err := env.CreateAll(ctx, s.Client, pods); err != nil {
				return err
			}
			if err := s.AwaitAllBound(ctx, size); err != nil {
				return err
			}
			began := time.Now()
			if err := s.RemovePods(ctx); err != nil {
				return err
			}
			if err := s.AwaitStandby(ctx, poolName, pool); err != nil {
				return err
			}
			took = time.Since(began)
			r.say("%d nodes are standby again after %s", size, took.Round(time.Millisecond))
			growth = append(growth, figures.Point{Size: float64(size), Cost: took.Seconds()})
		}
		r.add(figures.Row{
			Name: fmt.Sprintf("last pods of %d nodes deleted -> all standby", pool), Floor: figure(figures.Secs(floor)),
			Ours: figure(figures.Secs(took)),
			Note: "floor is the time to live, the second after the cordon and the machine's stop",
		})
		r.add(figures.Grown("growth of the scale-down with its nodes", figures.Seconds, growth, 1.15,
			"at most n log n (n^1.15)"))
		return nil
	})
}
