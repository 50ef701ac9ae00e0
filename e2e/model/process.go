package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender"
	"github.com/stratos-sh/stratos/extender/cluster"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/scaler"
	"github.com/stratos-sh/stratos/scaler/nodeclass"
	"github.com/stratos-sh/stratos/scaler/nominate"
)

var errDead = errors.New("the process has ended")

// process is one process of Stratos: the real code, on the world's time, with ways to the API
// server and to the cloud that can fail and end.
type process struct {
	w      *World
	ctx    context.Context
	dead   bool
	leader bool
	born   time.Time
	// skew is how far its wall clock is off.
	skew time.Duration

	cache    *watcher
	state    *cluster.State
	loops    *scaler.Loops
	extender *extender.Extender
	upkeep   *extender.Upkeep

	instances *worker[v1alpha1.InstanceID]
	pools     *worker[v1alpha1.PoolName]
	pods      *worker[key]
	// placing and placingSiblings: the next pod of the Placer's queues is placed in a moment.
	placing, placingSiblings bool

	swept time.Time
	// seen are the instances that the cloud has told it of.
	seen map[v1alpha1.InstanceID]bool
	// answered are the regions that have answered a list of its.
	answered map[string]bool
	// unavailable is when the cloud last had none of an offering for it, and none since.
	unavailable map[offering]time.Time
	// backoffs are how long those offerings are left alone.
	backoffs map[offering]time.Duration
	// given is when the cloud last had some of an offering for it.
	given map[offering]time.Time
	// notSet is what reservation the cloud last refused to set an instance to for it, barred when it
	// did for want of the permission.
	notSet map[v1alpha1.InstanceID]notSet
	barred time.Time
	// crashIn counts down the writes until the process ends: before the last of them, or after it
	// where crashAfter is set. 0 is never.
	crashIn    int
	crashAfter bool
}

// begin starts a process.
func (w *World) begin(leader bool) *process {
	w.rules.forsaken()
	p := &process{w: w, ctx: context.Background(), leader: leader, born: w.now, skew: w.skew,
		seen: map[v1alpha1.InstanceID]bool{}, answered: map[string]bool{},
		unavailable: map[offering]time.Time{}, backoffs: map[offering]time.Duration{},
		given: map[offering]time.Time{}, notSet: map[v1alpha1.InstanceID]notSet{}}
	now := func() time.Time { return w.now.Add(p.skew) }
	p.state = cluster.New(decide.NewClaims(), now)
	for _, set := range w.daemonSets() {
		p.state.SetDaemonSet(&set)
	}
	api, cloud := &apiClient{p: p}, &cloudClient{p: p}
	loops, err := scaler.NewLoops(scaler.Parts{
		Setup: scaler.Setup{
			Cloud: cloud, Classes: []nodeclass.Kind{nodeclass.AWSNodeClasses(cloud)}, Namespace: "stratos", Cluster: clusterName,
			ClusterUID: clusterUID, State: p.state, ExtenderSchedulers: []string{ourScheduler},
			Nominate: w.nominations.enabled,
		},
		Client: api, Live: &apiClient{p: p, live: true}, Events: recorder{p}, Metrics: prometheus.NewRegistry(),
		Log: logr.Discard(),
		// one after the other, or their order would be the Go scheduler's
		Now: now, Elapsed: func() time.Duration { return w.now.Sub(p.born) },
		StartQueue: newStepQueue[v1alpha1.NodeName](p, func() { p.loops.Starter.Step(p.ctx) }),
		CallQueue:  newStepQueue[v1alpha1.NodeName](p, func() { p.loops.Starter.StepCall(p.ctx) }), LaunchesAtOnce: 1,
		NominationQueue: newStepQueue[nominate.Task](p, func() { p.loops.Nominator.Step(p.ctx) }),
		Ready:           func() error { return nil },
	})
	if err != nil {
		panic(err)
	}
	p.loops = loops
	parts := extender.Parts{State: p.state, Starter: loops.Starter, Client: api, Events: recorder{p},
		Now: now, Log: logr.Discard()}
	p.extender, p.upkeep = extender.New(parts), extender.NewUpkeep(parts)
	p.instances = newWorker(p, 100*time.Millisecond, func(id v1alpha1.InstanceID) (time.Duration, error) {
		return after(p.loops.StepInstance(p.ctx, id))
	})
	p.pools = newWorker(p, 5*time.Millisecond, func(name v1alpha1.PoolName) (time.Duration, error) {
		return after(p.loops.StepPool(p.ctx, name))
	})
	p.pods = newWorker(p, 5*time.Millisecond, func(pod key) (time.Duration,
		error) {
		return after(p.loops.StepPod(p.ctx, pod))
	})
	p.cache = newWatcher(true, p.hear)
	w.api.watch(p.cache)
	w.processes = append(w.processes, p)
	w.note("a process begins")
	p.sweep()
	p.keepUp()
	return p
}

