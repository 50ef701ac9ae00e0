package controlplane

import (
	"net"
	"os"
	"strconv"
	"syscall"
)

// reusePort is SO_REUSEPORT, which package syscall lacks on some architectures; 15 on all that Go's
// Kubernetes is built for.
const reusePort = 0xf

// childAttributes lets the kernel kill the child when the forking thread dies, and keeps a
// terminal's Ctrl-C from it: the parent decides the order in which the components stop.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// port is a loopback port that stays reserved until it is closed: its socket is bound with
// SO_REUSEPORT but never listens, so the component (started with its own port-sharing flag) can
// take the port, also a second time after a stop, while the kernel gives it to no other process.
type port struct {
	number int
	socket *os.File
}

func reservePort() (*port, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), "reserved port")
	number, err := bindShared(fd)
	if err != nil {
		_ = socket.Close() // the error before it is the one to report
		return nil, err
	}
	return &port{number: number, socket: socket}, nil
}

// bindShared sets the option before it binds, else the bind is exclusive. Asked for any port, the
// kernel picks one that no process holds, shared or not.
func bindShared(fd int) (int, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, reusePort, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return address.(*syscall.SockaddrInet4).Port, nil
}

func (p *port) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

func (p *port) Close() error { return p.socket.Close() }

// holdPort takes a name that other processes of this kind ask for too, until this process ends: an
// abstract Unix socket, which leaves no file behind. The port itself stays free for a process that
// knows nothing of it.
func holdPort(number int) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: "@stratos-companion-" + strconv.Itoa(number)}); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true
}
