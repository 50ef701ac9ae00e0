package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/provider"
)

// The play: two pods fit a node, so the burst needs eight of the ten nodes, and the two that stay
// stopped show that no more start.
const (
	poolName     = "demo"
	poolSize     = 10
	instanceType = "m5.xlarge"
	burst        = 16
	podCPU       = "1500m"
	// emptyNodeTTL lets people see the nodes run empty before they are drained.
	emptyNodeTTL = 3 * time.Second
	// lookEvery is how often the table is drawn and a step's end looked for. It is in no number of the
	// summary.
	lookEvery = 100 * time.Millisecond
)

// step is one part of the play. It is over when do returns.
type step struct {
	name, what string
	do         func(context.Context) error
}

// stage plays on a rig and watches it.
type stage struct {
	rig      *framework.Rig
	out      *screen
	observer *observer
	began    time.Time
	board    []progress
	// before is the last cloud call before the burst.
	before int64
	report report
}

// play plays all steps in order and returns the report even when one of them fails.
func play(ctx context.Context, out *screen, r *framework.Rig) (report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, playLimit, fmt.Errorf("the play took more than %s", playLimit))
	defer cancel()
	s := &stage{rig: r, out: out, began: time.Now(), report: report{Pods: burst, PoolSize: poolSize}}
	steps := s.steps()
	for _, step := range steps {
		s.board = append(s.board, progress{name: step.name, what: step.what})
		s.report.Missing = append(s.report.Missing, step.name)
	}
	var err error
	if s.observer, err = observe(ctx, r); err != nil {
		return s.report, err
	}
	defer s.observer.stop()
	for i, step := range steps {
		at := &s.board[i]
		at.from = time.Now()
		if err = step.do(ctx); err != nil {
			err = fmt.Errorf("step %q: %w", step.name, err)
			break
		}
		at.took = time.Since(at.from)
		s.report.Missing = s.report.Missing[1:]
	}
	err = errors.Join(err, s.measure(context.WithoutCancel(ctx)))
	out.end()
	return s.report, err
}

func (s *stage) steps() []step {
	return []step{
		{"warm up", fmt.Sprintf("%d instances boot and join, and Stratos stops them", poolSize), s.warmUp},
		{"burst", fmt.Sprintf("%d pods of %s cpu while no node runs", burst, podCPU), s.burst},
		{"start", "stopped instances start for them", s.start},
		{"run", "the pods are bound and run", s.run},
		{"empty", "the pods are deleted, the nodes are empty", s.empty},
		{"stop", "empty nodes are drained and stopped again", s.allStandby},
	}
}

func (s *stage) warmUp(ctx context.Context) error {
	pool := framework.Pool(poolName, poolSize)
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: emptyNodeTTL}
	if err := s.rig.Client.Create(ctx, framework.BootstrapClass(poolName, instanceType)); err != nil {
		return err
	}
	if err := s.rig.Client.Create(ctx, pool); err != nil {
		return err
	}
	return s.allStandby(ctx)
}

// allStandby waits until both Stratos and the cloud say so.
func (s *stage) allStandby(ctx context.Context) error {
	return s.await(ctx, func(now scene) bool {
		return now.Pool.Standby == poolSize && now.Instances[provider.InstanceStopped] == poolSize
	})
}

// burst creates all pods at once. Their nodes are needed by the closed form: as many pods on each
// as fit, rounded up.
func (s *stage) burst(ctx context.Context) error {
	calls, err := s.rig.Cloud.Calls(ctx)
	if err != nil {
		return err
	}
	for _, c := range calls {
		s.before = max(s.before, c.Seq)
	}
	if s.report.PerNode, err = perNode(resource.MustParse(podCPU), s.observer.timeline.commonCPU()); err != nil {
		return err
	}
	errs := make([]error, burst)
	var posts sync.WaitGroup
	for i := range burst {
		posts.Go(func() { errs[i] = s.post(ctx, fmt.Sprintf("burst-%02d", i)) })
	}
	posts.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.await(ctx, func(scene) bool {
		return promisedPods(promisesOf(s.rig.Recorder.Asked(framework.Filter))) == burst
	})
}

// post takes the time before the request is sent: from there on the user waits.
func (s *stage) post(ctx context.Context, name string) error {
	s.observer.timeline.creating(podName(name), time.Now())
	return s.rig.Client.Create(ctx, framework.Pod(name, string(corev1.ResourceCPU), podCPU))
}

func (s *stage) start(ctx context.Context) error {
	return s.await(ctx, func(scene) bool {
		return s.observer.timeline.allReady(promisesOf(s.rig.Recorder.Asked(framework.Filter)))
	})
}

func (s *stage) run(ctx context.Context) error {
	return s.await(ctx, func(now scene) bool { return now.Pods.Running == burst })
}

func (s *stage) empty(ctx context.Context) error {
	for i := range burst {
		pod := framework.Pod(fmt.Sprintf("burst-%02d", i))
		if err := s.rig.Client.Delete(ctx, pod); err != nil {
			return err
		}
	}
	return s.await(ctx, func(now scene) bool { return now.Pods == podCounts{} })
}

// await draws what happens until the step is over. The error says what was seen last.
func (s *stage) await(ctx context.Context, over func(scene) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, framework.HangGuard, fmt.Errorf("not within %s", framework.HangGuard))
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := "nothing"
	for {
		now, err := s.observer.look(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w; last seen: %s", context.Cause(ctx), last)
		case err != nil:
			return err
		}
		s.draw(now)
		if over(now) {
			return nil
		}
		last = now.String()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (s *stage) draw(now scene) {
	elapsed := time.Since(s.began)
	s.out.show(frame(s.board, now, elapsed), plainLine(s.board, now, elapsed))
}

// measure fills in the report from what was recorded on the way and what there is at the end,
// however the play ended.
func (s *stage) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // the cloud may be what failed
	defer cancel()
	end, err := s.observer.look(ctx)
	if err != nil {
		return fmt.Errorf("look at the end: %w", err)
	}
	s.draw(end) // the last step is over only now
	s.report.Standby, s.report.Stopped = int(end.Pool.Standby), end.Instances[provider.InstanceStopped]
	calls, err := s.rig.Cloud.Calls(ctx)
	if err != nil {
		return fmt.Errorf("read the cloud's calls: %w", err)
	}
	starts := startsAfter(calls, s.before)
	if len(s.report.Missing) == len(s.board) {
		starts = nil // before the burst nothing is to be measured
	}
	s.report.Started = len(starts)
	t := s.observer.timeline
	s.report.Ran = t.ranPods()
	s.report.ToStart, s.report.SinceAsked = t.toStart(promisesOf(s.rig.Recorder.Asked(framework.Filter)), starts)
	s.report.ToBound = t.toBound(starts)
	return nil
}
