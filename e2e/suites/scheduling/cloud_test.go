package scheduling

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/rig"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

// instanceOf is the instance that the Node's provider id names.
func instanceOf(n *corev1.Node) v1alpha1.InstanceID {
	return v1alpha1.InstanceID(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])
}

// callsAbout are the cloud calls of one kind about instances of the Nodes, refused ones included, in order.
func callsAbout(t *testing.T, r *rig.Rig, op fake.Op, nodes map[string]*corev1.Node) []fake.Call {
	t.Helper()
	ids := map[v1alpha1.InstanceID]bool{}
	for _, n := range nodes {
		ids[instanceOf(n)] = true
	}
	all, err := r.Cloud.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var calls []fake.Call
	for _, c := range all {
		if c.Op == op && ids[c.Instance] {
			calls = append(calls, c)
		}
	}
	return calls
}

// instances are the truth about the instances with the tag, by id.
func instances(ctx context.Context, r *rig.Rig, tag, value string) (map[v1alpha1.InstanceID]fake.View, error) {
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

func instanceState(t *testing.T, r *rig.Rig, id v1alpha1.InstanceID) provider.InstanceState {
	t.Helper()
	state, err := r.Cloud.GetInstanceState(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// holdNextStart keeps the next instance of the type that is started from ever reporting, until release. So a test decides how long a node
// is starting.
func holdNextStart(t *testing.T, r *rig.Rig, instanceType string) {
	t.Helper()
	_, err := r.Cloud.AddFault(t.Context(), fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpStart, Type: instanceType, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
}

// release reboots the guest, whose kubelet then reports.
func release(t *testing.T, r *rig.Rig, id v1alpha1.InstanceID) {
	t.Helper()
	await(t, "reboot of "+string(id), func(ctx context.Context) (bool, error) {
		err := r.Cloud.Behind(ctx, string(id), fake.ActReboot)
		if provider.IsIncorrectState(err) { // still pending
			return false, err
		}
		return err == nil, err
	})
}

// awaitCall waits for the cloud call and returns the first.
func awaitCall(t *testing.T, r *rig.Rig, op fake.Op, id v1alpha1.InstanceID) fake.Call {
	t.Helper()
	var found fake.Call
	await(t, fmt.Sprintf("%s of %s", op, id), func(ctx context.Context) (bool, error) {
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
