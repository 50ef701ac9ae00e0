package decide

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// How the pods that pull images and their containers are named.
const (
	pullPodPrefix       = "stratos-pull-"
	pullContainerPrefix = "image-"
)

// Namespace is the one that Stratos runs in. Pods that pull images are there and nowhere else.
type Namespace string

// IsWorkloadPod reports whether a pod keeps its node running: every pod but a DaemonSet's, a static
// one, a finished one, and one that pulls images.
func IsWorkloadPod(pod *corev1.Pod, ours Namespace) bool {
	return !ownedByDaemonSet(pod) && !IsImagePullPod(pod, ours) && pod.Annotations[corev1.MirrorPodAnnotationKey] == "" &&
		!fit.Finished(pod)
}

// IsImagePullPod reports whether the pod is one of those that make a kubelet pull images. A label
// alone would take a pod that does work out of the count, so everything that Stratos writes is
// compared. Containers under other names are left out, because admission injects some into every
// pod.
func IsImagePullPod(pod *corev1.Pod, ours Namespace) bool {
	if pod.Labels[v1alpha1.LabelPull] == "" || pod.Namespace != string(ours) || !ownedByItsNode(pod) {
		return false
	}
	if _, ok := PullPodNumber(pod); !ok {
		return false
	}
	own := 0
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if _, ok := PullContainerNumber(c.Name); !ok {
			continue
		}
		if !slices.Equal(c.Command, []string{v1alpha1.NoSuchCommand}) {
			return false
		}
		own++
	}
	return own > 0
}

// ownedByItsNode reports whether the Node that the pod is bound to owns it.
func ownedByItsNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.APIVersion == "v1" && o.Kind == "Node" && o.Name == pod.Spec.NodeName
	})
}

// PullPodName names one of the pods that pull a set of images. The hash of the set makes another
// set other pods, so that they need not wait for the deletion of those before.
func PullPodName(instance v1alpha1.InstanceID, hash string, number int) string {
	return fmt.Sprintf("%s%s-%s-%d", pullPodPrefix, instance, hash, number)
}

// PullPodNumber is the pod's number in its set, false for a pod that is not named by PullPodName
// and its label.
func PullPodNumber(pod *corev1.Pod) (int, bool) {
	rest, ok := strings.CutPrefix(pod.Name, pullPodPrefix)
	_, number, labelled := strings.Cut(rest, "-"+pod.Labels[v1alpha1.LabelPull]+"-")
	n, err := strconv.Atoi(number)
	return n, ok && labelled && err == nil && n >= 0
}

// PullContainerName names the container that pulls one image.
func PullContainerName(number int) string { return pullContainerPrefix + strconv.Itoa(number) }

// PullContainerNumber is the number in such a name, false for a container of others.
func PullContainerNumber(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, pullContainerPrefix)
	n, err := strconv.Atoi(rest)
	return n, ok && err == nil && n >= 0
}
