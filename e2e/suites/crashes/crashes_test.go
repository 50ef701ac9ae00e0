package crashes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// sideBySide is how many lives there are at a time. Each dies at every so-manieth write, and of the
// others' deaths too.
const sideBySide = 20

// decisive are the writes without which a life would not be one. Whatever else is recorded, Stratos
// dies on both sides of these.
func decisive() []meaning {
	state := func(s v1alpha1.NodeState) meaning { return meaning("node: state " + s) }
	return []meaning{
		"pool: finalizer added", "pool: launch reserved", launched, state(v1alpha1.StateWarmup), state(v1alpha1.StateStandby),
		"node status: InstanceStopped,Stopped", state(v1alpha1.StateStarting), started, state(v1alpha1.StateRunning),
		"node status: Running",
		state(v1alpha1.StateStopping), stopped, state(v1alpha1.StateTerminating), "pod: evict", terminated, "node: delete",
		"pool: finalizer removed",
	}
}

const settled meaning = "pool: launch settled"

// TestKilledAtEveryWriteOfALife records a life write by write. Then Stratos, a process, is killed
// at each of these writes twice: when it has left Stratos and not reached its server, and when it
// took effect and its answer has not come back. Every life ends as it would have, with exactly the
// launches and starts that are due.
func TestKilledAtEveryWriteOfALife(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	f, kubeconfig := openFront(t, r)
	stratos := assert.StartStratos(t, r, "stratos", "--kubeconfig="+kubeconfig, "--fake-endpoint="+f.cloud.URL)
	t.Cleanup(stratos.Process.Kill) // the front ends when its callers have gone
	r.Recorder.Forward(stratos.Extender)
	look(t, r, f)
	reaper := newReaper(t, f, stratos)

	recorded := newLife(r, f, "recorded")
	began := time.Now()
	liveAll(t, recorded)
	t.Logf("a life of %d writes, in %s: %q", len(recorded.written), time.Since(began).Round(time.Second), recorded.written)
	for _, m := range decisive() {
		if !slices.Contains(recorded.written, m) {
			t.Errorf("no write %q in the recorded life", m)
		}
	}
	// A slot is released 45 s after its launch. A life is too short for that unless its deaths delay
	// it.
	lives := shareOut(r, f, append(slices.Clone(recorded.written), settled))
	liveAll(t, lives...)
	left := slices.DeleteFunc(leftOver(lives), func(d death) bool { return d.write == settled })
	lives = lives[:0]
	for i, d := range left { // reached in the recorded life and not in the life that was to reach it: once more, alone
		lives = append(lives, newLife(r, f, fmt.Sprintf("again-%02d", i), d))
	}
	liveAll(t, lives...)
	for _, d := range leftOver(lives) {
		if slices.Contains(decisive(), d.write) {
			t.Errorf("Stratos was never killed %s", d)
		}
	}
	t.Logf("Stratos died on both sides of %d writes, %d times; never reached: %q", len(recorded.written), reaper.count(),
		leftOver(lives))
	accounted(t, r, 2)
}

// shareOut spreads the deaths over lives, so that those of one life are far apart.
func shareOut(r *framework.Rig, f *front, writes []meaning) []*life {
	deaths := make([][]death, sideBySide)
	i := 0
	for _, s := range []side{before, after} {
		for _, w := range writes {
			deaths[i%sideBySide] = append(deaths[i%sideBySide], death{s, w})
			i++
		}
	}
	var lives []*life
	for i, d := range deaths {
		lives = append(lives, newLife(r, f, fmt.Sprintf("life-%02d", i), d...))
	}
	return lives
}

// leftOver are the deaths that never came.
func leftOver(lives []*life) []death {
	var left []death
	for _, l := range lives {
		l.mu.Lock()
		left = append(left, l.deaths...)
		l.mu.Unlock()
	}
	return left
}

