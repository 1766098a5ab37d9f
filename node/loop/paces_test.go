package loop

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaces: each caller has its own rate, and callers that are made up have no end in memory.
func TestPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPaces(1, 3, MaxPeers)
		had := func(caller string, n int) (some int) {
			for range n {
				if p.Allow(time.Now(), caller, 1) {
					some++
				}
			}
			return some
		}
		if n := had("greedy", 10); n != 3 {
			t.Errorf("one had %d at once", n)
		}
		if n := had("other", 2); n != 2 {
			t.Errorf("another had %d", n)
		}
		time.Sleep(2 * time.Second)
		if n := had("greedy", 10); n != 2 {
			t.Errorf("two seconds later it had %d", n)
		}
		for i := range 2 * MaxPeers {
			had(fmt.Sprint(i), 1)
			had("greedy", 1)
		}
		if p.of.Len() > MaxPeers {
			t.Errorf("%d are remembered", p.of.Len())
		}
		if n := had("greedy", 1); n != 0 {
			t.Error("it was forgotten, and has more")
		}
	})
}
