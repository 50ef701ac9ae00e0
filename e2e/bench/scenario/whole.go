package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/bench/env"
	"github.com/stratos-sh/stratos/e2e/bench/figures"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
)

const (
	// wholeBoot is how long machines boot in scenario whole.
	wholeBoot = 10 * time.Second
	// seriesEvery is the time between two samples of a series.
	seriesEvery = 100 * time.Millisecond
	// kcmQPS and kcmBurst are kube-controller-manager's defaults, for each of its controllers.
	kcmQPS, kcmBurst = 20, 30
	// lateAfter the machines' boot, running nodes have been opened, so that pods which are created
	// then need not wait for any.
	lateAfter = 5 * time.Second
)

// wiring is who places the pods of a whole burst.
type wiring struct {
	name, scheduler string
	// asks: the scheduler asks the extender.
	asks bool
}

// creation is who creates them.
type creation struct {
	name string
	// byDeployment: kube-controller-manager creates the pods of one Deployment.
	byDeployment bool
}

// whole is one burst from its first pod until all are bound. Times count from when the watch shows
// the first pod.
type whole struct {
	// created is when the last pod was created, started when the last start was sent, bound when the
	// last pod was bound.
	created, started, bound time.Duration
	// waits are those of all pods from created to bound, late those of the pods that were created when
	// the first nodes had long been running.
	waits, late figures.Samples
	// starts and calls are how many instances were asked to start in how many calls, span the time
	// from the first call to the last.
	starts, calls int
	span          time.Duration
	// repeated says how many of the starts were asked for although an earlier call had been accepted.
	repeated string
	// writes are Stratos's to Nodes, questions the requests to /filter.
	writes, questions int
	// fast and decided are the shares of the questions that Stratos answered within 5 ms, with their
	// way over the network and without; no numbers where the scheduler does not ask.
	fast, decided figures.Figure
	series        figures.Series
}

// wholeScenario plays bursts from the first pod until all are bound, first on standby nodes, then
// on the same nodes while they run.
func wholeScenario(ctx context.Context, r *Run) error {
	sizes := slices.Compact([]int{r.n(50, 4), r.n(200, 4), r.n(1000, 20)})
	boot := time.Duration(r.n(int(wholeBoot.Milliseconds()), 1000)) * time.Millisecond
	o := onEC2()
	o.Cloud = env.BootsIn(boot)
	o.ControlPlane.AuditLog.Enabled = true
	o.ControlPlane.ControllerManagerArgs = []string{fmt.Sprintf("--kube-api-qps=%d", kcmQPS),
		fmt.Sprintf("--kube-api-burst=%d", kcmBurst)}
	return r.on(ctx, o, func(s *env.Env) error {
		if _, err := s.StartOurs(ctx); err != nil {
			return err
		}
		// As it is installed, with its default limits: they are part of what the floor takes too.
		if _, err := s.ControlPlane.StartScheduler(ctx, controlplane.SchedulerOptions{Name: "stock-scheduler"}); err != nil {
			return err
		}
		pool := (sizes[len(sizes)-1]+env.NodeCPU-1)/env.NodeCPU + 2
		if err := s.Warm(ctx, poolName, pool); err != nil {
			return err
		}
		wirings := []wiring{{"extender", v1alpha1.SchedulerName, true}, {"watch", corev1.DefaultSchedulerName, false}}
		for _, w := range wirings {
			for _, c := range []creation{{"at once", false}, {"by a Deployment", true}} {
				for _, size := range sizes {
					b := &wholeBurst{Env: s, wiring: w, creation: c, size: size, boot: boot}
					if err := b.play(ctx, r, pool); err != nil {
						return fmt.Errorf("%s: %w", b.name(), err)
					}
				}
			}
		}
		return nil
	})
}

// wholeBurst is one of them.
type wholeBurst struct {
	*env.Env
	wiring
	creation
	size int
	boot time.Duration
}

func (b *wholeBurst) name() string {
	return fmt.Sprintf("%d pods %s, %s", b.size, b.creation.name, b.wiring.name)
}

