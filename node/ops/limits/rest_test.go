package limits

import (
	"sync"
	"testing"
	"time"
	"weak"
)

// A peer in which nothing has moved for a while gives its memory back, once unless it holds much
// more again. While pages of its crawl are still worked on, which takes longer than fetching them,
// it is not at rest.
func TestRest(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	var r rest
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		at   time.Duration
		look restLook
		want bool
		left int64 // held once it was given back
	}{
		{0, restLook{held: 50 * mb}, false, 0},
		{restAfter - 1, restLook{held: 50 * mb}, false, 0},
		{restAfter, restLook{held: 50 * mb}, true, 8 * mb},
		{2 * restAfter, restLook{held: 9 * mb}, false, 0},
		{10 * restAfter, restLook{held: 8*mb + restGrowth - 1}, false, 0},
		{11 * restAfter, restLook{moved: 7, held: 90 * mb}, false, 0},
		// The last request was made, and its page is worked on for long.
		{11*restAfter + restEvery, restLook{moved: 9, busy: true, held: 150 * mb}, false, 0},
		{13 * restAfter, restLook{moved: 9, busy: true, held: 150 * mb}, false, 0},
		{13*restAfter + restEvery, restLook{moved: 10, held: 150 * mb}, false, 0},
		{14 * restAfter, restLook{moved: 10, held: 150 * mb}, false, 0},
		{14*restAfter + restEvery, restLook{moved: 10, held: 150 * mb}, true, 12 * mb},
		{20 * restAfter, restLook{moved: 10, held: 12 * mb}, false, 0},
		// Somebody asked for much while it rested.
		{21 * restAfter, restLook{moved: 10, held: 40 * mb}, true, 14 * mb},
		{21*restAfter + restEvery, restLook{moved: 10, held: 60 * mb}, false, 0},
	} {
		got := r.due(begin.Add(step.at), step.look)
		if got != step.want {
			t.Errorf("step %d, %+v: due %v, want %v", i, step.look, got, step.want)
		}
		if got {
			r.done(begin.Add(step.at), step.left)
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
