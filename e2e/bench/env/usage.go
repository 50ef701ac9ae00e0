package env

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used, from /proc.
type Usage struct {
	// CPU is the processor time so far.
	CPU time.Duration
	// Resident is the memory now, Peak the most so far, in MiB.
	Resident, Peak float64
}

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// UsageOf reads it. On systems without /proc it is an error.
func UsageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of a process (Linux alone tells it): %w", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	return parseUsage(string(stat), string(status))
}

func parseUsage(stat, status string) (Usage, error) {
	// The name in parentheses may hold anything; after it come the state and, twelfth and thirteenth,
	// user and system time.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("no times in %q", stat)
	}
	u := Usage{}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, err
		}
		u.CPU += time.Duration(ticks) * tick
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmRSS": &u.Resident, "VmHWM": &u.Peak}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			return Usage{}, err
		}
		*into = kib / 1024
	}
	if u.Resident == 0 {
		return Usage{}, fmt.Errorf("no VmRSS in the status of the process")
	}
	return u, nil
}
