package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/decide"
)

func pullOf(images ...string) Pull {
	return Pull{
		Namespace: "here", Pool: "p", Instance: "i-c", Images: Wanted{Required: images},
		Secrets: []v1alpha1.ImagePullSecret{{Name: "registry"}},
		Node:    &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: types.UID("uid-c")}},
	}
}

func TestPullPods(t *testing.T) {
	var images []string
	for i := range 45 {
		images = append(images, fmt.Sprintf("example.com/a:%d", i))
	}
	pods := pullOf(images...).Pods()
	if len(pods) != 3 {
		t.Fatalf("%d pods for 45 images, want 3", len(pods))
	}
	var got []string
	names := map[string]bool{}
	for _, p := range pods {
		names[p.Name] = true
		if decide.IsWorkloadPod(p, "here") {
			t.Errorf("pod %s would keep the node from stopping", p.Name)
		}
		if p.Namespace != "here" || p.Spec.NodeName != "c" || *p.Spec.AutomountServiceAccountToken ||
			*p.Spec.EnableServiceLinks || p.Spec.HostNetwork {
			t.Errorf("pod %+v", p.Spec)
		}
		for _, c := range p.Spec.Containers {
			got = append(got, c.Image)
			if len(c.Env) > 0 || len(c.Resources.Requests) > 0 || c.ImagePullPolicy != corev1.PullIfNotPresent ||
				c.Command[0] != v1alpha1.NoSuchCommand {
				t.Errorf("container %+v", c)
			}
		}
	}
	if diff := cmp.Diff(images, got); diff != "" || len(names) != 3 {
		t.Errorf("%d names; images (-want +got):\n%s", len(names), diff)
	}
	if pullOf("a").Pods()[0].Name == pullOf("b").Pods()[0].Name {
		t.Error("another set of images has the same pod")
	}
}

func waitsFor(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason,
		Message: message}}}
}

func endedWith(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason,
		ExitCode: 128}}}
}

func TestJudgeReadsOneImage(t *testing.T) {
	withID := waitsFor("ContainerCreating", "")
	withID.ImageID = "example.com/a@sha256:1"
	failing := func(words string) Pulled { return Pulled{Failed: []Failure{{"a", words}}} }
	there, unknown := Pulled{Present: 1}, Pulled{Open: []string{"a"}}
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		want   Pulled
	}{
		"not looked at":                       {corev1.ContainerStatus{}, unknown},
		"being pulled":                        {waitsFor("ContainerCreating", ""), unknown},
		"a word that nobody knows":            {waitsFor("Whatever", ""), unknown},
		"containerd could not start it":       {endedWith("StartError"), there},
		"containerd will try again":           {waitsFor("RunContainerError", "exec"), there},
		"CRI-O looks for the command earlier": {waitsFor("CreateContainerError", "executable not found"), there},
		"its user is root":                    {waitsFor("CreateContainerConfigError", "runAsNonRoot"), there},
		"the image has an id":                 {withID, there},
		"thrown out before the pull":          {endedWith("ContainerStatusUnknown"), unknown},
		"the registry says no":                {waitsFor("ErrImagePull", "not found"), failing("ErrImagePull: not found")},
		"the kubelet waits": {waitsFor("ImagePullBackOff", "back-off"),
			failing("ImagePullBackOff: back-off")},
		"no such name":       {waitsFor("InvalidImageName", "x"), failing("InvalidImageName: x")},
		"never to be pulled": {waitsFor("ErrImageNeverPull", "x"), failing("ErrImageNeverPull: x")},
	} {
		t.Run(name, func(t *testing.T) {
			pods := pullOf("a").Pods()
			c.status.Name = pods[0].Spec.Containers[0].Name
			pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{c.status}
			got, _ := Judge(Wanted{Required: []string{"a"}}, pods)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("judgement (-want +got):\n%s", diff)
			}
		})
	}
}

