package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// daemonSet is one whose pods are like the pod.
func daemonSet(name string, like *corev1.Pod) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID(name)}}
	set.Spec.Template.Spec = like.Spec
	return set
}

func inPodSpec(f func(*corev1.PodSpec)) func(*corev1.Pod) { return func(p *corev1.Pod) { f(&p.Spec) } }

func asking(pairs ...string) func(*corev1.Pod) {
	return inPodSpec(func(s *corev1.PodSpec) { s.Containers = []corev1.Container{container(pairs...)} })
}

// TestWhatADaemonTakes: a template takes what the pods take that the API server makes of it.
func TestWhatADaemonTakes(t *testing.T) {
	limits := func(pairs ...string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: list(pairs...)}
	}
	for name, c := range map[string]struct {
		change []func(*corev1.Pod)
		cpu    int64
		ports  []HostPort
	}{
		"nothing but its place": {},
		"requests":              {change: []func(*corev1.Pod){asking("cpu", "100m")}, cpu: 100},
		"limits alone": {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) {
			s.Containers[0].Resources = limits("cpu", "200m")
		})}, cpu: 200},
		"requests before limits": {change: []func(*corev1.Pod){asking("cpu", "100m"), inPodSpec(func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = list("cpu", "2")
		})}, cpu: 100},
		"limits of an init container": {change: []func(*corev1.Pod){asking("cpu", "100m"), inPodSpec(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "first", Resources: limits("cpu", "300m")}}
		})}, cpu: 300},
		"overhead": {change: []func(*corev1.Pod){asking("cpu", "100m"), inPodSpec(func(s *corev1.PodSpec) {
			s.Overhead = list("cpu", "50m")
		})}, cpu: 150},
		"a limit of the pod as a whole": {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) {
			r := limits("cpu", "400m")
			s.Resources = &r
		})}, cpu: 400},
		"the containers' requests before that limit": {change: []func(*corev1.Pod){asking("cpu", "100m"),
			inPodSpec(func(s *corev1.PodSpec) {
				r := limits("cpu", "400m")
				s.Resources = &r
			})}, cpu: 100},
		"a host port": {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 9100}}
		})}, ports: []HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 9100}}},
		"on the host's network each port is one": {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) {
			s.HostNetwork, s.Containers[0].Ports = true, []corev1.ContainerPort{{ContainerPort: 80}}
		})}, ports: []HostPort{{IP: "0.0.0.0", Protocol: "TCP", Port: 80}}},
	} {
		t.Run(name, func(t *testing.T) {
			set := daemonSet("agent", podWith("x", nil, c.change...))
			before := set.DeepCopy()
			d := NewDaemon(set)
			if want := (Resources{MilliCPU: c.cpu, Pods: 1}); !d.Requests.Equal(want) {
				t.Errorf("takes %+v, want %+v", d.Requests, want)
			}
			if diff := cmp.Diff(c.ports, d.Ports); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, set); diff != "" {
				t.Errorf("the DaemonSet was changed:\n%s", diff)
			}
		})
	}
}

// TestRunsOn: the rule of the DaemonSet controller, for a standby node as it will be.
func TestRunsOn(t *testing.T) {
	keepsOff := func(key string, values ...string) func(*corev1.Pod) {
		return inPodSpec(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: values},
					}}},
				}},
			}
		})
	}
	taint := func(key string) []corev1.Taint {
		return []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	}
	for name, c := range map[string]struct {
		change []func(*corev1.Pod)
		taints []corev1.Taint
		gone   bool
		want   bool
	}{
		"any node": {want: true},
		"the documented affinity": {change: []func(*corev1.Pod){keepsOff(v1alpha1.LabelState,
			"standby")}, want: true},
		"one that keeps off running nodes": {change: []func(*corev1.Pod){keepsOff(v1alpha1.LabelState,
			"running")}},
		"a selector that the template answers":         {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"tier": "web"} })}, want: true},
		"a selector that nothing answers":              {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"tier": "db"} })}},
		"another node by name":                         {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) { s.NodeName = "other" })}},
		"a taint that it does not tolerate":            {taints: taint("team")},
		"a taint that the controller tolerates for it": {taints: taint(corev1.TaintNodeUnschedulable), want: true},
		"the network's taint, on the pod network":      {taints: taint(corev1.TaintNodeNetworkUnavailable)},
		"and on the host's":                            {change: []func(*corev1.Pod){inPodSpec(func(s *corev1.PodSpec) { s.HostNetwork = true })}, taints: taint(corev1.TaintNodeNetworkUnavailable), want: true},
		"a DaemonSet that is being deleted":            {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := daemonSet("agent", podWith("x", nil, c.change...))
			if c.gone {
				set.DeletionTimestamp = &metav1.Time{}
			}
			pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			pool.Spec.Template.Labels = map[string]string{"tier": "web"}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
				Labels: map[string]string{v1alpha1.LabelState: "standby"}}}
			if got := RunsOn(pool, node, set, c.taints); got != c.want {
				t.Errorf("runs %v, want %v", got, c.want)
			}
			if got := len(DaemonsOn(pool, node, []*Daemon{NewDaemon(set)}, c.taints)) == 1; got != c.want {
				t.Errorf("is expected %v, want %v", got, c.want)
			}
		})
	}
}

// TestExpect: what a node of 1 cpu and 3 places holds once the pods of DaemonSets have come.
func TestExpect(t *testing.T) {
	daemon := func(name string, change ...func(*corev1.Pod)) *Daemon {
		return NewDaemon(daemonSet(name, podWith("x", nil, change...)))
	}
	ported := func(cpu string) []func(*corev1.Pod) {
		return []func(*corev1.Pod){asking("cpu", cpu), inPodSpec(func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		})}
	}
	for name, c := range map[string]struct {
		daemons []*Daemon
		want    Resources
		ports   int
	}{
		"none": {},
		"two": {[]*Daemon{daemon("a", asking("cpu", "100m")), daemon("b", ported("200m")...)},
			Resources{MilliCPU: 300, Pods: 2}, 1},
		"one that is there": {[]*Daemon{daemon("there", asking("cpu", "100m"))}, Resources{}, 0},
		"one that the node never holds": {[]*Daemon{daemon("huge", asking("cpu", "2")), daemon("b", asking("cpu", "100m"))},
			Resources{MilliCPU: 100, Pods: 1}, 0},
		"one for a device that it lacks": {[]*Daemon{daemon("gpu", asking("example.com/gpu", "1"))}, Resources{}, 0},
		"two that want the same port": {[]*Daemon{daemon("a", ported("100m")...), daemon("b", ported("100m")...)},
			Resources{MilliCPU: 100, Pods: 1}, 1},
		"more of them than it has places": {[]*Daemon{daemon("a"), daemon("b"), daemon("c"), daemon("d")}, Resources{Pods: 3},
			0},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Name: "n", Allocatable: Resources{MilliCPU: 1000, Pods: 3}}
			n.Expect(c.daemons, func(set types.UID) bool { return set == "there" })
			if !n.Used.Equal(c.want) || len(n.Ports) != c.ports {
				t.Errorf("uses %+v and %d ports, want %+v and %d", n.Used, len(n.Ports), c.want, c.ports)
			}
		})
	}
}
