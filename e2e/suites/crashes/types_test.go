package crashes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// The nodes start as fallbackType where the cloud has none of their own type. The life of ownType
// is the only one of it: no other shows before that there is none, so each start of it is refused
// first.
const fallbackType, ownType = "m7i.large", "m6i.large"

// decisiveOfChange are the writes without which a node is not started as another type, or does not
// return to its own.
func decisiveOfChange() []meaning {
	in := func(p phase, all ...meaning) []meaning {
		for i := range all {
			all[i] += meaning(" in " + p)
		}
		return all
	}
	return slices.Concat(refusedWrites(),
		in(using, "node: state starting"+asFallback, retyped, started+asFallback, "node: state running"),
		in(leaving, "node: state stopping", stopped, "node: state standby", "node: type", retyped))
}

// refusedWrites are those of the start that is refused, which a node of a type that is known to be
// unavailable has none of.
func refusedWrites() []meaning {
	return []meaning{"node: state starting in " + meaning(using), "node: state standby in " + meaning(using)}
}

// TestKilledAtEveryWriteOfAChangeOfType: the cloud has none of the type of a stopped node, which
// starts as another one, and after its stop becomes the first type again. Stratos is killed before
// and after each write and call of both ways. Each node starts once, none is launched in its place,
// and in the end its labels name the type of its instance.
func TestKilledAtEveryWriteOfAChangeOfType(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	f, kubeconfig := openFront(t, r)
	stratos := assert.StartStratos(t, r, "stratos", "--kubeconfig="+kubeconfig, "--fake-endpoint="+f.cloud.URL)
	t.Cleanup(stratos.Process.Kill) // the front ends when its callers have gone
	r.Recorder.Forward(stratos.Extender)
	look(t, r, f)
	reaper := newReaper(t, f, stratos)

	recorded := newLife(r, f, "recorded")
	changeAll(t, r, f, recorded)
	writes := slices.DeleteFunc(slices.Clone(recorded.written), func(m meaning) bool {
		return strings.HasPrefix(string(m), "pool") || !strings.HasSuffix(string(m), " in "+string(using)) &&
			!strings.HasSuffix(string(m), " in "+string(leaving))
	})
	for _, m := range decisiveOfChange() {
		if !slices.Contains(writes, m) {
			t.Errorf("no write %q in the recorded life: %q", m, writes)
		}
	}
	lives := shareOut(r, f, slices.DeleteFunc(slices.Clone(writes), func(m meaning) bool {
		return slices.Contains(refusedWrites(), m)
	}))
	refused := newLife(r, f, "refused")
	refused.kind = ownType
	for _, m := range refusedWrites() {
		refused.deaths = append(refused.deaths, death{before, m}, death{after, m})
	}
	lives = append(lives, refused)
	changeAll(t, r, f, lives...)
	for _, d := range leftOver(lives) {
		if slices.Contains(decisiveOfChange(), d.write) {
			t.Errorf("Stratos was never killed %s", d)
		}
	}
	t.Logf("Stratos died on both sides of %q, %d times; never reached: %q", writes, reaper.count(), leftOver(lives))
	accounted(t, r, 1)
	checkChanges(t, r, append(lives, recorded))
}

// changeAll takes lives through a start as another type and the return, in step: they share the
// cloud's capacity. Stratos, as it starts anew, knows of no type that is unavailable.
func changeAll(t *testing.T, r *framework.Rig, f *front, lives ...*life) {
	t.Helper()
	capacity := func(limits ...simcloud.Capacity) {
		if err := r.Cloud.SetCapacity(t.Context(), limits); err != nil {
			t.Fatal(err)
		}
		f.die(t.Context(), nil)
	}
	for _, l := range lives {
		l.fallback = fallbackType
	}
	inStep(t, warming, lives, (*life).warm)
	capacity(simcloud.Capacity{Zone: "*", Type: instanceType}, simcloud.Capacity{Zone: "*", Type: ownType})
	inStep(t, using, lives, func(l *life, ctx context.Context) error {
		if err := l.use(ctx, "-1"); err != nil {
			return err
		}
		return l.agrees(ctx, v1alpha1.StateRunning, fallbackType)
	})
	capacity()
	inStep(t, leaving, lives, func(l *life, ctx context.Context) error {
		if err := l.leave(ctx); err != nil {
			return err
		}
		return l.agrees(ctx, v1alpha1.StateStandby, l.kind)
	})
	inStep(t, deleting, lives, (*life).delete)
}

// inStep takes all lives through a phase.
func inStep(t *testing.T, p phase, lives []*life, do func(*life, context.Context) error) {
	t.Helper()
	errs := make([]error, len(lives))
	var wg sync.WaitGroup
	for i, l := range lives {
		l.begin(p)
		wg.Go(func() { errs[i] = do(l, t.Context()) })
	}
	wg.Wait()
	for i, l := range lives {
		l.mu.Lock()
		for _, fault := range append(l.faults, errs[i]) {
			if fault != nil {
				t.Errorf("%s, which died %v, in %s: %v", l.name, l.died, p, fault)
			}
		}
		l.mu.Unlock()
	}
	if t.Failed() {
		t.FailNow()
	}
}

// agrees waits until the one node is in the state, its labels and its instance are of the type, and
// nothing says that it is to become another one.
func (l *life) agrees(ctx context.Context, state v1alpha1.NodeState, kind string) error {
	return framework.Until(ctx, patience, func(ctx context.Context) (bool, error) {
		nodes, err := l.nodes(ctx)
		if err != nil {
			return false, err
		}
		views, err := l.r.Cloud.Snapshot(ctx)
		if err != nil {
			return false, err
		}
		if len(nodes) != 1 {
			return false, fmt.Errorf("%d nodes, want 1", len(nodes))
		}
		n := &nodes[0]
		is := ""
		for _, v := range views {
			if v.PrivateDNSName == n.Name {
				is = v.Type
			}
		}
		got := []string{string(assert.StateOf(n)), n.Labels[corev1.LabelInstanceType],
			n.Labels[corev1.LabelInstanceTypeStable], is, n.Annotations[v1alpha1.AnnotationInstanceType]}
		if !slices.Equal(got, []string{string(state), kind, kind, kind, ""}) {
			return false, fmt.Errorf("state, both labels, instance and intent are %q, want %s as %s", got, state, kind)
		}
		return true, nil
	})
}

// checkChanges: an instance is changed once on each way, and once more for each death at most,
// where the next process asks again.
func checkChanges(t *testing.T, r *framework.Rig, lives []*life) {
	t.Helper()
	changes := map[v1alpha1.InstanceID]int{}
	for _, c := range assert.Calls(t, r) {
		if c.Op == fake.OpChangeType && c.Err == "" {
			changes[c.Instance]++
		}
	}
	for _, l := range lives {
		for _, i := range l.instances {
			if n := changes[i.ID]; n < 2 || n > 2+len(l.died) {
				t.Errorf("%s, which died %v: the type of %s was changed %d times, want 2", l.name, l.died, i.ID, n)
			}
		}
	}
}
