package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Options of [Start]. The zero value is a control plane without a scheduler.
type Options struct {
	// Binaries, if set, are used as they are; else those of Minor are built.
	Binaries *Binaries
	// Minor is the Kubernetes minor to run, such as "1.34", one of Minors; empty is the newest.
	Minor string
	// Progress takes what BuildMinor reports; may be nil.
	Progress io.Writer
	// Threads is how many threads of each component run Go code at a time; 0 leaves that to Go.
	Threads int
	// LogDir keeps the logs there after Stop; empty puts them into the data folder, which Stop
	// removes.
	LogDir string

	// DefaultScheduler starts a kube-scheduler with the default configuration, without leader
	// election.
	DefaultScheduler bool
	// NodeAuthorizer adds the Node authorizer and the NodeRestriction plugin, for tests in which every
	// node has an identity of its own.
	NodeAuthorizer bool
	// AuditLog records requests; see CountWrites.
	AuditLog AuditLog

	// NodeMonitorGracePeriod is kube-controller-manager's time from the last heartbeat to
	// Ready=Unknown; 0 is its default (50 s in 1.36).
	NodeMonitorGracePeriod time.Duration
	// NodeMonitorPeriod is how often it looks at the nodes; 0 is its default (5 s).
	NodeMonitorPeriod time.Duration

	// APIServerArgs and ControllerManagerArgs come last, so they win over the flags of this package.
	APIServerArgs         []string
	ControllerManagerArgs []string
}

// startTimeout is how long one component may take to become ready. Only one that hangs needs it:
// beside two kind clusters a start has taken more than 90 s.
const startTimeout = 5 * time.Minute

// folderPrefix names the data folders in the folder for temporary files.
const folderPrefix = "stratos-controlplane-"

// ErrStopped is returned for what needs a control plane that has not been stopped.
var ErrStopped = errors.New("the control plane was stopped")

// ControlPlane is a running control plane. Methods may be called from several goroutines.
type ControlPlane struct {
	options   Options
	binaries  Binaries
	dir       string
	logDir    string
	lock      *fileLock
	authority *authority
	client    *prober
	ports     ports

	etcd              *Process
	apiServer         *Process
	controllerManager *Process

	// mu guards the fields below.
	mu         sync.Mutex
	schedulers []*Process
	reserved   []*port
	stopped    bool
}

// ports of the components that exist once.
type ports struct{ etcd, etcdPeer, apiServer, controllerManager *port }

