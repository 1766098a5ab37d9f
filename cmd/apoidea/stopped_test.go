//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestLeaveAlone: a peer that nobody is there to take over from ends all the same, with what it keeps, and that is no failure.
func TestLeaveAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peer")
	said, end := peer(t, dir, "--network", "at-home", "--dashboard", "off")
	defer end()
	if out, code := say(t, "leave", "--data-dir", dir); code != exitDone || !strings.Contains(out, "ended; nobody else is in the ring to take what this peer keeps") {
		t.Errorf("exit code %d: %s\n%s", code, out, said)
	}
	if out, code := say(t, "status", "--data-dir", dir); code != exitNoPeer {
		t.Errorf("it goes on: exit code %d: %s", code, out)
	}
}
