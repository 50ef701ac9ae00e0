package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stratos-sh/stratos/e2e/release"
)

const (
	root    = "../../.."
	version = "v0.2.0-rc.1"
	// signature is the one file in which two releases differ: no two signatures are alike.
	signature = "SHA256SUMS.sigstore.json"
)

// run runs a program and returns what it prints.
func run(ctx context.Context, dir string, env []string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s%s", strings.Join(words, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

func mustRun(t *testing.T, dir string, env []string, words ...string) string {
	t.Helper()
	out, err := run(t.Context(), dir, env, words...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// cosign runs cosign of this checkout.
func cosign(t *testing.T, args ...string) error {
	t.Helper()
	_, err := run(t.Context(), root, nil, append([]string{"go", "tool", "-modfile=go.cosign.mod", "cosign"}, args...)...)
	return err
}

// clone makes a clone of this commit and adds the section of the changelog that the trial needs.
// All clones have the same commit.
func clone(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	mustRun(t, root, nil, "git", "clone", "--quiet", ".", dir)
	changelog, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	changelog = append(changelog, "\n## "+version+"\n\n* A trial of the release.\n"...)
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), changelog, 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "2026-03-01T12:00:00Z"
	mustRun(t, dir, []string{"GIT_AUTHOR_DATE=" + at, "GIT_COMMITTER_DATE=" + at}, "git", "-c", "user.name=trial",
		"-c", "user.email=trial@example.com", "commit", "--quiet", "--all", "--message", "trial")
	return dir
}

// keyPair makes a key of cosign without password and returns the paths of both halves.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "key")
	if err := cosign(t, "generate-key-pair", "--output-key-prefix="+prefix); err != nil {
		t.Fatal(err)
	}
	return prefix + ".key", prefix + ".pub"
}

// TestReleaseFromTwoClones: the parts are in this order because each needs those before it.
func TestReleaseFromTwoClones(t *testing.T) {
	t.Setenv("COSIGN_PASSWORD", "")
	private, public := keyPair(t)
	_, stranger := keyPair(t)
	folders := make([]string, 0, 2)
	for _, name := range []string{"one", "another-of-a-longer-name"} {
		dir := clone(t, name)
		folder := filepath.Join(dir, "dist", "release")
		err := release.Build(t.Context(), release.Options{Root: dir, Version: version, Folder: folder,
			Signer: release.Signer{Key: private}, Log: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, folder)
	}
	built := folders[0]
	sameFiles(t, built, folders[1])
	filesAreSigned(t, built, public, stranger)
	r := push(t, built, private)
	r.isSigned(t, public, stranger)
	r.pageVerifies(t, built, public)
	r.refusesChangedBytes(t, public)
	r.hasBothArchitectures(t, built)
	c := newCluster(t)
	for _, major := range []string{"v3", "v4"} {
		t.Run("Helm "+major, func(t *testing.T) { c.install(t, major, r) })
	}
	c.pluginWorks(t, built)
}

// files reads all files below the folder, by their path.
func files(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		all[below], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameFiles(t *testing.T, one, another string) {
	t.Helper()
	first, second := files(t, one), files(t, another)
	if len(first) != len(second) || len(first) < 15 {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, content := range first {
		if name != signature && !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs between two clones", name)
		}
	}
	for _, name := range []string{"SHA256SUMS", signature, "TRIAL", "release-notes.md", "stratos.yaml",
		"stratos-0.2.0-rc.1.tgz", "stratos-crds-0.2.0-rc.1.tgz", "kubectl-stratos_v0.2.0-rc.1_windows_amd64.zip"} {
		if len(first[name]) == 0 {
			t.Errorf("the release has no %s", name)
		}
	}
}

// filesAreSigned checks the signature of SHA256SUMS, and then all files by it.
func filesAreSigned(t *testing.T, folder, public, stranger string) {
	t.Helper()
	sums := filepath.Join(folder, "SHA256SUMS")
	verify := func(key, file string) error {
		return cosign(t, "verify-blob", "--insecure-ignore-tlog", "--key="+key, "--bundle="+filepath.Join(folder, signature),
			file)
	}
	if err := verify(public, sums); err != nil {
		t.Error(err)
	}
	if verify(stranger, sums) == nil {
		t.Error("the key of a stranger verifies SHA256SUMS")
	}
	mustRun(t, folder, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	changed := filepath.Join(t.TempDir(), "SHA256SUMS")
	content := slices.Clone(files(t, folder)["SHA256SUMS"])
	content[0] ^= 1
	if err := os.WriteFile(changed, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if verify(public, changed) == nil {
		t.Error("SHA256SUMS with a changed byte is verified")
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	changeByte(t, filepath.Join(copied, "stratos-0.2.0-rc.1.tgz"))
	if _, err := run(t.Context(), copied, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"); err == nil {
		t.Error("sha256sum accepts a changed chart")
	}
	err := release.Push(t.Context(), release.PushOptions{Root: root, Folder: copied, Registry: "127.0.0.1:1",
		Log: t.Output()})
	if err == nil || !strings.Contains(err.Error(), "stratos-0.2.0-rc.1.tgz") {
		t.Errorf("the push of a changed chart: %v", err)
	}
}

func changeByte(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
