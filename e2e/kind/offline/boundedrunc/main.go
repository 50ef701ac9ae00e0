// Command boundedrunc is runc for machines on which root itself lacks capabilities, as in some
// sandboxes. Docker gives a privileged container every capability that the kernel knows, and runc
// fails where one of them is beyond the bounding set. This takes those out of the specification
// that Docker wrote, then becomes runc. Docker calls it as a runtime of its own name; kind.sh says
// so to the daemon only where it is needed.
//
// It also ends what cgroup v1 keeps alive. The runc within a node freezes a pod's cgroup for a
// moment whenever it changes it. Where the node is killed in that moment, the pod's processes stay
// frozen, no signal reaches them, and Docker can never remove the container. After each signal they
// are thawed here.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "boundedrunc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	bounding, err := boundingSet(string(status))
	if err != nil {
		return err
	}
	if err := boundFiles(args, bounding); err != nil {
		return err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	if at := slices.Index(args, "kill"); at >= 0 {
		return kill(runc, args, freezers(args[at+1:]))
	}
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
}

// kill has runc send a signal, and thaws whatever is frozen below the cgroups.
func kill(runc string, args, cgroups []string) error {
	command := exec.CommandContext(context.Background(), runc, args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := command.Run()
	for _, cgroup := range cgroups {
		err = errors.Join(err, thaw(cgroup))
	}
	return err
}

// freezers are the cgroups of v1's freezer that bear the name of one of the arguments: the ID of a
// container is among them.
func freezers(args []string) []string {
	var out []string
	for _, arg := range args {
		if found, err := filepath.Glob("/sys/fs/cgroup/freezer/*/" + arg); err == nil {
			out = append(out, found...)
		}
	}
	return out
}

// thaw thaws a cgroup and all below it. One that is gone meanwhile is thawed.
func thaw(cgroup string) error {
	return filepath.WalkDir(cgroup, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "freezer.state" {
			return gone(err)
		}
		state, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(state)) == thawed {
			return gone(err)
		}
		return gone(os.WriteFile(path, []byte(thawed), 0))
	})
}

// gone is the error, unless it says that a cgroup is not there any more.
func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

const thawed = "THAWED"

// boundFiles edits the specification of a container to be made, and of a process to be run in one.
func boundFiles(args []string, bounding uint64) error {
	if bundle := option(args, "--bundle", "-b"); bundle != "" {
		if err := boundFile(filepath.Join(bundle, "config.json"), bounding, "process"); err != nil {
			return err
		}
	}
	if process := option(args, "--process", "-p"); process != "" {
		return boundFile(process, bounding)
	}
	return nil
}

// option returns the value of a flag of runc's, "" where it is not given.
func option(args []string, long, short string) string {
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, long+"="); found {
			return value
		}
		if (arg == long || arg == short) && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// boundFile edits the process that lies at the path of keys in the file. A file that is not there
// is runc's to complain about.
func boundFile(name string, bounding uint64, path ...string) error {
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	bounded, err := bound(text, bounding, path...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, bounded, 0o600)
}

// bound leaves everything but the lists of capabilities as it is, byte by byte.
func bound(text []byte, bounding uint64, path ...string) ([]byte, error) {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	if len(path) > 0 {
		inner, found := object[path[0]]
		if !found {
			return text, nil
		}
		bounded, err := bound(inner, bounding, path[1:]...)
		if err != nil {
			return nil, err
		}
		object[path[0]] = bounded
		return json.Marshal(object)
	}
	sets := map[string][]string{}
	listed, found := object["capabilities"]
	if !found {
		return text, nil
	}
	if err := json.Unmarshal(listed, &sets); err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	for kind := range sets {
		sets[kind] = slices.DeleteFunc(sets[kind], func(name string) bool { return beyond(name, bounding) })
	}
	raw, err := json.Marshal(sets)
	if err != nil {
		return nil, err
	}
	object["capabilities"] = raw
	return json.Marshal(object)
}

// beyond reports whether the capability is known and not in the set; runc decides about one without
// a number here.
func beyond(name string, bounding uint64) bool {
	number := slices.Index(capabilities(), strings.TrimPrefix(name, "CAP_"))
	return number >= 0 && bounding&(1<<number) == 0
}

// boundingSet reads the set of /proc/self/status.
func boundingSet(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, "CapBnd:"); found {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, errors.New("/proc/self/status has no line CapBnd")
}

// capabilities by their numbers in linux/capability.h.
func capabilities() []string {
	return []string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
		"LINUX_IMMUTABLE",
		"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
		"SYS_CHROOT", "SYS_PTRACE",
		"SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
		"AUDIT_WRITE",
		"AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
		"PERFMON", "BPF",
		"CHECKPOINT_RESTORE"}
}