func after(r ctrl.Result, err error) (time.Duration, error) { return r.RequeueAfter, err }

// end is the process's death: nothing that it still does has an effect.
func (p *process) end() {
	if p.dead {
		return
	}
	p.w.note("a process ends")
	p.dead = true
	p.w.api.forget(p.cache)
	p.w.processes = slices.DeleteFunc(p.w.processes, func(o *process) bool { return o == p })
	p.w.rules.disturb()
	p.w.rules.forsaken()
}

// asked is the process that the scheduler asks, nil where there is none.
func (w *World) asked() *process {
	if len(w.processes) == 0 {
		return nil
	}
	return w.processes[len(w.processes)-1]
}

// hear passes on what a watch brings, as the informers of a manager do.
func (p *process) hear(k kind, before, after client.Object) {
	object := after
	if object == nil {
		object = before
	}
	if before != nil && (after == nil || before.GetUID() != after.GetUID()) { // the second is made anew under its name
		p.unsee(before)
	}
	if after != nil {
		p.see(after)
	}
	switch o := object.(type) {
	case *corev1.Node:
		p.hearNode(before, o)
	case *corev1.Pod:
		p.hearPod(o)
	case *v1alpha1.NodePool:
		p.hearPool(before, after, o)
	case *v1alpha1.AWSNodeClass:
		for _, pool := range sorted[*v1alpha1.NodePool](p.w.api.objects, kindPool) {
			p.wakePool(v1alpha1.PoolName(pool.Name))
		}
	}
}

// see puts an object into the cluster state.
func (p *process) see(object client.Object) {
	switch o := object.(type) {
	case *corev1.Node:
		p.state.SetNode(o)
	case *corev1.Pod:
		p.state.SetPod(o)
	case *v1alpha1.NodePool:
		p.state.SetPool(o)
	case *appsv1.ReplicaSet:
		p.state.SetOwner(o)
	case *corev1.ResourceQuota:
		p.state.SetQuota(o)
	case *v1alpha1.AWSNodeClass:
		p.state.SetNodeClass(o)
	}
}

// unsee takes an object out of the cluster state.
func (p *process) unsee(object client.Object) {
	switch o := object.(type) {
	case *corev1.Node:
		p.state.DeleteNode(v1alpha1.NodeName(o.Name))
	case *corev1.Pod:
		p.state.DeletePod(o)
	case *v1alpha1.NodePool:
		p.state.DeletePool(v1alpha1.PoolName(o.Name))
	case *appsv1.ReplicaSet:
		p.state.DeleteOwner(o)
	case *corev1.ResourceQuota:
		p.state.DeleteQuota(o)
	case *v1alpha1.AWSNodeClass:
		p.state.DeleteNodeClass(o.Name)
	}
}

func (p *process) hearNode(before client.Object, n *corev1.Node) {
	for _, id := range p.loops.InstanceOfNode(p.ctx, n) {
		p.wakeInstance(id)
	}
	if before == nil || !equality.Semantic.DeepEqual(before.GetLabels(), n.Labels) ||
		p.cache.objects[kindNode][client.ObjectKeyFromObject(n)] == nil {
		p.wakePool(v1alpha1.PoolName(poolNameOf(n)))
	}
}

func (p *process) hearPod(pod *corev1.Pod) {
	for _, id := range p.loops.InstancesOfPod(p.ctx, pod) {
		p.wakeInstance(id)
	}
	if p.leader {
		p.pods.add(client.ObjectKeyFromObject(pod))
	}
}

func (p *process) hearPool(before, after client.Object, pool *v1alpha1.NodePool) {
	if before == nil || after == nil || before.GetGeneration() != pool.Generation ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), pool.Annotations) {
		p.wakePool(v1alpha1.PoolName(pool.Name))
	}
}

func (p *process) wakeInstance(id v1alpha1.InstanceID) {
	if p.leader {
		p.instances.add(id)
	}
}

func (p *process) wakePool(name v1alpha1.PoolName) {
	if p.leader && name != "" {
		p.pools.add(name)
	}
}

