//go:build unix

package cluster

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// detach puts the peer into a process group of its own, so that the terminal's interrupt reaches
// the cluster's command alone, which then ends the peers in order.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// alive reports whether pid is a running process, and, where the system tells, one that was started
// for dir: process IDs are used again.
func alive(pid int, dir string) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	proc := "/proc/" + strconv.Itoa(pid)
	if stat, err := os.ReadFile(proc + "/stat"); err == nil {
		if i := bytes.LastIndexByte(stat, ')'); i > 0 && i+2 < len(stat) && stat[i+2] == 'Z' {
			return false // dead, and not reaped by whoever started it
		}
	}
	cmdline, err := os.ReadFile(proc + "/cmdline")
	if err != nil {
		return true // no /proc here: believe the process ID
	}
	return bytes.Contains(cmdline, []byte("\x00"+dir+"\x00")) // a whole word: peer1 is not peer10
}

// terminate asks a process to end in good order.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
