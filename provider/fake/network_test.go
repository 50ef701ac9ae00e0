package fake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/provider"
)

// TestNetworksReportAsTheirCNI holds each network to what field.md says that it writes on a Node,
// over three boots.
func TestNetworksReportAsTheirCNI(t *testing.T) {
	t.Parallel()
	networking := corev1.NodeConditionType("NetworkingReady")
	for name, c := range map[string]struct {
		kind corev1.NodeConditionType
		// reported says for each boot whether its network wrote the condition.
		reported []bool
		// atShutdown is the status after a shutdown in order.
		atShutdown corev1.ConditionStatus
		early      bool
	}{
		"nothing, as the AWS VPC CNI": {kind: networking, reported: []bool{false, false, false}},
		"eks-node-monitoring-agent": {kind: networking, reported: []bool{true, true, true},
			atShutdown: corev1.ConditionTrue, early: true},
		"cilium": {kind: corev1.NodeNetworkUnavailable, reported: []bool{true, false, false},
			atShutdown: corev1.ConditionFalse},
		"calico": {kind: corev1.NodeNetworkUnavailable, reported: []bool{true, true, true},
			atShutdown: corev1.ConditionTrue},
		"flannel": {kind: corev1.NodeNetworkUnavailable, reported: []bool{true, true, true},
			atShutdown: corev1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Times: Times{NetworkDelay: 10 * time.Second}}
			inWorld(t, o, MachinesOptions{CloudLoop: time.Hour}, func(t *testing.T, w *world) {
				w.class.Spec.UserData = "CNI=" + name + "\nkubelet: {shutdownGracePeriod: 30s}"
				instance := w.launch()
				before := time.Time{}
				for boot, want := range c.reported {
					w.after(4 * time.Second) // Ready, the network not up
					if got := condition(w.node(instance), c.kind).LastHeartbeatTime.After(before); got != (want && c.early) {
						t.Errorf("boot %d: reported %t with the kubelet's Ready, want %t", boot+1, got, want && c.early)
					}
					w.after(20 * time.Second)
					got := condition(w.node(instance), c.kind)
					if got.LastHeartbeatTime.After(before) != want {
						t.Errorf("boot %d: reported %+v, want a new report %t", boot+1, got, want)
					}
					w.stopped(instance)
					got = condition(w.node(instance), c.kind)
					if got.Status != c.atShutdown {
						t.Errorf("boot %d: status %q after the shutdown, want %q", boot+1, got.Status, c.atShutdown)
					}
					before = got.LastHeartbeatTime.Time
					w.start(instance)
				}
			})
		})
	}
}

// TestReadinessProbe: a pod with a probe turns Ready later than its container runs, in each boot
// anew.
func TestReadinessProbe(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{CloudLoop: time.Hour}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.bind(instance, "agent", func(pod *corev1.Pod) { pod.Annotations = map[string]string{AnnotationReadyAfter: "30s"} })
		var starts []time.Time
		for range 2 {
			w.after(10 * time.Second)
			pod := w.pod("agent")
			if podReady(pod.Status) || pod.Status.ContainerStatuses[0].State.Running == nil {
				t.Fatalf("status %+v, want a container that runs and is not Ready", pod.Status)
			}
			w.after(time.Minute)
			if pod = w.pod("agent"); !podReady(pod.Status) {
				t.Fatalf("status %+v, want Ready", pod.Status)
			}
			starts = append(starts, pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time)
			w.stopped(instance)
			if pod = w.pod("agent"); !podReady(pod.Status) {
				t.Fatalf("status %+v after the stop, want the Ready of the last life", pod.Status)
			}
			w.start(instance)
		}
		if !starts[1].After(starts[0]) {
			t.Errorf("containers started at %v: the second boot has to start them anew", starts)
		}
	})
}

// TestGracefulShutdown: a kubelet with shutdownGracePeriod says NotReady, takes its devices away
// and ends its pods.
func TestGracefulShutdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		userData string
		force    bool
		want     []any
	}{
		"graceful": {userData: "shutdownGracePeriod: 30s", want: []any{corev1.ConditionFalse,
			"node is shutting down", int64(0), corev1.PodFailed}},
		"stopped by force": {userData: "shutdownGracePeriod: 30s", force: true,
			want: []any{corev1.ConditionTrue, "kubelet is posting ready status", int64(1), corev1.PodRunning}},
		"without the setting": {userData: "", want: []any{corev1.ConditionTrue, "kubelet is posting ready status", int64(1),
			corev1.PodRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, Options{}, MachinesOptions{CloudLoop: time.Hour}, func(t *testing.T, w *world) {
				w.class.Spec.InstanceType, w.class.Spec.UserData = "g4dn.xlarge", c.userData
				instance := w.launch()
				w.bind(instance, "agent", nil)
				w.after(10 * time.Second)
				if err := w.cloud.StopInstance(t.Context(), string(instance.ID), c.force); err != nil {
					t.Fatal(err)
				}
				w.after(w.cloud.Times().Stop)
				w.isState(instance, provider.InstanceStopped)
				node := w.node(instance)
				ready, devices := condition(node, corev1.NodeReady), node.Status.Allocatable["nvidia.com/gpu"]
				got := []any{ready.Status, ready.Message, devices.Value(), w.pod("agent").Status.Phase}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("Ready, its message, devices, pod (-want +got):\n%s", diff)
				}
			})
		})
	}
}
