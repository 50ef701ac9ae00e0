package plan

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/claim"
)

func pullOf(images ...string) Pull {
	return Pull{
		Namespace: "here", Pool: "p", Instance: "i-c", Images: images, Secrets: []v1alpha1.ImagePullSecret{{Name: "registry"}},
		Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: types.UID("uid-c")}},
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
		if claim.Counts(p) {
			t.Errorf("pod %s would keep the node from stopping", p.Name)
		}
		if p.Namespace != "here" || p.Spec.NodeName != "c" || *p.Spec.AutomountServiceAccountToken || *p.Spec.EnableServiceLinks || p.Spec.HostNetwork {
			t.Errorf("pod %+v", p.Spec)
		}
		for _, c := range p.Spec.Containers {
			got = append(got, c.Image)
			if len(c.Env) > 0 || len(c.Resources.Requests) > 0 || c.ImagePullPolicy != corev1.PullIfNotPresent || c.Command[0] != v1alpha1.NoSuchCommand {
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
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func endedWith(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 128}}}
}

func TestJudgeReadsOneImage(t *testing.T) {
	withID := waitsFor("ContainerCreating", "")
	withID.ImageID = "example.com/a@sha256:1"
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		want   Pulled
	}{
		"not looked at":                       {corev1.ContainerStatus{}, Pulled{Open: 1}},
		"being pulled":                        {waitsFor("ContainerCreating", ""), Pulled{Open: 1}},
		"a word that nobody knows":            {waitsFor("Whatever", ""), Pulled{Open: 1}},
		"containerd could not start it":       {endedWith("StartError"), Pulled{Present: 1}},
		"containerd will try again":           {waitsFor("RunContainerError", "exec"), Pulled{Present: 1}},
		"CRI-O looks for the command earlier": {waitsFor("CreateContainerError", "executable not found"), Pulled{Present: 1}},
		"its user is root":                    {waitsFor("CreateContainerConfigError", "runAsNonRoot"), Pulled{Present: 1}},
		"the image has an id":                 {withID, Pulled{Present: 1}},
		"thrown out before the pull":          {endedWith("ContainerStatusUnknown"), Pulled{Open: 1}},
		"the registry says no":                {waitsFor("ErrImagePull", "not found"), Pulled{Failed: []Failure{{"a", "ErrImagePull: not found"}}}},
		"the kubelet waits":                   {waitsFor("ImagePullBackOff", "back-off"), Pulled{Failed: []Failure{{"a", "ImagePullBackOff: back-off"}}}},
		"no such name":                        {waitsFor("InvalidImageName", "x"), Pulled{Failed: []Failure{{"a", "InvalidImageName: x"}}}},
		"never to be pulled":                  {waitsFor("ErrImageNeverPull", "x"), Pulled{Failed: []Failure{{"a", "ErrImageNeverPull: x"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := pullOf("a").Pods()
			c.status.Name = pods[0].Spec.Containers[0].Name
			pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{c.status}
			if diff := cmp.Diff(c.want, Judge([]string{"a"}, pods)); diff != "" {
				t.Errorf("judgement (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeReadsEachImage(t *testing.T) {
	pods := pullOf("a", "b", "c").Pods()
	for i, s := range []corev1.ContainerStatus{waitsFor("ErrImagePull", "no"), endedWith("StartError")} {
		s.Name = pods[0].Spec.Containers[i].Name
		s.Image = "what the runtime calls it"
		pods[0].Status.ContainerStatuses = append(pods[0].Status.ContainerStatuses, s)
	}
	want := Pulled{Present: 1, Failed: []Failure{{"a", "ErrImagePull: no"}}, Open: 2}
	if diff := cmp.Diff(want, Judge([]string{"a", "b", "c", "d"}, pods)); diff != "" {
		t.Errorf("judgement (-want +got):\n%s", diff)
	}
	refused := pullOf("a").Pods()
	refused[0].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "no room"}
	if diff := cmp.Diff(Pulled{Open: 1, Refused: "OutOfpods: no room"}, Judge([]string{"a"}, refused)); diff != "" {
		t.Errorf("judgement of a refused pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Pulled{Open: 1}, Judge([]string{"a"}, nil)); diff != "" {
		t.Errorf("judgement without pods (-want +got):\n%s", diff)
	}
}
