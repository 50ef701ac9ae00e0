package ec2

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	readmePool = "workers"
	// readmeNodes is minStandby of the README's pool.
	readmeNodes = 3
)

// TestREADMEPool: the class and the pool of the README, as they stand, warm up, stop and serve a
// pod. Their machines join by the user data that Stratos wrote, and by nothing else. The account of
// the test server has the ids of the README.
//
// Stratos is killed between its launches and their answers. It asks again with the same bytes, and
// no pod lands on a Node meanwhile.
func TestREADMEPool(t *testing.T) {
	t.Parallel()
	r := assert.NewRig(t, framework.Options{Provider: framework.ProviderAWS, Cloud: assert.FastCloud()})
	if _, err := r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: "stock"}); err != nil {
		t.Fatal(err)
	}
	journal := assert.OpenJournal(t, r)
	stranger := launchWithAnotherCA(t, r)
	early := earlyPod()
	assert.Create(t, r, early)

	// The lag keeps the instances out of the lists of the next process too.
	assert.SetTimes(t, r, fake.Times{Lag: 5 * time.Minute})
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultLostAnswer, Op: fake.OpLaunch})
	assert.Create(t, r, assert.Objects(assert.PageObjects(t, "README.md"))...)
	awaitLaunches(t, r, 0)
	r.Stratos.Kill()
	before := len(requests(t, r, ec2test.RunInstances))
	checkClosed(t, r, journal, early)

	if err := r.Cloud.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Stratos.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLaunches(t, r, before)
	assert.SetTimes(t, r, fake.Times{Lag: -1})
	assert.AwaitAllStandby(t, r, readmePool, readmeNodes)
	checkSameBytes(t, r)
	checkStopped(t, r)
	assert.Remove(t, r, early)

	nodes := assert.PoolNodes(t, r, readmePool)
	if node := assert.Serve(t, r, framework.Pod("served", "cpu", "1")); nodes[node] == nil {
		t.Errorf("the pod runs on %s, which is no node of the pool", node)
	}
	checkHasNoNode(t, r, stranger)
}

// checkHasNoNode: the machine is not let into the cluster.
func checkHasNoNode(t *testing.T, r *framework.Rig, id v1alpha1.InstanceID) {
	t.Helper()
	views, err := r.Cloud.Snapshot(t.Context())
	at := slices.IndexFunc(views, func(v fake.View) bool { return v.ID == id })
	if err != nil || at < 0 || views[at].State != provider.InstanceRunning || views[at].Registered {
		t.Errorf("the machine %s, of %+v, %v: it should run and have no Node", id, views, err)
	}
}

// launchWithAnotherCA launches an instance whose user data names an authority that is not the
// cluster's, and is right otherwise.
func launchWithAnotherCA(t *testing.T, r *framework.Rig) v1alpha1.InstanceID {
	t.Helper()
	class := framework.BootstrapClass("stranger", "m5.large")
	class.Spec.Bootstrap.Family = v1alpha1.FamilyAL2023
	class.Spec.Bootstrap.Cluster.CertificateAuthority = base64.StdEncoding.EncodeToString(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("another")}))
	instance, err := r.Cloud.LaunchInstance(t.Context(), class, provider.LaunchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return instance.ID
}

// earlyPod is a pod of the stock scheduler that tolerates what is on every new Node, but not the
// standby taint. Stratos starts nothing for it.
func earlyPod() *corev1.Pod {
	pod := framework.Pod("early", "cpu", "100m")
	pod.Annotations = map[string]string{v1alpha1.AnnotationIgnore: "true"}
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable,
		corev1.TaintNodeNetworkUnavailable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return pod
}

