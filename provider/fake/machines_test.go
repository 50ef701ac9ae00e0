package fake

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// eksUserData names flannel, which reports at each boot.
const eksUserData = `#!/bin/bash
CNI=flannel
/etc/eks/bootstrap.sh my-cluster \
  --kubelet-extra-args '--register-with-taints=node.eks.amazonaws.com/not-ready=true:NoSchedule --node-labels=team=a,tier=b'
`

// world is a cloud, its machines and a cluster, inside a synctest bubble.
type world struct {
	t      *testing.T
	cloud  *Cloud
	client *clientfake.Clientset
	class  *v1alpha1.AWSNodeClass
}

// inWorld runs f in a bubble with running machines.
func inWorld(t *testing.T, o Options, mo MachinesOptions, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cloud: New(o), client: clientfake.NewClientset(), class: nodeClass("m5.large")}
		w.class.Spec.UserData = eksUserData
		mo.Client = w.client
		stop := w.play(mo)
		defer stop()
		f(t, w)
	})
}

// play starts machines over the cloud and returns what stops them.
func (w *world) play(mo MachinesOptions) func() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- NewMachines(w.cloud, mo).Start(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("machines: %v", err)
		}
	}
}

// after lets time pass in the bubble.
func (w *world) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of the synctest bubble moves, no time passes
	synctest.Wait()
}

func (w *world) launch() *provider.Instance {
	w.t.Helper()
	instance, err := w.cloud.LaunchInstance(w.t.Context(), w.class, provider.LaunchRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return instance
}

func (w *world) stopped(instance *provider.Instance) {
	w.t.Helper()
	if err := w.cloud.StopInstance(w.t.Context(), string(instance.ID), false); err != nil {
		w.t.Fatal(err)
	}
	w.after(w.cloud.Times().Stop)
	w.isState(instance, provider.InstanceStopped)
}

func (w *world) start(instance *provider.Instance) {
	w.t.Helper()
	if err := w.cloud.StartInstance(w.t.Context(), string(instance.ID)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) isState(instance *provider.Instance, want provider.InstanceState) {
	w.t.Helper()
	got, err := w.cloud.GetInstanceState(w.t.Context(), string(instance.ID))
	if err != nil || got != want {
		w.t.Fatalf("instance is %s (error %v), want %s", got, err, want)
	}
}

// node returns the instance's Node; nil for none.
func (w *world) node(instance *provider.Instance) *corev1.Node {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), instance.PrivateDNSName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return node
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// bind creates a pod that is bound to the instance's Node.
func (w *world) bind(instance *provider.Instance, name string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			NodeName: instance.PrivateDNSName, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/app:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		}},
	}
	if change != nil {
		change(pod)
	}
	if _, err := w.client.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func requests(list map[corev1.ResourceName]string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		r := corev1.ResourceList{}
		for name, quantity := range list {
			r[name] = resource.MustParse(quantity)
		}
		pod.Spec.Containers[0].Resources.Requests = r
	}
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func taintKeys(node *corev1.Node) []string {
	var keys []string
	for _, taint := range node.Spec.Taints {
		keys = append(keys, taint.Key+":"+string(taint.Effect))
	}
	slices.Sort(keys)
	return keys
}

func TestFirstBootRegistersAndReports(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(2700 * time.Millisecond)
		if w.node(instance) != nil {
			t.Fatal("the Node is there before the kubelet can be")
		}
		w.after(200 * time.Millisecond)
		node := w.node(instance)
		if node == nil {
			t.Fatal("no Node shortly before Ready")
		}
		if got := condition(node, corev1.NodeReady).Status; got != corev1.ConditionFalse {
			t.Errorf("registered with Ready=%s, want False", got)
		}
		w.after(100 * time.Millisecond)
		node = w.node(instance)
		if got := condition(node, corev1.NodeReady).Status; got != corev1.ConditionTrue {
			t.Errorf("Ready=%s after the boot time, want True", got)
		}
		if got := condition(node, corev1.NodeNetworkUnavailable).Status; got != corev1.ConditionFalse {
			t.Errorf("NetworkUnavailable=%s, want False", got)
		}
		if diff := cmp.Diff([]string{"node.eks.amazonaws.com/not-ready:NoSchedule"}, taintKeys(node)); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
		wantLabels := map[string]string{
			"team": "a", "tier": "b", corev1.LabelHostname: instance.PrivateDNSName, corev1.LabelArchStable: "amd64",
			corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "m5.large",
			corev1.LabelTopologyZone: "us-east-1a", corev1.LabelTopologyRegion: "us-east-1",
		}
		if diff := cmp.Diff(wantLabels, node.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if node.Spec.ProviderID != instance.ProviderID {
			t.Errorf("provider id %s, want %s", node.Spec.ProviderID, instance.ProviderID)
		}
		if got := node.Status.Allocatable.Pods().Value(); got != 29 {
			t.Errorf("allocatable pods %d, want 29", got)
		}
		if _, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), node.Name,
			metav1.GetOptions{}); err != nil {
			t.Errorf("lease: %v", err)
		}
	})
}

