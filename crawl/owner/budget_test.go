package owner

import (
	"math/rand/v2"
	"testing"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestBudgetStates drives a budget through its table of states: what it says next, and when.
func TestBudgetStates(t *testing.T) {
	b := newBudget()
	d := demand{bounds: bounds{pages: 160, reserve: 100, draw: 5}, waiting: 20, grants: true}
	if at := b.drawAt(d); at != never {
		t.Errorf("a new budget has something to say at %d", at)
	}
	b.starved = true
	m := b.draw(d, 1000)
	if m.GetPages() != 5 || !b.drawing || b.drawAt(d) != 1000+drawTimeout {
		t.Errorf("%v is drawn, and again at %d", m, b.drawAt(d))
	}
	if b.answered(m, nil, 2000) || b.drawing || b.drawAt(d) != 2000+askEvery {
		t.Errorf("after a draw that was lost the next one is at %d", b.drawAt(d))
	}
	m = b.draw(d, 3000)
	if !b.answered(m, &wire.JobReply{Pages: 5}, 3100) || b.starved || b.pages.Free() != 5 {
		t.Errorf("five pages came, %d are free", b.pages.Free())
	}
	if bytes := b.promise(d.bounds); bytes != 0 || b.pages.Free() != 4 {
		t.Errorf("%d bytes are promised where bytes have no bound, %d pages are free", bytes, b.pages.Free())
	}
	b.settle(true, 0, 1, 0)
	if b.pages.Used != 1 || b.pages.Bound != 0 {
		t.Errorf("after a page: %+v", b.pages)
	}
	d.waiting = 0 // nothing is left to be granted
	if m = b.draw(d, 9000); m.GetReturnPages() != 4 || m.GetUsedPages() != 1 || b.pages.Free() != 0 {
		t.Errorf("given back is %v", m)
	}
	b.answered(m, &wire.JobReply{Pages: 5}, 9100)
	if at := b.drawAt(d); at != never {
		t.Errorf("all is told, and something is to be said at %d", at)
	}
}

// TestBudgetBytes: a URL is promised what there is up to the reserve, and nothing is granted with next to nothing.
func TestBudgetBytes(t *testing.T) {
	b := newBudget()
	l := bounds{bytes: 4000, reserve: 1600}
	b.bytes.Drawn = 1700
	if got := b.promise(l); got != 1600 {
		t.Errorf("promised %d bytes", got)
	}
	if !b.affords(l) {
		t.Error("a hundred bytes are enough for a URL")
	}
	if b.promise(l); b.affords(l) {
		t.Error("a URL is granted without a byte")
	}
	b.settle(false, 1600, 1, 300)
	if b.bytes.Used != 300 || b.bytes.Free() != 1300 || b.pages != (ondisk.Account{}) {
		t.Errorf("after a page of 300 bytes: %+v, %+v", b.bytes, b.pages)
	}
}

// TestBudgetTokens plays any order of events: no token comes from nowhere, and none is in two places.
func TestBudgetTokens(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		b := newBudget()
		l := bounds{pages: 50, bytes: 5000, reserve: 120, draw: 8}
		var out []uint64 // bytes promised to each URL that is out
		var pages, bytes uint64
		for now := int64(0); now < 100_000; now += 500 {
			switch rnd.IntN(5) {
			case 0, 1:
				if b.affords(l) {
					out = append(out, b.promise(l))
					continue
				}
				b.starved = true
			case 2, 3:
				if n := len(out); n > 0 {
					b.settle(true, out[n-1], uint64(rnd.IntN(2)), uint64(rnd.IntN(200)))
					out = out[:n-1]
				}
			}
			d := demand{bounds: l, waiting: int64(rnd.IntN(3)), out: int64(len(out)), grants: true}
			if b.drawAt(d) <= now && !b.drawing {
				m := b.draw(d, now)
				pages = min(pages+m.GetPages(), l.pages)
				bytes = min(bytes+m.GetBytes(), l.bytes)
				if rnd.IntN(4) > 0 {
					b.answered(m, &wire.JobReply{Pages: pages, Bytes: bytes}, now)
				} else {
					b.answered(m, nil, now)
				}
			}
			if b.pages.Bound != uint64(len(out)) {
				t.Fatalf("seed %d: %d URLs are out, %d pages bound", seed, len(out), b.pages.Bound)
			}
			for _, a := range []ondisk.Account{b.pages, b.bytes} {
				if a.Returned+a.Used+a.Bound > a.Drawn {
					t.Fatalf("seed %d: overdrawn: %+v", seed, a)
				}
			}
		}
		if b.pages.Used == 0 {
			t.Errorf("seed %d: nothing was ever used", seed)
		}
	}
}
