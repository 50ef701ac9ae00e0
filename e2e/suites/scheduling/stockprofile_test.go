package scheduling

import (
	"fmt"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
	"github.com/stratos-sh/stratos/provider/fake"
)

// stockName is the schedulerName of the stock profile that has the extender.
const stockName = "stock-with-extender"

// stockConfig has the extender of the generated configuration, and nothing else of it: every
// in-tree filter is on.
const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: ` + controlplane.KubeconfigPlaceholder + `}
profiles:
- schedulerName: ` + stockName + `
extenders:
- urlPrefix: %q
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  weight: 1
  nodeCacheCapable: true
  ignorable: false
  httpTimeout: 2s
`

// TestStockProfileNeverCallsExtender is the control of TestStandbyNodeStartsAtFilterTime, and the
// reason for the generated profile: with its filters in place a stopped node is rejected in-tree,
// and an extender is not asked about pods that no node is left for.
func TestStockProfileNeverCallsExtender(t *testing.T) {
	t.Parallel()
	// Stratos takes the stock scheduler for one with the extender, or its watch of pending pods would
	// start a node.
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud(), Stratos: []string{"--extender-scheduler-names=" +
		v1alpha1.SchedulerName + "," + stockName}})
	recorder := framework.NewRecorder()
	proxy := httptest.NewServer(recorder)
	t.Cleanup(proxy.Close)
	recorder.Forward(r.ExtenderURL()) // through the other recorder: the same extender
	if _, err := r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{
		Name: stockName, ConfigYAML: fmt.Appendf(nil, stockConfig, proxy.URL),
	}); err != nil {
		t.Fatal(err)
	}
	assert.Join(t, r, assert.Ordinary("small", 1))
	assert.Warm(t, r, framework.Pool("two", 2), framework.Class("two", "m5.large"))

	waits := stockPod("waits", "2")
	assert.Create(t, r, waits)
	assert.AwaitPending(t, r, waits, corev1.PodReasonUnschedulable)

	// The wiring works: about a pod for which a node is left, the same scheduler asks, and heeds the
	// answer.
	fits := stockPod("fits", "100m")
	assert.Create(t, r, fits)
	if nodes := assert.AwaitBound(t, r, fits); nodes[0] != "small" {
		t.Errorf("pod bound to %s, want the ordinary node", nodes[0])
	}
	asks := assert.AwaitAsked(t, recorder, framework.Filter, fits)
	if asks[0].Code != 200 || len(asks[0].Nodes) != 1 || asks[0].Nodes[0] != "small" {
		t.Errorf("asked about %v, answer %d %+v; want the ordinary node alone", asks[0].Nodes, asks[0].Code, asks[0].Filter)
	}
	if starts := assert.CallsAbout(t, r, fake.OpStart, assert.PoolNodes(t, r, "two")); len(starts) != 0 {
		t.Errorf("started without having been asked: %+v", starts)
	}

	if asks := recorder.About(framework.Filter, waits.UID); len(asks) != 0 {
		t.Errorf("the stock profile asked about a pod for which only standby nodes are left: %+v", asks)
	}

	// It is the profile that makes the difference: the same pod of the generated profile starts a
	// node. The first pod goes before that: a running node is one that is left for it.
	assert.Remove(t, r, waits)
	served := framework.Pod("served", "cpu", "2")
	assert.Serve(t, r, served)
	assert.AwaitAsked(t, r.Recorder, framework.Filter, served)
}

func stockPod(name, cpu string) *corev1.Pod {
	pod := framework.Pod(name, "cpu", cpu)
	pod.Spec.SchedulerName = stockName
	return pod
}
