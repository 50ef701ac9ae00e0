package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Agent is a DaemonSet in kube-system on a pool's nodes that plays the agent of a CNI, as the CNI's
// own manifest has it: its labels, the host's network, the folders of the CNI, and a readiness
// probe.
func (l *Cluster) Agent(name, pool string, port int) *appsv1.DaemonSet {
	labels := map[string]string{"k8s-app": name}
	second := int64(1)
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					HostNetwork: true, PriorityClassName: "system-node-critical", TerminationGracePeriodSeconds: &second,
					NodeSelector: map[string]string{v1alpha1.LabelPool: pool},
					Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers:   []corev1.Container{agentContainer(l.agentImage, port)},
					Volumes: []corev1.Volume{
						folder("run", "/run/cni-agent"), folder("cni-bin", "/opt/cni/bin"), folder("cni-conf", "/etc/cni/net.d"),
					},
				},
			},
		},
	}
}

func agentContainer(image string, port int) corev1.Container {
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt(port)}}
	return corev1.Container{
		Name: "agent", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Env:            []corev1.EnvVar{{Name: "PORT", Value: fmt.Sprint(port)}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: probe, PeriodSeconds: 1},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "run", MountPath: "/run/cni-agent"}, {Name: "cni-bin", MountPath: "/host/opt/cni/bin"},
			{Name: "cni-conf", MountPath: "/host/etc/cni/net.d"},
		},
	}
}

func folder(name, path string) corev1.Volume {
	kind := corev1.HostPathDirectoryOrCreate
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}}
}

// TurnReadyLate makes the agent Ready only once the node's kubelet says Ready in this life and the
// agent's container runs: whatever opened the node by these alone would have done so by then. It is
// later still by 3 s and all that the start took so far, so that no other phase takes as long.
func TurnReadyLate(t *testing.T, s *Story, node string, began int64, last Last) {
	t.Helper()
	asked := time.Now()
	s.AwaitNode(t, "its kubelet says Ready", node, began, NodeReady)
	s.AwaitPod(t, "its container runs", node, began, func(p *corev1.Pod) bool {
		return ContainerStart(p).After(last.Container)
	})
	late := time.Since(asked) + 3*time.Second
	MustDocker(t, "exec", node, "sh", "-c", fmt.Sprintf("sleep %.1f && touch /run/cni-agent/up", late.Seconds()))
}

// NetworkIsSlowest checks the starts of a pool that PlayLives has played: no phase took as long as
// `network`.
func (l *Cluster) NetworkIsSlowest(t *testing.T, pool string) {
	t.Helper()
	p := &v1alpha1.NodePool{}
	Await(t, "the status has the phases of each start", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKey{Name: pool}, p)
		return err == nil && p.Status.StartSeconds != nil && int(p.Status.StartSeconds.Count) == l.Lives-1, err
	})
	for _, phase := range p.Status.StartSeconds.Phases {
		t.Logf("%s: half of the starts at most %d s", phase.Name, phase.P50)
	}
	slowest := slices.MaxFunc(p.Status.StartSeconds.Phases, func(a, b v1alpha1.StartPhaseSeconds) int {
		return cmp.Compare(a.P50, b.P50)
	})
	if slowest.Name != v1alpha1.PhaseNetwork || slowest.P50 < 3 {
		t.Errorf("the slowest phase of the pool's starts is %s", slowest.Name)
	}
	nodes := &corev1.NodeList{}
	if err := l.Client.List(t.Context(), nodes, client.MatchingLabels{v1alpha1.LabelPool: pool}); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		last, ok := v1alpha1.LastStartOf(&nodes.Items[i])
		if !ok || 2*last.Phases[v1alpha1.PhaseNetwork] < last.Took() {
			t.Errorf("the last start of node %s: %v", nodes.Items[i].Name, last.Phases)
		}
	}
}
