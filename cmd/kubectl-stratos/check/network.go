package check

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

const (
	nameAgents     = "network agent"
	nameDaemonSets = "daemonsets"
)

// agents: the DaemonSets by which Stratos knows that the network of a node is up.
func agents(f *Facts) Result {
	if err := firstOf(f.DaemonSets.Err, f.Pools.Err); err != nil {
		return notChecked(nameAgents, "%v", err)
	}
	var recognised, problems []string
	for i := range f.DaemonSets.Value {
		if set := &f.DaemonSets.Value[i]; fit.MountsCNI(&set.Spec.Template.Spec) {
			recognised = append(recognised, set.Namespace+"/"+set.Name)
		}
	}
	for i := range f.Pools.Value {
		pool := &f.Pools.Value[i]
		for _, ref := range pool.Spec.Template.NetworkAgents {
			if name := ref.Namespace + "/" + ref.Name; !isDaemonSet(f, name) {
				problems = append(problems, fmt.Sprintf("pool %s names the network agent %s, which does not exist", pool.Name, name))
			} else if !slices.Contains(recognised, name) {
				recognised = append(recognised, name)
			}
		}
	}
	switch {
	case len(problems) > 0:
		return wrong(nameAgents, "kubectl get daemonsets --all-namespaces", "%s", Several(problems))
	case len(recognised) == 0:
		return notChecked(nameAgents, "no DaemonSet mounts a folder of the CNI: name the agent in the pool's "+
			"spec.template.networkAgents, else nodes open without waiting for their network")
	}
	return ok(nameAgents, "%s", strings.Join(recognised, ", "))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func isDaemonSet(f *Facts, name string) bool {
	return slices.ContainsFunc(f.DaemonSets.Value, func(d appsv1.DaemonSet) bool { return d.Namespace+"/"+d.Name == name })
}

// daemonSets: one whose pods run on standby nodes counts them as unavailable in a rollout.
func daemonSets(f *Facts) Result {
	if err := firstOf(f.DaemonSets.Err, f.Pools.Err, f.Nodes.Err, f.Classes.Err); err != nil {
		return notChecked(nameDaemonSets, "%v", err)
	}
	if len(f.Pools.Value) == 0 {
		return ok(nameDaemonSets, "there are no pools")
	}
	var names []string
	for i := range f.DaemonSets.Value {
		set := &f.DaemonSets.Value[i]
		if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			continue
		}
		daemon := fit.NewDaemon(set)
		if slices.ContainsFunc(f.Pools.Value, func(p v1alpha1.NodePool) bool { return runsOnStandby(f, daemon, &p) }) {
			names = append(names, set.Namespace+"/"+set.Name)
		}
	}
	if len(names) == 0 {
		return ok(nameDaemonSets, "none counts the pods on standby nodes")
	}
	namespace, name, _ := strings.Cut(slices.Min(names), "/")
	return wrong(nameDaemonSets, fmt.Sprintf("kubectl --namespace %s patch daemonset %s --patch '%s'", namespace, name,
		affinityPatch), "rollouts stop at the pods on standby nodes: %s", Several(names))
}

// affinityPatch keeps a DaemonSet off standby nodes. It replaces a node affinity that is there.
const affinityPatch = `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":` +
	`{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":` +
	`[{"key":"` + v1alpha1.LabelState + `","operator":"NotIn","values":["` + string(v1alpha1.StateStandby) + `"]}]}]}}}}}}}`

// runsOnStandby reports whether the DaemonSet has pods on standby nodes of the pool.
func runsOnStandby(f *Facts, daemon *fit.Daemon, pool *v1alpha1.NodePool) bool {
	taints := slices.Concat([]corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}},
		pool.Spec.Template.Taints)
	node := nodeOf(f, pool)
	labels := fit.RunningLabels(pool, node)
	labels[v1alpha1.LabelState] = string(v1alpha1.StateStandby)
	return daemon.RunsOn(node.Name, labels, taints)
}

// nodeOf is a node of the pool, or one as its class would launch it.
func nodeOf(f *Facts, pool *v1alpha1.NodePool) *corev1.Node {
	for i := range f.Nodes.Value {
		if n := &f.Nodes.Value[i]; n.Labels[v1alpha1.LabelPool] == pool.Name {
			return n
		}
	}
	labels := map[string]string{corev1.LabelOSStable: "linux"}
	for _, class := range f.Classes.Value {
		if aws, is := class.(*v1alpha1.AWSNodeClass); is && class.GetName() == pool.Spec.Template.NodeClassRef.Name {
			_, labels = aws.Promised()
		}
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + pool.Name, Labels: labels}}
}
