package owner_test

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
)

func TestLinger(t *testing.T) {
	l := owner.NewLinger()
	now := epochStart
	put := func(peer string, n int) {
		for range n {
			l.Put(now, peer, owner.OutLink{})
		}
	}
	due := func(want int) {
		t.Helper()
		_, links, ok := l.Due(now)
		if ok != (want > 0) || len(links) != want {
			t.Errorf("%d links are due (%v), want %d", len(links), ok, want)
		}
	}
	if !l.Next().IsZero() {
		t.Error("something is due in an empty one")
	}
	put("a", 3)
	due(0)
	now = l.Next()
	if now.Sub(epochStart) != l.Min {
		t.Errorf("first linger %v", now.Sub(epochStart))
	}
	due(3)
	put("a", 1)
	now = now.Add(l.Min)
	due(0) // it has grown
	now = now.Add(l.Min)
	due(1)
	put("a", 600)
	due(256)
	due(256)
	due(0)
	if l.Len() != 88 {
		t.Errorf("%d links wait", l.Len())
	}
	l.Flush()
	due(88)
	for range 20 {
		put("b", 1)
		start := now
		now = l.Next()
		if wait := now.Sub(start); wait > l.Max {
			t.Errorf("lingers %v", wait)
		}
		due(1)
	}
	put("b", 2)
	if got := l.Take("b"); len(got) != 2 || l.Len() != 0 || l.Take("nobody") != nil {
		t.Errorf("took %d, %d are left", len(got), l.Len())
	}
	now = now.Add(time.Hour)
	due(0)
}
