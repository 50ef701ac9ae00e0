package helm

import (
	"maps"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestKindValues renders the chart with the values file that docs/kind.md names: Docker's socket
// reaches the container of Stratos, which may open it, and no other.
func TestKindValues(t *testing.T) {
	text, err := os.ReadFile("../../charts/stratos/values-kind.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	s := set(t, "kind")
	maps.Copy(s.Values, values)
	pod := deploymentOf(t, s).Spec.Template.Spec
	if user := pod.SecurityContext.RunAsUser; user == nil || *user != 0 || *pod.SecurityContext.RunAsNonRoot {
		t.Errorf("the pod runs as %v, want root, whose the socket is", user)
	}
	socket := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && v.HostPath.Path == "/var/run/docker.sock" && *v.HostPath.Type == corev1.HostPathSocket
	})
	if socket < 0 {
		t.Fatalf("no volume of the socket among %v", pod.Volumes)
	}
	var mounted []string
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		for _, m := range c.VolumeMounts {
			if m.Name == pod.Volumes[socket].Name && m.MountPath == "/var/run/docker.sock" {
				mounted = append(mounted, c.Name)
			}
		}
		if c.Name == "stratos" && !slices.Contains(c.Args, "--cloud-provider=kind") {
			t.Errorf("Stratos runs with %q", c.Args)
		}
		if c.SecurityContext.Capabilities == nil || !slices.Equal(c.SecurityContext.Capabilities.Drop,
			[]corev1.Capability{"ALL"}) {
			t.Errorf("container %s keeps capabilities: %v", c.Name, c.SecurityContext.Capabilities)
		}
	}
	if !slices.Equal(mounted, []string{"stratos"}) {
		t.Errorf("the socket is mounted into %q, want Stratos alone", mounted)
	}
}
