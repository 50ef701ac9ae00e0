package slim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
	"github.com/stratos-sh/stratos/scaler/network"
	"github.com/stratos-sh/stratos/scaler/plan"
)

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// fatContainer says all that a container can say which is not read here, and what is.
func fatContainer() corev1.Container {
	return corev1.Container{
		Name:          "c",
		Image:         "i",
		Command:       []string{"x"},
		Args:          []string{"y"},
		Env:           []corev1.EnvVar{{Name: "z"}},
		LivenessProbe: &corev1.Probe{},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "v"},
		},
		Ports:           []corev1.ContainerPort{{ContainerPort: 8080}, {HostPort: 80}},
		RestartPolicy:   new(corev1.ContainerRestartPolicyAlways),
		Resources:       corev1.ResourceRequirements{Requests: cpu("1")},
		SecurityContext: &corev1.SecurityContext{},
	}
}

func slimContainer() corev1.Container {
	return corev1.Container{
		Name: "c", Image: "i", Ports: []corev1.ContainerPort{{HostPort: 80}},
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Resources:     corev1.ResourceRequirements{Requests: cpu("1")},
	}
}

func fatMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "n", Name: "p", UID: "u", GenerateName: "p-", ManagedFields: []metav1.ManagedFieldsEntry{{}},
		Finalizers: []string{"f"},
		Labels:     map[string]string{"a": "b"}, Generation: 3, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
		OwnerReferences: []metav1.OwnerReference{{UID: "o"}},
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}",
			v1alpha1.AnnotationIgnore: "true", corev1.MirrorPodAnnotationKey: "m",
			"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
	}
}

func slimmedMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "n", Name: "p", UID: "u", Labels: map[string]string{"a": "b"}, Generation: 3,
		CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
		OwnerReferences:   []metav1.OwnerReference{{UID: "o"}},
		Annotations: map[string]string{v1alpha1.AnnotationIgnore: "true", corev1.MirrorPodAnnotationKey: "m",
			"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
	}
}

// fatPod is a pending pod, or a running one where node is not "".
func fatPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: fatMeta(),
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{fatContainer()},
			Containers:     []corev1.Container{fatContainer()},
			NodeName:       node,
			SchedulerName:  "s",
			Priority: new(
				int32(7),
			),
			PreemptionPolicy: new(corev1.PreemptNever),
			Tolerations:      []corev1.Toleration{{Key: "t"}},
			NodeSelector:     map[string]string{"d": "e"},
			Overhead:         cpu("1m"),
			HostNetwork:      true,
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{},
				PodAntiAffinity: &corev1.PodAntiAffinity{}},
			TopologySpreadConstraints:     []corev1.TopologySpreadConstraint{{MaxSkew: 1}},
			ResourceClaims:                []corev1.PodResourceClaim{{Name: "gpu"}},
			ServiceAccountName:            "default",
			SecurityContext:               &corev1.PodSecurityContext{},
			ImagePullSecrets:              []corev1.LocalObjectReference{{Name: "x"}},
			TerminationGracePeriodSeconds: new(int64(30)),
			Volumes: []corev1.Volume{
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				{
					Name: "claimed",
					VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
					},
				},
				{
					Name: "made",
					VolumeSource: corev1.VolumeSource{
						Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
					},
				},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, NominatedNodeName: "m", PodIP: "10.0.0.1", StartTime: &metav1.Time{},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodScheduled}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ImageID: "sha"}},
		},
	}
}

// What is dropped saves memory; what decisions read must stay.
func TestSlimPodKeepsWhatDecisionsRead(t *testing.T) {
	bound := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: slimmedMeta(),
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{slimContainer()}, Containers: []corev1.Container{slimContainer()}, NodeName: "n",
				SchedulerName: "s",
				Priority:      new(int32(7)), Overhead: cpu("1m"), HostNetwork: true,
				Affinity:       &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
				ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}},
				Volumes: []corev1.Volume{
					{
						Name: "claimed",
						VolumeSource: corev1.VolumeSource{
							PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
						},
					},
					{Name: "made", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending, NominatedNodeName: "m"},
		}
	}
	waiting := bound()
	waiting.Spec.NodeName, waiting.Spec.Affinity = "", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{},
		PodAntiAffinity: &corev1.PodAntiAffinity{}}
	waiting.Spec.Tolerations, waiting.Spec.NodeSelector = []corev1.Toleration{{Key: "t"}}, map[string]string{"d": "e"}
	waiting.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1}}
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled}}
	waiting.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	for name, c := range map[string]struct {
		node string
		want *corev1.Pod
	}{
		"one that waits: where it may go as well, and what its scheduler said": {"", waiting},
		"one that is bound: what it takes, and whom it keeps away":             {"n", bound()},
	} {
		t.Run(name, func(t *testing.T) {
			got := fatPod(c.node)
			slimPod(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("slim pod (-want +got):\n%s", diff)
			}
		})
	}
}

