package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// web is the site that is crawled.
type web struct {
	cmd  *exec.Cmd
	addr string
}

func serve(ctx context.Context, port int) (*web, error) {
	w := &web{addr: fmt.Sprintf("127.0.0.1:%d", port)}
	w.cmd = exec.CommandContext(ctx, "apoidea", "web", "serve", "--listen", w.addr, "--hosts", "6", "--pages", "50", "--links", "20", "--page-bytes", "6000")
	w.cmd.Stderr = os.Stderr
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		if _, err := w.requests(); err == nil {
			return w, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.stop()
	return nil, errors.New("the web server does not answer")
}

func (w *web) stop() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// requests is how many the site has met, those for robots.txt left out.
func (w *web) requests() (int, error) {
	resp, err := http.Get("http://" + w.addr + "/_audit")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var audit struct {
		Totals struct {
			Requests int `json:"requests"`
		} `json:"totals"`
	}
	return audit.Totals.Requests, json.NewDecoder(resp.Body).Decode(&audit)
}

// bases are the data directories that trials copy: one of a crawl that ended well, after it was
// stopped twice, and one of a peer that was killed.
type bases struct {
	web           *web
	sound, killed string
	seed          []string // the command line of their crawl
	// pages of the sound one, and URLs that are done without a page: what the archive cannot give
	// back.
	pages map[string]page
	bare  map[string]bool
}

func makeBases(ctx context.Context, o *options, w *web) (*bases, error) {
	seed := []string{fmt.Sprintf("http://h0.web.localhost:%d/", o.port), "--scope", fmt.Sprintf("*.web.localhost:%d", o.port)}
	b := &bases{web: w, sound: filepath.Join(o.work, "sound"), killed: filepath.Join(o.work, "killed"), seed: seed}
	slow := append([]string{"--delay", "15ms"}, seed...)
	for _, archive := range []string{"gzip", "none"} { // some tables, several archive files of both kinds
		if err := w.until(ctx, b.sound, 90, syscall.SIGTERM, append([]string{"--archive", archive}, slow...)...); err != nil {
			return nil, err
		}
	}
	if out, err := apoidea(ctx, runArgs(b.sound, append([]string{"--delay", "0"}, seed...)...)...); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	if err := w.until(ctx, b.killed, 120, syscall.SIGKILL, slow...); err != nil {
		return nil, err
	}
	pages, err := readArchive(b.sound)
	if err != nil {
		return nil, err
	}
	b.pages = pages
	urls, err := outcomes(ctx, b.sound)
	if err != nil {
		return nil, err
	}
	b.bare = make(map[string]bool)
	for url := range urls {
		if _, ok := pages[url]; !ok {
			b.bare[url] = true
		}
	}
	if len(pages) < 100 {
		return nil, fmt.Errorf("%d pages only", len(pages))
	}
	return b, nil
}

func runArgs(dir string, more ...string) []string {
	return append([]string{"run", "--profile", "lab", "--allow-private", "--dashboard", "off", "--quiet", "--until-idle", "--data-dir", dir}, more...)
}

// until runs a peer until the site has met so many requests more, and then sends it a signal.
func (w *web) until(ctx context.Context, dir string, more int, signal syscall.Signal, args ...string) error {
	before, err := w.requests()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "apoidea", runArgs(dir, args...)...)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		return err
	}
	for n := before; n < before+more; {
		time.Sleep(10 * time.Millisecond)
		if n, err = w.requests(); err != nil || ctx.Err() != nil {
			break
		}
	}
	_ = cmd.Process.Signal(signal)
	if err := cmd.Wait(); err == nil {
		return errors.New("the crawl was over too soon to be broken off")
	}
	return ctx.Err()
}

// apoidea runs the program and returns what it says, both ways.
func apoidea(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "apoidea", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// outcomes are those of all URLs that are done.
func outcomes(ctx context.Context, dir string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "apoidea", "export", "urls", "--quiet", "--data-dir", dir)
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("export urls: %w", err)
	}
	list := make(map[string]string)
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	for {
		var l struct{ URL, Outcome string }
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list[l.URL] = l.Outcome
	}
}