func TestRestartReportsAnewAndLeavesTheSpecAlone(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{CloudLoop: time.Hour}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(4 * time.Second)
		w.stopped(instance)
		node := w.node(instance)
		silent := node.Status
		node.Spec.Unschedulable = true
		node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}}
		node.Labels["team"] = "changed"
		if _, err := w.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(20 * time.Minute)
		if diff := cmp.Diff(silent, w.node(instance).Status); diff != "" {
			t.Errorf("a stopped machine spoke (-at stop +later):\n%s", diff)
		}
		w.start(instance)
		w.after(3 * time.Second)
		again := w.node(instance)
		for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeNetworkUnavailable} {
			before := (&corev1.Node{Status: silent})
			if b, a := condition(before, kind), condition(again, kind); !a.LastHeartbeatTime.After(b.LastHeartbeatTime.Time) {
				t.Errorf("%s: heartbeat %v after the restart, %v before", kind, a.LastHeartbeatTime, b.LastHeartbeatTime)
			}
		}
		if !again.Spec.Unschedulable || again.Labels["team"] != "changed" {
			t.Error("the restart touched the cordon or a label")
		}
		if diff := cmp.Diff([]string{v1alpha1.TaintStandby + ":NoSchedule"}, taintKeys(again)); diff != "" {
			t.Errorf("taints after the restart (-want +got):\n%s", diff)
		}
	})
}

func TestRestartWithinOneSecondWaitsForANewerHeartbeat(t *testing.T) {
	t.Parallel()
	quick := Times{Boot: 60 * time.Millisecond, Stop: 20 * time.Millisecond}
	inWorld(t, Options{Times: quick}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		beat := func() time.Time { return condition(w.node(instance), corev1.NodeReady).LastHeartbeatTime.Time }
		w.after(100 * time.Millisecond)
		first := beat()
		w.stopped(instance)
		w.start(instance)
		w.after(500 * time.Millisecond)
		if got := beat(); !got.Equal(first) {
			t.Errorf("reported again with %v within the second of %v", got, first)
		}
		w.after(500 * time.Millisecond)
		if got := beat(); !got.After(first) {
			t.Errorf("heartbeat after the restart is %v, before it %v", got, first)
		}
	})
}

func TestUserDataRunsAtTheFirstBootOnly(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		w.class.Spec.UserData += "sleep 30\npoweroff\n"
		instance := w.launch()
		w.after(3400 * time.Millisecond)
		w.isState(instance, provider.InstanceRunning)
		w.after(100 * time.Millisecond)
		w.isState(instance, provider.InstanceStopping)
		w.after(time.Second)
		w.isState(instance, provider.InstanceStopped)
		w.start(instance)
		w.after(time.Hour)
		w.isState(instance, provider.InstanceRunning)
	})
}

func TestExtendedResourcesComeLate(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		w.class.Spec.InstanceType = "g4dn.xlarge"
		instance := w.launch()
		gpus := func() int64 {
			q := w.node(instance).Status.Allocatable[simcloud.GPUResource]
			return q.Value()
		}
		for life := range 2 {
			w.after(3 * time.Second)
			if got := gpus(); got != 0 {
				t.Errorf("life %d: %d GPUs with the first Ready, want 0", life+1, got)
			}
			w.after(500 * time.Millisecond)
			if got := gpus(); got != 1 {
				t.Errorf("life %d: %d GPUs after the device delay, want 1", life+1, got)
			}
			w.stopped(instance)
			w.start(instance)
		}
	})
}

func TestMachineFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   Fault
		after   time.Duration
		ready   corev1.ConditionStatus
		network corev1.ConditionStatus
		devices int64
	}{
		"a silent kubelet registers no Node": {fault: Fault{Kind: FaultKubeletSilent}, after: time.Hour},
		"a slow boot is late by its delay, not yet": {fault: Fault{Kind: FaultBootDelay, Delay: time.Minute},
			after: 62 * time.Second},
		"a slow boot is late by its delay": {fault: Fault{Kind: FaultBootDelay, Delay: time.Minute}, after: 64 * time.Second,
			ready: corev1.ConditionTrue, network: corev1.ConditionFalse, devices: 1},
		"without network the kubelet is Ready": {fault: Fault{Kind: FaultNoNetwork}, after: time.Hour,
			ready: corev1.ConditionTrue, devices: 1},
		"late devices": {fault: Fault{Kind: FaultDevicesLate, Delay: time.Hour}, after: time.Minute,
			ready: corev1.ConditionTrue, network: corev1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				w.class.Spec.InstanceType = "g4dn.xlarge"
				if _, err := w.cloud.AddFault(t.Context(), c.fault); err != nil {
					t.Fatal(err)
				}
				instance := w.launch()
				w.after(c.after)
				w.isState(instance, provider.InstanceRunning)
				node := w.node(instance)
				if node == nil {
					node = &corev1.Node{}
				}
				devices := node.Status.Allocatable[simcloud.GPUResource]
				got := []any{condition(node, corev1.NodeReady).Status, condition(node, corev1.NodeNetworkUnavailable).Status,
					devices.Value()}
				if diff := cmp.Diff([]any{c.ready, c.network, c.devices}, got); diff != "" {
					t.Errorf("Ready, NetworkUnavailable, GPUs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestHeartbeatsAndLeases(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(4 * time.Second)
		w.client.ClearActions()
		w.after(10 * time.Minute)
		reports, renewals := 0, 0
		for _, action := range w.client.Actions() {
			switch {
			case action.Matches("patch", "nodes/status"):
				reports++
			case action.Matches("update", "leases"):
				renewals++
			}
		}
		// Ten minutes: a report each 5 min, a renewal each 10 s give or take 4 %.
		if reports != 2 || renewals < 57 || renewals > 63 {
			t.Errorf("%d reports and %d renewals, want 2 and about 60", reports, renewals)
		}
		beat := condition(w.node(instance), corev1.NodeReady).LastHeartbeatTime
		if age := time.Since(beat.Time); age > 6*time.Minute {
			t.Errorf("the heartbeat is %v old", age)
		}
	})
}

func TestPodsRunEndAndAreRemoved(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(3 * time.Second)
		w.bind(instance, "service", nil)
		w.bind(instance, "job", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations = map[string]string{AnnotationRunFor: "5s"}
		})
		if got := w.pod("service").Status.ContainerStatuses[0].State.Waiting; got == nil ||
			got.Reason != "ContainerCreating" {
			t.Errorf("while the image is pulled the container is %v, want ContainerCreating", got)
		}
		w.after(500 * time.Millisecond)
		running := w.pod("service").Status
		if running.Phase != corev1.PodRunning || running.PodIP == "" || !podReady(running) {
			t.Errorf("after the pull the pod is %s, ip %q, ready %v", running.Phase, running.PodIP, podReady(running))
		}
		for _, c := range running.Conditions {
			if c.Status == corev1.ConditionTrue && c.Reason != "" {
				t.Errorf("%s holds and still gives the reason %s", c.Type, c.Reason)
			}
		}
		if len(running.Conditions) < 5 {
			t.Errorf("PodScheduled was lost: %v", running.Conditions)
		}
		w.after(5 * time.Second)
		if got := w.pod("job").Status; got.Phase != corev1.PodSucceeded || podReady(got) {
			t.Errorf("after its time the job is %s, ready %v", got.Phase, podReady(got))
		}
		if got := w.pod("service").Status.Phase; got != corev1.PodRunning {
			t.Errorf("the service is %s", got)
		}
		images := w.node(instance).Status.Images
		if len(images) != 1 || !slices.Contains(images[0].Names, "registry.example.com/app:1") {
			t.Errorf("images on the Node: %v", images)
		}
		w.markDeleted("service")
		w.after(100 * time.Millisecond)
		if w.pod("service") != nil {
			t.Error("the deleted pod is still there")
		}
	})
}