// Of the managed fields one thing is kept: that Stratos wrote the nomination of a pending pod.
func TestSlimPodKeepsWhoseANominationIs(t *testing.T) {
	ours := []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManagerNomination}}
	for name, c := range map[string]struct {
		node, manager string
		want          []metav1.ManagedFieldsEntry
	}{
		"by Stratos":                {"", v1alpha1.FieldManagerNomination, ours},
		"by the scheduler":          {"", "kube-scheduler", nil},
		"by Stratos, and bound now": {"n", v1alpha1.FieldManagerNomination, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fatPod(c.node)
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "k"}, {Manager: c.manager,
				Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"}}
			slimPod(pod)
			if diff := cmp.Diff(c.want, pod.ManagedFields); diff != "" {
				t.Errorf("managed fields (-want +got):\n%s", diff)
			}
		})
	}
}

// While a pod is being resized its statuses say what it takes; otherwise they say nothing that its
// spec does not.
func TestSlimPodTakesWhatTheFatOneTakes(t *testing.T) {
	for name, c := range map[string]struct {
		allocated string // "" for a kubelet that does not tell
		kept      bool
	}{
		"as asked for":               {"1", false},
		"a kubelet that tells less":  {"", false},
		"asked for less than it has": {"2", true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fatPod("n")
			pod.Spec.InitContainers = nil
			if c.allocated != "" {
				s := &pod.Status.ContainerStatuses[0]
				s.AllocatedResources, s.Resources = cpu(c.allocated), &corev1.ResourceRequirements{Requests: cpu(c.allocated)}
			}
			before := fit.Occupied(pod)
			slimPod(pod)
			if diff := cmp.Diff(before, fit.Occupied(pod)); diff != "" {
				t.Errorf("what it takes (-fat +slim):\n%s", diff)
			}
			if kept := len(pod.Status.ContainerStatuses) > 0; kept != c.kept {
				t.Errorf("statuses kept: %t, want %t", kept, c.kept)
			}
		})
	}
	bare := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}}}
	slimPod(bare)
	if len(bare.Status.ContainerStatuses) > 0 {
		t.Error("the statuses of a pod that asks for nothing are kept")
	}
}

// By namespace, names, owner and command a pod is known that pulls images and does no work, and by
// its statuses what came of it.
// TestSlimPodKeepsItsShape: a pod is like the same pods as before.
func TestSlimPodKeepsItsShape(t *testing.T) {
	everywhere := corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	for name, change := range map[string]func(*corev1.Pod){
		"volumes that are everywhere": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{everywhere}
		},
		"a volume of a network": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{everywhere, {Name: "n", VolumeSource: corev1.VolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}}}
		},
		"gates": func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		},
		"a policy": func(p *corev1.Pod) {
			p.Spec.PreemptionPolicy = new(corev1.PreemptNever)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fat, slimmed := fatPod(""), fatPod("")
			for _, p := range []*corev1.Pod{fat, slimmed} {
				p.Spec.SchedulingGroup, p.Spec.ResourceClaims, p.Spec.Volumes = nil, nil, nil
				change(p)
			}
			if name == "a policy" && fit.ShapeOf(fat) == (fit.Shape{}) {
				t.Fatal("the pod has no shape, so this shows nothing")
			}
			slimPod(slimmed)
			if fit.ShapeOf(slimmed) != fit.ShapeOf(fat) {
				t.Error("the cached pod has another shape")
			}
		})
	}
}

func TestSlimPodLeavesPodsThatPull(t *testing.T) {
	wanted := plan.Wanted{Required: []string{"a:1"}}
	request := plan.Pull{Namespace: "s", Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Pool: "p",
		Instance: "i", Images: wanted}
	pod := request.Pods()[0]
	pod.Spec.InitContainers = []corev1.Container{{Name: "mesh-init"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "image-0", ImageID: "sha"}}
	slimPod(pod)
	newShared().share(pod)
	if !decide.IsImagePullPod(pod, "s") {
		t.Error("it is no longer known as one")
	}
	if got, _ := plan.Judge(wanted, []*corev1.Pod{pod}); got.Present != 1 {
		t.Errorf("judged %+v, want the image to be there", got)
	}
}

