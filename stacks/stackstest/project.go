package stackstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stratos-sh/stratos/stacks/source"
)

// CopyWithCharts copies the stacks of the project and the chart of Stratos into a new folder and
// fetches the charts of others that the stacks depend on. It returns the copy of stacks/.
// root is the repository's.
func CopyWithCharts(t *testing.T, root string) string {
	t.Helper()
	work := t.TempDir()
	for _, folder := range []string{"stacks", "charts/stratos"} {
		if err := os.CopyFS(filepath.Join(work, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	stacks := filepath.Join(work, "stacks")
	lock, err := source.ReadLock(stacks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lock.Charts {
		if _, err := lock.Fetch(t.Context(), &lock.Charts[i], source.GoModDownload); err != nil {
			t.Fatal(err)
		}
	}
	return stacks
}
