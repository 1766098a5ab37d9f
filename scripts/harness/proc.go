package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU is the processor time that a process has used.
func CPU(pid int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs Linux
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // the first is the state, field 3
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	sum := time.Duration(0)
	for _, f := range fields[11:13] { // utime and stime, fields 14 and 15
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// Memory is what the kernel says of a process.
type Memory struct {
	RSS, Peak int64 // bytes; Peak is of RSS since the process began
	Threads   int
}

// MemoryOf reads it.
func MemoryOf(pid int) (m Memory, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		var n int64
		_, _ = fmt.Sscan(value, &n)
		switch name {
		case "VmRSS":
			m.RSS = n << 10
		case "VmHWM":
			m.Peak = n << 10
		case "Threads":
			m.Threads = int(n)
		}
	}
	return m, err
}