// play leaves all nodes standby.
func (b *wholeBurst) play(ctx context.Context, r *Run, pool int) error {
	if err := b.SetEmptyTTL(ctx, poolName, time.Hour); err != nil { // the floor needs the nodes that have started
		return err
	}
	ours, err := b.burst(ctx, "ours")
	if err != nil {
		return err
	}
	floor, err := b.burst(ctx, "floor")
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	r.say("%s: last pod %s, last start %s, bound %s, floor %s; %d starts in %d calls, %d writes, %d questions", b.name(),
		ours.created.Round(time.Millisecond), ours.started.Round(time.Millisecond), ours.bound.Round(time.Millisecond),
		floor.bound.Round(time.Millisecond), ours.starts, ours.calls, ours.writes, ours.questions)
	r.add(b.rows(ours, floor)...)
	r.keep(b.name(), ours.series)
	r.keep(b.name()+", all nodes running", floor.series)
	if err := b.SetEmptyTTL(ctx, poolName, env.EmptyTTL); err != nil {
		return err
	}
	return b.AwaitStandby(ctx, poolName, pool)
}

// burst returns when all pods were bound and have been removed.
func (b *wholeBurst) burst(ctx context.Context, side string) (w whole, err error) {
	starts, calls, err := b.Starts(ctx)
	if err != nil {
		return w, err
	}
	asked, err := served(ctx, b.Env, framework.Filter)
	if err != nil {
		return w, err
	}
	began := time.Now()
	series := b.Seen.Sample(ctx, poolName, seriesEvery)
	if err := b.create(ctx, side); err != nil {
		series()
		return w, err
	}
	err = b.AwaitAllBound(ctx, b.size)
	w.series = series()
	if err != nil {
		return w, err
	}
	ended := time.Now()
	first := w.take(b.Env, b.boot)
	after, callsAfter, err := b.Starts(ctx)
	if err != nil {
		return w, err
	}
	after, callsAfter = after[len(starts):], callsAfter[len(calls):]
	w.starts, w.calls, w.repeated = len(after), len(callsAfter), repeated(after)
	if len(after) > 0 {
		w.started, w.span = after[len(after)-1].At.Sub(first), latest(callsAfter).Sub(earliest(callsAfter))
	}
	now, err := served(ctx, b.Env, framework.Filter)
	if err != nil {
		return w, err
	}
	w.questions = int(now[0].all - asked[0].all)
	w.fast, w.decided = now[0].share(asked[0]), now[1].share(asked[1])
	if w.writes, err = b.NodeWrites(began, ended); err != nil {
		return w, err
	}
	return w, b.remove(ctx)
}

// repeated counts the starts of instances that had been started before, and says of the first of
// them in which of the SDK's calls that was.
func repeated(starts []env.Start) string {
	before, count, example := map[v1alpha1.InstanceID]env.Start{}, 0, ""
	for _, s := range starts {
		was, again := before[s.Instance]
		if before[s.Instance] = s; !again {
			continue
		}
		if count++; count == 1 {
			later := s.At.Sub(was.At).Round(time.Millisecond)
			example = fmt.Sprintf(" (%s after %s: by %q after %q)", s.Instance, later, s.Attempt, was.Attempt)
		}
	}
	return fmt.Sprintf("%d asked for again after the cloud had accepted them%s", count, example)
}

// take reads what the watch has shown, and returns when it showed the first pod.
func (w *whole) take(s *env.Env, boot time.Duration) (first time.Time) {
	var created, bound []time.Time
	s.Seen.Look(func(v *env.View) {
		for _, p := range v.Pods {
			created, bound = append(created, p.Created), append(bound, p.Bound)
		}
	})
	first = earliest(created)
	w.created, w.bound = latest(created).Sub(first), latest(bound).Sub(first)
	for i := range created {
		wait := bound[i].Sub(created[i])
		w.waits = append(w.waits, wait)
		if created[i].Sub(first) > boot+lateAfter {
			w.late = append(w.late, wait)
		}
	}
	return first
}

// create has the pods created.
func (b *wholeBurst) create(ctx context.Context, side string) error {
	pods := env.Pods(fmt.Sprintf("whole-%s-%d", side, b.size), b.scheduler, burstCPU, b.size)
	if !b.byDeployment {
		_, err := env.CreateAll(ctx, b.Client, pods)
		return err
	}
	labels := map[string]string{"app": "whole"}
	return b.Client.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "whole-" + side},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(b.size)), //nolint:gosec // at most 1000
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pods[0].Spec},
		},
	})
}

