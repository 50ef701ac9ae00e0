package framework

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// Pods are n pods as Pod makes them, numbered from 1.
func Pods(n int, prefix string, requests ...string) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = Pod(fmt.Sprintf("%s-%02d", prefix, i+1), requests...)
	}
	return pods
}

// PoolPods are n pods that use the pool's nodes alone.
func PoolPods(n int, prefix, pool string, requests ...string) []*corev1.Pod {
	pods := Pods(n, prefix, requests...)
	for _, p := range pods {
		OnPool(p, pool)
	}
	return pods
}

// PoolPod is a pod that uses the pool's nodes alone.
func PoolPod(name, pool string, requests ...string) *corev1.Pod {
	return OnPool(Pod(name, requests...), pool)
}

// OnPool confines the pod to the pool's nodes.
func OnPool(pod *corev1.Pod, pool string) *corev1.Pod {
	return selecting(pod, v1alpha1.LabelPool, pool)
}

// InZone has the pod run in the zone alone.
func InZone(pod *corev1.Pod, zone string) *corev1.Pod {
	return selecting(pod, corev1.LabelTopologyZone, zone)
}

func selecting(pod *corev1.Pod, label, value string) *corev1.Pod {
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector[label] = value
	return pod
}

// DaemonSet has pods of the spec, with the label app, which is its name.
func DaemonSet(name string, pod corev1.PodSpec) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}
	return set
}

// OnNodes requires of a pod's nodes a label with one of the values, or what the operator says.
func OnNodes(key string, operator corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
	return required(corev1.NodeSelectorTerm{MatchExpressions: requirement(key, operator, values)})
}

// OnNode confines a pod to a node by its name, before any filter runs.
func OnNode(name string) *corev1.Affinity {
	return required(corev1.NodeSelectorTerm{
		MatchFields: requirement(metav1.ObjectNameField, corev1.NodeSelectorOpIn, []string{name}),
	})
}

// NotOnStandby is the affinity of docs/operate.md, which keeps a DaemonSet's pods off standby
// nodes.
func NotOnStandby() *corev1.Affinity {
	return OnNodes(v1alpha1.LabelState, corev1.NodeSelectorOpNotIn, string(v1alpha1.StateStandby))
}

// TolerateAll tolerates every taint.
func TolerateAll() []corev1.Toleration {
	return []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func requirement(key string, operator corev1.NodeSelectorOperator, values []string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
}

func required(term corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			term,
		}},
	}}
}

// Budget allows no eviction of the one pod with the labels.
func Budget(name string, labels map[string]string) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
}

// Attachment is a volume that is attached to the node, of a driver that is not there.
func Attachment(name, node string) *storagev1.VolumeAttachment {
	volume := "volume-of-" + name
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}

// VolumeClaim is one of 1 GiB.
func VolumeClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: volumeSize()},
		},
	}
}

// Volume is one of 1 GiB that is reached from one zone only.
func Volume(name, class, zone string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class,
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      volumeSize(),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: OnNodes(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zone).NodeAffinity.
					RequiredDuringSchedulingIgnoredDuringExecution,
			},
		},
	}
}

func volumeSize() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// Mount has the pod use the claim.
func Mount(pod *corev1.Pod, claim string) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
}
