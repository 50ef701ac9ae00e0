package ec2

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	poolName = "web"
	poolSize = 5
	// podCount pods of one cpu on nodes with two: three nodes are needed.
	podCount   = 6
	needed     = 3
	classImage = "ami-0123456789abcdef0"
)

// TestMainJobOnEC2: warm-up, burst, exact starts, scale-down and the end of the pool, all of it
// over EC2's protocol, beside the instances of another cluster whose pool has the same name.
func TestMainJobOnEC2(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud()})
	foreign := launchForeign(t, r)

	pool, class := framework.Pool(poolName, poolSize), framework.Class(poolName, "m5.large")
	pool.Spec.ScaleDown.EmptyNodeTTL = &metav1.Duration{Duration: time.Second}
	assert.Warm(t, r, pool, class)
	checkClass(t, r, class)
	nodes := assert.PoolNodes(t, r, poolName)
	checkWarm(t, r, nodes)

	pods := framework.Pods(podCount, "burst", "cpu", "1")
	assert.Create(t, r, assert.Objects(pods)...)
	used := slices.Compact(slices.Sorted(slices.Values(assert.AwaitBound(t, r, pods...))))
	assert.AwaitRunning(t, r, pods...)
	checkStarts(t, r, nodes, used)

	assert.Remove(t, r, assert.Objects(pods)...)
	assert.AwaitAllStandby(t, r, poolName, poolSize)
	checkStandbyAgain(t, r, nodes, used)

	assert.Remove(t, r, pool, class)
	checkGone(t, r, nodes)
	checkForeign(t, r, foreign)
	checkRequests(t, r, nodes)
	if moved, err := assert.MovedMetrics(t.Context(), r.Metrics); err != nil ||
		!moved["stratos_cloud_provider_batch_size"] {
		t.Errorf("the sizes of batches are not measured: %v, error %v", moved, err)
	}
}

// launchForeign puts two instances of another cluster into the account, one that runs and one that
// is stopped. Their machines belong to that cluster, so that none registers here.
func launchForeign(t *testing.T, r *framework.Rig) map[v1alpha1.InstanceID]fake.View {
	t.Helper()
	ids := map[v1alpha1.InstanceID]bool{}
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultKubeletSilent, Op: fake.OpLaunch,
		Count: 2})
	for _, state := range []v1alpha1.NodeState{v1alpha1.StateRunning, v1alpha1.StateStandby} {
		launched := assert.LaunchForeign(t, r, framework.Class(poolName, "m5.large"), poolName, state)
		ids[launched] = true
		await := func(want provider.InstanceState) {
			assert.Eventually(t, "foreign instance "+string(want), func(ctx context.Context) (provider.InstanceState, error) {
				return r.Cloud.GetInstanceState(ctx, string(launched))
			}, func(now provider.InstanceState) bool { return now == want })
		}
		await(provider.InstanceRunning)
		if state == v1alpha1.StateStandby {
			assert.Behind(t, r, launched, fake.ActStop)
			await(provider.InstanceStopped)
		}
	}
	all, err := assert.Instances(t.Context(), r, v1alpha1.TagCluster, "another")
	if err != nil || len(all) != len(ids) {
		t.Fatalf("%d foreign instances, error %v", len(all), err)
	}
	return all
}

// checkClass: what the class names was looked up in EC2.
func checkClass(t *testing.T, r *framework.Rig, class *v1alpha1.AWSNodeClass) {
	t.Helper()
	class = assert.AwaitObject(t, r, class, "Ready", func(c *v1alpha1.AWSNodeClass) bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady)
	})
	subnets := []v1alpha1.ResolvedSubnet{{ID: "subnet-12345678", Zone: "us-east-1a"}}
	if s := class.Status; s.AMI != classImage || !slices.Equal(s.Subnets, subnets) ||
		!slices.Equal(s.SecurityGroups, []string{"sg-12345678"}) ||
		s.Capacity.Cpu().Value() != 2 || s.Capacity.Pods().Value() != 29 {
		t.Errorf("status of the class: %+v", s)
	}
}

