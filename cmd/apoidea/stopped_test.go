//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLeaveAlone: a peer that nobody is there to take over from ends all the same, with what it
// keeps, and that is no failure.
func TestLeaveAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "peer")
	said, end := peer(t, dir, "--network", "at-home", "--dashboard", "off")
	defer end()
	if out, code := say(t, "leave", "--data-dir", dir); code != exitDone || !strings.Contains(out, "ended; ") {
		t.Errorf("exit code %d: %s\n%s", code, out, said)
	}
	if out, code := say(t, "status", "--data-dir", dir); code != exitNoPeer {
		t.Errorf("it goes on: exit code %d: %s", code, out)
	}
}

// TestLastOfClusterLeaves: so it is with the last peer of a cluster, whose end is waited for.
func TestLastOfClusterLeaves(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ring")
	if out, code := say(t, "cluster", "up", "-n", "1", "--dir", dir); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out)
	}
	t.Cleanup(func() { _ = command(t, "cluster", "down", "--dir", dir).Run() })
	if out, code := say(t, "cluster", "leave", "1", "--dir", dir); code != exitDone {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := say(t, "status", "--data-dir", filepath.Join(dir, "peer1")); code != exitNoPeer {
		t.Errorf("it goes on: exit code %d: %s", code, out)
	}
}

// TestHangup: a terminal that is closed ends a peer as a shutdown does, unless the peer was begun
// to outlive it.
func TestHangup(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hang-ups are ignored by what runs this test, as nohup does, and so by the peer")
	}
	for shell, ends := range map[string]bool{`exec "$@"`: true, `trap "" HUP; exec "$@"`: false} {
		dir := filepath.Join(t.TempDir(), "peer")
		cmd := command(t, "run", "--data-dir", dir, "--dashboard", "off")
		cmd.Args[2] = shell
		said := new(spoken)
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, said, func() bool { return strings.Contains(said.String(), ", ring of ") })
		_ = cmd.Process.Signal(syscall.SIGHUP)
		if !ends {
			time.Sleep(time.Second) // long enough to end, if it would
			if out, code := say(t, "status", "--data-dir", dir); code != exitDone {
				t.Errorf("ended, though hangups were to be ignored: %s\n%s", out, said)
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		err := cmd.Wait()
		if _, left := os.Stat(filepath.Join(dir, "addrs")); err != nil || !errors.Is(left, fs.ErrNotExist) || !strings.Contains(said.String(), "terminated: ") {
			t.Errorf("%s: %v, %v: %s", shell, err, left, said)
		}
	}
}
