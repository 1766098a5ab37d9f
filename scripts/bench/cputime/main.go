//go:build linux

// Command cputime runs a command and says what it cost: the CPU seconds (user and system) of all
// processes that descend from it, however they were started.
//
//	cputime -o FILE COMMAND [ARG]...
//
// It makes itself the reaper of orphans (prctl(2), PR_SET_CHILD_SUBREAPER), so processes that their
// parents left behind are counted as well, and waits until the last one has ended. FILE gets the
// CPU seconds and those by the clock; the exit status is the command's.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const prSetChildSubreaper = 36

func main() {
	out := flag.String("o", "", "file for the result")
	flag.Parse()
	if flag.NArg() == 0 || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	status, err := run(*out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "cputime:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

func run(out string, args []string) (int, error) {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return 0, fmt.Errorf("become the reaper of orphans: %w", errno)
	}
	begin := time.Now()
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it ends when the command does
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range interrupts {
			_ = cmd.Process.Signal(s) // it may have ended by itself
		}
	}()
	status, err := reap(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0, err
	}
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	return status, os.WriteFile(out, fmt.Appendf(nil, "%g %g\n", cpu, time.Since(begin).Seconds()), 0o644)
}

// reap waits until no descendant is left and returns the exit status of the process pid.
func reap(pid int) (int, error) {
	status := 0
	for {
		var ws syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD):
			return status, nil
		case err != nil:
			return 0, err
		case ended == pid && ws.Signaled():
			status = 128 + int(ws.Signal())
		case ended == pid:
			status = ws.ExitStatus()
		}
	}
}
