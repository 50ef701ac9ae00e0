package scaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestWhatSomebodyTookFromANodeComesBack: whose the Node is always, what keeps pods off it while it
// does not run.
func TestWhatSomebodyTookFromANodeComesBack(t *testing.T) {
	standby := func(change func(*corev1.Node)) *corev1.Node { return nodeIn(v1alpha1.StateStandby, change) }
	for name, node := range map[string]*corev1.Node{
		"the pool's label":                standby(func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelPool) }),
		"the pool's label, another's set": standby(func(n *corev1.Node) { n.Labels[v1alpha1.LabelPool] = "other" }),
		"the label that excludes it": standby(func(n *corev1.Node) {
			delete(n.Labels,
				v1alpha1.LabelExcludeDisruption)
		}),
		"the standby taint": standby(func(n *corev1.Node) { n.Spec.Taints = nil }),
		"the cordon":        standby(func(n *corev1.Node) { n.Spec.Unschedulable = false }),
		"the instance's id": standby(func(n *corev1.Node) {
			delete(n.Annotations,
				v1alpha1.AnnotationInstanceID)
		}),
		"the label of a running node": nodeIn(v1alpha1.StateRunning, func(n *corev1.Node) {
			delete(n.Labels,
				v1alpha1.LabelPool)
		}),
		"a running node's taints of before it was opened": nodeIn(v1alpha1.StateRunning, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
				{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			state := v1alpha1.NodeState(node.Labels[v1alpha1.LabelState])
			machine := map[v1alpha1.NodeState]provider.InstanceState{v1alpha1.StateStandby: provider.InstanceStopped,
				v1alpha1.StateRunning: provider.InstanceRunning}[state]
			r := newRig(t, node, nodePool(5, 0), boundPod("busy", func(p *corev1.Pod) {
				if state == v1alpha1.StateStandby {
					p.Spec.NodeName = "elsewhere"
				}
			}))
			r.sweep(instance(machine, withTag(v1alpha1.LabelState, string(state))))
			r.reconcile()
			r.want("patch c " + string(state))
			n, whole := r.node("c"), nodeIn(state)
			if n.Labels[v1alpha1.LabelPool] != "p" || n.Annotations[v1alpha1.AnnotationInstanceID] != "i-c" {
				t.Errorf("labels %v, annotations %v", n.Labels, n.Annotations)
			}
			if n.Spec.Unschedulable != whole.Spec.Unschedulable || len(n.Spec.Taints) != len(whole.Spec.Taints) ||
				n.Labels[v1alpha1.LabelExcludeDisruption] != whole.Labels[v1alpha1.LabelExcludeDisruption] {
				t.Errorf("cordoned %t, taints %v, labels %v", n.Spec.Unschedulable, n.Spec.Taints, n.Labels)
			}
			r.reconcile()
			r.want() // and that is all
		})
	}
}

// TestARunningNodesCordonIsItsUsers: nothing of a running node but whose it is is put back.
func TestARunningNodesCordonIsItsUsers(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateRunning, func(n *corev1.Node) { n.Spec.Unschedulable = true }), nodePool(5, 0),
		boundPod("busy"))
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "running")))
	r.reconcile()
	r.want()
	if !r.node("c").Spec.Unschedulable {
		t.Error("a person's cordon was taken away")
	}
}

