package scheduling

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/e2e/framework"
	"github.com/stratos-sh/stratos/e2e/framework/assert"
)

// packing is the stock profile with the one change of the generated one that says which of several
// nodes is the best.
const packing = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: ` + controlplane.KubeconfigPlaceholder + `}
profiles:
- schedulerName: packing-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
`

// TestTaintParity: where taints and cordons decide, the generated profile with the extender puts
// pods exactly where the stock profile does that packs as well, and says the same where there is no
// such place.
func TestTaintParity(t *testing.T) {
	t.Parallel()
	cases := taintCases()
	if len(cases) < 25 {
		t.Fatalf("%d cases, want at least 25", len(cases))
	}
	r := assert.NewRig(t, framework.Options{Cloud: assert.FastCloud()})
	if _, err := r.ControlPlane.StartScheduler(t.Context(), controlplane.SchedulerOptions{
		Name: "packing-scheduler", ConfigYAML: []byte(packing),
	}); err != nil {
		t.Fatal(err)
	}
	feasible, none := 0, 0
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			c := parity{r: r, taintCase: cases[name], prefix: fmt.Sprintf("case%02d", i)}
			stock := c.compare(t)
			if stock.Choice.Node == "" {
				none++
			} else {
				feasible++
			}
		})
	}
	// A table in which every pod waits, or none does, compares nothing.
	if feasible < 10 || none < 5 {
		t.Errorf("%d cases with a place and %d without", feasible, none)
	}
}

// parity asks both schedulers the same.
type parity struct {
	r *framework.Rig
	taintCase
	prefix string
}

// placement is what became of one pod: its node, or the reasons for which it has none.
type placement struct {
	Node    string
	Reasons []string
}

// verdict is all that one scheduler says: about a pod that may use every node of the case, and
// about one pod for each node that may use that node alone, which together show the feasible set
// exactly.
type verdict struct {
	Choice placement
	Alone  map[string]placement
}

func (c parity) compare(t *testing.T) verdict {
	nodes := c.nodes()
	assert.Join(t, c.r, nodes...)
	defer func() { assert.Remove(t, c.r, assert.Objects(nodes)...) }()

	stock, generated := c.ask(t, nodes, "packing-scheduler"), c.ask(t, nodes, v1alpha1.SchedulerName)
	if diff := cmp.Diff(stock, generated); diff != "" {
		t.Errorf("(-stock +generated):\n%s", diff)
	}
	if stock.Choice.Node != "" && stock.Alone[stock.Choice.Node].Node == "" {
		t.Errorf("the test contradicts itself: %+v", stock)
	}
	return stock
}

// nodes have 64, 16 and 4 cpus: with pods of one cpu the fullest differ by many points.
func (c parity) nodes() []*corev1.Node {
	var nodes []*corev1.Node
	for i, g := range c.taintCase.nodes {
		n := assert.Ordinary(fmt.Sprintf("%s-%d", c.prefix, i), 64>>(2*i), g.taints...)
		n.Spec.Unschedulable = g.cordoned
		nodes = append(nodes, n)
	}
	return nodes
}

// ask creates the pods, waits for the scheduler's word on each, and removes them, so that both
// schedulers find empty nodes. In whatever order the scheduler takes them, the pods that may use
// one node only do not change which node is the best for the other.
func (c parity) ask(t *testing.T, nodes []*corev1.Node, scheduler string) verdict {
	t.Helper()
	c.awaitKnown(t, nodes, scheduler)
	pods := []*corev1.Pod{c.pod("any", scheduler)}
	for _, n := range nodes {
		p := c.pod(n.Name, scheduler)
		p.Spec.Affinity = framework.OnNode(n.Name)
		pods = append(pods, p)
	}
	assert.Create(t, c.r, assert.Objects(pods)...)
	v := verdict{Choice: c.outcome(t, pods[0], len(nodes)), Alone: map[string]placement{}}
	for i, n := range nodes {
		v.Alone[n.Name] = c.outcome(t, pods[i+1], len(nodes))
	}
	assert.Remove(t, c.r, assert.Objects(pods)...)
	return v
}

// awaitKnown waits until the scheduler knows the nodes as they are. Its watch may lag behind ours,
// and what it says of a pod while it still sees the taint of a new node is not its last word. A pod
// that tolerates all but that taint is bound only when the taint is gone for the scheduler too.
func (c parity) awaitKnown(t *testing.T, nodes []*corev1.Node, scheduler string) {
	t.Helper()
	var probes []*corev1.Pod
	for i, n := range nodes {
		// So small that it changes no score, should the scheduler learn late that it is gone.
		p := framework.Pod("probe-"+n.Name+"-"+scheduler, "cpu", "1m", "memory", "1Mi")
		p.Spec.SchedulerName, p.Spec.Affinity = scheduler, framework.OnNode(n.Name)
		p.Spec.Tolerations = tolerate(exists(corev1.TaintNodeUnschedulable, ""))
		for _, own := range c.taintCase.nodes[i].taints {
			p.Spec.Tolerations = append(p.Spec.Tolerations, equals(own.Key, own.Value, own.Effect))
		}
		probes = append(probes, p)
	}
	assert.Create(t, c.r, assert.Objects(probes)...)
	assert.AwaitBound(t, c.r, probes...)
	assert.Remove(t, c.r, assert.Objects(probes)...)
}

func (c parity) pod(name, scheduler string) *corev1.Pod {
	p := framework.Pod(name+"-"+scheduler, "cpu", "1", "memory", "4Gi")
	p.Spec.SchedulerName, p.Spec.Tolerations = scheduler, c.tolerations
	return p
}

// outcome waits until the scheduler has said its word on the pod, knowing all the nodes.
func (c parity) outcome(t *testing.T, pod *corev1.Pod, nodes int) placement {
	t.Helper()
	all := fmt.Sprintf("0/%d nodes are available", nodes)
	var out placement
	assert.Await(t, "a word on pod "+pod.Name, func(ctx context.Context) (bool, error) {
		p, err := framework.Read(ctx, c.r, pod)
		if err != nil {
			return false, err
		}
		if p.Spec.NodeName != "" {
			out = placement{Node: p.Spec.NodeName}
			return true, nil
		}
		why, waits := strings.CutPrefix(framework.WhyPending(p), corev1.PodReasonUnschedulable+": "+all+": ")
		if !waits {
			return false, fmt.Errorf("pod %s: %s", p.Name, framework.WhyPending(p))
		}
		out = placement{Reasons: reasonsIn(why)}
		return true, nil
	})
	return out
}

// counted is how the scheduler counts the nodes that one reason holds for. We do not compare the
// counts: an extender names one node for each reason, so that its answer stays small.
var counted = regexp.MustCompile(`^[0-9]+ `)

// ourWords is Stratos's own reason, in addition to those of the stock profile.
const ourWords = "no node of a pool fits this pod"

// reasonsIn lists the distinct reasons of the scheduler's message, sorted, without what preemption
// says after them.
func reasonsIn(message string) []string {
	message, _, _ = strings.Cut(message, " preemption: ")
	message, _, _ = strings.Cut(message, " no new claims to deallocate")
	set := map[string]bool{}
	for part := range strings.SplitSeq(strings.TrimSuffix(message, "."), ", ") {
		set[counted.ReplaceAllString(strings.TrimSuffix(part, ","), "")] = true
	}
	delete(set, ourWords)
	return slices.Sorted(maps.Keys(set))
}
