package politeness

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A page with a hundred thousand domains costs neither as many goroutines nor a list without end,
// and what found a place is asked.
func TestInquiriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		var running, most, asked atomic.Int64
		release := make(chan struct{})
		ask := func(context.Context) { <-release; asked.Add(1) }
		q := &inquiries{
			spawn: func(fn func(ctx context.Context)) {
				most.Store(max(most.Load(), running.Add(1)))
				group.Go(func() {
					defer running.Add(-1)
					fn(t.Context())
				})
			},
		}
		taken := 0
		for range 100_000 {
			if q.put(ask) {
				taken++
			}
		}
		synctest.Wait()
		if n := most.Load(); n != admissionAsks {
			t.Errorf("%d goroutines, want %d", n, admissionAsks)
		}
		if taken < admissionWaiting || taken > admissionWaiting+admissionAsks {
			t.Errorf("%d questions found a place, want %d that wait and those under way", taken, admissionWaiting)
		}
		close(release)
		group.Wait()
		if n := asked.Load(); n != int64(taken) {
			t.Errorf("%d questions were put, want %d", n, taken)
		}
		if !q.put(ask) {
			t.Error("no place although nothing waits")
		}
		group.Wait()
		if n := asked.Load(); n != int64(taken)+1 {
			t.Errorf("%d questions were put, want %d", n, taken+1)
		}
	})
}
