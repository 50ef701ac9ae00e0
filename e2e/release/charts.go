package release

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"helm.sh/helm/v4/pkg/action"
)

// charts are the charts of a release, as folders below charts.
func charts() []string { return []string{"stratos", "stratos-crds"} }

func (s source) chartArchive(chart string) string { return chart + "-" + s.chartVersion() + ".tgz" }

// packageChart writes the archive of a chart with the version of the release. Where its values have
// image.digest, the chart installs the image by this digest.
func (s source) packageChart(chart, imageDigest, folder string) error {
	work, err := os.MkdirTemp("", "stratos-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	dir := filepath.Join(work, chart)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(s.root, "charts", chart))); err != nil {
		return err
	}
	if chart == "stratos" {
		if err := setImageDigest(filepath.Join(dir, "values.yaml"), imageDigest); err != nil {
			return err
		}
	}
	if err := s.fixTimes(dir); err != nil {
		return err
	}
	pack := action.NewPackage()
	pack.Version, pack.AppVersion, pack.Destination = s.chartVersion(), s.version, folder
	written, err := pack.Run(dir, nil)
	if err != nil {
		return err
	}
	if name := filepath.Base(written); name != s.chartArchive(chart) {
		return fmt.Errorf("chart %s: Helm wrote %s", chart, name)
	}
	return nil
}

// digestOfImage is the empty digest of the block image.
var digestOfImage = regexp.MustCompile(`(?m)^(image:\n(?:  .*\n)*?  digest: )""$`)

// setImageDigest edits the text, because the comments of values.yaml are what users read.
func setImageDigest(values, digest string) error {
	text, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	if found := len(digestOfImage.FindAll(text, -1)); found != 1 {
		return fmt.Errorf("%s: found the empty image.digest %d times", values, found)
	}
	text = digestOfImage.ReplaceAll(text, []byte(`${1}"`+digest+`"`))
	return os.WriteFile(values, text, 0o644)
}

// fixTimes gives all files the time of the commit, which Helm writes into the archive.
func (s source) fixTimes(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, s.time, s.time)
	})
}
