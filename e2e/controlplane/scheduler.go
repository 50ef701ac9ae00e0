package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// KubeconfigPlaceholder is replaced by the path of the scheduler's kubeconfig wherever it stands in
// [SchedulerOptions].ConfigYAML.
const KubeconfigPlaceholder = "${KUBECONFIG}"

// defaultSchedulerConfig has no leader election: there is one such scheduler, and an old lease
// would slow down its restart.
const defaultSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: ` + KubeconfigPlaceholder + "\n"

var (
	errNoKubeconfig = errors.New(
		"the scheduler's configuration has a clientConnection without a kubeconfig; write kubeconfig: " + KubeconfigPlaceholder + " into it",
	)

	kubeconfigField       = regexp.MustCompile(`\bkubeconfig["']?\s*:`)
	clientConnectionField = regexp.MustCompile(`(?m)^["']?clientConnection["']?\s*:`)
	flowDocument          = regexp.MustCompile(`^\s*\{`)
)

// SchedulerOptions describe one more kube-scheduler.
type SchedulerOptions struct {
	// Name is that of the process and its log; empty is kube-scheduler. It must be unique within the
	// control plane. It is not the schedulerName of a profile.
	Name string
	// ConfigYAML is a KubeSchedulerConfiguration; empty is the default one without leader election.
	// Where it names the kubeconfig it says KubeconfigPlaceholder or a path; where it has no
	// clientConnection at all, one is appended. Mind that its leader election is on unless it says
	// otherwise: two schedulers with the same lease take turns instead of working side by side.
	ConfigYAML []byte
	// Kubeconfig is put in place of the placeholder; empty is SchedulerKubeconfig.
	Kubeconfig string
	// Args come last, so they win over the flags of this package.
	Args []string
}

// StartScheduler starts a stock kube-scheduler and waits until its caches are synchronized. Any
// number may run at once.
func (c *ControlPlane) StartScheduler(ctx context.Context, options SchedulerOptions) (*Process, error) {
	if options.Name == "" {
		options.Name = "kube-scheduler"
	}
	if options.Kubeconfig == "" {
		options.Kubeconfig = c.SchedulerKubeconfig()
	}
	process, err := c.addScheduler(options)
	if err != nil {
		return nil, fmt.Errorf("start scheduler %q: %w", options.Name, err)
	}
	if err := process.Start(ctx); err != nil {
		c.forgetScheduler(process)
		return nil, err
	}
	return process, nil
}

// addScheduler registers the process before it starts, so that Stop finds it whenever it is called.
func (c *ControlPlane) addScheduler(options SchedulerOptions) (*Process, error) {
	config, err := schedulerConfig(options.ConfigYAML, options.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if options.Name != notFileName.ReplaceAllString(options.Name, "") {
		return nil, errors.New("the name may have letters, digits, dots, dashes and underscores only")
	}
	at, err := c.newPort()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, "scheduler", options.Name+".yaml")
	args := append([]string{"--config=" + path}, c.servingArgs(at)...)
	args = append(args, c.delegationArgs("scheduler")...)
	args = append(args, options.Args...)
	process := c.newProcess(options.Name, c.binaries.Scheduler, "https", "/readyz", at, args)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, ErrStopped
	}
	for _, other := range c.schedulers {
		if other.name == options.Name {
			return nil, errors.New("there is one of this name")
		}
	}
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	c.schedulers = append(c.schedulers, process)
	return process, nil
}

// forgetScheduler lets the caller try again under the same name.
func (c *ControlPlane) forgetScheduler(process *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.schedulers {
		if other == process {
			c.schedulers = append(c.schedulers[:i:i], c.schedulers[i+1:]...)
			return
		}
	}
}

// schedulerConfig puts the kubeconfig in. The flag --kubeconfig would not do: kube-scheduler
// ignores it next to --config. We do not parse YAML, because the standard library cannot; what
// needs a parser is refused.
func schedulerConfig(config []byte, kubeconfig string) ([]byte, error) {
	text := string(config)
	if strings.TrimSpace(text) == "" {
		text = defaultSchedulerConfig
	}
	quoted := strconv.Quote(kubeconfig)
	// Quoted or not in the original, the path ends up quoted once.
	for _, form := range []string{`"` + KubeconfigPlaceholder + `"`, `'` + KubeconfigPlaceholder + `'`,
		KubeconfigPlaceholder} {
		text = strings.ReplaceAll(text, form, quoted)
	}
	switch {
	case kubeconfigField.MatchString(text):
		return []byte(text), nil
	case clientConnectionField.MatchString(text), flowDocument.MatchString(text):
		return nil, errNoKubeconfig
	default:
		return []byte(strings.TrimRight(text, "\n") + "\nclientConnection: {kubeconfig: " + quoted + "}\n"), nil
	}
}
