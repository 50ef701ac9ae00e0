package controlplane

import (
	"fmt"
	"net"
	"path/filepath"
)

// Companion describes a process that a test runs beside the control plane, such as Stratos itself.
type Companion struct {
	// Name is that of the process and its log, unique within the control plane.
	Name string
	// Path of the executable.
	Path string
	Args []string
	// Env are variables, as NAME=value, beside those of this process.
	Env []string
	// URL is the address it serves at, ReadyPath the path below it that answers 200 once it is ready.
	URL, ReadyPath string
}

// NewCompanion returns a process that is not running yet. It ends like a component: with this process, at the latest. Stop the
// companions before [ControlPlane.Stop].
func (c *ControlPlane) NewCompanion(o Companion) *Process {
	return &Process{
		name: o.Name, path: o.Path, args: o.Args, env: o.Env, url: o.URL,
		logPath: filepath.Join(c.logDir, o.Name+".log"),
		ready:   c.client.probe(o.URL + o.ReadyPath),
		timeout: c.options.startTimeout(),
	}
}

// FreeAddress returns a loopback address that nothing listens on now. Unlike the components' ports it is not held, so another process could
// take it before the companion does; its start then fails and says so.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
