package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// pullsPerPod bounds the size of one pod. The kubelet takes a pod's containers one after the other and goes on after one whose image cannot be
// pulled, so how many are in a pod changes nothing else.
const pullsPerPod = 20

// Pull is what a node's kubelet is asked to pull.
type Pull struct {
	Namespace string
	Node      *corev1.Node
	Pool      v1alpha1.PoolName
	Instance  v1alpha1.InstanceID
	Images    []string
	Secrets   []v1alpha1.ImagePullSecret
}

// Pods are the pods that make the node's kubelet pull the images. They are bound already, tolerate every taint that could evict them, and run
// nothing: their command exists in no image.
func (p Pull) Pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for chunk := range slices.Chunk(p.Images, pullsPerPod) {
		pod := p.pod(len(pods))
		for i, image := range chunk {
			pod.Spec.Containers = append(pod.Spec.Containers, pulling(fmt.Sprintf("image-%d", i), image))
		}
		pods = append(pods, pod)
	}
	return pods
}

func (p Pull) pod(number int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace,
			// The hash makes another set another pod, so that it need not wait for the deletion of the one before.
			Name: fmt.Sprintf("stratos-pull-%s-%s-%d", p.Instance, HashImages(p.Images), number),
			Labels: map[string]string{
				v1alpha1.LabelPull: HashImages(p.Images), v1alpha1.LabelPool: string(p.Pool),
			},
			// The Node's end is the pod's end, whatever becomes of us.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.Node.Name, UID: p.Node.UID}},
		},
		Spec: corev1.PodSpec{
			NodeName:                      p.Node.Name,
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64),
			AutomountServiceAccountToken:  new(bool),
			EnableServiceLinks:            new(bool),
			ImagePullSecrets:              p.Secrets,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}
	return pod
}

func pulling(name, image string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, Command: []string{v1alpha1.NoSuchCommand}, ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(bool), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// Pulled is what the pods have shown of a set of images.
type Pulled struct {
	// Present is the number of images that are on the node.
	Present int
	// Failed are the images that the kubelet could not pull, in the order of the pods, with its words.
	Failed []Failure
	// Open is the number of images of which nothing is known yet.
	Open int
	// Refused are the words of a kubelet that did not take a pod in, or threw it out.
	Refused string
}

// Failure is an image that could not be pulled and why, in the words of kubelet and registry.
type Failure struct{ Image, Words string }

// Judge reads from the pods' statuses what is on the node. Images of which no pod says anything are open.
func Judge(images []string, pods []*corev1.Pod) Pulled {
	out := Pulled{}
	said := map[string]corev1.ContainerStatus{}
	for _, pod := range pods {
		// A pod whose containers have failed gives no reason of its own.
		if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
			out.Refused = cmp.Or(out.Refused, pod.Status.Reason+": "+pod.Status.Message)
		}
		named := map[string]string{}
		for i := range pod.Spec.Containers {
			named[pod.Spec.Containers[i].Name] = pod.Spec.Containers[i].Image
		}
		for _, s := range pod.Status.ContainerStatuses {
			said[named[s.Name]] = s // the runtime may write another name of the same image into the status
		}
	}
	for _, image := range images {
		status, ok := said[image]
		switch verdict, words := judge(&status); {
		case !ok, verdict == open:
			out.Open++
		case verdict == failed:
			out.Failed = append(out.Failed, Failure{Image: image, Words: words})
		default:
			out.Present++
		}
	}
	return out
}

type verdict int

const (
	open verdict = iota
	failed
	present
)

// judge: the kubelet pulls an image first of all, so whatever goes wrong later shows that the image is there. That includes the refusal to run
// it as root, and with runtimes that look for the command when the container is created also a container that never came to be.
func judge(s *corev1.ContainerStatus) (verdict, string) {
	ended := s.State.Terminated
	switch {
	case ended != nil && ended.Reason == "ContainerStatusUnknown": // an eviction or a shutdown came first
		return open, ""
	case s.ImageID != "", ended != nil, s.State.Running != nil, s.LastTerminationState.Terminated != nil:
		return present, ""
	case s.State.Waiting == nil:
		return open, ""
	}
	switch s.State.Waiting.Reason {
	case "CreateContainerError", "CreateContainerConfigError", "RunContainerError", "StartError", "CrashLoopBackOff",
		"PreCreateHookError", "PreStartHookError", "PostStartHookError":
		return present, ""
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return failed, s.State.Waiting.Reason + ": " + s.State.Waiting.Message
	}
	return open, "" // ContainerCreating, PodInitializing, or a word that we do not know
}
