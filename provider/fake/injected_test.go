package fake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// injected makes the pod one that pulls an image and into which admission has put the init
// container and a sidecar.
func injected(init corev1.Container) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{init}
		p.Spec.Containers = []corev1.Container{
			{Name: "sidecar", Image: "example.com/proxy:1"},
			{Name: "image-0", Image: "example.com/app:1", Command: []string{v1alpha1.NoSuchCommand}},
		}
	}
}

// A kubelet runs the init containers first, pulls nothing else before they are through, and names
// its statuses.
func TestInjectedContainersRunAsOnAKubelet(t *testing.T) {
	t.Parallel()
	type container struct{ Name, State string }
	for name, c := range map[string]struct {
		init   corev1.Container
		phase  corev1.PodPhase
		want   []container
		images []string
	}{
		"an init container that ends": {
			corev1.Container{Name: "init", Image: "example.com/init:1"}, corev1.PodRunning,
			[]container{{"image-0", "StartError"}, {"sidecar", "running"}},
			[]string{"example.com/app:1", "example.com/init:1", "example.com/proxy:1"},
		},
		"an init container that fails": {
			corev1.Container{Name: "init", Image: "example.com/init:1", Command: []string{v1alpha1.NoSuchCommand}},
			corev1.PodFailed,
			[]container{{"image-0", "PodInitializing"}, {"sidecar", "PodInitializing"}},
			[]string{"example.com/init:1"},
		},
		"an init container without an image": {
			corev1.Container{Name: "init", Image: "missing.invalid/init:1"}, corev1.PodPending,
			[]container{{"image-0", "PodInitializing"}, {"sidecar", "PodInitializing"}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				instance := w.launch()
				w.after(3 * time.Second)
				w.bind(instance, "pull", injected(c.init))
				w.after(10 * time.Second)
				status := w.pod("pull").Status
				var got []container
				for _, s := range status.ContainerStatuses {
					got = append(got, container{s.Name, stateName(s.State)})
				}
				if diff := cmp.Diff(c.want, got); diff != "" || status.Phase != c.phase {
					t.Errorf("phase %s, want %s; containers (-want +got):\n%s", status.Phase, c.phase, diff)
				}
				views, err := w.cloud.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.images, views[0].Images); diff != "" {
					t.Errorf("images on the disk (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func stateName(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return s.Terminated.Reason
	case s.Waiting != nil:
		return s.Waiting.Reason
	}
	return ""
}
