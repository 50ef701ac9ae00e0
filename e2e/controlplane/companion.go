package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
)

// Companion describes a process that a test runs beside the control plane, such as Stratos itself.
type Companion struct {
	// Name is that of the process and its log, unique within the control plane.
	Name string
	// Path of the executable.
	Path string
	Args []string
	// Env are variables, as NAME=value, in addition to those of this process.
	Env []string
	// URL is the address it serves at, ReadyPath the path below it that answers 200 once it is ready.
	URL, ReadyPath string
}

// NewCompanion returns a process that is not running yet. It ends like a component: with this
// process, at the latest. Stop the companions before [ControlPlane.Stop].
func (c *ControlPlane) NewCompanion(o Companion) *Process {
	return &Process{
		name: o.Name, path: o.Path, args: o.Args, env: o.Env, url: o.URL,
		logPath: filepath.Join(c.logDir, o.Name+".log"),
		ready:   c.client.probe(o.URL + o.ReadyPath),
		timeout: startTimeout,
	}
}

// FreeAddress returns a loopback address for a companion. No other call gets it, in this process or
// another, while this process lives, and the kernel gives its port to no process that asks for any
// port.
func FreeAddress() (string, error) {
	const tries = 1000
	for range tries {
		//nolint:gosec // not a secret
		port := lowestCompanionPort + rand.IntN(highestCompanionPort-lowestCompanionPort+1)
		if !holdPort(port) {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listener, err := net.Listen("tcp4", address)
		if err == nil {
			return address, listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port: none of %d tried between %d and %d is free",
		tries, lowestCompanionPort, highestCompanionPort)
}

// The ports of companions lie below those of NodePorts, and below those that kernels give to
// connections and to listeners that ask for any port.
const (
	lowestCompanionPort  = 15000
	highestCompanionPort = 29999
)
