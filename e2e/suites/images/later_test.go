package images

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// TestChangedDaemonSetImageRefreshesGradually: each standby node is started once, pulls and is
// standby again, never more at a time than the budget allows.
func TestChangedDaemonSetImageRefreshesGradually(t *testing.T) {
	t.Parallel()
	const name, size, budget = "gradual", 5, 2
	r := restrict(t, assert.SharedRig(t))
	j := assert.OpenJournal(t, r)
	set := poolAgents(name, "example.com/agent:1")
	p, class := pool(name, size, v1alpha1.SelfStop, "example.com/app:1")
	p.Spec.Disruption.Budget = new(intstr.FromInt32(budget))
	assert.Create(t, r, set, class, p)
	assert.AwaitStandby(t, r, name, size)
	imagesPulled(t, r, name, metav1.ConditionTrue, v1alpha1.ReasonImagesPresent)
	nodes := assert.PoolNodes(t, r, name)
	before := starts(t, r, name)
	since := int64(0)
	for node := range nodes {
		since = max(since, j.Last(node))
	}

	assert.Change(t, r, set, func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Containers[0].Image = "example.com/agent:2"
	})
	assert.Eventually(t, "the new image on every node", func(context.Context) (map[v1alpha1.InstanceID]fake.View, error) {
		return assert.PoolInstances(t, r, name), nil
	}, func(instances map[v1alpha1.InstanceID]fake.View) bool {
		lacking := maps.Clone(instances)
		maps.DeleteFunc(lacking, func(_ v1alpha1.InstanceID, v fake.View) bool {
			return slices.Contains(v.Images, "example.com/agent:2")
		})
		return len(instances) == size && len(lacking) == 0
	})
	assert.AwaitStandby(t, r, name, size)
	imagesPulled(t, r, name, metav1.ConditionTrue, v1alpha1.ReasonImagesPresent)
	if got := starts(t, r, name) - before; got != size {
		t.Errorf("%d starts, want one for each of %d nodes", got, size)
	}
	if least := leastStandby(j, nodes, since); least < size-budget || least == size {
		t.Errorf("at one moment %d nodes stood by, want %d to %d", least, size-budget, size-1)
	}
	awaitNoPulls(t, r, name)
}

// leastStandby is the lowest number of nodes that said standby at one time, from the revision on.
func leastStandby(j *assert.Journal, nodes map[string]*corev1.Node, since int64) int {
	states := map[string]v1alpha1.NodeState{}
	for name := range nodes {
		states[name] = v1alpha1.StateStandby
	}
	least := len(nodes)
	for _, v := range j.AllNodes() {
		if v.Revision <= since || nodes[v.Object.Name] == nil {
			continue
		}
		states[v.Object.Name] = assert.StateOf(v.Object)
		standby := 0
		for _, s := range states {
			if s == v1alpha1.StateStandby {
				standby++
			}
		}
		least = min(least, standby)
	}
	return least
}

// TestMissingImageIsPulledAtTheNextStop: the kubelet's garbage collection takes the images of a
// running node. Before it is standby again they are back, without another start.
func TestMissingImageIsPulledAtTheNextStop(t *testing.T) {
	t.Parallel()
	const name, image = "collected", "example.com/app:1"
	r := restrict(t, assert.SharedRig(t))
	p, class := pool(name, 1, v1alpha1.ControllerStop, image)
	p.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	assert.Create(t, r, class, p)
	assert.AwaitStandby(t, r, name, 1)

	pod := framework.PoolPod("user", name, "cpu", "100m")
	assert.Serve(t, r, pod)
	node := assert.OnlyNode(t, r, name)
	assert.Behind(t, r, assert.InstanceOf(node), fake.ActCollectImages)
	checkDisks(t, r, name)
	assert.Remove(t, r, pod)
	assert.AwaitStandby(t, r, name, 1)
	checkDisks(t, r, name, image)
	if got := starts(t, r, name); got != 1 {
		t.Errorf("%d starts, want 1: the image is pulled before the stop, not by another start", got)
	}
	imagesPulled(t, r, name, metav1.ConditionTrue, v1alpha1.ReasonImagesPresent)
	awaitNoPulls(t, r, name)
}
