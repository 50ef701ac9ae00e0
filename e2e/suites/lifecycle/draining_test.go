package lifecycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestDrainingNodeTakesANewPod has a pod come at different moments of a drain: while it can be
// cancelled, when it cannot, and about the moment that parts the two. What came first is read from
// the API server's revisions, and for either order there is one right outcome.
func TestDrainingNodeTakesANewPod(t *testing.T) {
	t.Parallel()
	r := assert.SharedRig(t)
	j := assert.OpenJournal(t, r)
	for name, row := range map[string]drains{
		"another node stands by": {pool: "pair", size: 2, instanceType: "m5.large"},
		"the pool's only node":   {pool: "alone", size: 1, instanceType: "m6i.large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.run(t, r, j)
		})
	}
}

// drains is a pool whose nodes have room for one of the pods each.
type drains struct {
	pool         string
	size         int32
	instanceType string
}

// stage says when the pod comes.
type stage struct {
	name string
	// intended: once the stop intent is there; otherwise when the drain begins, and so long after.
	intended bool
	after    time.Duration
}

func (d drains) run(t *testing.T, r *framework.Rig, j *assert.Journal) {
	warm(t, r, shortLived(d.pool, d.size), d.instanceType)
	// The waits steer towards the moment of the stop intent, about a second after the cordon. They
	// prove nothing.
	stages := []stage{{name: "cordoned"}, {name: "intended", intended: true}}
	for _, ms := range []int{600, 900, 960, 990, 1000, 1010, 1040, 1100} {
		stages = append(stages, stage{name: fmt.Sprintf("after-%d", ms), after: time.Duration(ms) * time.Millisecond})
	}
	kept, stopped := 0, 0
	for _, s := range stages {
		if d.round(t, r, j, s) {
			kept++
		} else {
			stopped++
		}
	}
	if kept == 0 || stopped == 0 {
		t.Errorf("%d drains were cancelled and %d were not: both orders must have occurred", kept, stopped)
	}
}

// round drains a node, has a pod come, and checks where it went. It reports whether the drain was
// cancelled.
func (d drains) round(t *testing.T, r *framework.Rig, j *assert.Journal, s stage) bool {
	t.Helper()
	nodes := assert.PoolNodes(t, r, d.pool)
	before := d.pod(fmt.Sprintf("%s-%s-before", d.pool, s.name))
	name := assert.Serve(t, r, before)
	since := j.Last(name)
	stops := len(assert.Accepted(t, r, fake.OpStop, nodes))
	assert.Remove(t, r, before)

	versions := func() []assert.Version[*corev1.Node] { return j.NodeVersions(name) }
	drain := assert.First(t, "drain of "+name, since, versions, assert.InState(v1alpha1.StateStopping))
	if s.intended {
		assert.First(t, "stop intent on "+name, drain.Revision, versions, isIntended)
	}
	if s.after > 0 {
		steer := time.NewTimer(s.after)
		defer steer.Stop()
		<-steer.C
	}
	pod := d.pod(fmt.Sprintf("%s-%s-new", d.pool, s.name))
	on := assert.Serve(t, r, pod)

	bind := assert.First(t, "bind of "+pod.Name, 0, func() []assert.Version[*corev1.Pod] { return j.PodVersions(pod.UID) },
		func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	after := assert.First(t, "what becomes of "+on, bind.Revision-1, func() []assert.Version[*corev1.Node] {
		return withFloor(j.NodeVersions(on), bind.Revision)
	}, assert.InState(v1alpha1.StateRunning))
	cancelled := on == name && !intendedBetween(j.NodeVersions(name), drain.Revision, after.Revision)
	if cancelled && d.size == 1 {
		if got := len(assert.Accepted(t, r, fake.OpStop, nodes)); got != stops {
			t.Errorf("%s: the drain was cancelled, and %d stops were asked for all the same", s.name, got-stops)
		}
	}
	checkNeverStoppedUnder(t, j, on, bind.Revision, after.Revision, s.name)
	t.Logf("%s: drain of %s at %d, bind to %s at %d, cancelled: %t", s.name, name, drain.Revision, on, bind.Revision,
		cancelled)

	assert.Remove(t, r, pod)
	assert.AwaitStandby(t, r, d.pool, d.size)
	return cancelled
}

func (d drains) pod(name string) *corev1.Pod { return framework.PoolPod(name, d.pool, "cpu", "1500m") }

func isIntended(n *corev1.Node) bool { return n.Annotations[v1alpha1.AnnotationStopIntent] != "" }

// withFloor drops the versions that a later one had replaced by the revision, and lifts the one in
// force to it.
func withFloor(versions []assert.Version[*corev1.Node], revision int64) []assert.Version[*corev1.Node] {
	var out []assert.Version[*corev1.Node]
	for _, v := range versions {
		if v.Revision <= revision {
			v.Revision = revision
			out = []assert.Version[*corev1.Node]{v}
			continue
		}
		out = append(out, v)
	}
	return out
}

func intendedBetween(versions []assert.Version[*corev1.Node], from, to int64) bool {
	for _, v := range versions {
		if v.Revision >= from && v.Revision <= to && isIntended(v.Object) {
			return true
		}
	}
	return false
}

// checkNeverStoppedUnder: from the bind until the node runs for the pod no stop intent stood on the
// node. Without an intent nothing stops an instance.
func checkNeverStoppedUnder(t *testing.T, j *assert.Journal, node string, bind, running int64, stage string) {
	t.Helper()
	for _, v := range withFloor(j.NodeVersions(node), bind) {
		if v.Revision <= running && isIntended(v.Object) {
			t.Errorf("%s: node %s had a stop intent at revision %d, with a pod bound to it at %d", stage, node, v.Revision, bind)
			return
		}
	}
}
