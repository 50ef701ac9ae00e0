package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stratos-sh/stratos/stacks/files"
)

// Download returns the folder of a Go module in some version.
type Download func(ctx context.Context, module, version string) (string, error)

// GoModDownload is `go mod download`, which checks the module against the checksum database.
func GoModDownload(ctx context.Context, module, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	// Outside of any module, so that no go.mod chooses another version.
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Error != "" {
		return "", fmt.Errorf("go mod download: %s", answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w: %s", module, version, err, complaints.String())
	}
	return answer.Dir, nil
}

// Fetch brings the chart to its folder, unless it is there, and reports whether it had to. A chart
// with another digest than that of charts.lock is an error, and nothing is written.
func (l *Lock) Fetch(ctx context.Context, c *LockedChart, download Download) (bool, error) {
	if _, err := l.Read(c); err == nil {
		return false, nil
	}
	dir, err := download(ctx, c.Module, c.Version)
	if err != nil {
		return false, fmt.Errorf("chart %s: %w", c.Name, err)
	}
	folder := filepath.Join(dir, filepath.FromSlash(c.Path))
	found, err := files.Read(folder)
	if err != nil {
		return false, fmt.Errorf("chart %s: path %s of %s@%s: %w", c.Name, c.Path, c.Module, c.Version, err)
	}
	if err := CheckDigest(c, strings.Join([]string{c.Module + "@" + c.Version, c.Path}, "/"), found); err != nil {
		return false, err
	}
	to := l.FolderOf(c)
	if err := os.RemoveAll(to); err != nil {
		return false, err
	}
	return true, found.WriteNew(to)
}
