// Command boundedrunc is runc for machines on which root itself lacks capabilities, as in some
// sandboxes. Docker gives a privileged container every capability that the kernel knows, and runc
// fails where one of them is beyond the bounding set. This takes those out of the specification
// that Docker wrote, then becomes runc. Docker calls it as a runtime of its own name; kind.sh says
// so to the daemon only where it is needed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
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
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
}

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
