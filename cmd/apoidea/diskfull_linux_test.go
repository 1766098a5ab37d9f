package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestDiskFull: a disk that is full ends a peer with one sentence, which says what helps, and with
// more room the same command goes on.
//
// Slow: starts a process several times on a file system that fills up.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("no disk of its own can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	site, asked := heavyPages(t, 400)
	args := crawlArgs(dir+"/peer", "--disk-reserve", "0", "--archive", "none", "--trap-rules", "off", site)
	out, code := say(t, args...)
	if code != exitFailed || strings.Count(out, "apoidea: the disk of "+dir+"/peer is full: ") != 1 || strings.Contains(out, "no space left") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=512m"); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	if out, code := say(t, args...); code != exitDone || asked.Load()-before > 400 || !strings.Contains(out, " continued") {
		t.Errorf("with more room: exit code %d, %d requests: %s", code, asked.Load()-before, out)
	}
}
