package stackstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stratos-sh/stratos/stacks/files"
	"github.com/stratos-sh/stratos/stacks/source"
)

// CopyWithSmallCharts copies the stacks of the project and the chart of Stratos into a new folder,
// with small charts in place of those of others, for which the network would be needed. It returns
// that folder. root is the repository's.
func CopyWithSmallCharts(t *testing.T, root string) string {
	t.Helper()
	work := t.TempDir()
	for _, folder := range []string{"stacks", "charts/stratos"} {
		if err := os.CopyFS(filepath.Join(work, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := source.ReadLock(filepath.Join(work, "stacks"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range lock.Charts {
		c := &lock.Charts[i]
		chart := files.Files{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: " + c.Name + "\nversion: 1.0.0\n")}}
		for _, name := range c.Exclude {
			chart[name] = files.File{Data: []byte("x")}
		}
		if err := chart.WriteNew(lock.FolderOf(c)); err != nil {
			t.Fatal(err)
		}
		digest, err := chart.Hash()
		if err != nil {
			t.Fatal(err)
		}
		Edit(t, work, "stacks/charts.lock", c.Digest, digest)
	}
	return work
}