// remove removes the pods at once. kube-controller-manager would do it at its own rate, and create
// those anew whose owners it still sees: so the owners go first, each kind after the other.
func (b *wholeBurst) remove(ctx context.Context) error {
	if b.byDeployment {
		for _, owners := range []client.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}} {
			err := b.Client.DeleteAllOf(ctx, owners, client.InNamespace(metav1.NamespaceDefault),
				client.PropagationPolicy(metav1.DeletePropagationBackground))
			if err != nil {
				return err
			}
			if err := env.Pause(ctx, afterStops); err != nil {
				return err
			}
		}
	}
	return b.RemovePods(ctx)
}

// rows compare the burst with the same one on running nodes.
func (b *wholeBurst) rows(ours, floor whole) []figures.Row {
	need := (b.size + env.NodeCPU - 1) / env.NodeCPU
	seconds := func(what string, floor, ours time.Duration) figures.Row {
		return figures.Row{Name: b.name() + ": " + what, Floor: figure(figures.Secs(floor)), Ours: figure(figures.Secs(ours))}
	}
	number := func(what string, floor, ours int) figures.Row {
		return figures.Row{Name: b.name() + ": " + what, Floor: figure(figures.Number(floor)), Ours: figure(figures.Number(ours))}
	}
	created := seconds("last pod created", floor.created, ours.created)
	created.Note = "from the first pod; floor is the same with all nodes running"
	started := figures.Row{Name: b.name() + ": last start sent", Ours: figure(figures.Secs(ours.started)),
		Target: b.startTarget(ours)}
	bound := seconds("all bound", floor.bound, ours.bound)
	limit := 1.3 * (b.boot + floor.bound).Seconds()
	bound.Target = atMost(limit, "1.3 x (boot + floor) = %.2f s", limit)
	calls := figures.Row{Name: b.name() + ": StartInstances calls", Ours: figure(figures.Number(ours.calls))}
	allowed := startBurst + startRate*ours.span.Seconds()
	calls.Target = atMost(allowed, "5 + 2/s x duration = %.1f", allowed)
	writes := number("writes of Stratos to Nodes", floor.writes, ours.writes)
	if ours.starts > 0 {
		writes.Note = fmt.Sprintf("%.1f for each start", float64(ours.writes)/float64(ours.starts))
	}
	rows := []figures.Row{
		created, started, bound,
		seconds("pod created -> bound, p50", floor.waits.Quantile(0.5), ours.waits.Quantile(0.5)),
		seconds("pod created -> bound, p99", floor.waits.Quantile(0.99), ours.waits.Quantile(0.99)),
		exactly(b.name()+": starts", ours.starts, need, fmt.Sprintf("%d pods to a node; %s", env.NodeCPU,
			ours.repeated)), calls, writes,
	}
	if b.asks {
		rows = append(rows, number("questions", floor.questions, ours.questions), b.answered(floor, ours),
			figures.Row{Name: b.name() + ": questions decided within 5 ms", Floor: &floor.decided, Ours: &ours.decided,
				Note: "from the last byte of the question to the first of the answer, without the network"})
	}
	if b.byDeployment && len(ours.late) > 0 {
		late := seconds("late pod created -> bound, p99", floor.late.Quantile(0.99), ours.late.Quantile(0.99))
		late.Target = atMost(1, "1 s")
		late.Note = fmt.Sprintf("%d pods that were created later than boot + %s after the first", len(ours.late), lateAfter)
		rows = append(rows, late)
	}
	return rows
}

// answered has a target for pods that are created at once: no more than the machine reaches while
// all nodes run.
func (b *wholeBurst) answered(floor, ours whole) figures.Row {
	row := figures.Row{Name: b.name() + ": questions answered within 5 ms, server side", Floor: &floor.fast,
		Ours: &ours.fast}
	if !b.byDeployment {
		row.Target = atLeast(min(99, floor.fast.Value), "99 %%, or the floor's share")
	}
	return row
}

// startTarget is when the last start shall be sent. On a scheduler without the extender, pods that
// are created at once have none.
func (b *wholeBurst) startTarget(ours whole) *figures.Target {
	if b.byDeployment {
		return atMost(2.5, "2.5 s")
	}
	if !b.asks {
		return nil
	}
	limit := ours.created.Seconds() + 2 + 1/startRate
	return atMost(limit, "last pod + 2 s + %.1f s of the cloud's limit = %.2f s", 1/startRate, limit)
}
