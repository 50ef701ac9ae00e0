//go:build !linux

package controlplane

import (
	"net"
	"strconv"
	"syscall"
)

// childAttributes has nothing that ends a child with its parent: after a SIGKILL of the parent the
// components have to be ended by hand.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// port was free when we looked. Another process may take it before the component does; then the
// start fails and says so.
type port struct{ number int }

func reservePort() (*port, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	number := listener.Addr().(*net.TCPAddr).Port
	return &port{number: number}, listener.Close()
}

func (p *port) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

func (p *port) Close() error { return nil }

// holdPort has no names to take here. Two processes that draw the same port in the same moment meet
// on it.
func holdPort(int) bool { return true }