func TestSlimNodeKeepsWhatDecisionsRead(t *testing.T) {
	got := &corev1.Node{
		ObjectMeta: fatMeta(),
		Spec: corev1.NodeSpec{ProviderID: "i", Unschedulable: true, Taints: []corev1.Taint{{Key: "t"}},
			PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}},
		Status: corev1.NodeStatus{
			Allocatable: cpu("3"), Capacity: cpu("4"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
			Images: []corev1.ContainerImage{{Names: []string{"a"}}}, Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}},
			NodeInfo:     corev1.NodeSystemInfo{MachineID: "m", BootID: "b"},
			VolumesInUse: []corev1.UniqueVolumeName{"v"},
		},
	}
	want := &corev1.Node{
		ObjectMeta: slimmedMeta(),
		Spec:       corev1.NodeSpec{ProviderID: "i", Unschedulable: true, Taints: []corev1.Taint{{Key: "t"}}},
		Status: corev1.NodeStatus{Allocatable: cpu("3"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
			NodeInfo: corev1.NodeSystemInfo{BootID: "b"}},
	}
	slimNode(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slim node (-want +got):\n%s", diff)
	}
	// A patch that is made from a Node without annotations writes the whole map: one that has lost its
	// last one must not look so.
	others := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"somebody's": "x"}}}
	if slimNode(others); others.Annotations == nil {
		t.Error("annotations of others look like none")
	}
}

func TestSlimDaemonSetKeepsWhereItRunsAndItsImages(t *testing.T) {
	got := &appsv1.DaemonSet{ObjectMeta: fatMeta(), Status: appsv1.DaemonSetStatus{NumberReady: 3}}
	got.Spec.Selector = &metav1.LabelSelector{}
	got.Spec.Template.Spec = fatPod("n").Spec
	want := &appsv1.DaemonSet{ObjectMeta: slimmedMeta()}
	s := fatPod("n").Spec
	container := slimContainer()
	container.Ports = fatContainer().Ports // on the host's network
	want.Spec.Template.Spec = corev1.PodSpec{
		NodeName: "n", NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, HostNetwork: true,
		Containers: []corev1.Container{container}, InitContainers: []corev1.Container{container}, Overhead: s.Overhead,
		Resources: s.Resources,
	}
	slimDaemonSet(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slim DaemonSet (-want +got):\n%s", diff)
	}
}

// TestSlimKeepsWhatDaemonsTake: a DaemonSet's pods take the same of a node whether it comes from
// the cache or not.
func TestSlimKeepsWhatDaemonsTake(t *testing.T) {
	for name, hostNetwork := range map[string]bool{"on the host's network": true, "on the pods' network": false} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.DaemonSet{ObjectMeta: fatMeta()}
			set.Spec.Template.Spec = fatPod("").Spec
			s := &set.Spec.Template.Spec
			s.HostNetwork, s.Overhead, s.Containers[0].Resources = hostNetwork, cpu("1"),
				corev1.ResourceRequirements{Limits: cpu("2")}
			s.Resources = &corev1.ResourceRequirements{Requests: cpu("5")}
			want := fit.NewDaemon(set)
			if want.Requests.MilliCPU != 6000 || len(want.Ports) == 0 {
				t.Fatalf("set-up: takes %+v and %v", want.Requests, want.Ports)
			}
			slimDaemonSet(set)
			got := fit.NewDaemon(set)
			if diff := cmp.Diff(want.Requests, got.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.Ports, got.Ports); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSlimKeepsWhatTellsANetworkAgent: the agents of a node are the same whether its objects come
// from the cache or not.
func TestSlimKeepsWhatTellsANetworkAgent(t *testing.T) {
	probed := fatContainer()
	probed.ReadinessProbe = &corev1.Probe{PeriodSeconds: 10}
	pool := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for name, container := range map[string]corev1.Container{"with a readiness probe": probed,
		"without one": fatContainer()} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.DaemonSet{ObjectMeta: fatMeta()}
			set.Spec.Template.Spec = corev1.PodSpec{
				Containers: []corev1.Container{container}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Volumes: []corev1.Volume{
					{Name: "cni", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"}}},
					{Name: "log", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}},
				},
			}
			pod := fatPod("n")
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: set.Name, UID: set.UID,
				Controller: new(true)}}
			pod.Spec.Containers, pod.Spec.Volumes = []corev1.Container{container}, set.Spec.Template.Spec.Volumes
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "x"}}
			for _, second := range []int64{7, 9, 8} {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: "c",
					State: corev1.ContainerState{
						Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(second, 0))},
					},
				})
			}
			want := network.AgentsOf(pool, node, []*appsv1.DaemonSet{set}, []corev1.Pod{*pod})
			if len(want) != 1 || !want[0].Ready || want[0].Started.Unix() != 9 {
				t.Fatalf("set-up: agents %+v", want)
			}
			slimPod(pod)
			slimDaemonSet(set)
			got := network.AgentsOf(pool, node, []*appsv1.DaemonSet{set}, []corev1.Pod{*pod})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("agents (-want +got):\n%s", diff)
			}
			if len(pod.Spec.Volumes)+len(set.Spec.Template.Spec.Volumes) != 2 || len(pod.Status.ContainerStatuses) != 1 {
				t.Errorf("more is kept than needed: volumes %v and %v, statuses %v", pod.Spec.Volumes,
					set.Spec.Template.Spec.Volumes, pod.Status.ContainerStatuses)
			}
		})
	}
}

