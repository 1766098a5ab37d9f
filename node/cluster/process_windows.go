//go:build windows

package cluster

import (
	"os"
	"os/exec"
	"syscall"
)

// detach puts the peer into a process group of its own.
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

// terminate ends a process at once: there is no signal that asks for it here. That is safe, since
// what a peer acknowledged is on its disk.
func terminate(p *os.Process) error { return p.Kill() }
