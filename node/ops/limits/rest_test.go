package limits

import (
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/apoidea/apoidea/crawl/worker"
)

// TestRest: a peer without progress for a while returns its memory, once until the next progress.
// While pages are still processed, which takes longer than fetching them, it is not idle.
func TestRest(t *testing.T) {
	t.Parallel()
	var r rest
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		at   time.Duration
		look worker.Stats
		want bool
	}{
		{0, worker.Stats{}, false},
		{restAfter - 1, worker.Stats{}, false},
		{restAfter, worker.Stats{}, true},
		{2 * restAfter, worker.Stats{}, false},
		{10 * restAfter, worker.Stats{}, false},
		{11 * restAfter, worker.Stats{Requests: 7}, false},
		// The last request was made, and its page is processed for long.
		{11*restAfter + restEvery, worker.Stats{Requests: 9, Processing: 1}, false},
		{13 * restAfter, worker.Stats{Requests: 9, Processing: 1}, false},
		{13*restAfter + restEvery, worker.Stats{Requests: 10}, false},
		{14 * restAfter, worker.Stats{Requests: 10}, false},
		{14*restAfter + restEvery, worker.Stats{Requests: 10}, true},
		{20 * restAfter, worker.Stats{Requests: 10}, false},
	} {
		if got := r.due(begin.Add(step.at), &step.look); got != step.want {
			t.Errorf("step %d: due %v, want %v", i, got, step.want)
		}
	}
}

// What a pool keeps for the next exchange is given back as well.
func TestFreeMemoryEmptiesPools(t *testing.T) {
	t.Parallel()
	var pool sync.Pool
	kept := func() weak.Pointer[[1 << 20]byte] {
		window := new([1 << 20]byte)
		pool.Put(window)
		return weak.Make(window)
	}()
	freeMemory()
	if kept.Value() != nil {
		t.Error("a buffer in a pool is still in memory")
	}
}