// liveAll lives the lives side by side and checks each.
func liveAll(t *testing.T, lives ...*life) {
	t.Helper()
	errs := make([]error, len(lives))
	var wg sync.WaitGroup
	for i, l := range lives {
		wg.Go(func() { errs[i] = l.live(t.Context()) })
	}
	wg.Wait()
	for i, l := range lives {
		l.mu.Lock()
		for _, fault := range append(l.faults, errs[i]) {
			if fault != nil {
				t.Errorf("%s, which died %v: %v", l.name, l.died, fault)
			}
		}
		if len(l.instances) != dueLaunches && errs[i] == nil {
			t.Errorf("%s, which died %v: %d launches, want %d: %q", l.name, l.died, len(l.instances), dueLaunches, l.launches)
		}
		l.mu.Unlock()
	}
	if t.Failed() {
		t.FailNow()
	}
}

// look checks what must hold at every moment, until the test ends.
func look(t *testing.T, r *framework.Rig, f *front) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	wg.Go(func() {
		told := map[string]bool{}
		for ctx.Err() == nil {
			if err := inspect(ctx, r, f); err != nil && ctx.Err() == nil && !told[err.Error()] {
				told[err.Error()] = true
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// inspect: every living instance carries our tags, all of them, and no pool has more than its size.
func inspect(ctx context.Context, r *framework.Rig, f *front) error {
	views, err := r.Cloud.Snapshot(ctx)
	if err != nil {
		return err
	}
	size := map[string]int{}
	var errs []error
	for _, v := range views {
		pool := v.Tags[v1alpha1.LabelPool]
		if v.Tags[v1alpha1.TagManagedBy] != v1alpha1.ManagedByStratos || v.Tags[v1alpha1.TagCluster] != "e2e" || pool == "" ||
			v.Tags[v1alpha1.LabelState] == "" {
			errs = append(errs, fmt.Errorf("instance %s bears %v", v.ID, v.Tags))
			continue
		}
		f.own(pool, v.Instance)
		if v.State != provider.InstanceTerminated {
			size[pool]++
		}
		if size[pool] > poolSize {
			errs = append(errs, fmt.Errorf("pool %s has %d instances", pool, size[pool]))
		}
	}
	return errors.Join(errs...)
}

// accounted: in all lives together no instance is left, none was started twice without a stop
// between, and each of the first was started as often as is due.
func accounted(t *testing.T, r *framework.Rig, due int) {
	t.Helper()
	runs, starts, ended := map[v1alpha1.InstanceID]bool{}, map[v1alpha1.InstanceID]int{}, map[v1alpha1.InstanceID]bool{}
	for _, c := range assert.Calls(t, r) {
		switch {
		case c.Err != "":
		case c.Op == fake.OpLaunch:
			starts[c.Instance] += 0
		case c.Op == fake.OpStop:
			delete(runs, c.Instance)
		case c.Op == fake.OpTerminate:
			ended[c.Instance] = true
		case c.Op == fake.OpStart:
			if runs[c.Instance] {
				t.Errorf("instance %s was started twice without a stop between, again at call %d", c.Instance, c.Seq)
			}
			runs[c.Instance] = true
			starts[c.Instance]++
		}
	}
	for id, n := range starts {
		if n != 0 && n != due || !ended[id] {
			t.Errorf("instance %s was started %d times, terminated: %t; want %d or never, and terminated", id, n, ended[id], due)
		}
	}
}

// reaper kills Stratos when lives wait for it, and starts it again.
type reaper struct {
	mu    sync.Mutex
	kills int
}

func newReaper(t *testing.T, f *front, stratos framework.Running) *reaper {
	t.Helper()
	re := &reaper{}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	wg.Go(func() {
		for gathered(ctx, f) {
			stratos.Process.Kill()
			f.bury()
			re.mu.Lock()
			re.kills++
			re.mu.Unlock()
			if err := stratos.Process.Start(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	return re
}

func (r *reaper) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kills
}

// gathered waits until lives are to die and no more of them come soon: they die together. It is
// false when ctx ended.
func gathered(ctx context.Context, f *front) bool {
	const soon, latest = 700 * time.Millisecond, 4 * time.Second
	select {
	case <-ctx.Done():
		return false
	case <-f.news:
	}
	if f.holding() == 0 { // its Node was deleted meanwhile
		return gathered(ctx, f)
	}
	over := time.After(latest)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-f.news:
		case <-time.After(soon):
			return true
		case <-over:
			return true
		}
	}
}
