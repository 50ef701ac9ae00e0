package restarts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// truth is how the pool was when it was standby, and how far the cloud's log of calls had come.
type truth struct {
	r       *framework.Rig
	bearing map[string]framework.Bearing
	calls   int
}

// newTruth is taken while the whole pool is standby.
func newTruth(t *testing.T, r *framework.Rig) *truth {
	t.Helper()
	tr := &truth{r: r}
	assert.Await(t, "pool standing by", func(ctx context.Context) (bool, error) {
		var err error
		tr.bearing, err = bearings(ctx, r)
		if err != nil || len(tr.bearing) != standbyNodes {
			return false, errors.Join(err, fmt.Errorf("%d nodes", len(tr.bearing)))
		}
		for name, b := range tr.bearing {
			if b.Labels[v1alpha1.LabelState] != string(v1alpha1.StateStandby) || b.Standby != corev1.ConditionTrue {
				return false, fmt.Errorf("node %s bears %+v", name, b)
			}
		}
		return true, nil
	})
	tr.calls = len(assert.Calls(t, r))
	return tr
}

func bearings(ctx context.Context, r *framework.Rig) (map[string]framework.Bearing, error) {
	list := &corev1.NodeList{}
	err := r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelPool: poolName})
	out := map[string]framework.Bearing{}
	for i := range list.Items {
		b := framework.BearingOf(&list.Items[i])
		// a touch of any node brings pending pods back; no life ends with it
		delete(b.Annotations, v1alpha1.AnnotationNudgedAt)
		out[list.Items[i].Name] = b
	}
	return out, err
}

// since are the accepted calls of one kind since the pool was standby.
func (tr *truth) since(t *testing.T, op fake.Op) []fake.Call {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(assert.Calls(t, tr.r)[tr.calls:]),
		func(c fake.Call) bool { return c.Op != op || c.Err != "" })
}

// exact: as many starts as the pods need, no launch, no instance started again without a stop
// between, and nothing leaked.
func (tr *truth) exact(t *testing.T, need int) {
	t.Helper()
	if starts := tr.since(t, fake.OpStart); len(starts) != need {
		t.Errorf("the cloud accepted %d starts, the pods need %d: %+v", len(starts), need, starts)
	}
	if launches := tr.since(t, fake.OpLaunch); len(launches) > 0 {
		t.Errorf("%d instances were launched, standby nodes were enough: %+v", len(launches), launches)
	}
	started := map[v1alpha1.InstanceID]bool{}
	for _, c := range assert.Calls(t, tr.r) {
		switch {
		case c.Err != "":
		case c.Op == fake.OpStop:
			delete(started, c.Instance)
		case c.Op == fake.OpStart && started[c.Instance]:
			t.Errorf("instance %s was started twice without a stop between; again at call %d", c.Instance, c.Seq)
		case c.Op == fake.OpStart:
			started[c.Instance] = true
		}
	}
	tr.nothingLeaked(t)
}

// nothingLeaked: every instance is the pool's by all its tags and has its Node, every Node has its
// instance.
func (tr *truth) nothingLeaked(t *testing.T) {
	t.Helper()
	instances, err := tr.r.Cloud.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	without := map[string]bool{}
	for _, n := range assert.PoolNodes(t, tr.r, poolName) {
		without[n.Spec.ProviderID] = true
	}
	living := 0
	for _, i := range instances {
		if i.State == provider.InstanceTerminated {
			continue
		}
		living++
		tags := maps.Clone(i.Tags)
		state := tags[v1alpha1.LabelState]
		maps.DeleteFunc(tags, func(k, _ string) bool {
			return k != v1alpha1.TagManagedBy && k != v1alpha1.TagCluster && k != v1alpha1.LabelPool
		})
		want := map[string]string{v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "e2e",
			v1alpha1.LabelPool: poolName}
		if diff := cmp.Diff(want, tags); diff != "" || state == "" {
			t.Errorf("tags of instance %s, state %q (-want +got):\n%s", i.ID, state, diff)
		}
		if !without[i.ProviderID] {
			t.Errorf("instance %s has no Node", i.ID)
		}
		delete(without, i.ProviderID)
	}
	for id := range without {
		t.Errorf("Node with provider id %s has no instance", id)
	}
	if living != standbyNodes {
		t.Errorf("%d instances, want the %d of before", living, standbyNodes)
	}
}

// awaitStandby waits until every node is standby again just as it did before the burst, and then
// looks once more at what was called.
func (tr *truth) awaitStandby(t *testing.T, need int) {
	t.Helper()
	assert.Await(t, "nodes standing by as before", func(ctx context.Context) (bool, error) {
		now, err := bearings(ctx, tr.r)
		if err != nil {
			return false, err
		}
		if diff := cmp.Diff(tr.bearing, now); diff != "" {
			return false, errors.New("(-before +now)\n" + diff)
		}
		return true, nil
	})
	tr.exact(t, need)
	stopped := map[v1alpha1.InstanceID]int{}
	for _, c := range tr.since(t, fake.OpStop) {
		stopped[c.Instance]++
	}
	if len(stopped) != need {
		t.Errorf("%d instances were stopped, %d had been started: %v", len(stopped), need, stopped)
	}
	tr.calls = len(assert.Calls(t, tr.r))
}

// twoToANode: the pods are where there is room for them, and nowhere else.
func (tr *truth) twoToANode(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	on := map[string]int{}
	for _, n := range assert.AwaitBound(t, tr.r, pods...) {
		on[n]++
	}
	if len(on) != nodesPerBurst {
		t.Errorf("%d pods are on %d nodes, want %d: %s", len(pods), len(on), nodesPerBurst,
			strings.Join(slices.Sorted(maps.Keys(on)), " "))
	}
}
