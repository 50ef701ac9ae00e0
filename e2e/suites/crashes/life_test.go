package crashes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
)

const (
	instanceType = "m5.large" // 2 cpu: one pod of ours
	// poolSize has room for instances that are not due.
	poolSize = 4
	// dueLaunches of a life: the first node, and the one that replaces it.
	dueLaunches = 2
	// patience is the hang guard of one step: each death of another life holds this one up for as long
	// as a process takes to start.
	patience = 5 * time.Minute
)

// phase is a part of a life, which begins with something that its user does.
type phase string

const (
	warming  phase = "warm-up"
	using    phase = "use"
	leaving  phase = "end of use"
	reusing  phase = "second use"
	wearing  phase = "replacement"
	deleting phase = "deletion"
)

// life is a pool from its creation to its deletion, with one node that is warmed up, used, stopped,
// used again, and replaced because it has run too long, which drains it.
type life struct {
	name string
	r    *framework.Rig
	f    *front
	// mu guards the fields below.
	mu    sync.Mutex
	phase phase
	// written are the writes so far, each once.
	written []meaning
	// deaths are those to come, died those that came.
	deaths, died []death
	instances    []provider.Instance
	// launches says which instance was launched when, for a life that launches too many.
	launches []string
	// guests are the pods that are to be left alone, by the Node that they are on.
	guests map[string]*corev1.Pod
	faults []error
	// kind is the type of the class, fallback the other one that its nodes may be started as, "" where
	// there is none. changed says that the cloud has changed the type of an instance in this phase.
	kind, fallback string
	changed        bool
}

func newLife(r *framework.Rig, f *front, name string, deaths ...death) *life {
	l := &life{name: name, r: r, f: f, phase: warming, kind: instanceType, deaths: deaths,
		guests: map[string]*corev1.Pod{}}
	f.enter(l)
	return l
}

// phased: the status of a pool is written many times; what tells one from another is when. So it is
// with all writes of a life whose node goes from type to type and back.
func (l *life) phased(m meaning) meaning {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m == started && l.changed {
		m += asFallback
	}
	if m == "pool status" || l.fallback != "" {
		return m + " in " + meaning(l.phase)
	}
	return m
}

func (l *life) begin(p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.changed = p, false
}

func (l *life) record(w write) {
	m := l.phased(w.meaning)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = l.changed || w.meaning == retyped
	if !slices.Contains(l.written, m) {
		l.written = append(l.written, m)
	}
}

// dies reports whether this is one of the deaths to come, and takes it for come.
func (l *life) dies(d death) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.deaths, d)
	if i < 0 {
		return false
	}
	l.deaths = slices.Delete(l.deaths, i, i+1)
	l.died = append(l.died, d)
	return true
}

// launched notes an instance of the life.
func (l *life) launched(i provider.Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.instances, func(o provider.Instance) bool { return o.ID == i.ID }) {
		return
	}
	l.instances = append(l.instances, i)
	l.launches = append(l.launches, fmt.Sprintf("%s in %s at %s", i.ID, l.phase, time.Now().UTC().Format(time.TimeOnly)))
	if len(l.instances) > dueLaunches || len(l.instances) == dueLaunches && l.phase != wearing {
		l.faults = append(l.faults, fmt.Errorf("in %s: launch no. %d, of %s; %d are due in all, the last in %s",
			l.phase, len(l.instances), i.ID, dueLaunches, wearing))
	}
}

// stopping looks at whom the call would disturb.
func (l *life) stopping(w write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.instances {
		if guest := l.guests[i.PrivateDNSName]; string(i.ID) == w.instance && guest != nil {
			l.faults = append(l.faults, fmt.Errorf("in %s: %s of %s under pod %s", l.phase, w.meaning, i.ID, guest.Name))
		}
	}
}

// live takes the pool through its life. It returns an error where that does not go on.
func (l *life) live(ctx context.Context) error {
	for _, step := range []struct {
		phase phase
		do    func(context.Context) error
	}{
		{warming, l.warm},
		{using, func(ctx context.Context) error { return l.use(ctx, "-1") }},
		{leaving, l.leave},
		{reusing, func(ctx context.Context) error { return l.use(ctx, "-2") }},
		{wearing, l.wear},
		{deleting, l.delete},
	} {
		l.begin(step.phase)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s, in %s: %w", l.name, step.phase, err)
		}
	}
	return nil
}

func (l *life) warm(ctx context.Context) error {
	pool := framework.Pool(l.name, poolSize)
	hour, one := intstr.FromString("1h"), intstr.FromInt32(1)
	pool.Spec.MinStandby, pool.Spec.MaxNodeRuntime, pool.Spec.Disruption.Budget = 1, &hour, &one
	class := framework.Class(l.name, l.kind)
	if l.fallback != "" {
		class.Spec.FallbackInstanceTypes = []string{l.fallback}
	}
	for _, o := range []client.Object{class, pool} {
		if err := l.r.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	if err := l.awaitStandby(ctx); err != nil {
		return err
	}
	return l.change(ctx, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 0 })
}

