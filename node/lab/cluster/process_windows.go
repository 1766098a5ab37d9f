//go:build windows

package cluster

import (
	"os"
	"os/exec"
	"syscall"
)

// detach puts the peer into its own process group.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// alive reports whether a process with that ID can be opened.
func alive(pid int, _ string) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}

// terminate kills a process, because Windows has no signal for a graceful shutdown. This is safe:
// acknowledged data is on disk.
func terminate(p *os.Process) error { return p.Kill() }
