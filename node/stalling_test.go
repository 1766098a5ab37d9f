package node

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/ops/inspect"
)

// TestStalled: a peer whose fetchers hang, and one whose owner does not answer, says so in its
// status and its log, with the stacks in a file, until it moves again. A paused one and one without
// work do not.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestStalled(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	web := serveLargePages(t, 3, 4<<20, gate)
	t.Cleanup(release)
	cfg := DefaultConfig(filepath.Join(t.TempDir(), "peer"), ProfileLab)
	cfg.AllowPrivate, cfg.Delay, cfg.Network = true, 0, "test"
	cfg.FetchFrom = netip.MustParseAddr("127.0.1.1")
	cfg.Limits.Memory = 16 << 20
	cfg.stallAfter, cfg.stallEvery = 300*time.Millisecond, 20*time.Millisecond
	var log safeBuffer
	p := startLogged(t, cfg, slog.New(slog.NewTextHandler(&log, nil)))
	settle(t, []*testPeer{p})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	await := func(what string, ok func(*control.Status) bool) *control.Status {
		t.Helper()
		for {
			s, err := p.Status(ctx, false)
			if err == nil && ok(s) {
				return s
			}
			if serr := loop.Sleep(ctx, 5*time.Millisecond); serr != nil {
				t.Fatalf("%s: waited in vain; status %+v, %v", what, s, err)
			}
		}
	}
	if _, err := p.Post(ctx, control.JobSpec{URLs: web.seeds}); err != nil {
		t.Fatal(err)
	}
	// On a busy machine something may stand still for as long before.
	hangs := func(s *control.Status) bool {
		if s.Stalled == nil || s.State != inspect.StateCrawling || !strings.Contains(s.Stalled.Work, "fetches") {
			return false
		}
		text, err := os.ReadFile(s.Stalled.Stacks)
		return err == nil && strings.Contains(string(text), "(*Fetcher).Get")
	}
	await("fetchers that hang", hangs)
	if !strings.Contains(log.String(), "peer stalled") {
		t.Errorf("log\n%s", log.String())
	}
	if n := p.stalls.Times(); n == 0 {
		t.Error("not counted")
	}
	if _, err := p.Pause(ctx, 0); err != nil {
		t.Fatal(err)
	}
	await("a pause", func(s *control.Status) bool { return s.Stalled == nil && s.State == inspect.StatePaused })
	if _, err := p.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	release()
	waitIdle(t, p)
	await("the end", func(s *control.Status) bool { return s.Stalled == nil })

	hold := make(chan struct{})
	held := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(held)
	go p.owners.Do(ctx, func(*owner.Owner) { <-hold })
	await("an owner that hangs", func(s *control.Status) bool {
		return s.Stalled != nil && strings.Contains(s.Stalled.Work, "owner") && s.Peer != ""
	})
	held()
	await("an owner that goes on", func(s *control.Status) bool { return s.Stalled == nil })
	if files, _ := filepath.Glob(filepath.Join(cfg.DataDir, "stalls", "*")); len(files) == 0 || len(files) > 4 {
		t.Errorf("files %v", files)
	}
}
