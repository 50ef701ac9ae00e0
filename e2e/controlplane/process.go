package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a process may take to end after SIGTERM. kube-apiserver drains requests,
	// which take a second or two on loopback.
	stopGrace = 15 * time.Second
	// readyInterval is short because every wait of every test's start is rounded up to it.
	readyInterval = 25 * time.Millisecond
	// probeTimeout ends a single probe, so that a process that accepts and then hangs is asked again.
	probeTimeout = 10 * time.Second
	// logTail is how much of a log an error repeats, in bytes.
	logTail = 4 << 10
)

// ErrRunning is returned by [Process.Start] for a process that has not ended.
var ErrRunning = errors.New("already running")

// Process is one component of a control plane. It can be ended and started again with the same
// arguments, port and data; its log is appended to. Methods may be called from several goroutines.
type Process struct {
	name    string
	path    string
	args    []string
	env     []string
	logPath string
	url     string
	// ready is asked until it returns nil.
	ready   func(context.Context) error
	timeout time.Duration

	// mu guards the fields below.
	mu      sync.Mutex
	current *running
	// retired is set once the control plane is being stopped: a start after that would run on removed
	// data and never end.
	retired bool
}

// Name is the component's, for example "kube-apiserver"; it is also that of its log.
func (p *Process) Name() string { return p.name }

// LogPath is the file that takes standard output and error.
func (p *Process) LogPath() string { return p.logPath }

// URL is the address it serves at, without a trailing slash. All but etcd serve TLS with a
// certificate of [ControlPlane.CAFile].
func (p *Process) URL() string { return p.url }

// PID is 0 if the process is not running.
func (p *Process) PID() int {
	if r := p.alive(); r != nil {
		return r.process.Pid
	}
	return 0
}

// Start starts the process unless it runs ([ErrRunning]) or its control plane was stopped
// ([ErrStopped]) and waits until it is ready. The context bounds the wait, not the process's life.
// If it does not get ready it is killed, and the error ends with the tail of its log.
func (p *Process) Start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := p.waitReady(ctx, r); err != nil {
		r.kill()
		return fmt.Errorf("start %s: %w\n--- end of %s:\n%s", p.name, err, p.logPath, tailOf(p.logPath, logTail))
	}
	return nil
}

func (p *Process) launch() (*running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil, ErrStopped
	}
	if p.current.isAlive() {
		return nil, ErrRunning
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	r, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	p.current = r
	return r, nil
}

func (p *Process) waitReady(ctx context.Context, r *running) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		probe, cancelProbe := context.WithTimeout(ctx, probeTimeout)
		err := p.ready(probe)
		cancelProbe()
		if err == nil && r.isAlive() { // a stranger on the port must not pass for it
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("it ended before it was ready: %w", r.exit())
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w; last answer: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// Stop ends the process with SIGTERM, after 15 s with SIGKILL, and returns when it is gone. Only
// the SIGKILL is an error; stopping what does not run is none.
func (p *Process) Stop() error {
	r := p.alive()
	if r == nil {
		return nil
	}
	if err := r.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	if err := r.signal(syscall.SIGCONT); err != nil { // one that was made to hang could not hear it
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-r.done:
		return nil
	case <-grace.C:
		r.kill()
		return fmt.Errorf("stop %s: it ignored SIGTERM for %s and was killed", p.name, stopGrace)
	}
}

// retire stops the process; it is not started again.
func (p *Process) retire() error {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	return p.Stop()
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	if r := p.alive(); r != nil {
		r.kill()
	}
}

// Signal sends any other signal, for example SIGSTOP and SIGCONT to let the process hang for a
// while. It is an error if the process does not run.
func (p *Process) Signal(signal os.Signal) error {
	r := p.alive()
	if r == nil {
		return fmt.Errorf("signal %s: %w", p.name, os.ErrProcessDone)
	}
	return r.signal(signal)
}

func (p *Process) alive() *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.current.isAlive() {
		return nil
	}
	return p.current
}

// running is one life of a process.
type running struct {
	process *os.Process
	// done is closed when the process is gone and reaped; err may be read only then.
	done chan struct{}
	err  error
}

// launch starts cmd so that the kernel kills it when we die (Linux). The kernel ties that to the
// thread that forked, not to the process, so that thread is kept until the child is gone: the
// goroutine that starts it stays locked to its thread and waits there.
func launch(cmd *exec.Cmd) (*running, error) {
	cmd.SysProcAttr = childAttributes()
	r := &running{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		r.process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		r.err = cmd.Wait()
		close(r.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

func (r *running) isAlive() bool {
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// exit describes an end that was not asked for; exit code 0 is no success then.
func (r *running) exit() error {
	if r.err == nil {
		return errors.New("exit status 0")
	}
	return r.err
}

// signal does not count a process that is gone already as an error.
func (r *running) signal(signal os.Signal) error {
	if err := r.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (r *running) kill() {
	r.signalGroup(os.Kill)
	<-r.done
}

// signalGroup reaches the children too; each process is started as the leader of its own group.
func (r *running) signalGroup(signal os.Signal) {
	if number, ok := signal.(syscall.Signal); ok && r.isAlive() {
		_ = syscall.Kill(-r.process.Pid, number) // the only failure is that the group is gone, which is what is wanted
	}
}

// tailOf returns the last bytes of a file, or why there are none: it is text for an error that is
// reported anyway.
func tailOf(path string, size int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	start := max(0, info.Size()-size)
	buffer := make([]byte, info.Size()-start)
	n, _ := file.ReadAt(buffer, start) // a log that was cut in between is shown as far as it goes
	return string(buffer[:n])
}
