package env

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LoadNamespace holds the pods of Load, apart from those that are watched.
const LoadNamespace = "load"

// LoadTaint stands on the nodes that LoadNodes made with a taint. Only pods that tolerate it may
// use them.
const LoadTaint = "bench.stratos.sh/load"

// imagesPerNode is what a kubelet reports at most.
const imagesPerNode = 50

// LoadNodes are nodes without Stratos, Ready, as large as those of a real cluster: labels,
// addresses, 50 images. Their kubelets are not played.
func LoadNodes(from, to int, tainted bool) []*corev1.Node {
	var nodes []*corev1.Node
	for i := from; i < to; i++ {
		nodes = append(nodes, loadNode(i, tainted))
	}
	return nodes
}

// LoadName is that of the node of the number.
func LoadName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
}

func loadNode(i int, tainted bool) *corev1.Node {
	now := metav1.Now()
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
	}
	name := LoadName(i)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelInstanceTypeStable: "m5.16xlarge",
			corev1.LabelTopologyRegion:     "us-east-1", corev1.LabelTopologyZone: "us-east-1" + string(rune('a'+i%3)),
			"eks.amazonaws.com/nodegroup": "general", "k8s.io/cloud-provider-aws": "8ed5d1a7dd0ed9cd6d5d6a5a8d5c9f7a",
		}},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("other:///us-east-1a/i-%017x", i)},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255,
				i&255)}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Amazon Linux 2023",
				ContainerRuntimeVersion: "containerd://2.1.4", Architecture: "amd64", OperatingSystem: "linux"},
		},
	}
	if tainted {
		n.Spec.Taints = []corev1.Taint{{Key: LoadTaint, Effect: corev1.TaintEffectNoSchedule}}
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure,
		corev1.NodePIDPressure, corev1.NodeReady} {
		c := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastHeartbeatTime: now, LastTransitionTime: now,
			Reason: "KubeletHasSufficient", Message: "kubelet has enough of it available"}
		if kind == corev1.NodeReady {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
		}
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
	for k := range imagesPerNode {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: int64(k+1) << 20, Names: []string{
			fmt.Sprintf("123456789012.dkr.ecr.us-east-1.amazonaws.com/service-%d@sha256:%064x", k, k),
			fmt.Sprintf("123456789012.dkr.ecr.us-east-1.amazonaws.com/service-%d:v1.%d", k, i%7),
		}})
	}
	return n
}

// LoadPods are pods of an ordinary service, as large as those of a real cluster, bound to the nodes
// of LoadNodes in turn.
func LoadPods(from, to, nodes int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := from; i < to; i++ {
		pods = append(pods, loadPod(i, LoadName(i%nodes)))
	}
	return pods
}

func loadPod(i int, node string) *corev1.Pod {
	container := corev1.Container{
		Name: "main", Image: fmt.Sprintf("123456789012.dkr.ecr.us-east-1.amazonaws.com/service-%d:v1.3", i%imagesPerNode),
		Args: []string{"--listen=:8080", "--database=postgres://db.internal:5432/orders", "--log-level=info"},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/service"}, {Name: "scratch", MountPath: "/tmp"}},
	}
	for k := range 12 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SERVICE_SETTING_%d", k),
			Value: fmt.Sprintf("a value of the usual length, number %d of pod %d", k, i)})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: LoadNamespace, Name: fmt.Sprintf("service-%d-7d9c5b8f6c-%05d", i%imagesPerNode, i),
			// As of a Deployment. There is no such ReplicaSet, so an environment with Load runs no garbage
			// collector.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("service-%d-7d9c5b8f6c", i%imagesPerNode),
				UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i%imagesPerNode)), Controller: ptr.To(true),
			}},
			Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("service-%d", i%imagesPerNode),
				"app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9c5b8f6c"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": fmt.Sprintf("%064x", i)},
		},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{container},
			Volumes: []corev1.Volume{
				{
					Name: "config",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "service"}},
					},
				},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

// AddNodes creates the nodes. On an environment with Load they can be used at once.
func (s *Env) AddNodes(ctx context.Context, nodes []*corev1.Node) error {
	_, err := CreateAll(ctx, s.Client, nodes)
	return err
}

// AddPods creates the pods in their namespace.
func (s *Env) AddPods(ctx context.Context, pods []*corev1.Pod) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: LoadNamespace}}
	if err := client.IgnoreAlreadyExists(s.Client.Create(ctx, namespace)); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: LoadNamespace, Name: "default"}}
	// else pods are refused until it is there
	if err := client.IgnoreAlreadyExists(s.Client.Create(ctx, account)); err != nil {
		return err
	}
	_, err := CreateAll(ctx, s.Client, pods)
	return err
}
