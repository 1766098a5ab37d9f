package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// bases are the data directories that trials copy: one of a crawl that ended well, after it was
// stopped three times, and one of a peer that was killed.
type bases struct {
	web           *harness.Web
	sound, killed string
	seed          []string // the command line of their crawl
	// pages of the sound one, and URLs that are done without a page: what the archive cannot give
	// back.
	pages map[string]page
	bare  map[string]bool
}

func makeBases(ctx context.Context, o *options, w *harness.Web) *bases {
	seed := []string{fmt.Sprintf("http://h0.web.localhost:%d/", o.port), "--scope", fmt.Sprintf("*.web.localhost:%d", o.port)}
	b := &bases{web: w, sound: filepath.Join(o.work, "sound"), killed: filepath.Join(o.work, "killed"), seed: seed, bare: make(map[string]bool)}
	slow := append([]string{"--delay", "15ms"}, seed...)
	for _, archive := range []string{"gzip", "zstd", "none"} { // some tables, several archive files of all kinds
		b.until(ctx, b.sound, 60, syscall.SIGTERM, append([]string{"--archive", archive}, slow...)...)
	}
	harness.Must(apoidea(ctx, runArgs(b.sound, append([]string{"--delay", "0"}, seed...)...)...))
	b.until(ctx, b.killed, 120, syscall.SIGKILL, slow...)
	harness.Check(os.Remove(harness.Socket(b.killed))) // which cannot be copied
	b.pages = harness.Must(readArchive(b.sound))
	for url := range harness.Must(outcomes(ctx, b.sound)) {
		if _, ok := b.pages[url]; !ok {
			b.bare[url] = true
		}
	}
	if len(b.pages) < 100 {
		harness.Check(fmt.Errorf("%d pages only", len(b.pages)))
	}
	return b
}

func runArgs(dir string, more ...string) []string {
	return append([]string{"run", "--profile", "lab", "--allow-private", "--dashboard", "off", "--quiet", "--until-idle", "--data-dir", dir}, more...)
}

// until runs a peer until the site has met so many requests more, and then sends it a signal.
func (b *bases) until(ctx context.Context, dir string, more int64, signal syscall.Signal, args ...string) {
	before := b.requests()
	cmd := exec.CommandContext(ctx, "apoidea", runArgs(dir, args...)...)
	harness.Check(cmd.Start())
	for b.requests() < before+more && harness.Sleep(ctx, 10*time.Millisecond) == nil {
	}
	_ = cmd.Process.Signal(signal)
	if err := cmd.Wait(); err == nil {
		harness.Check(errors.New("the crawl was over too soon to be broken off"))
	}
	harness.Check(ctx.Err())
}

// requests is how many the site has met, those for robots.txt left out.
func (b *bases) requests() int64 { return b.web.Audit().Totals.Requests }

// apoidea runs the program and returns what it says, both ways.
func apoidea(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return harness.Apoidea(ctx, args...)
}

// outcomes are those of all URLs that are done.
func outcomes(ctx context.Context, dir string) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "apoidea", "export", "urls", "--quiet", "--data-dir", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("export urls: %w", err)
	}
	list := make(map[string]string)
	return list, harness.Records(bytes.NewReader(out), func(u *control.URLLine) { list[u.URL] = u.Outcome })
}
