package acceptance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?\n)```$")

// pageVerifies runs the commands by which docs/release.md has users verify a release that was
// signed with a key.
func (r pushed) pageVerifies(t *testing.T, folder, public string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "release.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	found := mustRun(t, root, nil, "go", "tool", "-modfile=go.cosign.mod", "-n", "cosign")
	if err := os.Symlink(strings.TrimSpace(found), filepath.Join(bin, "cosign")); err != nil {
		t.Fatal(err)
	}
	downloaded := t.TempDir()
	for name, content := range files(t, folder) {
		if strings.HasPrefix(name, "image") || strings.HasPrefix(name, "sbom") {
			continue // not downloaded
		}
		if err := os.WriteFile(filepath.Join(downloaded, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(public, filepath.Join(downloaded, "cosign.pub")); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "make ") {
				continue
			}
			command := strings.ReplaceAll(strings.TrimSpace(line), "REGISTRY/", r.host+"/")
			mustRun(t, downloaded, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, "sh", "-c", command)
			ran++
		}
	}
	if ran != 4 {
		t.Errorf("ran %d commands of the page", ran)
	}
}