// settle moves the wake-ups that the loops have sent into the queues. It is called after each step
// of the world.
func (p *process) settle() {
	for len(p.loops.Instances) > 0 {
		p.wakeInstance((<-p.loops.Instances).Object)
	}
	var pools []v1alpha1.PoolName
	for len(p.loops.Pools) > 0 {
		pools = append(pools, (<-p.loops.Pools).Object)
	}
	slices.Sort(pools) // a sweep names them in any order
	for _, name := range slices.Compact(pools) {
		p.wakePool(name)
	}
	if p.loops.Placer.Len() > 0 && !p.placing {
		p.placing = true
		p.w.after(p.w.between(0, 2*time.Millisecond), func() {
			p.placing = false
			if !p.dead && p.loops.Placer.Len() > 0 {
				p.loops.Placer.Step()
			}
		})
	}
	if p.loops.Placer.WaitingSiblings() > 0 && !p.placingSiblings {
		p.placingSiblings = true
		p.w.after(p.w.between(0, 2*time.Millisecond), func() {
			p.placingSiblings = false
			if !p.dead && p.loops.Placer.WaitingSiblings() > 0 {
				p.loops.Placer.StepSiblings()
			}
		})
	}
}

// sweep lists the instances again whenever the pace says so.
func (p *process) sweep() {
	if p.dead {
		return
	}
	if p.leader && (p.swept.IsZero() || p.w.now.Sub(p.swept) >= p.loops.SweepPace()) {
		p.swept = p.w.now
		if _, err := p.loops.Sweep(p.ctx); err != nil {
			p.w.note("sweep: %v", err)
		}
	}
	p.w.after(2*time.Second, p.sweep)
}

// keepUp runs the upkeep of claims, more often while there are some.
func (p *process) keepUp() {
	if p.dead {
		return
	}
	p.upkeep.Once(p.ctx)
	pause := time.Second
	if p.state.ClaimCount() > 0 {
		pause = 150 * time.Millisecond
	}
	p.w.after(pause, p.keepUp)
}

// ask is a read from the API server itself.
func (p *process) ask(read func() error) error {
	p.w.pass(p.w.between(time.Millisecond, 5*time.Millisecond))
	if p.dead {
		return errDead
	}
	if p.w.now.Before(p.w.trouble.apiDown) {
		return apierrors.NewServiceUnavailable("the API server is down")
	}
	return read()
}

// write is a write to the API server: it takes a while before it is done and before its answer is
// there, and the process may end at either.
func (p *process) write(what string, do func() error) error {
	return p.change(what, time.Millisecond, 8*time.Millisecond, func() error {
		if p.w.now.Before(p.w.trouble.apiDown) {
			return apierrors.NewServiceUnavailable("the API server is down")
		}
		return do()
	})
}

// cloudWrite is a call that changes something in the cloud.
func (p *process) cloudWrite(what string, do func() error) error {
	return p.change(what, 10*time.Millisecond, 150*time.Millisecond, func() error {
		if err := p.refused(what); err != nil {
			return err
		}
		err := do()
		if err == nil && p.w.trouble.lost > 0 {
			p.w.trouble.lost--
			return fmt.Errorf("%w: the answer is lost", errUnreachable)
		}
		return err
	})
}

// cloudRead is a call that only asks.
func (p *process) cloudRead(do func() error) error {
	p.w.pass(p.w.between(10*time.Millisecond, 80*time.Millisecond))
	if p.dead {
		return errDead
	}
	if err := p.refused("read"); err != nil {
		return err
	}
	return do()
}

func (p *process) refused(operation string) error {
	t := &p.w.trouble
	switch {
	case p.w.now.Before(t.outage):
		return errUnreachable
	case p.w.now.Before(t.throttledUntil) && p.w.chance(t.throttled):
		return &provider.RateLimitError{Operation: operation, Err: errors.New("request limit exceeded")}
	}
	return nil
}

func (p *process) change(what string, least, most time.Duration, do func() error) error {
	p.w.pass(p.w.between(least, most))
	if p.dead {
		return errDead
	}
	last := p.crashIn == 1
	if p.crashIn > 0 {
		p.crashIn--
	}
	if last && !p.crashAfter {
		p.w.note("the process ends before: %s", what)
		p.end()
		return errDead
	}
	err := do()
	p.w.note("%s: %v", what, err)
	if last {
		p.end()
		return errDead
	}
	p.w.pass(p.w.between(0, most/2))
	if p.dead {
		return errDead
	}
	return err
}

// recorder takes events.
type recorder struct{ p *process }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if o, ok := regarding.(client.Object); ok {
		r.p.w.note("event %s %s: %s", o.GetName(), reason, fmt.Sprintf(note, args...))
	}
}
