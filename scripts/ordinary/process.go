package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// ran is a command that has ended.
type ran struct {
	out, log string
	code     int
}

// text is all that the command printed.
func (r *ran) text() string { return r.out + r.log }

// command prepares a command of the product with a clean environment.
func (t *trial) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "apoidea", args...)
	cmd.Dir = t.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.dir, "TMPDIR=" + t.work, "GOMAXPROCS=2"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// apoidea runs a command to its end.
func (t *trial) apoidea(args ...string) *ran { return harness.Must(finish(t.command(t, args...))) }

func finish(cmd *exec.Cmd) (*ran, error) {
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return &ran{out.String(), log.String(), cmd.ProcessState.ExitCode()}, nil
}

// at is the data directory of a peer.
func (t *trial) at(name string) string { return filepath.Join(t.dir, name) }

// crawlArgs are the arguments of a run that ends with the crawl.
func (t *trial) crawlArgs(name string, args ...string) []string {
	return append([]string{"run", "--data-dir", t.at(name), "--allow-private", "--delay", "0", "--until-idle", "--dashboard", "off", "--log-level", "warn"}, args...)
}

// crawl has a peer of that name crawl to the end.
func (t *trial) crawl(name string, args ...string) *ran {
	return t.apoidea(t.crawlArgs(name, args...)...)
}

// export returns what an export of a peer's data printed.
func (t *trial) export(name, what string, args ...string) string {
	r := t.apoidea(append([]string{"export", what, "--data-dir", t.at(name)}, args...)...)
	if r.code != 0 {
		harness.Check(fmt.Errorf("export %s: exit status %d: %s", what, r.code, tail(r.log)))
	}
	return r.out
}

// urls are the records of a peer by URL.
func (t *trial) urls(name string) map[string]*control.URLLine {
	by := make(map[string]*control.URLLine)
	harness.Check(harness.Records(strings.NewReader(t.export(name, "urls")), func(u *control.URLLine) {
		line := *u
		by[u.URL] = &line
	}))
	return by
}

// responses are the response records of a peer by URL.
func (t *trial) responses(name string) map[string]*harness.Record {
	by := make(map[string]*harness.Record)
	harness.Check(harness.ReadArchive(t.at(name), func(r *harness.Record) error {
		if r.Get("WARC-Type") == "response" {
			by[r.Target()] = r
		}
		return nil
	}))
	return by
}

// start runs a peer that goes on. The caller ends it.
func (t *trial) start(name string, args ...string) *harness.Peer {
	return harness.Must(harness.Start(t, t.dir, name, []string{"HOME=" + t.dir, "GOMAXPROCS=2"},
		append([]string{"--allow-private", "--delay", "0", "--dashboard", "off", "--log-level", "warn"}, args...)...))
}

// up starts a peer and waits until it serves.
func (t *trial) up(name string, args ...string) *harness.Peer {
	p := t.start(name, args...)
	if _, err := p.Ready(t, true); err != nil {
		p.Kill()
		harness.Check(err)
	}
	return p
}

// within waits until a condition holds and reports whether it came to hold in time.
func (t *trial) within(d time.Duration, holds func() bool) bool {
	for until := time.Now().Add(d); ; {
		if holds() {
			return true
		}
		if time.Now().After(until) || harness.Sleep(t, 100*time.Millisecond) != nil {
			return false
		}
	}
}

// said is what a peer that was started has printed.
func said(p *harness.Peer) string {
	log, _ := os.ReadFile(p.Log())
	out, _ := os.ReadFile(p.Dir + ".out")
	return string(log) + string(out)
}

// number finds the first count before a word, such as 3 in "3 pages"; -1 if there is none.
func number(text, word string) int {
	found := regexp.MustCompile(`(\d[\d,]*) ` + word).FindStringSubmatch(text)
	if found == nil {
		return -1
	}
	n, _ := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
	return n
}

// apart runs a command of the product in a mount namespace of its own after a script of mounts has
// run there; ok is false where that is not allowed.
func (t *trial) apart(mounts string, args ...string) (r *ran, ok bool, err error) {
	cmd := t.command(t, args...)
	words := cmd.Args
	cmd.Path, err = exec.LookPath("unshare")
	if err != nil {
		return nil, false, nil // it is not here
	}
	cmd.Args = slices.Concat([]string{"unshare", "--mount", "sh", "-c", "set -e; { " + mounts + "; } 2>/dev/null || exit 99; exec \"$@\"", "sh"}, words)
	r, err = finish(cmd)
	return r, err == nil && r.code != 99, err
}
