package limits

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
)

// TestStalls: an owner that does not answer and a worker that gets nothing done are told, with the
// stacks in a file, until both move again. A worker that rests is not.
func TestStalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var hangs, resting atomic.Bool
		s := NewStalls(StallDeps{
			After: 10 * time.Second, Every: time.Second, DataDir: dir, Log: slog.New(slog.DiscardHandler),
			Ask: func(ctx context.Context) error {
				for hangs.Load() && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				return ctx.Err()
			},
			Worker:    func() worker.Stats { return worker.Stats{InFlight: 2} },
			SiteBytes: func() int64 { return 0 },
			Resting:   resting.Load,
		})
		resting.Store(true)
		go s.Run(t.Context())
		time.Sleep(time.Minute)
		if now := s.Now(); now != nil {
			t.Errorf("at rest: %+v", now)
		}
		resting.Store(false)
		time.Sleep(time.Minute)
		now := s.Now()
		if now == nil || !strings.HasPrefix(now.Work, "2 ") || s.OwnerHangs() || s.Times() != 1 {
			t.Fatalf("a worker that hangs: %+v, the owner %v, %d times", now, s.OwnerHangs(), s.Times())
		}
		if _, err := os.Stat(now.Stacks); err != nil || filepath.Dir(now.Stacks) != filepath.Join(dir, "stalls") {
			t.Errorf("stacks in %q, %v", now.Stacks, err)
		}
		resting.Store(true)
		time.Sleep(time.Minute)
		if now := s.Now(); now != nil {
			t.Errorf("at rest again: %+v", now)
		}
		hangs.Store(true)
		time.Sleep(time.Minute)
		if now := s.Now(); now == nil || !s.OwnerHangs() || s.Times() != 2 {
			t.Errorf("an owner that hangs: %+v, %v, %d times", now, s.OwnerHangs(), s.Times())
		}
		hangs.Store(false)
		time.Sleep(time.Minute)
		if now := s.Now(); now != nil || s.OwnerHangs() {
			t.Errorf("an owner that answers: %+v", now)
		}
	})
}