// use has a pod run on the pool's node.
func (l *life) use(ctx context.Context, name string) error {
	pod := framework.PoolPod(l.name+name, l.name, "cpu", "1500m")
	if err := l.r.Client.Create(ctx, pod); err != nil {
		return err
	}
	err := framework.Until(ctx, patience, func(ctx context.Context) (bool, error) {
		p, err := framework.Read(ctx, l.r, pod)
		if err != nil {
			return false, err
		}
		if p.Status.Phase != corev1.PodRunning {
			return false, fmt.Errorf("pod %s is %s on %q: %s", p.Name, p.Status.Phase, p.Spec.NodeName, framework.WhyPending(p))
		}
		pod = p
		return true, nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guests[pod.Spec.NodeName] = pod
	return err
}

// leave deletes the pod, so that the node stops, and keeps empty nodes again once it is standby.
func (l *life) leave(ctx context.Context) error {
	guest := l.dismiss()
	if err := l.undisturbed(ctx, guest); err != nil {
		return err
	}
	if err := l.change(ctx, func(s *v1alpha1.NodePoolSpec) { s.ScaleDown.EmptyNodeTTL = &metav1.Duration{} }); err != nil {
		return err
	}
	if err := l.r.Client.Delete(ctx, guest); err != nil {
		return err
	}
	if err := l.awaitStandby(ctx); err != nil {
		return err
	}
	return l.change(ctx, func(s *v1alpha1.NodePoolSpec) {
		s.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Hour}
	})
}

// dismiss ends the peace of the pod.
func (l *life) dismiss() *corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, guest := range l.guests {
		delete(l.guests, node)
		return guest
	}
	return nil
}

// undisturbed: the pod runs as it did.
func (l *life) undisturbed(ctx context.Context, guest *corev1.Pod) error {
	p, err := framework.Read(ctx, l.r, guest)
	if err != nil {
		return err
	}
	if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("pod %s is %s, deletion %v", p.Name, p.Status.Phase, p.DeletionTimestamp)
	}
	return nil
}

// wear lets the node have run too long. It is drained, terminated and replaced.
func (l *life) wear(ctx context.Context) error {
	worn := ""
	guest := l.dismiss()
	if err := l.undisturbed(ctx, guest); err != nil {
		return err
	}
	worn = guest.Spec.NodeName
	if err := l.change(ctx, func(s *v1alpha1.NodePoolSpec) { s.MinStandby = 1 }); err != nil {
		return err
	}
	if err := l.awaitStandby(ctx); err != nil {
		return err
	}
	long := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	if _, err := framework.Change(ctx, l.r, assert.Node(worn), func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationRunningSince] = long
	}); err != nil {
		return err
	}
	return framework.Until(ctx, patience, func(ctx context.Context) (bool, error) {
		nodes, err := l.nodes(ctx)
		if err != nil || len(nodes) != 1 || nodes[0].Name == worn {
			return false, errors.Join(err, fmt.Errorf("%d nodes, one of which is replaced", len(nodes)))
		}
		_, err = framework.Read(ctx, l.r, guest)
		return apierrors.IsNotFound(err), nil
	})
}

func (l *life) delete(ctx context.Context) error {
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: l.name}}
	if err := l.r.Client.Delete(ctx, pool); err != nil {
		return err
	}
	return framework.Until(ctx, patience, func(ctx context.Context) (bool, error) {
		err := l.r.Client.Get(ctx, client.ObjectKeyFromObject(pool), pool)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, errors.Join(err, fmt.Errorf("status %+v", pool.Status))
	})
}

// awaitStandby waits until one node is standby, in the truth and in the status.
func (l *life) awaitStandby(ctx context.Context) error {
	return framework.Until(ctx, patience, func(ctx context.Context) (bool, error) {
		nodes, err := l.nodes(ctx)
		if err != nil {
			return false, err
		}
		pool := &v1alpha1.NodePool{}
		if err := l.r.Client.Get(ctx, client.ObjectKey{Name: l.name}, pool); err != nil {
			return false, err
		}
		standby := 0
		for i := range nodes {
			if assert.StateOf(&nodes[i]) == v1alpha1.StateStandby &&
				framework.StandbyCondition(&nodes[i]) == corev1.ConditionTrue {
				standby++
			}
		}
		if standby == 1 && pool.Status.Standby == 1 && pool.Status.Total == int32(len(nodes)) { //nolint:gosec // a handful
			return true, nil
		}
		return false, fmt.Errorf("%d nodes, %d of them standby; status %+v", len(nodes), standby, pool.Status)
	})
}

// change changes the pool's spec.
func (l *life) change(ctx context.Context, how func(*v1alpha1.NodePoolSpec)) error {
	_, err := framework.Change(ctx, l.r, assert.Pool(l.name), func(p *v1alpha1.NodePool) { how(&p.Spec) })
	return err
}

func (l *life) nodes(ctx context.Context) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := l.r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: l.name})
	return list.Items, err
}