// Start starts a control plane with empty storage and returns when it is of use: API server ready,
// controllers running, the namespace default able to take pods, the default scheduler (if asked
// for) synchronized. The context bounds the start, not the control plane's life; call Stop to end
// it. The components also end when this process dies in any way (Linux only). On an error nothing
// stays behind, and the error ends with the tail of the failing component's log.
func Start(ctx context.Context, options Options) (_ *ControlPlane, err error) {
	c := &ControlPlane{options: options}
	if err := c.findBinaries(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("prepare the control plane: %w", err)
	}
	// Each needs the one before it. The scheduler could come up beside kube-controller-manager, but on
	// two cores that gains nothing.
	for _, process := range []*Process{c.etcd, c.apiServer, c.controllerManager} {
		if err := process.Start(ctx); err != nil {
			return nil, err
		}
	}
	if options.DefaultScheduler {
		if _, err := c.StartScheduler(ctx, SchedulerOptions{}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *ControlPlane) findBinaries(ctx context.Context) error {
	if c.options.Binaries != nil {
		c.binaries = *c.options.Binaries
		return nil
	}
	binaries, err := BuildMinor(ctx, c.options.Minor, c.options.Progress)
	c.binaries = binaries
	return err
}

// prepare does all that needs no process.
func (c *ControlPlane) prepare() error {
	if err := c.makeFolders(); err != nil {
		return err
	}
	var err error
	if c.authority, err = writePKI(filepath.Join(c.dir, "pki")); err != nil {
		return err
	}
	if c.client, err = newProber(c.authority); err != nil {
		return err
	}
	for _, target := range []**port{&c.ports.etcd, &c.ports.etcdPeer, &c.ports.apiServer, &c.ports.controllerManager} {
		if *target, err = c.newPort(); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if err := c.writeAuditPolicy(); err != nil {
		return err
	}
	c.etcd, c.apiServer, c.controllerManager = c.etcdProcess(), c.apiServerProcess(), c.controllerManagerProcess()
	// Healthy is not yet working: until the controllers have made this account, admission refuses pods
	// in the namespace default.
	account := c.client.probe(c.apiServerURL() + "/api/v1/namespaces/default/serviceaccounts/default")
	c.controllerManager.ready = all(c.controllerManager.ready, account)
	return nil
}

func (c *ControlPlane) makeFolders() error {
	if err := sweepFolders(os.TempDir(), time.Now()); err != nil {
		return err
	}
	var err error
	if c.dir, err = os.MkdirTemp("", folderPrefix); err != nil {
		return err
	}
	if c.lock, err = tryLock(filepath.Join(c.dir, "lock")); err != nil {
		return err
	}
	c.logDir = c.options.LogDir
	if c.logDir == "" {
		c.logDir = filepath.Join(c.dir, "logs")
	}
	folders := []string{c.logDir}
	for _, name := range []string{"pki", "kubeconfig", "scheduler"} {
		folders = append(folders, filepath.Join(c.dir, name))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// sweepFolders removes what control planes left behind whose process was killed: their lock went
// with it. Folders of the last minute are left alone, because between making a folder and locking
// it there is a moment without a lock.
func sweepFolders(temporary string, now time.Time) error {
	locks, err := filepath.Glob(filepath.Join(temporary, folderPrefix+"*", "lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		info, err := os.Stat(path)
		if err != nil || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := tryLock(path)
		if err != nil || lock == nil { // alive, gone meanwhile, or another user's
			continue
		}
		err = errors.Join(os.RemoveAll(filepath.Dir(path)), lock.Close())
		if err != nil {
			return fmt.Errorf("remove the folder of a dead control plane: %w", err)
		}
	}
	return nil
}

func (c *ControlPlane) newPort() (*port, error) {
	p, err := reservePort()
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved = append(c.reserved, p)
	return p, nil
}

func (c *ControlPlane) apiServerURL() string { return "https://" + c.ports.apiServer.address() }

// CAFile is the path of the certificate that all components but etcd are signed by.
func (c *ControlPlane) CAFile() string { return c.pki("ca.crt") }

// KubectlPath is the path of a kubectl, of the newest minor whatever the control plane's.
func (c *ControlPlane) KubectlPath() string { return c.binaries.Kubectl }

// KubernetesVersion is for example "v1.36.3".
func (c *ControlPlane) KubernetesVersion() string { return c.binaries.KubernetesVersion }

// LogDir is the folder with one log per component.
func (c *ControlPlane) LogDir() string { return c.logDir }

// Etcd is the storage's process.
func (c *ControlPlane) Etcd() *Process { return c.etcd }

// APIServer is kube-apiserver's process.
func (c *ControlPlane) APIServer() *Process { return c.apiServer }

// ControllerManager is kube-controller-manager's process.
func (c *ControlPlane) ControllerManager() *Process { return c.controllerManager }

// Schedulers are those that were started, in that order, whether they still run or not.
func (c *ControlPlane) Schedulers() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.schedulers)
}

// StopAPIServer ends kube-apiserver as an upgrade would: for about two seconds requests get 429,
// then connections are refused. Use APIServer().Kill() for a crash. The data stays in etcd.
func (c *ControlPlane) StopAPIServer() error { return c.apiServer.Stop() }

// StartAPIServer starts kube-apiserver again at the same address and waits until it is ready. The
// other components reconnect on their own, which can take them some seconds more.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error { return c.apiServer.Start(ctx) }

// Stop stops every component in the reverse order of its start and removes the data. It is safe to
// call more than once. An error means that a component had to be killed or a file could not be
// removed.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	stopped := c.stopped
	c.stopped = true
	c.mu.Unlock()
	if stopped {
		return nil
	}
	processes := append([]*Process{c.etcd, c.apiServer, c.controllerManager}, c.Schedulers()...)
	slices.Reverse(processes)
	var errs []error
	for _, process := range processes {
		if process != nil { // a start that failed early has not described them
			errs = append(errs, process.retire())
		}
	}
	return errors.Join(append(errs, c.release()...)...)
}

// release gives back what is not a process.
func (c *ControlPlane) release() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range c.reserved {
		errs = append(errs, p.Close())
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
	}
	return errs
}
