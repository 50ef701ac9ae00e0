package options

import (
	"io/fs"
	"strconv"
	"strings"
)

// cgroupLimits are where a container reads its memory limit, in bytes or "max": of cgroup version 2 and of version 1.
func cgroupLimits() []string {
	return []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}
}

// MemoryLimit is what the Go runtime is to stay within, in bytes: nine tenths of the container's limit, because the kernel counts more than the
// runtime knows of. Near it garbage is collected more often; without it the heap may grow to twice of what is in use, and the kernel would end the
// process first. It is 0, for no limit, where the container has none and where GOMEMLIMIT says what to do. root is the file system from /.
func MemoryLimit(root fs.FS, lookup func(string) (string, bool)) int64 {
	if _, set := lookup("GOMEMLIMIT"); set {
		return 0
	}
	for _, name := range cgroupLimits() {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || limit >= 1<<60 { // "max", and what version 1 says for it
			return 0
		}
		return limit / 10 * 9
	}
	return 0
}
