package claim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// A label must not be enough to have a pod killed: what is not counted cannot do any work.
func TestPodsThatPullImagesDoNotCount(t *testing.T) {
	nothing := corev1.Container{Command: []string{v1alpha1.NoSuchCommand}}
	label := map[string]string{v1alpha1.LabelPull: "x"}
	for name, c := range map[string]struct {
		labels map[string]string
		spec   corev1.PodSpec
		counts bool
	}{
		"one that pulls":                        {label, corev1.PodSpec{Containers: []corev1.Container{nothing, nothing}}, false},
		"one without the label":                 {nil, corev1.PodSpec{Containers: []corev1.Container{nothing}}, true},
		"one with a container that does work":   {label, corev1.PodSpec{Containers: []corev1.Container{nothing, {Image: "app"}}}, true},
		"one with a command of its own":         {label, corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"sh"}}}}, true},
		"one with an init container":            {label, corev1.PodSpec{InitContainers: []corev1.Container{nothing}, Containers: []corev1.Container{nothing}}, true},
		"one that somebody looks into by a new": {label, corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{}}, Containers: []corev1.Container{nothing}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Counts(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}, Spec: c.spec}); got != c.counts {
				t.Errorf("counts %v, want %v", got, c.counts)
			}
		})
	}
}
