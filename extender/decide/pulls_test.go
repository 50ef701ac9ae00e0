package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// pullPod is a pod as Stratos makes it: two images on node "c".
func pullPod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "stratos", Name: "stratos-pull-i-c-0a1b-0", Labels: map[string]string{v1alpha1.LabelPull: "0a1b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "c"}},
		},
		Spec: corev1.PodSpec{NodeName: "c", Containers: []corev1.Container{
			{Name: "image-0", Command: []string{v1alpha1.NoSuchCommand}}, {Name: "image-1",
				Command: []string{v1alpha1.NoSuchCommand}},
		}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// The label alone must not be enough to have a pod killed, and what admission does to a pod of ours
// not enough to have it keep a node running.
func TestPodsThatPullImagesDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		counts bool
	}{
		"as Stratos makes it": {func(*corev1.Pod) {}, false},
		"images from a mirror": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[1].Image = "mirror/a:1", "mirror/b:1"
		}, false},
		"with an init container and a sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "mesh-init", Command: []string{"iptables"}}}
			p.Spec.Containers = append([]corev1.Container{{Name: "mesh-proxy", Image: "proxy"}}, p.Spec.Containers...)
		}, false},
		"a person debugs it": {func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} }, false},
		"another's owner beside the Node": {func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "Policy"})
		}, false},

		"without the label":             {func(p *corev1.Pod) { p.Labels = nil }, true},
		"in another namespace":          {func(p *corev1.Pod) { p.Namespace = "default" }, true},
		"without an owner":              {func(p *corev1.Pod) { p.OwnerReferences = nil }, true},
		"owned by another Node":         {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "d" }, true},
		"owned by something else":       {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, true},
		"owned by a Node of others":     {func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }, true},
		"on no node":                    {func(p *corev1.Pod) { p.Spec.NodeName, p.OwnerReferences[0].Name = "", "" }, true},
		"under another name":            {func(p *corev1.Pod) { p.Name = "web-0" }, true},
		"under the name of another set": {func(p *corev1.Pod) { p.Name = "stratos-pull-i-c-ffff-0" }, true},
		"under a name without a number": {func(p *corev1.Pod) { p.Name = "stratos-pull-i-c-0a1b-x" }, true},
		"with a command of its own":     {func(p *corev1.Pod) { p.Spec.Containers[1].Command = []string{"sh"} }, true},
		"with another command before": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Command = []string{"sh",
				v1alpha1.NoSuchCommand}
		}, true},
		"with none of our containers": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "app", Command: []string{v1alpha1.NoSuchCommand}}}
		}, true},
		"only a label on a pod that does work": {func(p *corev1.Pod) {
			*p = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "stratos", Name: "web", Labels: p.Labels},
				Spec: corev1.PodSpec{NodeName: "c"}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsWorkloadPod(pullPod(c.change), "stratos"); got != c.counts {
				t.Errorf("counts %v, want %v", got, c.counts)
			}
		})
	}
}
