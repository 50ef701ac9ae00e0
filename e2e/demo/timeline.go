package main

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/provider/fake"
)

// podName is metadata.name of a pod of the burst.
type podName string

// seenNode is what was seen of one Node.
type seenNode struct {
	instance v1alpha1.InstanceID
	cpu      resource.Quantity
	// ready is, per boot, when Ready=True of that boot first arrived. Without the boot the condition
	// of the boot before could pass for it.
	ready map[string]time.Time
	// boot is the last one that was Ready.
	boot string
}

// seenPod is what was seen of one pod. Times are zero until then.
type seenPod struct {
	created, bound time.Time
	node           v1alpha1.NodeName
	exists, now    bool // now: it runs
	ran            bool
}

// timeline remembers when which event arrived.
type timeline struct {
	// mu guards the fields below: two watches write, the play reads.
	mu    sync.Mutex
	nodes map[v1alpha1.NodeName]*seenNode
	pods  map[podName]*seenPod
}

func newTimeline() *timeline {
	return &timeline{nodes: map[v1alpha1.NodeName]*seenNode{}, pods: map[podName]*seenPod{}}
}

// creating notes that a pod is about to be sent to the API server.
func (t *timeline) creating(name podName, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pod(name).created = at
}

// pod is called with mu held.
func (t *timeline) pod(name podName) *seenPod {
	if t.pods[name] == nil {
		t.pods[name] = &seenPod{}
	}
	return t.pods[name]
}

// take notes one event of a watch.
func (t *timeline) take(event watch.Event, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch o := event.Object.(type) {
	case *corev1.Node:
		t.takeNode(o, at)
	case *corev1.Pod:
		t.takePod(o, event.Type != watch.Deleted, at)
	}
}

func (t *timeline) takeNode(n *corev1.Node, at time.Time) {
	name := v1alpha1.NodeName(n.Name)
	node := t.nodes[name]
	if node == nil {
		node = &seenNode{ready: map[string]time.Time{}}
		t.nodes[name] = node
	}
	node.instance = v1alpha1.InstanceID(n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:])
	node.cpu = n.Status.Allocatable.Cpu().DeepCopy()
	boot := n.Status.NodeInfo.BootID
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && node.ready[boot].IsZero() {
			node.ready[boot], node.boot = at, boot
		}
	}
}

func (t *timeline) takePod(p *corev1.Pod, exists bool, at time.Time) {
	pod := t.pod(podName(p.Name))
	pod.exists = exists
	pod.now = exists && p.Status.Phase == corev1.PodRunning
	pod.ran = pod.ran || pod.now
	if p.Spec.NodeName != "" && pod.bound.IsZero() {
		pod.bound, pod.node = at, v1alpha1.NodeName(p.Spec.NodeName)
	}
}

// podCounts are the burst's pods that exist now.
type podCounts struct{ Waiting, Bound, Running int }

func (t *timeline) podCounts() podCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := podCounts{}
	for _, p := range t.pods {
		switch {
		case !p.exists:
		case p.now:
			counts.Running++
		case p.node != "":
			counts.Bound++
		default:
			counts.Waiting++
		}
	}
	return counts
}

// ranPods counts the pods that were created by the play and seen running.
func (t *timeline) ranPods() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	ran := 0
	for _, p := range t.pods {
		if p.ran && !p.created.IsZero() {
			ran++
		}
	}
	return ran
}

// commonCPU is what every node has for pods. It is zero if there is no node or they differ, which
// is an error to the callers that compute with it.
func (t *timeline) commonCPU() resource.Quantity {
	t.mu.Lock()
	defer t.mu.Unlock()
	common := resource.Quantity{}
	for i, n := range slices.Collect(maps.Values(t.nodes)) {
		if i > 0 && n.cpu.Cmp(common) != 0 {
			return resource.Quantity{}
		}
		common = n.cpu
	}
	return common
}

// promise is the first answer to a pod that names the node which starts for it. The scheduler asked
// for it at asked.
type promise struct {
	node      v1alpha1.NodeName
	pod       podName
	asked, at time.Time
}

// promisesOf reads the extender's answers, oldest first; of each pod and node the first one counts.
func promisesOf(asked []framework.Asked) []promise {
	type pair struct {
		node v1alpha1.NodeName
		pod  podName
	}
	known := map[pair]bool{}
	var promises []promise
	for _, a := range asked {
		for _, node := range a.Starting() {
			p := pair{node: v1alpha1.NodeName(node), pod: podName(a.Pod.Name)}
			if !known[p] {
				known[p] = true
				promises = append(promises, promise{node: p.node, pod: p.pod, asked: a.At, at: a.Answered})
			}
		}
	}
	return promises
}

func promisedPods(promises []promise) int {
	pods := map[podName]bool{}
	for _, p := range promises {
		pods[p.pod] = true
	}
	return len(pods)
}

// started is one StartInstance that the cloud accepted.
type started struct {
	instance v1alpha1.InstanceID
	at       time.Time
}

// startsAfter returns the accepted starts after the call with that number.
func startsAfter(calls []fake.Call, seq int64) []started {
	var starts []started
	for _, c := range calls {
		if c.Op == fake.OpStart && c.Err == "" && c.Seq > seq {
			starts = append(starts, started{instance: c.Instance, at: c.At})
		}
	}
	return starts
}

// allReady reports whether every claimed node was Ready in a boot after the claim.
func (t *timeline) allReady(promises []promise) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range promises {
		n := t.nodes[p.node]
		if n == nil || !n.ready[n.boot].After(p.at) {
			return false
		}
	}
	return len(promises) > 0
}

// toStart is, for each start, the time since the creation of the first pod with a claim on the
// node, and the part of it since the scheduler asked about that pod. A start without such a pod has
// no sample.
func (t *timeline) toStart(promises []promise, starts []started) (sinceCreated, sinceAsked []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := map[v1alpha1.InstanceID]promise{}
	for _, p := range promises {
		n, pod := t.nodes[p.node], t.pods[p.pod]
		if n == nil || pod == nil || pod.created.IsZero() {
			continue
		}
		if _, known := first[n.instance]; !known {
			first[n.instance] = p
		}
	}
	for _, s := range starts {
		if p, known := first[s.instance]; known {
			sinceCreated = append(sinceCreated, s.at.Sub(t.pods[p.pod].created))
			sinceAsked = append(sinceAsked, s.at.Sub(p.asked))
		}
	}
	return sinceCreated, sinceAsked
}

// toBound is, for each start, the time from the Ready of the boot that it caused to the first pod
// bound to the node. A start that led to no Ready or no pod has no sample.
func (t *timeline) toBound(starts []started) []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := map[v1alpha1.NodeName]time.Time{}
	for _, p := range t.pods {
		if !p.bound.IsZero() && (first[p.node].IsZero() || p.bound.Before(first[p.node])) {
			first[p.node] = p.bound
		}
	}
	var samples []time.Duration
	for _, s := range starts {
		for name, n := range t.nodes {
			ready := n.ready[n.boot]
			if n.instance == s.instance && ready.After(s.at) && !first[name].IsZero() {
				samples = append(samples, first[name].Sub(ready))
			}
		}
	}
	return samples
}