// checkWarm: every node of the pool is a stopped instance of EC2's with our tags, launched once.
func checkWarm(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	mine, err := assert.Instances(t.Context(), r, v1alpha1.TagCluster, "e2e")
	if err != nil || len(nodes) != poolSize || len(mine) != poolSize {
		t.Fatalf("%d nodes, %d instances, error %v", len(nodes), len(mine), err)
	}
	for name, n := range nodes {
		view := mine[assert.InstanceOf(n)]
		if view.State != provider.InstanceStopped || view.Boots != 1 || !strings.HasPrefix(n.Spec.ProviderID,
			"aws:///us-east-1a/i-") || view.PrivateDNSName != name {
			t.Errorf("node %s (%s): instance %+v", name, n.Spec.ProviderID, view)
		}
		if view.Tags[v1alpha1.TagManagedBy] != v1alpha1.ManagedByStratos || view.Tags[v1alpha1.LabelPool] != poolName {
			t.Errorf("instance %s has tags %v", view.ID, view.Tags)
		}
	}
	tokens := map[string]bool{}
	for _, q := range requests(t, r, ec2test.RunInstances) {
		tokens[q.Params["ClientToken"]] = true
	}
	if len(tokens) != poolSize || tokens[""] {
		t.Errorf("client tokens of the launches: %v", tokens)
	}
}

// checkStarts: as many instances as the pods need, each once, and no more calls than instances.
func checkStarts(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node, used []string) {
	t.Helper()
	if len(used) != needed {
		t.Errorf("%d pods run on %v, want %d nodes", podCount, used, needed)
	}
	var want []v1alpha1.InstanceID
	for _, name := range used {
		if nodes[name] == nil {
			t.Fatalf("a pod runs on %s, which is no node of the pool", name)
		}
		want = append(want, assert.InstanceOf(nodes[name]))
	}
	started := assert.Starts(t, r)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(started))); diff != "" {
		t.Errorf("started instances (-those of the pods +those that EC2 started):\n%s", diff)
	}
	if n := len(requests(t, r, ec2test.StartInstances)); n > needed {
		t.Errorf("%d StartInstances calls for %d instances", n, needed)
	}
}

func checkStandbyAgain(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node, used []string) {
	t.Helper()
	mine, err := assert.Instances(t.Context(), r, v1alpha1.TagCluster, "e2e")
	if err != nil || len(mine) != poolSize {
		t.Fatalf("%d instances, error %v", len(mine), err)
	}
	for name, n := range nodes {
		boots := 1
		if slices.Contains(used, name) {
			boots = 2
		}
		if view := mine[assert.InstanceOf(n)]; view.State != provider.InstanceStopped || view.Boots != boots {
			t.Errorf("node %s: instance is %s after %d boots, want stopped after %d", name, view.State, view.Boots, boots)
		}
	}
}

// checkGone: with the pool its instances have ended, and their Nodes are gone.
func checkGone(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	mine, err := assert.Instances(t.Context(), r, v1alpha1.TagCluster, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if view, listed := mine[assert.InstanceOf(n)]; listed && view.State != provider.InstanceTerminated {
			t.Errorf("instance %s is %s after its pool's deletion", view.ID, view.State)
		}
	}
	assert.AwaitNodes(t, r, poolName, "gone", func(nodes map[string]*corev1.Node) bool { return len(nodes) == 0 })
}

// checkForeign: nothing that was done to "all instances of pool web" was done to those of the other
// cluster.
func checkForeign(t *testing.T, r *framework.Rig, before map[v1alpha1.InstanceID]fake.View) {
	t.Helper()
	after, err := assert.Instances(t.Context(), r, v1alpha1.TagCluster, "another")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("instances of the other cluster (-before +after):\n%s", diff)
	}
}

// requests are those of the action.
func requests(t *testing.T, r *framework.Rig, action ec2test.Action) []ec2test.Request {
	t.Helper()
	all, err := r.EC2Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(q ec2test.Request) bool { return q.Action != action })
}

// checkRequests: EC2 understood every request, and each call that changes something named our
// instances alone.
func checkRequests(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	mine := map[v1alpha1.InstanceID]bool{}
	for _, n := range nodes {
		mine[assert.InstanceOf(n)] = true
	}
	all, err := r.EC2Requests(t.Context())
	if err != nil || len(all) == 0 {
		t.Fatalf("%d requests, error %v", len(all), err)
	}
	for _, q := range all {
		switch q.Code {
		case "UnknownParameter", "InvalidAction", "AuthFailure", "InvalidParameterValue", "InvalidParameterCombination":
			t.Errorf("%s was answered %s: %v", q.Action, q.Code, q.Params)
		}
		if strings.HasPrefix(string(q.Action), "Describe") {
			continue
		}
		for _, id := range q.Instances {
			if !mine[id] {
				t.Errorf("%s of %s, which is none of the pool's", q.Action, id)
			}
		}
	}
}
