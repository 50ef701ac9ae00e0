package helm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stratos-sh/stratos/extender"
)

// What stands in the generated scheduler configurations for names that only the release knows. The
// template scheduler.yaml replaces them.
const (
	placeholderLease     = "placeholder-lease-name"
	placeholderNamespace = "placeholder-namespace"
	placeholderScheduler = "placeholder-scheduler"
)

// Generate writes the scheduler configurations that the chart reads, its README, and the render of
// every set.
func (t Tree) Generate() error {
	return errors.Join(t.writeSchedulerConfigs(), t.writeReadme(), t.writeRendered())
}

func (t Tree) writeSchedulerConfigs() error {
	for _, minor := range extender.SupportedMinors() {
		text, err := extender.SchedulerConfig(extender.SchedulerConfigOptions{
			Wiring: extender.WiringDedicated, KubernetesMinor: minor, LeaderElect: true,
			SchedulerName: placeholderScheduler, LeaseName: placeholderLease, LeaseNamespace: placeholderNamespace,
		})
		if err != nil {
			return err
		}
		if err := write(t.path("charts", "stratos", "files", "generated", "scheduler-config-"+minor+".yaml"),
			string(text)); err != nil {
			return err
		}
	}
	return nil
}

func (t Tree) writeReadme() error {
	values, err := os.ReadFile(filepath.Join(t.ChartDir(), "values.yaml"))
	if err != nil {
		return err
	}
	text, err := Readme(values)
	if err != nil {
		return err
	}
	return write(filepath.Join(t.ChartDir(), "README.md"), text)
}

// writeRendered starts from an empty folder, so that the render of a set that is gone goes too.
func (t Tree) writeRendered() error {
	sets, err := t.Sets()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(t.RenderedFile(""))); err != nil {
		return err
	}
	for _, set := range sets {
		output, err := Helm4.Render(t.ChartDir(), set)
		if err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
		text, err := output.Canonical(set)
		if err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
		if err := write(t.RenderedFile(set.Name), text); err != nil {
			return err
		}
	}
	return nil
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
