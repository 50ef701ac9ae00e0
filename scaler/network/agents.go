// Package network tells whether pods can use the network of a node that starts or warms up.
// docs/lifecycle.md has the table. The package is pure: no client, logger or clock, and only stamps
// of the node's own clock are compared.
package network

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Agent is a network agent of one node: a DaemonSet and what its pod on the node shows.
type Agent struct {
	Set types.NamespacedName
	// Probed: a container has a readiness probe. Without one the pod is Ready as soon as its
	// containers run.
	Probed bool
	// Ready is the pod's Ready condition. It may be left from before the last stop.
	Ready bool
	// Started is the newest start of a container that runs, a stamp of the node's own clock. It is
	// zero where no pod shows one: the pod is missing, pending, deleted or finished.
	Started time.Time
}

// AgentsOf lists the network agents of the pool's node, by namespace and name. pods are those on
// the node. They are the DaemonSets that the pool names, or else those whose pods run on the node
// and mount the folders of the CNI.
func AgentsOf(pool *v1alpha1.NodePool, node *corev1.Node, sets []*appsv1.DaemonSet, pods []corev1.Pod) []Agent {
	if pool == nil {
		return nil
	}
	var agents []Agent
	if named := pool.Spec.Template.NetworkAgents; len(named) > 0 {
		for _, ref := range named {
			agents = append(agents, agentOf(types.NamespacedName(ref), setNamed(sets, ref), pods))
		}
	} else {
		for _, set := range sets {
			if recognised(pool, node, set, pods) {
				agents = append(agents, agentOf(types.NamespacedName{Namespace: set.Namespace, Name: set.Name}, set, pods))
			}
		}
	}
	slices.SortFunc(agents, func(a, b Agent) int { return strings.Compare(a.Set.String(), b.Set.String()) })
	return agents
}

func setNamed(sets []*appsv1.DaemonSet, ref v1alpha1.NetworkAgent) *appsv1.DaemonSet {
	for _, set := range sets {
		if set.Namespace == ref.Namespace && set.Name == ref.Name {
			return set
		}
	}
	return nil
}

// recognised reports whether the DaemonSet is a network agent that runs on the node. One whose pod
// comes only once the node is open is none: the node would wait for the pod, and the pod for the
// node.
func recognised(pool *v1alpha1.NodePool, node *corev1.Node, set *appsv1.DaemonSet, pods []corev1.Pod) bool {
	mounts, present := fit.MountsCNI(&set.Spec.Template.Spec), false
	for i := range pods {
		if belongs(&pods[i], set) {
			mounts, present = mounts || fit.MountsCNI(&pods[i].Spec), present || alive(&pods[i])
		}
	}
	return mounts && (present || fit.RunsOn(pool, node, set, closedTaints(pool)))
}

// closedTaints are the taints that stand on the node until it is opened.
func closedTaints(pool *v1alpha1.NodePool) []corev1.Taint {
	t := &pool.Spec.Template
	taints := append(slices.Clone(t.Taints), corev1.Taint{Key: v1alpha1.TaintStandby,
		Effect: corev1.TaintEffectNoSchedule})
	if t.StartupTaintRemovalOrDefault() == v1alpha1.RemoveWhenNetworkReady {
		taints = append(taints, t.StartupTaints...)
	}
	return taints
}

func belongs(p *corev1.Pod, set *appsv1.DaemonSet) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.UID == set.UID && p.Namespace == set.Namespace
}

// alive reports whether the pod is one that its kubelet runs, or will run.
func alive(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !fit.Finished(p)
}

// agentOf reads what the pods of the DaemonSet show; nil is a DaemonSet that does not exist.
func agentOf(name types.NamespacedName, set *appsv1.DaemonSet, pods []corev1.Pod) Agent {
	agent := Agent{Set: name}
	if set == nil {
		return agent
	}
	agent.Probed = probed(&set.Spec.Template.Spec)
	for i := range pods {
		p := &pods[i]
		if !belongs(p, set) || !alive(p) {
			continue
		}
		// During an update with maxSurge there are two pods: the one that is Ready decides.
		ready, started := ready(p), NewestStart(p)
		if ready && !agent.Ready || ready == agent.Ready && started.After(agent.Started) {
			agent.Ready, agent.Started, agent.Probed = ready, started, probed(&p.Spec)
		}
	}
	return agent
}

func probed(spec *corev1.PodSpec) bool {
	has := func(c corev1.Container) bool { return c.ReadinessProbe != nil }
	return slices.ContainsFunc(spec.Containers, has) || slices.ContainsFunc(spec.InitContainers, has)
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// NewestStart is the newest start of a container of the pod that runs; zero for none.
func NewestStart(p *corev1.Pod) time.Time {
	newest := time.Time{}
	for i := range p.Status.ContainerStatuses {
		if run := p.Status.ContainerStatuses[i].State.Running; run != nil && run.StartedAt.After(newest) {
			newest = run.StartedAt.Time
		}
	}
	return newest
}

// FormatStarts writes the newest container start of each agent, to be recorded when the cloud says
// stopped; "" for none.
func FormatStarts(agents []Agent) string {
	starts := map[string]string{}
	for _, a := range agents {
		if !a.Started.IsZero() {
			starts[a.Set.String()] = a.Started.UTC().Format(time.RFC3339)
		}
	}
	if len(starts) == 0 {
		return ""
	}
	out, err := json.Marshal(starts)
	if err != nil {
		return "" // a map of strings always encodes
	}
	return string(out)
}

// startAtStop is the newest container start of the agent as it was recorded at the last stop; false
// where none was.
func startAtStop(n *corev1.Node, set types.NamespacedName) (time.Time, bool) {
	starts := map[string]string{}
	if err := json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationAgentsAtStop]), &starts); err != nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, starts[set.String()])
	return at, err == nil
}
