package assert

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// Calls are all calls of the cloud so far, in order.
func Calls(t *testing.T, r *framework.Rig) []fake.Call {
	t.Helper()
	calls, err := r.Cloud.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// Starts are the instances of the starts that the cloud accepted, in order.
func Starts(t *testing.T, r *framework.Rig) []v1alpha1.InstanceID {
	t.Helper()
	var ids []v1alpha1.InstanceID
	for _, c := range Calls(t, r) {
		if c.Op == fake.OpStart && c.Err == "" {
			ids = append(ids, c.Instance)
		}
	}
	return ids
}

// CallsAbout are the cloud calls of one kind about the Nodes' instances, refused ones included, in
// order.
func CallsAbout(t *testing.T, r *framework.Rig, op fake.Op, nodes map[string]*corev1.Node) []fake.Call {
	t.Helper()
	ids := map[v1alpha1.InstanceID]bool{}
	for _, n := range nodes {
		ids[InstanceOf(n)] = true
	}
	var calls []fake.Call
	for _, c := range Calls(t, r) {
		if c.Op == op && ids[c.Instance] {
			calls = append(calls, c)
		}
	}
	return calls
}

// Accepted are the calls of one kind that the cloud accepted for the Nodes' instances, in order.
func Accepted(t *testing.T, r *framework.Rig, op fake.Op, nodes map[string]*corev1.Node) []fake.Call {
	t.Helper()
	return slices.DeleteFunc(CallsAbout(t, r, op, nodes), func(c fake.Call) bool { return c.Err != "" })
}

// Instances are the truth about the instances with the tag, by id.
func Instances(ctx context.Context, r *framework.Rig, tag, value string) (map[v1alpha1.InstanceID]fake.View, error) {
	views, err := r.Cloud.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	found := map[v1alpha1.InstanceID]fake.View{}
	for _, v := range views {
		if v.Tags[tag] == value {
			found[v.ID] = v
		}
	}
	return found, nil
}

// PoolInstances are the truth about the pool's instances, those that have ended included, by id.
func PoolInstances(t *testing.T, r *framework.Rig, pool string) map[v1alpha1.InstanceID]fake.View {
	t.Helper()
	instances, err := Instances(t.Context(), r, v1alpha1.LabelPool, pool)
	if err != nil {
		t.Fatal(err)
	}
	return instances
}

// LaunchForeign launches an instance that another cluster's Stratos manages in a pool of that name.
func LaunchForeign(t *testing.T, r *framework.Rig, class *v1alpha1.AWSNodeClass, pool string,
	state v1alpha1.NodeState) v1alpha1.InstanceID {
	t.Helper()
	instance, err := r.Cloud.LaunchInstance(t.Context(), class, provider.LaunchRequest{Tags: map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: "another", v1alpha1.LabelPool: pool,
		v1alpha1.LabelState: string(state),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return instance.ID
}

// AddFault has the cloud fail as the fault says.
func AddFault(t *testing.T, r *framework.Rig, f fake.Fault) {
	t.Helper()
	if _, err := r.Cloud.AddFault(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// SetTimes changes how long the machines take for what.
func SetTimes(t *testing.T, r *framework.Rig, times fake.Times) {
	t.Helper()
	if err := r.Cloud.SetTimes(t.Context(), times); err != nil {
		t.Fatal(err)
	}
}

// Behind does something to the instance that Stratos has not asked for.
func Behind(t *testing.T, r *framework.Rig, id v1alpha1.InstanceID, what fake.Action) {
	t.Helper()
	if err := r.Cloud.Behind(t.Context(), string(id), what); err != nil {
		t.Fatal(err)
	}
}

// InstanceState is what the cloud says of the instance.
func InstanceState(t *testing.T, r *framework.Rig, id v1alpha1.InstanceID) provider.InstanceState {
	t.Helper()
	state, err := r.Cloud.GetInstanceState(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// HoldStarts keeps the instances of the type that are started from now on from ever reporting,
// until Release: count of them, all if 0. So a test decides how long a node is starting.
func HoldStarts(t *testing.T, r *framework.Rig, instanceType string, count int) {
	t.Helper()
	AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpStart, Type: instanceType, Count: count})
}

// Release ends every fault of the cloud and reboots the guests, whose kubelets then report.
func Release(t *testing.T, r *framework.Rig, ids ...v1alpha1.InstanceID) {
	t.Helper()
	if err := r.Cloud.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	Reboot(t, r, ids...)
}

// Reboot reboots the guests of instances that have left pending.
func Reboot(t *testing.T, r *framework.Rig, ids ...v1alpha1.InstanceID) {
	t.Helper()
	for _, id := range ids {
		Await(t, "reboot of "+string(id), func(ctx context.Context) (bool, error) {
			err := r.Cloud.Behind(ctx, string(id), fake.ActReboot)
			if provider.IsIncorrectState(err) { // still pending
				return false, err
			}
			return err == nil, err
		})
	}
}

// AwaitCall waits for the cloud call and returns the first.
func AwaitCall(t *testing.T, r *framework.Rig, op fake.Op, id v1alpha1.InstanceID) fake.Call {
	t.Helper()
	var found fake.Call
	Await(t, fmt.Sprintf("%s of %s", op, id), func(ctx context.Context) (bool, error) {
		calls, err := r.Cloud.Calls(ctx)
		for _, c := range calls {
			if c.Op == op && c.Instance == id {
				found = c
				return true, nil
			}
		}
		return false, err
	})
	return found
}
