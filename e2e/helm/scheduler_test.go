package helm

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/e2e/controlplane"
)

// TestSchedulerReadsItsConfiguration starts kube-scheduler with what the values make of its
// configuration. It refuses what it does not know.
func TestSchedulerReadsItsConfiguration(t *testing.T) {
	c := newCluster(t)
	for name, change := range map[string]func(s *Set){
		"default":          func(*Set) {},
		"scheduler-values": func(s *Set) { delete(s.Values["scheduler"].(map[string]any), "kubernetesVersion") },
	} {
		s := set(t, name)
		change(&s)
		if err := c.startScheduler(t, name, s); err != nil {
			t.Errorf("set %s: %v", name, err)
		}
	}
	s := set(t, "default")
	s.Values["scheduler"] = map[string]any{"plugins": map[string]any{
		"score": map[string]any{"enabled": []any{map[string]any{"name": "Nobodys"}}}}}
	if err := c.startScheduler(t, "wrong", s); err == nil {
		t.Error("a plugin that does not exist is taken")
	}
}

// startScheduler runs the scheduler of a set here: with a kubeconfig, and without a lease in a
// namespace that is not there.
func (c *cluster) startScheduler(t *testing.T, name string, s Set) error {
	t.Helper()
	var text string
	for _, m := range find(objectsOf(t, s), "ConfigMap") {
		text, _, _ = unstructured.NestedString(m.Object, "data", "scheduler.yaml")
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["clientConnection"].(map[string]any)["kubeconfig"] = "${KUBECONFIG}"
	local, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.plane.StartScheduler(t.Context(), controlplane.SchedulerOptions{Name: name, ConfigYAML: local})
	return err
}
