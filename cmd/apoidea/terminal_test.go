//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/cmd/apoidea/show"
	"github.com/apoidea/apoidea/node/control"
)

// terminal is a terminal of the given width, with what is to be read on it.
func terminal(t *testing.T, columns uint16) (screen *os.File, read func() string) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	if screen, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string)
	go func() {
		text, _ := io.ReadAll(keyboard) // ends with an error when nobody has the screen open any more
		seen <- string(text)
	}()
	return screen, func() string {
		screen.Close()
		return <-seen
	}
}

// done is a peer with a crawl that is done after a second, so that what shows it is drawn more than
// once.
type done struct{ control.Backend }

func (done) Wait(_ context.Context, _ string, _ time.Duration, fn func(control.Progress) error) error {
	if err := fn(control.Progress{Counters: control.Counters{URLsSeen: 2, URLsPending: 1}, Members: 1}); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return fn(control.Progress{Idle: true, Members: 1})
}

// TestEscapeCodes: lines that change are drawn on terminals, and there only if nobody wishes to do
// without.
func TestEscapeCodes(t *testing.T) {
	shows := map[string]func(t *testing.T, w io.Writer){
		"a crawl": func(t *testing.T, w io.Writer) {
			if err := progress.Follow(t.Context(), done{}, "", 0, progress.Screen{Err: w}); err != nil {
				t.Error(err)
			}
		},
		"an experiment": func(_ *testing.T, w io.Writer) {
			show, done := experimentProgress(w, false)
			show("half", 0.5)
			done()
		},
	}
	for name, c := range map[string]struct {
		noColor, term string
		drawn         bool
	}{
		"terminal":      {"", "xterm", true},
		"NO_COLOR":      {"1", "xterm", false},
		"dumb terminal": {"", "dumb", false},
	} {
		for what, show := range shows {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Setenv("NO_COLOR", c.noColor)
				t.Setenv("TERM", c.term)
				screen, read := terminal(t, 80)
				show(t, screen)
				if text := read(); text == "" || strings.ContainsAny(text, "\x1b") != c.drawn {
					t.Errorf("on a terminal: %q", text)
				}
			})
		}
	}
	for what, show := range shows {
		t.Run("file/"+what, func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			f, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			show(t, f)
			if text, err := os.ReadFile(f.Name()); err != nil || len(text) == 0 || strings.ContainsAny(string(text), "\x1b\r") {
				t.Errorf("in a file: %q, %v", text, err)
			}
		})
	}
}

// TestListsFitTerminal checks that the lists of members and peers are cut to the width of a
// terminal, and whole in a pipe.
func TestListsFitTerminal(t *testing.T) {
	addr := "/ip4/192.0.2.7/tcp/40001/p2p/" + strings.Repeat("x", 100)
	for name, list := range map[string]func(io.Writer) error{
		"ring": func(w io.Writer) error {
			return show.Ring(w, &control.Ring{Closed: true, Members: []control.Member{{Status: control.Status{Addrs: []string{addr}}}}})
		},
		"peers": func(w io.Writer) error { return show.Peers(w, []control.PeerLine{{Addr: addr}}) },
	} {
		var pipe strings.Builder
		if err := list(&pipe); err != nil || !strings.Contains(pipe.String(), addr) {
			t.Errorf("%s in a pipe: %v\n%s", name, err, pipe.String())
		}
		screen, read := terminal(t, 80)
		if err := list(screen); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(read()) {
			if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 {
				t.Errorf("%s: a line of %d columns: %q", name, n, line)
			}
		}
	}
}
