package outages

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/fake"
)

const (
	// A burst needs fewer nodes than are standby, and poolSize has room for more instances: a start or
	// a launch too many is possible.
	burstPods    = 12
	burstNodes   = 6
	standbyNodes = 8
	poolSize     = 11
	// minute is how long the API server hangs.
	minute = time.Minute
)

// TestAPIServerGoneForAMinute: the API server hangs in the middle of a burst, when the intents are
// written and half of the instances are started. The leader cannot renew its lease, so its process
// ends, and is started again when the server is back. The other replica repeats its answers about
// the pods of the burst, and claims nothing twice. Then the burst ends as if nothing had happened,
// with one replica too.
func TestAPIServerGoneForAMinute(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"one replica": 1, "two replicas": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goneForAMinute(t, replicas)
		})
	}
}

// elect starts so many replicas, of which the first leads. The scheduler asks the last.
func elect(t *testing.T, r *framework.Rig, replicas int) (leader, serving framework.Running) {
	t.Helper()
	lease := assert.WatchLease(t, r, framework.Namespace, "stratos")
	for i := range replicas {
		s := assert.StartStratos(t, r, fmt.Sprintf("stratos-%d", i+1), "--leader-elect")
		if i == 0 {
			leader = s
			lease.AwaitHolder(t)
		}
		answersFor(t, s, "starts") // it says later whether intents can be written
		serving = s
	}
	r.Recorder.Forward(serving.Extender)
	return leader, serving
}

// answersFor checks that the readiness of a replica has a check of the name, and that it passes.
func answersFor(t *testing.T, s framework.Running, check string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Probe+"/readyz/"+check, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s answers %d", request.URL, answer.StatusCode)
	}
}

func goneForAMinute(t *testing.T, replicas int) {
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), NoStratos: true})
	leader, serving := elect(t, r, replicas)
	warm(t, r, "outage", "m5.xlarge") // 4 cpu: two pods of 1500m
	// No node of the burst runs before the server hangs, and half of them are not started before.
	assert.SetTimes(t, r, fake.Times{Boot: 45 * time.Second})
	assert.AddFault(t, r, fake.Fault{Kind: fake.FaultOutage, Op: fake.OpStart,
		Skip: burstNodes / 2})
	pods := framework.PoolPods(burstPods, "burst", "outage", "cpu", "1500m")
	assert.Create(t, r, assert.Objects(pods)...)
	for _, p := range pods {
		assert.AwaitPending(t, r, p, corev1.PodReasonUnschedulable, "starting standby node")
	}
	nodes := assert.PoolNodes(t, r, "outage")
	names, said := slices.Collect(maps.Keys(nodes)), map[string]string{}
	for _, p := range pods {
		said[p.Name] = told(t, r, p, names)
	}
	if n := len(assert.Accepted(t, r, fake.OpStart, nodes)); n != burstNodes/2 {
		t.Fatalf("%d starts were accepted, want %d: this is not the middle of the burst", n, burstNodes/2)
	}

	if err := r.ControlPlane.APIServer().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	assert.Release(t, r)
	back := time.Now().Add(minute)
	assert.AwaitEnd(t, leader.Process)
	answers := 0
	for ; time.Now().Before(back); pause(t, time.Second) {
		if serving == leader {
			continue
		}
		answers++
		for _, p := range pods {
			if got := told(t, r, p, names); got != said[p.Name] {
				t.Errorf("pod %s was told %q, and without the API server %q", p.Name, said[p.Name], got)
			}
		}
	}
	assert.SetTimes(t, r, fake.Times{Boot: 500 * time.Millisecond})
	if err := r.ControlPlane.APIServer().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := leader.Process.Start(t.Context()); err != nil { // as the kubelet does, again and again
		t.Fatal(err)
	}
	t.Logf("%d answers about each pod in the minute", answers)

	assert.AwaitRunning(t, r, pods...)
	exact(t, r, nodes)
}

// exact: as many starts as the pods need, none of them twice, and no instance that was not there
// before.
func exact(t *testing.T, r *framework.Rig, nodes map[string]*corev1.Node) {
	t.Helper()
	starts := map[v1alpha1.InstanceID]int{}
	for _, c := range assert.Accepted(t, r, fake.OpStart, nodes) {
		starts[c.Instance]++
	}
	for id, n := range starts {
		if n != 1 {
			t.Errorf("instance %s was started %d times", id, n)
		}
	}
	if len(starts) != burstNodes {
		t.Errorf("%d nodes were started, the pods need %d", len(starts), burstNodes)
	}
	living, err := assert.Instances(t.Context(), r, v1alpha1.TagManagedBy, v1alpha1.ManagedByStratos)
	if err != nil {
		t.Fatal(err)
	}
	for id, v := range living {
		if v.State == provider.InstanceTerminated {
			t.Errorf("instance %s was terminated", id)
		}
	}
	if len(living) != len(nodes) {
		t.Errorf("%d instances, want the %d of before", len(living), len(nodes))
	}
	if n := len(assert.CallsAbout(t, r, fake.OpStop, nodes)); n != 0 {
		t.Errorf("%d stops in a burst", n)
	}
}

// told asks the extender as the scheduler does, and returns what the pod is told.
func told(t *testing.T, r *framework.Rig, pod *corev1.Pod, names []string) string {
	t.Helper()
	result, err := framework.AskFilter(t.Context(), r.ExtenderURL(), pod, names...)
	if err != nil {
		t.Fatalf("answer about pod %s: %v", pod.Name, err)
	}
	if result.Error != "" || result.NodeNames != nil && len(*result.NodeNames) > 0 || len(result.FailedNodes) > 0 {
		t.Fatalf("answer about pod %s: %+v", pod.Name, result)
	}
	for node, words := range result.FailedAndUnresolvableNodes {
		if strings.Contains(words, "starting standby node") {
			return node + ": " + words
		}
	}
	return fmt.Sprint(result.FailedAndUnresolvableNodes)
}

// pause waits for so long, or until the test ends.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