// TestAnInstanceWithoutItsPoolTag: the Node says whose it is; without one nothing is touched.
func TestAnInstanceWithoutItsPoolTag(t *testing.T) {
	untagged := func() *provider.Instance {
		return instance(provider.InstanceRunning, func(i *provider.Instance) { delete(i.Tags, v1alpha1.LabelPool) },
			withTag(v1alpha1.LabelState, "running"))
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"its Node names the pool": {[]client.Object{nodeIn(v1alpha1.StateRunning), nodePool(5, 0),
			boundPod("busy")}, []string{"tag i-c "}},
		"its Node names a pool that is gone": {[]client.Object{nodeIn(v1alpha1.StateRunning)}, nil},
		"it has no Node":                     {[]client.Object{nodePool(5, 0)}, nil},
		"its Node names none": {[]client.Object{nodePool(5, 0),
			nodeIn(v1alpha1.StateRunning, func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelPool) })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.objects...)
			r.sweep(untagged())
			r.reconcile()
			r.want(c.want...)
			if e, _ := r.inventory.Get("i-c"); len(c.want) > 0 && e.Pool() != "p" {
				t.Errorf("pool tag %q, want p", e.Pool())
			}
		})
	}
}

// TestAnInstanceMissingInTheListIsAskedForBeforeItsNodeGoes: one that lost its tags is missing too,
// and may be full of pods.
func TestAnInstanceMissingInTheListIsAskedForBeforeItsNodeGoes(t *testing.T) {
	without := func(key string) *provider.Instance {
		return instance(provider.InstanceRunning, func(i *provider.Instance) { delete(i.Tags, key) })
	}
	for name, c := range map[string]struct {
		known   *provider.Instance
		deleted bool
		want    []string
	}{
		"the cloud does not know it": {nil, true, []string{"get i-c", "delete c"}},
		"it is terminated":           {instance(provider.InstanceTerminated), true, []string{"get i-c", "delete c"}},
		"it lost the cluster's tag":  {without(v1alpha1.TagCluster), false, []string{"get i-c", "tag i-c "}},
		"it lost managed-by":         {without(v1alpha1.TagManagedBy), false, []string{"get i-c", "tag i-c "}},
		"it was given to another": {instance(provider.InstanceRunning, withTag(v1alpha1.TagCluster, "there")), false,
			[]string{"get i-c"}},
		"the list was behind": {instance(provider.InstanceRunning), false, []string{"get i-c"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nodeIn(v1alpha1.StateRunning, readyIs(corev1.ConditionUnknown)), nodePool(5, 0), boundPod("busy"))
			r.sweep(instance(provider.InstanceRunning))
			r.now = r.now.Add(time.Minute)
			r.sweep()
			if c.known != nil {
				r.known["i-c"] = c.known
			}
			r.reconcile()
			r.want(c.want...)
			err := r.api.Get(t.Context(), client.ObjectKey{Name: "c"}, &corev1.Node{})
			if apierrors.IsNotFound(err) != c.deleted {
				t.Errorf("Node deleted: %v, want %t", err, c.deleted)
			}
		})
	}
}

func TestOrphansOfADeletedPoolAreReported(t *testing.T) {
	r := newRig(t)
	r.sweep(instance(provider.InstanceStopped))
	r.reconcile()
	r.want("terminate i-c")
	if said := r.said(); !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s,
			"OrphanRemoved instance i-c terminated")
	}) {
		t.Errorf("events %q, want OrphanRemoved", said)
	}
}

// TestSinceWhenAnInstanceIsInItsState: the deadline of a start by another client counts from there.
func TestSinceWhenAnInstanceIsInItsState(t *testing.T) {
	r := newRig(t, nodeIn(v1alpha1.StateStandby,
		func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), nodePool(5, 0))
	r.sweep(instance(provider.InstanceStopped))
	for range 3 {
		r.now = r.now.Add(2 * time.Minute)
		r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "standby")))
		r.reconcile()
	}
	r.want()
	r.now = r.now.Add(time.Minute)
	r.sweep(instance(provider.InstanceRunning, withTag(v1alpha1.LabelState, "standby")))
	r.reconcile()
	r.want("intent c", "force-stop i-c")
	if n := r.node("c"); n.Labels[v1alpha1.LabelState] != string(v1alpha1.StateStopping) {
		t.Errorf("state %s while its instance goes down, want stopping: it would be promised to pods",
			n.Labels[v1alpha1.LabelState])
	}
}
