package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDoctorAndCheckTellTheTruth: check finds overwritten pages, and a directory that another user
// may not read is reported so, and not as empty.
func TestDoctorAndCheckTellTheTruth(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "peer")
	site, _ := heavyPages(t, 3)
	if out, code := say(t, crawlArgs(dir, site)...); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out)
	}

	files, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no archive: %v", err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at, longest := 0, 0 // the middle of the longest record
	for rest, begun := raw, 0; len(rest) > 0; {
		n := bytes.Index(rest[1:], []byte{0x1f, 0x8b, 8}) + 1
		if n == 0 {
			n = len(rest)
		}
		if n > longest {
			at, longest = begun+n/2, n
		}
		rest, begun = rest[n:], begun+n
	}
	clear(raw[at : at+2000])
	if err := os.WriteFile(files[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := say(t, "check", "--data-dir", dir); code == exitDone || !strings.Contains(out, filepath.Base(files[0])) {
		t.Errorf("check, exit code %d: %s", code, out)
	}

	as := &syscall.SysProcAttr{}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // whom nothing is forbidden: somebody else asks
		as.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		program = forAll(t, base, program)
	} else if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // to be removed
	for _, args := range [][]string{{"export", "urls"}, {"export", "cdxj"}, {"check"}, {"repair"}, {"why", site}, {"doctor"}} {
		cmd := command(t, append(args, "--data-dir", dir)...)
		cmd.Args[4] = program
		cmd.SysProcAttr = as
		out, _ := cmd.CombinedOutput() // the code tells
		if text := string(out); cmd.ProcessState.ExitCode() == exitDone || !strings.Contains(text, "permission denied") || strings.Contains(text, "holds no data") {
			t.Errorf("%v by somebody else, exit code %d: %s", args, cmd.ProcessState.ExitCode(), text)
		}
	}
}

// forAll copies the program to where every user can run it: directories of tests are their owner's.
func forAll(t *testing.T, base, program string) string {
	t.Helper()
	there := filepath.Join(base, "apoidea")
	copied, err := os.ReadFile(program)
	if err == nil {
		syscall.ForkLock.RLock() // a process that is forked now would hold the file open: "text file busy"
		err = os.WriteFile(there, copied, 0o755)
		syscall.ForkLock.RUnlock()
	}
	for _, open := range []string{filepath.Dir(base), base, there} {
		if err == nil {
			err = os.Chmod(open, 0o755)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return there
}
