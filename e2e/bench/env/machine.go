package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/stratos-sh/stratos/e2e/bench/figures"
)

// Machine says what all processes of a run shared.
func Machine() string {
	name := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d cores (%s), %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), name, runtime.Version())
}

// Settings are what all figures depend on; boot is how long machines boot. The load is read when
// the run begins: it says whether the machine was quiet.
func Settings(boot time.Duration) []figures.Setting {
	load := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return []figures.Setting{
		{Name: "load average at the beginning", Value: load},
		{Name: "machines", Value: fmt.Sprintf("played, %d cpu, boot %s, stop %s; an empty node stops after %s", NodeCPU,
			boot, StopTime, EmptyTTL)},
		{
			Name: "schedulers",
			Value: fmt.Sprintf(
				"the generated profile, percentageOfNodesToScore 100, clients with qps and burst %d, so that none is throttled",
				unthrottled,
			),
		},
		{Name: "etcd", Value: "without fsync, so that no figure is that of a disk"},
	}
}

// Keep writes the report as JSON into the folder and, where a page is named, its table between the
// page's markers.
func Keep(report figures.Report, folder, file, page, marker string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(folder, file))
	if err != nil {
		return err
	}
	if err := report.WriteJSON(out); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil || page == "" {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := figures.Insert(string(text), marker, report.Markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(changed), 0o644)
}