func podReady(s corev1.PodStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// markDeleted does what the API server does to a bound pod that is deleted with a grace period.
func (w *world) markDeleted(name string) {
	w.t.Helper()
	pod := w.pod(name)
	now := metav1.Now()
	pod.DeletionTimestamp = &now
	if _, err := w.client.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func TestPodsOfAStoppedMachine(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(3 * time.Second)
		w.bind(instance, "daemon", nil)
		w.after(time.Second)
		w.stopped(instance)
		w.bind(instance, "late", nil)
		w.bind(instance, "deleted", nil)
		w.markDeleted("deleted")
		w.after(time.Hour)
		if w.pod("deleted") == nil {
			t.Error("somebody removed a pod of a stopped machine")
		}
		if got := w.pod("late").Status.Phase; got != corev1.PodPending {
			t.Errorf("a pod bound to a stopped machine is %s, want Pending", got)
		}
		w.start(instance)
		w.after(3*time.Second + 10*time.Millisecond)
		daemon := w.pod("daemon").Status
		if daemon.Phase != corev1.PodRunning || daemon.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("after the restart the daemon is %s with %d restarts, want Running with 1", daemon.Phase,
				daemon.ContainerStatuses[0].RestartCount)
		}
		if len(daemon.PodIPs) != 1 || daemon.PodIPs[0].IP != daemon.PodIP {
			t.Errorf("after the restart the daemon has addresses %v and %s: an API server refuses two", daemon.PodIPs,
				daemon.PodIP)
		}
		if got := w.pod("late").Status.Phase; got != corev1.PodRunning {
			t.Errorf("after the restart the late pod is %s: its image is on the disk, it should run", got)
		}
		w.after(time.Second)
		if w.pod("deleted") != nil {
			t.Error("after the restart the deleted pod is still there")
		}
	})
}

func TestImagePullPods(t *testing.T) {
	t.Parallel()
	puller := func(policy corev1.RestartPolicy, image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.RestartPolicy = policy
			p.Spec.Containers[0].Image = image
			p.Spec.Containers[0].Command = []string{"/stratos-no-such-command-x"}
		}
	}
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(3 * time.Second)
		w.bind(instance, "retries", puller(corev1.RestartPolicyOnFailure, "example.com/a@sha256:1"))
		w.bind(instance, "never", puller(corev1.RestartPolicyNever, "example.com/b:2"))
		w.bind(instance, "missing", puller(corev1.RestartPolicyOnFailure, "missing.invalid/c:3"))
		w.after(600 * time.Millisecond)
		retries, never, missing := w.pod("retries").Status, w.pod("never").Status, w.pod("missing").Status
		if s := retries.ContainerStatuses[0]; s.State.Waiting == nil || s.State.Waiting.Reason != "RunContainerError" ||
			s.ImageID == "" || s.Ready {
			t.Errorf("pull pod: %+v", s)
		}
		if s := never.ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.Reason != "StartError" ||
			s.ImageID != pinned("example.com/b:2") {
			t.Errorf("pull pod that never restarts: %+v", s)
		}
		if s := missing.ContainerStatuses[0]; s.State.Waiting == nil || s.State.Waiting.Reason != "ErrImagePull" ||
			s.ImageID != "" {
			t.Errorf("missing image: %+v", s)
		}
		w.after(time.Second)
		if s := w.pod("missing").Status.ContainerStatuses[0]; s.State.Waiting == nil ||
			s.State.Waiting.Reason != "ImagePullBackOff" {
			t.Errorf("missing image, later: %+v", s)
		}
		w.after(time.Second)
		views, err := w.cloud.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"example.com/a@sha256:1", "example.com/b:2"}, views[0].Images); diff != "" {
			t.Errorf("images on the disk (-want +got):\n%s", diff)
		}
	})
}

func TestCollectedImagesArePulledAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		onDisk := func() []string {
			views, err := w.cloud.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return views[0].Images
		}
		instance := w.launch()
		w.after(3 * time.Second)
		puller := func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = "example.com/a:1", []string{v1alpha1.NoSuchCommand}
		}
		w.bind(instance, "first", puller)
		w.after(time.Second)
		if diff := cmp.Diff([]string{"example.com/a:1"}, onDisk()); diff != "" {
			t.Fatalf("images after the pull (-want +got):\n%s", diff)
		}
		if err := w.cloud.Behind(t.Context(), string(instance.ID), ActCollectImages); err != nil {
			t.Fatal(err)
		}
		if got := onDisk(); len(got) != 0 {
			t.Fatalf("images after the collection: %v", got)
		}
		w.bind(instance, "second", puller)
		w.after(100 * time.Millisecond)
		if s := w.pod("second").Status.ContainerStatuses; len(s) > 0 && s[0].State.Terminated != nil {
			t.Errorf("the image of the second pod was there without a pull: %+v", s[0])
		}
		w.after(time.Second)
		if diff := cmp.Diff([]string{"example.com/a:1"}, onDisk()); diff != "" {
			t.Errorf("images after the second pull (-want +got):\n%s", diff)
		}
	})
}

func TestDoubleBookingIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   string
		pods   []map[corev1.ResourceName]string
		reason []string
	}{
		"cpu that fits exactly": {kind: "m5.large", pods: []map[corev1.ResourceName]string{{"cpu": "1500m"}, {"cpu": "500m"}},
			reason: []string{"", ""}},
		"cpu one too many": {kind: "m5.large", pods: []map[corev1.ResourceName]string{{"cpu": "1500m"}, {"cpu": "501m"}},
			reason: []string{"", "OutOfcpu"}},
		"memory": {kind: "m5.large", pods: []map[corev1.ResourceName]string{{"memory": "8Gi"},
			{"memory": "1Mi"}}, reason: []string{"", "OutOfmemory"}},
		"pods without requests": {kind: "tiny", pods: []map[corev1.ResourceName]string{{}, {}, {}},
			reason: []string{"", "", "OutOfpods"}},
		"devices": {kind: "g4dn.xlarge", pods: []map[corev1.ResourceName]string{{simcloud.GPUResource: "1"},
			{simcloud.GPUResource: "1"}}, reason: []string{"", "OutOfnvidia.com/gpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			types, err := ParseTypes("tiny=cpu:1,memory:1Gi,pods:2")
			if err != nil {
				t.Fatal(err)
			}
			inWorld(t, Options{Types: types}, MachinesOptions{}, func(t *testing.T, w *world) {
				w.class.Spec.InstanceType = c.kind
				instance := w.launch()
				w.after(5 * time.Second)
				for i, list := range c.pods {
					w.bind(instance, fmt.Sprint("pod-", i), requests(list))
				}
				w.after(time.Second)
				for i, want := range c.reason {
					status := w.pod(fmt.Sprint("pod-", i)).Status
					if status.Reason != want || (status.Phase == corev1.PodFailed) != (want != "") {
						t.Errorf("pod %d is %s %q, want reason %q", i, status.Phase, status.Reason, want)
					}
				}
			})
		})
	}
}

func TestRoomComesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(3 * time.Second)
		full := requests(map[corev1.ResourceName]string{"cpu": "2"})
		for round := range 3 {
			name := fmt.Sprint("pod-", round)
			w.bind(instance, name, full)
			w.after(time.Second)
			if got := w.pod(name).Status; got.Phase != corev1.PodRunning {
				t.Fatalf("round %d: the pod is %s %s", round, got.Phase, got.Reason)
			}
			w.markDeleted(name)
			w.after(time.Second)
		}
		w.bind(instance, "job", func(p *corev1.Pod) {
			full(p)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations = map[string]string{AnnotationRunFor: "1s"}
		})
		w.after(2 * time.Second)
		w.bind(instance, "after the job", full)
		w.after(time.Second)
		if got := w.pod("after the job").Status; got.Phase != corev1.PodRunning {
			t.Errorf("after the job the pod is %s %s", got.Phase, got.Reason)
		}
	})
}

