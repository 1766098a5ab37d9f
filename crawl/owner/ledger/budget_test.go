package ledger

import (
	"math/rand/v2"
	"testing"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestBudgetStates drives a budget through its table of states: what it says next, and when.
func TestBudgetStates(t *testing.T) {
	b := NewBudget()
	d := Demand{Bounds: Bounds{Pages: 160, Reserve: 100, Draw: 5}, Waiting: 20, Grants: true}
	if at := b.DrawAt(d); at != never {
		t.Errorf("a new budget has something to say at %d", at)
	}
	b.Starved = true
	m := b.Draw(d, 1000)
	if m.GetPages() != 5 || !b.Drawing || b.DrawAt(d) != 1000+drawTimeout {
		t.Errorf("%v is drawn, and again at %d", m, b.DrawAt(d))
	}
	if b.Answered(m, nil, 2000) || b.Drawing || b.DrawAt(d) != 2000+askEvery {
		t.Errorf("after a draw that was lost the next one is at %d", b.DrawAt(d))
	}
	m = b.Draw(d, 3000)
	if !b.Answered(m, &wire.JobReply{Pages: 5}, 3100) || b.Starved || b.Pages.Free() != 5 {
		t.Errorf("five pages came, %d are free", b.Pages.Free())
	}
	if bytes := b.Promise(d.Bounds); bytes != 0 || b.Pages.Free() != 4 {
		t.Errorf("%d bytes are promised where bytes have no bound, %d pages are free", bytes, b.Pages.Free())
	}
	b.Settle(true, 0, 1, 0)
	if b.Pages.Used != 1 || b.Pages.Bound != 0 {
		t.Errorf("after a page: %+v", b.Pages)
	}
	d.Waiting = 0 // nothing is left to be granted
	if m = b.Draw(d, 9000); m.GetReturnPages() != 4 || m.GetUsedPages() != 1 || b.Pages.Free() != 0 {
		t.Errorf("given back is %v", m)
	}
	b.Answered(m, &wire.JobReply{Pages: 5}, 9100)
	if at := b.DrawAt(d); at != never {
		t.Errorf("all is told, and something is to be said at %d", at)
	}
}

// TestBudgetBytes: a URL is promised what there is up to the reserve, and nothing is granted with
// next to nothing.
func TestBudgetBytes(t *testing.T) {
	b := NewBudget()
	l := Bounds{Bytes: 4000, Reserve: 1600}
	b.Bytes.Drawn = 1700
	if got := b.Promise(l); got != 1600 {
		t.Errorf("promised %d bytes", got)
	}
	if b.Affords(l) {
		t.Error("a hundred bytes are enough for a URL while the job may have more")
	}
	b.Answered(&wire.Draw{Bytes: 1600}, &wire.JobReply{Bytes: 1700}, 0)
	if b.Affords(l) {
		t.Error("a hundred bytes are enough for a URL while a leased one may return more")
	}
	b.Draw(Demand{Bounds: l, Waiting: 1, Grants: true}, 0)
	if !b.Affords(l) {
		t.Error("a hundred bytes are not enough for a URL while no other is leased")
	}
	if b.Promise(l); b.Affords(l) {
		t.Error("a URL is granted without a byte")
	}
	b.Settle(false, 1600, 1, 300)
	if b.Bytes.Used != 300 || b.Bytes.Free() != 1300 || b.Pages != (ondisk.Account{}) {
		t.Errorf("after a page of 300 bytes: %+v, %+v", b.Bytes, b.Pages)
	}
}

// TestBudgetTokens plays any order of events: no token comes from nowhere, and none is in two
// places.
func TestBudgetTokens(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1)) // a test
		b := NewBudget()
		l := Bounds{Pages: 50, Bytes: 5000, Reserve: 120, Draw: 8}
		var out []uint64 // bytes promised to each URL that is out
		var pages, bytes uint64
		for now := int64(0); now < 100_000; now += 500 {
			switch rnd.IntN(5) {
			case 0, 1:
				if b.Affords(l) {
					out = append(out, b.Promise(l))
					continue
				}
				b.Starved = true
			case 2, 3:
				if n := len(out); n > 0 {
					b.Settle(true, out[n-1], uint64(rnd.IntN(2)), uint64(rnd.IntN(200)))
					out = out[:n-1]
				}
			}
			d := Demand{Bounds: l, Waiting: int64(rnd.IntN(3)), Out: int64(len(out)), Grants: true}
			if b.DrawAt(d) <= now && !b.Drawing {
				m := b.Draw(d, now)
				pages = min(pages+m.GetPages(), l.Pages)
				bytes = min(bytes+m.GetBytes(), l.Bytes)
				if rnd.IntN(4) > 0 {
					b.Answered(m, &wire.JobReply{Pages: pages, Bytes: bytes}, now)
				} else {
					b.Answered(m, nil, now)
				}
			}
			if b.Pages.Bound != uint64(len(out)) {
				t.Fatalf("seed %d: %d URLs are out, %d pages bound", seed, len(out), b.Pages.Bound)
			}
			for _, a := range []ondisk.Account{b.Pages, b.Bytes} {
				if a.Returned+a.Used+a.Bound > a.Drawn {
					t.Fatalf("seed %d: overdrawn: %+v", seed, a)
				}
			}
		}
		if b.Pages.Used == 0 {
			t.Errorf("seed %d: nothing was ever used", seed)
		}
	}
}
