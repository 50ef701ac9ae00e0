package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

const (
	nameKarpenter         = "karpenter"
	nameAutoMode          = "eks auto mode"
	nameClusterAutoscaler = "cluster autoscaler"
	// autoModeGroup is the group of the node classes of EKS Auto Mode.
	autoModeGroup = "eks.amazonaws.com"
)

// problem is what is wrong, and the command that repairs it.
type problem struct{ words, repair string }

func karpenter(f *Facts) Result {
	return ofKarpenter(f, nameKarpenter, func(group string) bool { return group != autoModeGroup })
}

// autoMode: EKS Auto Mode is a Karpenter that AWS runs, with node classes of its own.
func autoMode(f *Facts) Result {
	return ofKarpenter(f, nameAutoMode, func(group string) bool { return group == autoModeGroup })
}

func ofKarpenter(f *Facts, name string, isOwn func(classGroup string) bool) Result {
	if f.KarpenterPools.Err != nil {
		return notChecked(name, "%v", f.KarpenterPools.Err)
	}
	var problems []problem
	found := 0
	for i := range f.KarpenterPools.Value {
		pool := &f.KarpenterPools.Value[i]
		group, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "group")
		if !isOwn(group) {
			continue
		}
		found++
		if attracts(pool) {
			problems = append(problems, problem{
				fmt.Sprintf("the NodePool %s of karpenter.sh has %s or %s of Stratos", pool.GetName(), v1alpha1.LabelPool,
					v1alpha1.TaintDedicated), "kubectl edit nodepools.karpenter.sh " + pool.GetName()})
		}
	}
	if found == 0 {
		return ok(name, "has no NodePools here")
	}
	return separated(f, name, problems)
}

// attracts reports whether nodes of the NodePool of Karpenter suit pods that require a pool of
// Stratos.
func attracts(pool *unstructured.Unstructured) bool {
	labels, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "template", "metadata", "labels")
	if _, has := labels[v1alpha1.LabelPool]; has {
		return true
	}
	hasKey := func(key string, fields ...string) bool {
		list, _, _ := unstructured.NestedSlice(pool.Object, append([]string{"spec", "template", "spec"}, fields...)...)
		return slices.ContainsFunc(list, func(entry any) bool {
			of, _ := entry.(map[string]any)
			return of["key"] == key
		})
	}
	return hasKey(v1alpha1.LabelPool, "requirements") || hasKey(v1alpha1.TaintDedicated, "taints")
}

// separated: each pool has a taint, and each pod of Stratos's scheduler requires a pool.
func separated(f *Facts, name string, problems []problem) Result {
	if err := firstOf(f.Pools.Err, f.Pods.Err); err != nil {
		return notChecked(name, "%v", err)
	}
	for i := range f.Pools.Value {
		if pool := &f.Pools.Value[i]; !slices.ContainsFunc(pool.Spec.Template.Taints, keepsAway) {
			problems = append(problems, problem{"pool " + pool.Name + " has no taint, so other pods start its nodes too",
				fmt.Sprintf(`kubectl patch nodepools.stratos.sh %s --type merge --patch '{"spec":{"template":{"taints":[{"key":"%s",`+
					`"effect":"NoSchedule"}]}}}'`, pool.Name, v1alpha1.TaintDedicated)})
		}
	}
	for i := range f.Pods.Value {
		pod := &f.Pods.Value[i]
		if slices.Contains(f.Installation.SchedulerNames, pod.Spec.SchedulerName) && !fit.Finished(pod) &&
			fit.DaemonOf(pod) == "" && !requiresPool(&pod.Spec) {
			problems = append(problems, problem{
				fmt.Sprintf("pod %s/%s does not require the label %s, so it gets nodes of others too", pod.Namespace, pod.Name,
					v1alpha1.LabelPool), fmt.Sprintf("kubectl --namespace %s describe pod %s", pod.Namespace, pod.Name)})
		}
	}
	if len(problems) == 0 {
		return ok(name, "separated from Stratos")
	}
	var words []string
	for _, p := range problems {
		words = append(words, p.words)
	}
	return wrong(name, problems[0].repair, "%s", Several(words))
}

func keepsAway(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

// requiresPool reports whether only nodes of pools suit the pod, whichever of its terms holds.
func requiresPool(spec *corev1.PodSpec) bool {
	if _, has := spec.NodeSelector[v1alpha1.LabelPool]; has {
		return true
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == v1alpha1.LabelPool &&
				(e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpExists)
		})
	})
}

// The limits of Cluster Autoscaler above which it stops working: both have to be passed.
const (
	defaultUnreadyCount   = 3
	defaultUnreadyPercent = 45
)

func clusterAutoscaler(f *Facts) Result {
	if f.Deployments.Err != nil {
		return notChecked(nameClusterAutoscaler, "%v", f.Deployments.Err)
	}
	var problems []problem
	found := false
	for i := range f.Deployments.Value {
		d := &f.Deployments.Value[i]
		for n := range d.Spec.Template.Spec.Containers {
			c := &d.Spec.Template.Spec.Containers[n]
			if !strings.Contains(c.Image, "cluster-autoscaler") {
				continue
			}
			found = true
			if standby := mostStandby(f); standby > limitOf(c, "--ok-total-unready-count", defaultUnreadyCount) &&
				limitOf(c, "--max-total-unready-percentage", defaultUnreadyPercent) < 100 {
				problems = append(problems, problem{fmt.Sprintf("%s/%s stops working at too many unready nodes, and standby "+
					"nodes are unready: set --max-total-unready-percentage=100", d.Namespace, d.Name),
					fmt.Sprintf("kubectl --namespace %s edit deployment %s", d.Namespace, d.Name)})
			}
		}
	}
	if !found {
		return ok(nameClusterAutoscaler, "is not here")
	}
	return separated(f, nameClusterAutoscaler, problems)
}

// mostStandby is how many nodes of the pools may be unready.
func mostStandby(f *Facts) float64 {
	total := int32(0)
	for i := range f.Pools.Value {
		total += f.Pools.Value[i].Spec.PoolSize
	}
	return float64(total)
}

func limitOf(c *corev1.Container, flag string, unset float64) float64 {
	value, err := strconv.ParseFloat(cmp.Or(flagOf(c, flag), fmt.Sprint(unset)), 64)
	if err != nil {
		return unset
	}
	return value
}