func TestCloudControllerMarksAndDeletes(t *testing.T) {
	t.Parallel()
	o := MachinesOptions{PlayNodeController: true, GracePeriod: 20 * time.Second}
	inWorld(t, Options{}, o, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(10 * time.Second)
		w.stopped(instance)
		w.after(40 * time.Second)
		node := w.node(instance)
		want := []string{
			"node.cloudprovider.kubernetes.io/shutdown:NoSchedule", "node.eks.amazonaws.com/not-ready:NoSchedule",
			"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule",
		}
		if diff := cmp.Diff(want, taintKeys(node)); diff != "" {
			t.Errorf("taints of a stopped node (-want +got):\n%s", diff)
		}
		if got := condition(node, corev1.NodeReady).Status; got != corev1.ConditionUnknown {
			t.Errorf("Ready=%s, want Unknown", got)
		}
		w.start(instance)
		w.after(15 * time.Second)
		if diff := cmp.Diff([]string{"node.eks.amazonaws.com/not-ready:NoSchedule"},
			taintKeys(w.node(instance))); diff != "" {
			t.Errorf("taints of the restarted node (-want +got):\n%s", diff)
		}
		if err := w.cloud.Behind(t.Context(), string(instance.ID), ActVanish); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if w.node(instance) != nil {
			t.Error("the Node of a vanished instance is still there")
		}
	})
}

func TestANodeDeletedByHandComesBackAtTheNextStart(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		instance := w.launch()
		w.after(4 * time.Second)
		if err := w.client.CoreV1().Nodes().Delete(t.Context(), instance.PrivateDNSName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Hour)
		if w.node(instance) != nil {
			t.Error("a running kubelet registered anew; the real one does so at its start only")
		}
		w.stopped(instance)
		w.start(instance)
		w.after(4 * time.Second)
		if node := w.node(instance); node == nil || condition(node, corev1.NodeReady).Status != corev1.ConditionTrue {
			t.Error("the restarted machine has no Ready Node")
		}
	})
}

func TestMachinesContinueOverAnExistingCloud(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cloud: New(Options{}), client: clientfake.NewClientset(), class: nodeClass("m5.large")}
		stop := w.play(MachinesOptions{Client: w.client})
		running, off := w.launch(), w.launch()
		w.after(4 * time.Second)
		w.stopped(off)
		stop()
		booting := w.launch()
		w.after(time.Minute)
		if w.node(booting) != nil {
			t.Error("a machine acted while nobody played it")
		}
		before := condition(w.node(running), corev1.NodeReady).LastHeartbeatTime
		stop = w.play(MachinesOptions{Client: w.client})
		defer stop()
		w.after(time.Second)
		if w.node(booting) == nil {
			t.Error("the instance that booted meanwhile has no Node")
		}
		if after := condition(w.node(running), corev1.NodeReady).LastHeartbeatTime; !after.After(before.Time) {
			t.Error("the running machine did not go on")
		}
		w.start(off)
		w.after(3 * time.Second)
		if got := condition(w.node(off), corev1.NodeReady).Status; got != corev1.ConditionTrue {
			t.Errorf("the stopped machine, started: Ready=%s", got)
		}
	})
}

func TestStoppedIsSaidAfterTheLastReportHasLanded(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		const slow = 4 * time.Second
		w.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(slow) //nolint:forbidigo // the clock of the synctest bubble moves, no time passes
			return false, nil, nil
		})
		instance := w.launch()
		// The report of the first Ready is under way, then the power goes.
		w.after(3100 * time.Millisecond)
		if err := w.cloud.StopInstance(t.Context(), string(instance.ID), false); err != nil {
			t.Fatal(err)
		}
		w.after(2 * time.Second)
		w.isState(instance, provider.InstanceStopping)
		w.after(slow)
		w.isState(instance, provider.InstanceStopped)
		before := w.node(instance).Status
		w.after(time.Hour)
		if diff := cmp.Diff(before, w.node(instance).Status); diff != "" {
			t.Errorf("a report landed after stopped (-at stop +later):\n%s", diff)
		}
	})
}
