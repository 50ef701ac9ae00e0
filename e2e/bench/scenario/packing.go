package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

const (
	// packingRounds is how often each side plays.
	packingRounds = 3
	// waves is in how many portions the pods come and go.
	waves = 10
)

// packingScenario: on running nodes of a pool, the generated profile beside the same one with
// prioritizeVerb. Each number of nodes has an environment of its own, because a pool whose nodes
// run cannot grow to an exact number of standby ones.
func packingScenario(ctx context.Context, r *Run) error {
	for _, size := range []int{r.n(100, 10), r.n(1000, 20)} {
		err := r.on(ctx, env.Options{}, func(s *env.Env) error { return packingOn(ctx, r, s, size) })
		if err != nil {
			return fmt.Errorf("%d nodes: %w", size, err)
		}
	}
	return nil
}

func packingOn(ctx context.Context, r *Run, s *env.Env, size int) error {
	without, err := s.StartOurs(ctx)
	if err != nil {
		return err
	}
	with, err := s.StartWithVerb(ctx)
	if err != nil {
		return err
	}
	if err := wakeAll(ctx, s, size); err != nil {
		return err
	}
	sides := []*side{{name: v1alpha1.SchedulerName, scheduler: without}, {name: env.VerbScheduler, scheduler: with}}
	rate, come := r.n(1000, 40), min(r.n(200, 20), env.NodeCPU*size)
	var inUse [2][]float64
	for round := range r.n(packingRounds, 1) {
		for turn := range sides {
			at := (round + turn) % len(sides)
			name := fmt.Sprintf("packing%d-%d", round, at)
			perSecond, err := rateOf(ctx, s, sides[at], name+"-rate", rate)
			if err != nil {
				return err
			}
			nodes, err := comeAndGo(ctx, s, env.Pods(name, sides[at].name, burstCPU, come))
			if err != nil {
				return err
			}
			r.say("%d nodes, %s: %.0f pods/s, %d nodes in use", size, sides[at].name, perSecond, nodes)
			sides[at].rates = append(sides[at].rates, perSecond)
			inUse[at] = append(inUse[at], float64(nodes))
		}
	}
	r.add(packingRows(size, rate, come, sides, inUse)...)
	return nil
}

// packingRows have the profile with prioritizeVerb in the column of the floor.
func packingRows(size, rate, come int, sides []*side, inUse [2][]float64) []figures.Row {
	perSecond := func(s *side) *figures.Figure {
		return figure(figures.Figure{Value: figures.Median(s.rates), Unit: figures.PerSecond})
	}
	note := fmt.Sprintf("median of %d rounds in turn; floor is the same profile with prioritizeVerb", len(inUse[0]))
	most := figures.Median(inUse[1])
	return []figures.Row{
		{
			Name:  fmt.Sprintf("pods bound per second on %d running nodes of a pool, without prioritizeVerb", size),
			Floor: perSecond(sides[1]), Ours: perSecond(sides[0]), Note: fmt.Sprintf("%s; %d pods", note, rate),
		},
		{
			Name:  fmt.Sprintf("nodes in use of %d after %d pods came and part of them went", size, come),
			Floor: figure(figures.Figure{Value: most}), Ours: figure(figures.Figure{Value: figures.Median(inUse[0])}),
			Target: atMost(most, "as many as with prioritizeVerb"), Note: note,
		},
	}
}

// wakeAll has a pool of so many running nodes without pods, which do not stop.
func wakeAll(ctx context.Context, s *env.Env, size int) error {
	err := s.Warm(ctx, poolName, size, func(p *v1alpha1.NodePool) {
		p.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Hour}
	})
	if err != nil {
		return err
	}
	if _, err := env.CreateAll(ctx, s.Client, env.Pods("wake", v1alpha1.SchedulerName, wholeNode, size)); err != nil {
		return err
	}
	if err := s.AwaitAllBound(ctx, size); err != nil {
		return err
	}
	return s.RemovePods(ctx)
}

// comeAndGo creates the pods in waves. After each wave a quarter of those that are there goes, on
// each side the same ones. It returns on how many nodes the others are in the end, and removes
// them.
func comeAndGo(ctx context.Context, s *env.Env, pods []*corev1.Pod) (nodes int, err error) {
	dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it draws pods
	var there []*corev1.Pod
	for wave := range slices.Chunk(pods, max(1, len(pods)/waves)) {
		if _, err := env.CreateAll(ctx, s.Client, wave); err != nil {
			return 0, err
		}
		there = append(there, wave...)
		if err := s.AwaitAllBound(ctx, len(there)); err != nil {
			return 0, err
		}
		dice.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
		gone := there[:len(there)/4]
		there = there[len(gone):]
		for _, p := range gone {
			if err := s.Client.Delete(ctx, p, client.GracePeriodSeconds(0)); err != nil {
				return 0, err
			}
		}
		err := s.Seen.Await(ctx, "the pods that go", func(v *env.View) bool { return len(v.Pods) == len(there) })
		if err != nil {
			return 0, err
		}
	}
	used := map[string]bool{}
	s.Seen.Look(func(v *env.View) {
		for _, p := range v.Pods {
			used[p.Node] = true
		}
	})
	return len(used), s.RemovePods(ctx)
}
