package patch

import (
	"path/filepath"
	"testing"
)

// TestPlantedBugsApply keeps the patches from rotting: each must fit the tree as it is now.
func TestPlantedBugsApply(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := List("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(patches) < 12 {
		t.Errorf("%d planted bugs, want at least 12", len(patches))
	}
	for _, p := range patches {
		if out, err := Apply(t.Context(), root, p.File, "--check"); err != nil {
			t.Errorf("%s does not apply: %s", p.Name, out)
		}
	}
}