// Statuses come sorted by name, with images that a mirror or the runtime renamed, among those of
// containers of others.
func TestJudgeReadsEachImage(t *testing.T) {
	var images []string
	for i := range 12 { // image-10 and image-11 come before image-2
		images = append(images, fmt.Sprintf("r:%02d", i))
	}
	pull := pullOf(images...)
	pull.Images.BestEffort = []string{"b:0", "b:1"}
	pods := pull.Pods()
	say := func(pod *corev1.Pod, container string, s corev1.ContainerStatus) {
		s.Name, s.Image = container, "what the runtime calls it"
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
	}
	for _, pod := range pods {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Image = "mirror/" + pod.Spec.Containers[i].Image
		}
		pod.Spec.Containers = append([]corev1.Container{{Name: "mesh-proxy", Image: "r:02"}}, pod.Spec.Containers...)
		say(pod, "mesh-proxy", corev1.ContainerStatus{ImageID: "proxy"})
	}
	say(pods[0], "image-1", endedWith("StartError"))
	say(pods[0], "image-11", waitsFor("ErrImagePull", "no"))
	say(pods[1], "image-1", waitsFor("ImagePullBackOff", "no"))
	required, bestEffort := Judge(pull.Images, []*corev1.Pod{pods[1], pods[0], pullOf("another").Pods()[0]})
	if diff := cmp.Diff(Pulled{Present: 1, Failed: []Failure{{"r:11", "ErrImagePull: no"}},
		Open: slices.Concat(images[:1], images[2:11])}, required); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Pulled{Failed: []Failure{{"b:1", "ImagePullBackOff: no"}}, Open: []string{"b:0"}},
		bestEffort); diff != "" {
		t.Errorf("best effort (-want +got):\n%s", diff)
	}
	if pulled, all := Progress(pods[0]); pulled != 1 || all != 12 {
		t.Errorf("%d of %d pulls are done, want 1 of 12: the sidecar is none", pulled, all)
	}
}

func TestJudgeReadsThePod(t *testing.T) {
	init := func(s corev1.ContainerStatus) []corev1.ContainerStatus {
		s.Name = "mesh-init"
		return []corev1.ContainerStatus{s}
	}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   Pulled
	}{
		"refused": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods",
			Message: "no room"}, Pulled{Refused: []Failure{{"a", "kubelet ended the pod that pulls: OutOfpods: no room"}}}},
		"an init container runs": {corev1.PodStatus{InitContainerStatuses: init(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})}, Pulled{Open: []string{"a"}}},
		"an init container cannot be pulled": {corev1.PodStatus{InitContainerStatuses: init(waitsFor("ImagePullBackOff",
			"no"))}, Pulled{Failed: []Failure{{"a", "init container mesh-init: ImagePullBackOff: no"}}}},
		"an init container failed": {corev1.PodStatus{Phase: corev1.PodFailed,
			InitContainerStatuses: init(endedWith("Error"))}, Pulled{Refused: []Failure{{"a",
			"init container mesh-init of the pod that pulls failed: Error (exit code 128) "}}}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := pullOf("a").Pods()
			pods[0].Status = c.status
			got, _ := Judge(Wanted{Required: []string{"a"}}, pods)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("judgement (-want +got):\n%s", diff)
			}
		})
	}
	got, _ := Judge(Wanted{Required: []string{"a"}}, nil)
	if diff := cmp.Diff(Pulled{Unasked: []string{"a"}}, got); diff != "" {
		t.Errorf("judgement without pods (-want +got):\n%s", diff)
	}
}

// A registry of a DaemonSet's that does not answer must not hold up a required image in the same
// pod.
func TestRequiredImagesHavePodsOfTheirOwn(t *testing.T) {
	pull := pullOf("a", "z")
	pull.Images.BestEffort = []string{"b"}
	var got [][]string
	for _, pod := range pull.Pods() {
		var images []string
		for _, c := range pod.Spec.Containers {
			images = append(images, c.Image)
		}
		got = append(got, images)
	}
	if diff := cmp.Diff([][]string{{"a", "z"}, {"b"}}, got); diff != "" {
		t.Errorf("images by pod (-want +got):\n%s", diff)
	}
	other := pullOf("a", "b", "z")
	if pull.Pods()[0].Name == other.Pods()[0].Name {
		t.Error("the same images in other pods have the same name")
	}
	if pull.Images.Hash() != other.Images.Hash() {
		t.Error("which of the images are required makes another set of them: a change of that would refresh every node")
	}
}
