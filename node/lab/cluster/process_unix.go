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

// detach puts the peer into its own process group, so that an interrupt of the terminal reaches
// only the cluster command, which then stops the peers.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// alive reports whether pid is a running process, and if the system supports it, one started for
// dir, because process IDs are reused.
func alive(pid int, dir string) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	proc := "/proc/" + strconv.Itoa(pid)
	if stat, err := os.ReadFile(proc + "/stat"); err == nil {
		if i := bytes.LastIndexByte(stat, ')'); i > 0 && i+2 < len(stat) && stat[i+2] == 'Z' {
			return false // a zombie
		}
	}
	cmdline, err := os.ReadFile(proc + "/cmdline")
	if err != nil {
		return true // no /proc: the process ID must suffice
	}
	return bytes.Contains(cmdline, []byte("\x00"+dir+"\x00")) // a whole word: peer1 is not peer10
}

// terminate requests a graceful shutdown of a process.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
