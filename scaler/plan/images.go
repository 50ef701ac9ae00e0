package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// Images are the images that a node of the pool shall have before it stands by, sorted, each once: those that the pool names and those of
// every DaemonSet whose pods would run on the node while it is running.
func Images(pool *v1alpha1.NodePool, node *corev1.Node, sets []*appsv1.DaemonSet) []string {
	images := slices.Clone(pool.Spec.PreWarm.ImagesToPull)
	for _, set := range sets {
		// The other taints on a Node are Stratos's own, pass with the start, or are a person's: an image too many does no harm.
		if !RunsOn(pool, node, set, pool.Spec.Template.Taints) {
			continue
		}
		spec := &set.Spec.Template.Spec
		for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if list[i].Image != "" { // left to an admission webhook
					images = append(images, list[i].Image)
				}
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// labelsWhileRunning are the node's labels as they will be when it runs: a DaemonSet that keeps off standby nodes runs then.
func labelsWhileRunning(pool *v1alpha1.NodePool, node *corev1.Node) map[string]string {
	labels := maps.Clone(node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, pool.Spec.Template.Labels)
	labels[v1alpha1.LabelPool] = pool.Name
	labels[v1alpha1.LabelState] = string(v1alpha1.StateRunning)
	delete(labels, v1alpha1.LabelExcludeDisruption)
	return labels
}

// RunsOn reports whether pods of the DaemonSet run on the pool's node while it is running and has the given taints, by the
// rule of the DaemonSet controller.
func RunsOn(pool *v1alpha1.NodePool, node *corev1.Node, set *appsv1.DaemonSet, taints []corev1.Taint) bool {
	if set.DeletionTimestamp != nil {
		return false
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace}, Spec: set.Spec.Template.Spec}
	pod.Spec.Tolerations = append(slices.Clone(pod.Spec.Tolerations), daemonTolerations(pod.Spec.HostNetwork)...)
	return fit.ToleratesAll(pod, taints) && fit.Selects(pod, node.Name, labelsWhileRunning(pool, node)) == nil
}

// daemonTolerations are those that the DaemonSet controller adds to each of its pods.
func daemonTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	out := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		out = append(out, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return out
}

// HashImages tells two sets of images apart; "" is the empty set. The set is sorted.
func HashImages(images []string) string {
	if len(images) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(images, "\n")))
	return hex.EncodeToString(sum[:8])
}
