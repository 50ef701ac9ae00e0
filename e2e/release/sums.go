package release

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	sumsFile      = "SHA256SUMS"
	signatureFile = sumsFile + ".sigstore.json"
)

func sha256Of(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// checksums are the lines of SHA256SUMS for all files below the folder, by path, itself and its
// signature left out.
func checksums(folder string) (string, error) {
	var lines strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(folder, path)
		if err != nil || below == sumsFile || below == signatureFile {
			return err
		}
		sum, err := sha256Of(path)
		fmt.Fprintf(&lines, "%s  %s\n", sum, filepath.ToSlash(below))
		return err
	})
	return lines.String(), err
}

func writeChecksums(folder string) error {
	lines, err := checksums(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(lines), 0o644)
}

// verifyChecksums wants the files of the folder to be those of SHA256SUMS, and no others.
func verifyChecksums(folder string) error {
	want, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return err
	}
	got, err := checksums(folder)
	if err != nil {
		return err
	}
	if got != string(want) {
		return fmt.Errorf("%s: the files differ from %s: %s", folder, sumsFile, firstDifference(string(want), got))
	}
	return nil
}

func firstDifference(want, got string) string {
	listed := make(map[string]bool)
	for line := range strings.Lines(want) {
		listed[line] = true
	}
	for line := range strings.Lines(got) {
		if !listed[line] {
			_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			return name
		}
	}
	return "a file is missing"
}
