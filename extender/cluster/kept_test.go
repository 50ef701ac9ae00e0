package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// changing are a cluster state that gets changes, and the objects as they are.
type changing struct {
	view  *State
	dice  *rand.Rand
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod
}

// afresh is a cluster state that gets the objects as they are now, and nothing before.
func (c *changing) afresh() *State {
	v, _ := newTestView()
	for _, n := range c.nodes {
		v.SetNode(n)
	}
	for _, p := range c.pods {
		v.SetPod(p)
	}
	return v
}

func (c *changing) step() {
	node := fmt.Sprintf("node-%d", c.dice.IntN(4))
	states := []v1alpha1.NodeState{"", v1alpha1.StateRunning, v1alpha1.StateStandby, v1alpha1.StateStarting}
	switch c.dice.IntN(8) {
	case 0:
		c.nodes[node] = poolNode(node, states[c.dice.IntN(len(states))])
		c.view.SetNode(c.nodes[node])
	case 1:
		if c.dice.IntN(3) == 0 {
			delete(c.nodes, node)
			c.view.DeleteNode(v1alpha1.NodeName(node))
		}
	case 2:
		for _, name := range slices.Sorted(maps.Keys(c.pods))[:min(1, len(c.pods))] {
			c.view.DeletePod(c.pods[name])
			delete(c.pods, name)
		}
	default:
		p := c.pod(fmt.Sprintf("pod-%d", c.dice.IntN(9)), node)
		c.pods[p.Name] = p
		c.view.SetPod(p)
	}
}

func (c *changing) pod(name, node string) *corev1.Pod {
	p := testPod(name)
	switch c.dice.IntN(4) {
	case 0:
		p.Status.NominatedNodeName = node
	case 1: // it waits
	default:
		p.Spec.NodeName = node
	}
	p.Labels = map[string]string{"n": fmt.Sprint(c.dice.IntN(2))}
	r := corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(c.dice.IntN(4))*100, resource.DecimalSI)}
	if c.dice.IntN(3) == 0 {
		r["example.com/gpu"] = resource.MustParse("1")
	}
	p.Spec.Containers[0].Resources.Requests = r
	if c.dice.IntN(4) == 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(8000 + c.dice.IntN(3))}}
	}
	if was := c.pods[name]; was != nil { // of a pod that is there its ports and its node do not change
		p.Spec.Containers[0].Ports = was.Spec.Containers[0].Ports
		if was.Spec.NodeName != "" {
			p.Spec.NodeName, p.Status.NominatedNodeName = was.Spec.NodeName, ""
		}
	}
	switch c.dice.IntN(8) {
	case 0:
		p.Status.Phase = corev1.PodSucceeded
	case 1:
		at := metav1.NewTime(epoch())
		p.DeletionTimestamp = &at
	}
	return p
}

// TestViewKeepsUpWithChanges: what is kept up with each change is what a view makes of the objects
// from nothing.
func TestViewKeepsUpWithChanges(t *testing.T) {
	// A sum from which an extended resource was taken again holds 0 of it, which is as none.
	same := cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b fit.Resources) bool {
			left := a.Clone()
			left.Sub(b)
			for _, n := range left.Scalar {
				if n != 0 {
					return false
				}
			}
			return left.MilliCPU == 0 && left.Memory == 0 && left.EphemeralStorage == 0 && left.Pods == 0
		}),
		cmp.Comparer(func(a, b *fit.Placed) bool {
			return a.UID == b.UID && a.Terminating == b.Terminating && maps.Equal(a.Labels, b.Labels)
		}),
	}
	names := []string{"node-0", "node-1", "node-2", "node-3"}
	for seed := range uint64(25) {
		v, _ := newTestView()
		c := &changing{view: v, dice: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*corev1.Node{},
			pods: map[string]*corev1.Pod{}}
		for range 100 {
			held := lookUp(v, names...)
			copies := make([]decide.Node, len(held))
			for i, n := range held {
				copies[i] = *n
				copies[i].Used, copies[i].Pods = n.Used.Clone(), slices.Clone(n.Pods)
			}
			c.step()
			for i, n := range held {
				if diff := cmp.Diff(copies[i], *n, same); diff != "" {
					t.Fatalf("seed %d: a node that was handed out has changed (-before +after):\n%s", seed, diff)
				}
			}
			want := c.afresh()
			if diff := cmp.Diff(lookUp(want, names...), lookUp(v, names...), same); diff != "" {
				t.Fatalf("seed %d: nodes (-from nothing +kept up):\n%s", seed, diff)
			}
			if c.dice.IntN(3) == 0 { // not after each: several changes come to one world
				if diff := cmp.Diff(want.World(), v.World(), same); diff != "" {
					t.Fatalf("seed %d: world (-from nothing +kept up):\n%s", seed, diff)
				}
			}
		}
	}
}