func TestSlimVolumeKeepsFromWhereItIsReached(t *testing.T) {
	pv := func() *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v", Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "fast",
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}},
		}
	}
	fat := pv()
	fat.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	fat.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeHandle: "vol-1"}
	slimVolume(fat)
	if diff := cmp.Diff(pv(), fat); diff != "" {
		t.Errorf("slim volume (-want +got):\n%s", diff)
	}
}

func TestTransformLeavesAnythingElse(t *testing.T) {
	slim := transform(slimVolume)
	if same, err := slim("a tombstone"); err != nil || same != "a tombstone" {
		t.Errorf("turns into %v, %v", same, err)
	}
}

// copied is the pod with strings and slices of its own, as a decoder makes it.
func copied(pod *corev1.Pod, name string) *corev1.Pod {
	out := pod.DeepCopy()
	out.Name, out.UID, out.Namespace = name, types.UID(name), strings.Clone(pod.Namespace)
	return out
}

func TestPodsOfOneOwnerShareWhatIsEqual(t *testing.T) {
	s, first := newShared(), fatPod("n")
	first.OwnerReferences = []metav1.OwnerReference{{UID: "rs", Controller: new(true)}}
	slimPod(first)
	second, third, stranger := copied(first, "second"), copied(first, "third"), copied(first, "stranger")
	third.Spec.Containers[0].Image, third.Labels["a"] = "another", "c"
	stranger.OwnerReferences[0].UID = "other"
	wants := []*corev1.Pod{first.DeepCopy(), second.DeepCopy(), third.DeepCopy(), stranger.DeepCopy()}
	for i, p := range []*corev1.Pod{first, second, third, stranger} {
		s.share(p)
		if diff := cmp.Diff(wants[i], p); diff != "" {
			t.Errorf("sharing changed %s (-want +got):\n%s", p.Name, diff)
		}
	}
	if &first.Spec.Containers[0] != &second.Spec.Containers[0] {
		t.Error("equal containers of one owner are two")
	}
	if &first.Spec.Containers[0] == &third.Spec.Containers[0] ||
		&first.Spec.InitContainers[0] != &third.Spec.InitContainers[0] {
		t.Error("of a changed pod the equal parts are to be shared, and no others")
	}
	if &first.Spec.Containers[0] == &stranger.Spec.Containers[0] {
		t.Error("pods of two owners share their containers")
	}
}

func TestNodesShareWordsAndKeepTheirLabels(t *testing.T) {
	s := newShared()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "t", Value: "v", Effect: "NoSchedule"}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "r",
			Message: "m"}}}}
	want := n.DeepCopy()
	s.shareNode(n)
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("sharing changed the node (-want +got):\n%s", diff)
	}
	bare := &corev1.Node{}
	if s.shareNode(bare); bare.Labels != nil {
		t.Error("a node without labels has an empty map of them")
	}
}

// What is remembered to be shared does not grow with the life of the process.
func TestSharedForgets(t *testing.T) {
	s := newShared()
	for i := range 3 * sharedMost {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: string(rune(i)),
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(rune(i)), Controller: new(true)}}}}
		s.share(p)
	}
	if len(s.texts) > sharedMost || len(s.owners) > sharedMost {
		t.Errorf("%d texts and %d owners are remembered, want %d at most", len(s.texts), len(s.owners), sharedMost)
	}
}
