package plan

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
	"github.com/stratos-sh/stratos/extender/fit"
)

// pullsPerPod bounds the size of one pod. The kubelet takes a pod's containers one after the other
// and goes on after one whose image cannot be pulled, so how many are in a pod changes nothing
// else.
const pullsPerPod = 20

// Pull is what a node's kubelet is asked to pull.
type Pull struct {
	Namespace string
	Node      *corev1.Node
	Pool      v1alpha1.PoolName
	Instance  v1alpha1.InstanceID
	Images    Wanted
	Secrets   []v1alpha1.ImagePullSecret
}

// Pods are the pods that make the node's kubelet pull the images, those with required ones first.
// They are bound already, tolerate every taint that could evict them, and run nothing: their
// command exists in no image.
func (p Pull) Pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, images := range p.Images.layout() {
		pod := p.pod(len(pods))
		for i, image := range images {
			pod.Spec.Containers = append(pod.Spec.Containers, pulling(decide.PullContainerName(i), image))
		}
		pods = append(pods, pod)
	}
	return pods
}

func (p Pull) pod(number int) *corev1.Pod {
	hash := p.Images.layoutHash()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace,
			Name:      decide.PullPodName(p.Instance, hash, number),
			Labels:    map[string]string{v1alpha1.LabelPull: hash, v1alpha1.LabelPool: string(p.Pool)},
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

// Pulled is what the pods have shown of a list of images. Each is counted or named once.
type Pulled struct {
	// Present is the number of images that are on the node.
	Present int
	// Failed are the images that the kubelet could not pull, in the order of the pods, with its words.
	Failed []Failure
	// Refused are those that the kubelet did not come to before their pod ended.
	Refused []Failure
	// Open are the images of which nothing is known yet.
	Open []string
	// Unasked are the images that no pod is there for.
	Unasked []string
}

// Missing is the number of images that are not on the node, or not yet.
func (p *Pulled) Missing() int {
	return len(p.Failed) + len(p.Refused) + len(p.Open) + len(p.Unasked)
}

// Failure is an image that could not be pulled and why, in the words of kubelet and registry.
type Failure struct{ Image, Words string }

// Current are the pods that pull what is wanted now.
func (w Wanted) Current(pods []*corev1.Pod) []*corev1.Pod {
	hash := w.layoutHash()
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return p.Labels[v1alpha1.LabelPull] != hash
	})
}

// Judge reads from the pods' statuses what is on the node. Which image a status is about follows
// from the names of pod and container alone: admission may have written another image into the
// spec, and the runtime into the status.
func Judge(w Wanted, pods []*corev1.Pod) (required, bestEffort Pulled) {
	byNumber := map[int]*corev1.Pod{}
	for _, pod := range w.Current(pods) {
		if n, ok := decide.PullPodNumber(pod); ok {
			byNumber[n] = pod
		}
	}
	for n, images := range w.layout() {
		out := &bestEffort
		if w.Requires(images[0]) {
			out = &required
		}
		if pod := byNumber[n]; pod != nil {
			out.read(images, pod)
		} else {
			out.Unasked = append(out.Unasked, images...)
		}
	}
	return required, bestEffort
}

// read adds what one pod has shown.
func (p *Pulled) read(images []string, pod *corev1.Pod) {
	stuck, refused := stuckBefore(pod), refusal(pod)
	for i, image := range images {
		switch verdict, words := judge(statusOf(pod, decide.PullContainerName(i))); {
		case verdict == present:
			p.Present++
		case verdict == failed:
			p.Failed = append(p.Failed, Failure{Image: image, Words: words})
		case refused != "":
			p.Refused = append(p.Refused, Failure{Image: image, Words: refused})
		case stuck != "":
			p.Failed = append(p.Failed, Failure{Image: image, Words: stuck})
		default:
			p.Open = append(p.Open, image)
		}
	}
}

func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s
		}
	}
	return &corev1.ContainerStatus{}
}

// stuckBefore is why the kubelet does not come to the pod's containers, for now: an init container
// that admission has put there, whose image cannot be pulled.
func stuckBefore(pod *corev1.Pod) string {
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if verdict, words := judge(s); verdict == failed {
			return "init container " + s.Name + ": " + words
		}
	}
	return ""
}

// refusal is why the pod has ended, "" of one that has not.
func refusal(pod *corev1.Pod) string {
	if !fit.Finished(pod) {
		return ""
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if ended := s.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return fmt.Sprintf("init container %s of the pod that pulls failed: %s (exit code %d) %s",
				s.Name, ended.Reason, ended.ExitCode, ended.Message)
		}
	}
	reason := cmp.Or(pod.Status.Reason, string(pod.Status.Phase))
	return "kubelet ended the pod that pulls: " + reason + ": " + pod.Status.Message
}

// Progress is how many of the pod's images are there, and how many it pulls.
func Progress(pod *corev1.Pod) (pulled, all int) {
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if _, ok := decide.PullContainerNumber(name); !ok {
			continue
		}
		all++
		if verdict, _ := judge(statusOf(pod, name)); verdict == present {
			pulled++
		}
	}
	return pulled, all
}

type verdict int

const (
	open verdict = iota
	failed
	present
)

// judge: the kubelet pulls an image first of all, so whatever goes wrong later shows that the image
// is there. That includes the refusal to run it as root, and with runtimes that look for the
// command when the container is created also a container that never came to be.
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
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed":
		return failed, s.State.Waiting.Reason + ": " + s.State.Waiting.Message
	}
	return open, "" // ContainerCreating, PodInitializing, or a word that we do not know
}
