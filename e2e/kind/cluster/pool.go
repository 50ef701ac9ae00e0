package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Class is a KindNodeClass of nodes with about the cpu given for pods, which pull from the
// cluster's registry.
func (l *Cluster) Class(name string, reservedCPU string) *v1alpha1.KindNodeClass {
	return &v1alpha1.KindNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.KindNodeClassSpec{
			Cluster:  l.Name,
			Reserved: v1alpha1.Requests{corev1.ResourceCPU: resource.MustParse(reservedCPU)},
			ExtraMounts: []v1alpha1.KindMount{{HostPath: filepath.Join(l.State, "certs.d"),
				ContainerPath: "/etc/containerd/certs.d", ReadOnly: true}},
		},
	}
}

// States are the states of a pool's nodes by name, as their labels say.
func (l *Cluster) States(ctx context.Context, pool string) (map[string]v1alpha1.NodeState, error) {
	nodes := &corev1.NodeList{}
	if err := l.Client.List(ctx, nodes, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		return nil, err
	}
	states := map[string]v1alpha1.NodeState{}
	for _, n := range nodes.Items {
		states[n.Name] = v1alpha1.NodeState(n.Labels[v1alpha1.LabelState])
	}
	return states, nil
}

// AwaitStandby waits until the pool has exactly that many nodes, all of them standby by label and
// by status, and their containers stopped.
func (l *Cluster) AwaitStandby(t *testing.T, pool string, count int) []string {
	t.Helper()
	var containers []string
	Await(t, fmt.Sprintf("pool %s: %d standby nodes", pool, count), func(ctx context.Context) (bool, error) {
		states, err := l.States(ctx, pool)
		if err != nil {
			return false, err
		}
		for _, state := range states {
			if state != v1alpha1.StateStandby {
				return false, fmt.Errorf("states: %v", states)
			}
		}
		p := &v1alpha1.NodePool{}
		if err := l.Client.Get(ctx, client.ObjectKey{Name: pool}, p); err != nil {
			return false, err
		}
		if len(states) != count || int(p.Status.Standby) != count {
			return false, fmt.Errorf("states %v, status %+v", states, p.Status)
		}
		// The docker command last and once: where processes are slow to start, it costs most.
		if containers, err = l.allStopped(ctx, pool); err != nil {
			return false, err
		}
		return len(containers) == count, problem(len(containers) == count, "containers: %v", containers)
	})
	return containers
}

func problem(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Nodes returns the names of the Nodes that pods are bound to, sorted, each once.
func Nodes(pods []corev1.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Spec.NodeName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Pods returns the pods of an app.
func (l *Cluster) Pods(ctx context.Context, namespace, app string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := l.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": app})
	return pods.Items, err
}

// AwaitReady waits until the app has that many pods, all of them Ready, and returns them.
func (l *Cluster) AwaitReady(t *testing.T, namespace, app string, count int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	Await(t, fmt.Sprintf("%d Ready pods of %s", count, app), func(ctx context.Context) (bool, error) {
		var err error
		if pods, err = l.Pods(ctx, namespace, app); err != nil {
			return false, err
		}
		ready := 0
		var waits []string
		for _, p := range pods {
			if Ready(&p) {
				ready++
			} else {
				waits = append(waits, p.Name+" "+string(p.Status.Phase))
			}
		}
		ok := ready == count && len(pods) == count
		return ok, problem(ok, "%d of %d Ready; others: %s", ready, len(pods), strings.Join(waits, ", "))
	})
	return pods
}

// Ready reports whether the pod is, by its condition.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// MachineCPU is the cpu, in thousandths, that each node reports: that of the machine.
func (l *Cluster) MachineCPU(t *testing.T) int64 {
	t.Helper()
	node := &corev1.Node{}
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: l.Name + "-worker"}, node); err != nil {
		t.Fatal(err)
	}
	return node.Status.Capacity.Cpu().MilliValue()
}

// PoolOfOne is a pool of one node with startup taints, which stops as soon as it is seen empty.
func PoolOfOne(name string, startup ...corev1.Taint) *v1alpha1.NodePool {
	budget := int32(100) // lives follow each other faster than those of a healthy cluster
	return &v1alpha1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodePoolSpec{
			PoolSize: 1, MinStandby: 1,
			Template: v1alpha1.NodeTemplate{
				NodeClassRef:  v1alpha1.NodeClassRef{Kind: "KindNodeClass", Name: name},
				StartupTaints: startup,
			},
			PreWarm:   v1alpha1.PreWarm{CompletionMode: v1alpha1.ControllerStop},
			ScaleUp:   v1alpha1.ScaleUp{StartBudget: &budget},
			ScaleDown: v1alpha1.ScaleDown{EmptyNodeTTL: &v1alpha1.Duration{Duration: time.Second}},
		},
	}
}
