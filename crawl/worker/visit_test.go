package worker

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
)

// TestVisit: requests beside those of the hosts keep the bounds of an address, among themselves and
// with those of the worker, and waiting for a turn ends with the asker.
func TestVisit(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, http.NotFound, []string{"http://a.example/"}, func(x *world) {
			x.cfg.Politeness.Delay, x.cfg.Politeness.PerIP = 4*time.Second, 1
		})
		w := x.worker
		addr := netip.MustParseAddr("192.0.2.9")
		begun := time.Now()
		leave, err := w.Visit(t.Context(), addr)
		if err != nil || time.Since(begun) != 0 {
			t.Fatalf("the first waits %v (%v)", time.Since(begun), err)
		}
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := w.Visit(short, addr); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 500*time.Millisecond {
			t.Errorf("one that cannot wait: %v after %v", err, time.Since(begun))
		}
		time.AfterFunc(2500*time.Millisecond, leave)
		leave, err = w.Visit(t.Context(), addr)
		if got := time.Since(begun); err != nil || got < 3*time.Second || got > 3100*time.Millisecond {
			t.Errorf("the second goes after %v (%v), want it when the first has ended", got, err)
		}
		leave()
		if leave, err = w.Visit(t.Context(), addr); err != nil || time.Since(begun) < 4*time.Second {
			t.Errorf("the third goes after %v (%v), want a second after the second", time.Since(begun), err)
		}
		leave()
	})
}
