package politeness

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestInquiriesAreBounded: a page with a hundred thousand domains costs neither as many goroutines
// nor a list without end, and each queued request is sent.
func TestInquiriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := make(inquiries, admissionWaiting)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q.run(ctx)
		}()
		var running, asked atomic.Int64
		release := make(chan struct{})
		ask := func(context.Context) {
			running.Add(1)
			<-release
			asked.Add(1)
		}
		taken := 0
		for range 100_000 {
			if q.put(ask) {
				taken++
			}
		}
		synctest.Wait()
		if n := running.Load(); n != admissionAsks {
			t.Errorf("%d in flight, want %d", n, admissionAsks)
		}
		if taken < admissionWaiting || taken > admissionWaiting+admissionAsks {
			t.Errorf("%d requests found a place, want %d that wait and those in flight", taken, admissionWaiting)
		}
		close(release)
		synctest.Wait()
		if n := asked.Load(); n != int64(taken) {
			t.Errorf("%d requests were sent, want %d", n, taken)
		}
		if !q.put(ask) {
			t.Error("no place although nothing waits")
		}
		synctest.Wait()
		if n := asked.Load(); n != int64(taken)+1 {
			t.Errorf("%d requests were sent, want %d", n, taken+1)
		}
		cancel()
		<-ended
	})
}
