package release

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

const testDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestCharts packages the charts twice, of which the second time from files of another time.
func TestCharts(t *testing.T) {
	s, first := testSource(), t.TempDir()
	for _, chart := range charts() {
		if err := s.packageChart(chart, testDigest, first); err != nil {
			t.Fatal(err)
		}
	}
	copied, second := s, t.TempDir()
	copied.root = t.TempDir()
	if err := os.CopyFS(filepath.Join(copied.root, "charts"), os.DirFS(filepath.Join(root, "charts"))); err != nil {
		t.Fatal(err)
	}
	for _, chart := range charts() {
		if err := copied.packageChart(chart, testDigest, second); err != nil {
			t.Fatal(err)
		}
		name := s.chartArchive(chart)
		if !bytes.Equal(read(t, filepath.Join(first, name)), read(t, filepath.Join(second, name))) {
			t.Errorf("two archives %s differ", name)
		}
		loaded, err := loader.LoadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Metadata.Version != "0.2.0-rc.1" || loaded.Metadata.AppVersion != "v0.2.0-rc.1" {
			t.Errorf("%s has version %s and appVersion %s", chart, loaded.Metadata.Version, loaded.Metadata.AppVersion)
		}
		image, is := loaded.Values["image"].(map[string]any)
		if is != (chart == "stratos") || is && image["digest"] != testDigest {
			t.Errorf("%s has image %v", chart, image)
		}
	}
}

func TestImageDigestNeedsItsPlace(t *testing.T) {
	for name, text := range map[string]string{
		"no digest":        "image:\n  tag: \"\"\n",
		"another image's":  "image:\n  tag: \"\"\nother:\n  digest: \"\"\n",
		"a digest already": "image:\n  digest: \"sha256:1\"\n",
	} {
		values := filepath.Join(t.TempDir(), "values.yaml")
		write(t, values, text)
		if err := setImageDigest(values, testDigest); err == nil || !strings.Contains(err.Error(), "0 times") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