// awaitLaunches waits until EC2 was asked for all launches of the pool, not counting the first
// requests.
func awaitLaunches(t *testing.T, r *framework.Rig, after int) {
	t.Helper()
	assert.Eventually(t, "launches", func(context.Context) (map[string]bool, error) {
		tokens := map[string]bool{}
		for _, q := range requests(t, r, ec2test.RunInstances)[after:] {
			tokens[q.Params["ClientToken"]] = true
		}
		return tokens, nil
	}, func(tokens map[string]bool) bool { return len(tokens) == readmeNodes })
}

// checkClosed: without Stratos the machines join, and only the standby taint keeps the pod away,
// which is on each Node from its first version on.
func checkClosed(t *testing.T, r *framework.Rig, journal *assert.Journal, early *corev1.Pod) {
	t.Helper()
	nodes := assert.Eventually(t, "Ready nodes", func(ctx context.Context) ([]corev1.Node, error) {
		list := &corev1.NodeList{}
		err := r.Client.List(ctx, list)
		return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !assert.IsReady(&n) }), err
	}, func(ready []corev1.Node) bool { return len(ready) == readmeNodes })
	assert.AwaitPending(t, r, early, corev1.PodReasonUnschedulable,
		fmt.Sprintf("%d node(s) had untolerated taint(s)", readmeNodes))
	for i := range nodes {
		for _, taint := range nodes[i].Spec.Taints {
			if taint.Key != v1alpha1.TaintStandby && !slices.ContainsFunc(early.Spec.Tolerations,
				func(toleration corev1.Toleration) bool { return toleration.Key == taint.Key }) {
				t.Errorf("taint %s keeps the pod away too", taint.Key)
			}
		}
		first := assert.First(t, "Node "+nodes[i].Name, 0, func() []assert.Version[*corev1.Node] {
			return journal.NodeVersions(nodes[i].Name)
		}, func(*corev1.Node) bool { return true }).Object
		if !assert.HasTaint(first, v1alpha1.TaintStandby) || assert.StateOf(first) != "" {
			t.Errorf("Node %s was created in state %q with taints %v", first.Name, assert.StateOf(first), first.Spec.Taints)
		}
	}
}

// checkSameBytes: each launch was asked for in both lives of Stratos, with the same user data, and
// launched one instance.
func checkSameBytes(t *testing.T, r *framework.Rig) {
	t.Helper()
	data, instance := map[string]string{}, map[string]v1alpha1.InstanceID{}
	for _, q := range requests(t, r, ec2test.RunInstances) {
		token, sent := q.Params["ClientToken"], q.Params["UserData"]
		if before, again := data[token]; again && before != sent || sent == "" {
			t.Errorf("launch %s was asked for with user data %q and then %q", token, before, sent)
		}
		data[token] = sent
		for _, id := range q.Instances {
			if before, again := instance[token]; again && before != id {
				t.Errorf("launch %s made instances %s and %s", token, before, id)
			}
			instance[token] = id
		}
	}
	if all := assert.PoolInstances(t, r, readmePool); len(all) != readmeNodes || len(instance) != readmeNodes {
		t.Errorf("%d instances of %d launches, want %d", len(all), len(instance), readmeNodes)
	}
}

// checkStopped: Stratos stopped the instances, because their user data powers nothing off.
func checkStopped(t *testing.T, r *framework.Rig) {
	t.Helper()
	if mode := assert.Now(t, r, assert.Pool(readmePool)).Status.CompletionMode; mode != v1alpha1.ControllerStop {
		t.Errorf("status.completionMode %q, want %s", mode, v1alpha1.ControllerStop)
	}
	stopped := map[v1alpha1.InstanceID]bool{}
	for _, c := range assert.Calls(t, r) {
		stopped[c.Instance] = stopped[c.Instance] || c.Op == fake.OpStop && c.Err == ""
	}
	for id, view := range assert.PoolInstances(t, r, readmePool) {
		if view.State != provider.InstanceStopped || view.Boots != 1 || !stopped[id] {
			t.Errorf("instance %s is %s after %d boots, stopped by Stratos: %t", id, view.State, view.Boots, stopped[id])
		}
	}
}
