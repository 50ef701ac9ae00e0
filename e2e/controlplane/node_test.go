package controlplane

import (
	"regexp"
	"testing"
)

// TestNodeIsOfTheControlPlanesVersion: node.mod is another file than go.mod and shall pin the same
// Kubernetes, with all its modules.
func TestNodeIsOfTheControlPlanesVersion(t *testing.T) {
	node, err := nodeRecipe()
	if err != nil {
		t.Fatal(err)
	}
	control, err := kubernetesRecipe()
	if err != nil {
		t.Fatal(err)
	}
	if node.Version != control.Version {
		t.Errorf("nodes are of %s, the control plane is of %s", node.Version, control.Version)
	}
	if node.Key() == control.Key() {
		t.Errorf("both are built into %s", node.Key())
	}
	replaced := regexp.MustCompile(`(?m)^replace k8s\.io/\S+ => k8s\.io/\S+ v\S+$`)
	ours, theirs := replaced.FindAllString(node.ModuleFile, -1), replaced.FindAllString(control.ModuleFile, -1)
	if len(ours) != len(theirs) || len(ours) < 30 {
		t.Fatalf("node.mod replaces %d modules, go.mod %d, want the same 30 or more", len(ours), len(theirs))
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			t.Errorf("node.mod has %q where go.mod has %q", ours[i], theirs[i])
		}
	}
}
